"""Audio in which nobody speaks: what RTF and audio/s take for output (tt-metal 54408, issue 15).

A 20 ms window is quiet if it is 25 dB below the speech of its clip, or below −50 dBFS, or (noise of any level) part of
a second that varies by less than 5 dB and is 2 dB below the speech: no voice is so even.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from omni_bench.accuracy.signal.level_p import LEVEL_P, at_least_p
from omni_bench.accuracy.signal.speech_level import decibels
from omni_bench.metrics.pcm import AUDIBLE_DBFS

WINDOW_S = 0.020
QUIET_DB = -25.0
EVEN_S, EVEN_RANGE_DB, EVEN_DB = 1.0, 5.0, -2.0
SHORTEST_S = 0.16  # a closure within a word is shorter, and no pause

BEFORE_LIMIT_S, PAUSE_LIMIT_S, AFTER_LIMIT_S = 0.8, 1.2, 1.2
"""Above what any clean clip of many voices has: ``python -m benchmarks.audio_checks`` counts how many are called dead
air."""

PLAIN_PAUSE_S, MARKED_PAUSE_S, MOST_QUIET = 0.40, 0.80, 0.50
BEFORE_S, AFTER_S = 0.60, 1.00
PAUSING_SHARE = 0.25
"""Of the answers of a sound voice at most so many are quiet for longer than that, or for half of their time: most do in
none; Kokoro's jf_gongitsune (Japanese), one of those that the limit was set on, pauses so most often."""

LONG_PLAIN_PAUSE_S, MORE_S = 0.90, 0.50
RARE_SHARE = 1 / 1000
"""Of the answers of a sound voice at most so many are quiet for that long, or for half a second more than the others of
their level: of the clips that the limits were set on none is."""
FEWEST_ANSWERS = 8  # for what is usual in a level

_LONG_MARK, _MARK = re.compile(r"[^\w\s,،、，'’ʼ\"“”()-]"), re.compile(r"[^\w\s'’ʼ-]")
_UP_TO_LAST_LETTER = re.compile(r".*\w", re.DOTALL)
_BREAK = re.compile(r"-{2}|\s-\s|\n")


@dataclass(frozen=True)
class Quiet:
    """Seconds before the speech, after it, and of the longest pause within; ``share`` of the audio, in pauses and ends
    of 0.16 s and more."""

    before_s: float
    after_s: float
    pause_s: float
    share: float

    @property
    def is_dead_air(self) -> bool:
        """Longer than any voice is quiet for."""
        return self.before_s > BEFORE_LIMIT_S or self.pause_s > PAUSE_LIMIT_S or self.after_s > AFTER_LIMIT_S


@dataclass(frozen=True)
class LevelQuiet:
    """Which answers (numbers) are quiet for too long ``before`` the speech, ``within`` and ``after`` it, and the
    probability of so many; None without any answer."""

    before: frozenset[int] = frozenset()
    within: frozenset[int] = frozenset()
    after: frozenset[int] = frozenset()
    p: float | None = None

    @property
    def long(self) -> frozenset[int]:
        return self.before | self.within | self.after

    @property
    def is_proven(self) -> bool:
        return self.p is not None and self.p <= LEVEL_P


