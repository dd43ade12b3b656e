"""Recordings with cross-talk made on purpose: a neighbour's words spliced into an utterance at a known place.

Where words begin and end in a recording is not known: a place is estimated in proportion to the
letters of the text between the first and the last audible moment, and the cut is then made at the
quietest 20 ms within :data:`REACH_S` of it, with a few milliseconds of fade on both sides. A piece of "four words"
therefore holds four words give or take a syllable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

WORDS = 4
REACH_S = 0.2
FRAME_S = 0.02
FADE_S = 0.004
AUDIBLE_SHARE = 0.02  # of the loudest frame

ONSET_ADDED, ONSET_REPLACED = "onset, before its own words", "onset, in place of its own words"
TAIL_ADDED, TAIL_REPLACED = "tail, after its own words", "tail, in place of its own words"
SECOND_HALF, WHOLE = "second half", "whole utterance"
KINDS = (ONSET_ADDED, ONSET_REPLACED, TAIL_ADDED, TAIL_REPLACED, SECOND_HALF, WHOLE)


@dataclass(frozen=True)
class Recording:
    """One clean utterance: int16 mono samples and the text that is spoken in them."""

    request_id: str
    text: str
    samples: np.ndarray


@dataclass(frozen=True)
class Case:
    """A recording of ``victim`` into which words of ``source`` were spliced.

    ``words``: which, roughly; ``first_words``: they are those with which the source begins.
    """

    victim: str
    source: str
    kind: str
    words: str
    first_words: bool
    samples: np.ndarray


def cut_at(recording: Recording, word: int, rate_hz: int) -> int:
    """The sample before which the first ``word`` words are spoken, estimated as the module says."""
    words = recording.text.split()
    if word <= 0:
        return 0
    if word >= len(words):
        return recording.samples.size
    frame = round(FRAME_S * rate_hz)
    energy = _frame_energy(recording.samples, frame)
    audible = np.flatnonzero(np.sqrt(energy) > AUDIBLE_SHARE * np.sqrt(energy.max()))
    first, last = audible[0], audible[-1]
    before, whole = (sum(len(part) + 1 for part in parts) for parts in (words[:word], words))
    near = first + (last - first) * before / whole
    reach = round(REACH_S / FRAME_S)
    low, high = max(round(near) - reach, 0), min(round(near) + reach + 1, energy.size)
    return int((low + np.argmin(energy[low:high])) * frame + frame // 2)


def splice(
    kind: str, victim: Recording, source: Recording, rate_hz: int, rng: np.random.Generator, *, first_words: bool
) -> Case:
    """One case of a ``kind`` of :data:`KINDS`.

    Where four words are spliced, they are those with which the source begins (``first_words``: what a slot that
    is reused too early gives), or four from anywhere after its first.
    """
    words, own_words = source.text.split(), len(victim.text.split())
    own, samples = victim.samples, source.samples
    start = 0 if first_words else int(rng.integers(1, max(len(words) - WORDS, 1) + 1))
    end = start + WORDS
    if kind == WHOLE:
        start, end, pieces = 0, len(words), [samples]
    elif kind == SECOND_HALF:
        start, end = len(words) // 2, len(words)
        pieces = [own[: cut_at(victim, own_words // 2, rate_hz)], samples[cut_at(source, start, rate_hz) :]]
    else:
        piece = samples[cut_at(source, start, rate_hz) : cut_at(source, end, rate_hz)]
        pieces = {
            ONSET_ADDED: [piece, own],
            ONSET_REPLACED: [piece, own[cut_at(victim, WORDS, rate_hz) :]],
            TAIL_ADDED: [own, piece],
            TAIL_REPLACED: [own[: cut_at(victim, own_words - WORDS, rate_hz)], piece],
        }[kind]
    spliced = " ".join(words[start:end])
    return Case(victim.request_id, source.request_id, kind, spliced, first_words, join(pieces, rate_hz))


def join(pieces: Sequence[np.ndarray], rate_hz: int) -> np.ndarray:
    """The pieces one after another, each faded in and out over :data:`FADE_S` where they meet."""
    fade = round(FADE_S * rate_hz)
    ramp = np.linspace(0.0, 1.0, fade, endpoint=False)
    faded = []
    for number, piece in enumerate(pieces):
        piece = piece.astype(np.float64)
        if number > 0 and piece.size >= fade:
            piece[:fade] *= ramp
        if number < len(pieces) - 1 and piece.size >= fade:
            piece[-fade:] *= ramp[::-1]
        faded.append(piece)
    return np.concatenate(faded).round().astype(np.int16)


def _frame_energy(samples: np.ndarray, frame: int) -> np.ndarray:
    whole = samples[: samples.size // frame * frame].astype(np.float64).reshape(-1, frame)
    return (whole**2).mean(axis=1)
