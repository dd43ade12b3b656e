"""The unit every data set yields: one sentence to speak, with its reference voice."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Prompt:
    """One row of a Seed-TTS style data set.

    ``ref_audio`` is an absolute path inside the data set's folder, or None where the data
    set has no reference recordings. ``language`` is the locale of the data set ("en", "zh").
    ``instructions`` describe the voice or how to speak (data sets of the design variant only).
    """

    id: str
    text: str
    ref_text: str | None
    ref_audio: Path | None
    language: str
    instructions: str | None = None