def level_quiet(answers: Sequence[tuple[Quiet, str]]) -> LevelQuiet:
    """Judge the answers of a level, each with its text, by two binomial tests, of which the smaller p counts twice.

    Often: at most a quarter of them is quiet for longer than :data:`BEFORE_S`, :data:`AFTER_S`, 0.4 s within (0.8 s
    where a mark in the text asks for a pause) or half of the time. Rarely: at most one in 1000 is quiet for half a
    second more than the median of the level (from eight answers on), or for longer than any voice. A text that is
    spoken many times counts once there, and one with more than commas in it has no pause that is too rare.
    """
    if not answers:
        return LevelQuiet()
    before, pause, after, share = (
        np.array([getattr(quiet, name) for quiet, _ in answers]) for name in ("before_s", "pause_s", "after_s", "share")
    )
    marked = np.array([may_pause(text) for _, text in answers])
    breaks = np.array(
        [marks and _stands_within(_LONG_MARK, text.strip()) for marks, (_, text) in zip(marked, answers, strict=True)]
    )

    def usual_and_more(seconds: np.ndarray) -> float:
        return float(np.median(seconds)) + MORE_S if len(answers) >= FEWEST_ANSWERS and len(seconds) else np.inf

    often = (
        before > BEFORE_S,
        (pause > np.where(marked, MARKED_PAUSE_S, PLAIN_PAUSE_S)) | (share > MOST_QUIET),
        after > AFTER_S,
    )
    commas = max(MARKED_PAUSE_S, usual_and_more(pause[marked & ~breaks]))
    plain = min(LONG_PLAIN_PAUSE_S, usual_and_more(pause[~marked]))
    rarely = (
        before > min(BEFORE_S, usual_and_more(before)),
        pause > np.where(breaks, np.inf, np.where(marked, commas, plain)),
        after > min(AFTER_S, usual_and_more(after)),
    )
    texts = {text for (_, text), rare in zip(answers, np.any(rarely, axis=0), strict=True) if rare}
    often_p = at_least_p(int(np.any(often, axis=0).sum()), len(answers), PAUSING_SHARE)
    rare_p = at_least_p(len(texts), len(answers), RARE_SHARE)
    only_rarely = 2 * rare_p <= LEVEL_P < 2 * often_p
    shown = rarely if only_rarely else np.logical_or(often, rarely)
    return LevelQuiet(*(frozenset(np.flatnonzero(one).tolist()) for one in shown), min(1.0, 2 * min(often_p, rare_p)))


def may_pause(text: str) -> bool:
    """Whether a mark stands within ``text``, or a space in a script that uses it for one (Thai, and others)."""
    text = text.strip()
    caseless = any(unicodedata.category(character) == "Lo" for character in text)
    return _stands_within(_MARK, text) or (caseless and " " in text)


def _stands_within(mark: re.Pattern[str], text: str) -> bool:
    said = _UP_TO_LAST_LETTER.match(text)
    return (said is not None and mark.search(said[0]) is not None) or _BREAK.search(text) is not None


def quiet_of(samples: np.ndarray, active: float, sample_rate_hz: int) -> Quiet:
    """``samples``: float [n] in −1..1, n > 0; ``active``: RMS of the speech."""
    window = round(WINDOW_S * sample_rate_hz)
    starts = np.arange(0, len(samples), window)
    power = np.add.reduceat(np.square(samples, dtype=np.float64), starts)
    level_db = decibels(np.sqrt(power / (np.minimum(starts + window, len(samples)) - starts)))
    speech_db = decibels(active)
    quiet = level_db < max(speech_db + QUIET_DB, AUDIBLE_DBFS)
    quiet |= _even(level_db) & (level_db < speech_db + EVEN_DB)
    edges = np.flatnonzero(np.diff(quiet, prepend=False, append=False))
    begins, ends = edges[::2], edges[1::2]
    lengths_s = (ends - begins) * WINDOW_S
    first, last = begins == 0, ends == len(quiet)
    return Quiet(
        before_s=float(lengths_s[first].sum()),
        after_s=float(lengths_s[last & ~first].sum()),
        pause_s=float(lengths_s[~first & ~last].max(initial=0.0)),
        share=float(lengths_s[lengths_s >= SHORTEST_S].sum() / (len(quiet) * WINDOW_S)),
    )


def _even(level_db: np.ndarray) -> np.ndarray:
    """Which windows belong to a second of windows within 5 dB of each other."""
    count = round(EVEN_S / WINDOW_S)
    even = np.zeros(len(level_db), bool)
    if len(level_db) >= count:
        seconds = np.lib.stride_tricks.sliding_window_view(level_db, count)
        for start in np.flatnonzero(np.ptp(seconds, axis=1) <= EVEN_RANGE_DB):
            even[start : start + count] = True
    return even
