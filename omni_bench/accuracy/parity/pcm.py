"""Where two recordings differ, and whether by more than rounding."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from omni_bench.errors import StoreError
from omni_bench.records.files import os_errors_as_store_errors

ROUNDING_LSB = 512
"""Samples this close are equal but for rounding: 1/64 of full scale, -36 dBFS.

One decoder in another batch shape rounds otherwise: by a step of 16 bit or so in float32, by a few hundred in
bfloat16 (8 bits of significand) on loud speech. Other speech differs by thousands within a few milliseconds."""


@dataclass(frozen=True)
class PcmComparison:
    """``exact``: bit for bit. ``equal``: as long, and no sample differs by more than :data:`ROUNDING_LSB`.

    ``first_sample``: the first that does, or that only one recording has; None if equal.
    ``length_difference``: samples of the first recording minus those of the second. ``sha256``: of each
    one's samples.
    """

    exact: bool
    equal: bool
    first_sample: int | None
    length_difference: int
    sha256: tuple[str, str]


def compare_pcm(one: np.ndarray, other: np.ndarray) -> PcmComparison:
    """Compare two recordings of one sample rate, each int16 [samples]."""
    common = min(len(one), len(other))
    distance = np.abs(one[:common].astype(np.int32) - other[:common].astype(np.int32))
    far = np.flatnonzero(distance > ROUNDING_LSB)
    first = int(far[0]) if len(far) else (None if len(one) == len(other) else common)
    hashes = (_sha256(one), _sha256(other))
    return PcmComparison(
        exact=hashes[0] == hashes[1],
        equal=first is None,
        first_sample=first,
        length_difference=len(one) - len(other),
        sha256=hashes,
    )


def read_samples(path: Path) -> np.ndarray:
    """A recording as int16 [samples]: ``.wav``, or raw s16le (half a sample at the end is left out).

    Raises StoreError if it cannot be read.
    """
    if path.suffix.lower() == ".wav":
        import soundfile

        try:
            samples, _ = soundfile.read(str(path), dtype="int16", always_2d=True)
        except (soundfile.SoundFileError, OSError) as error:
            raise StoreError(f"cannot read {path}: {error}") from error
        return samples[:, 0]
    with os_errors_as_store_errors("read", path):
        data = path.read_bytes()
    return np.frombuffer(data[: len(data) // 2 * 2], dtype="<i2")


def _sha256(samples: np.ndarray) -> str:
    return hashlib.sha256(samples.astype("<i2").tobytes()).hexdigest()
