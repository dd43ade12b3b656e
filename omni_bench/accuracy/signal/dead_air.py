"""Audio in which nobody speaks: what RTF and audio/s take for output (tt-metal 54408, issue 15).

A 20 ms window is quiet if it is 25 dB below the speech of its clip, or below −50 dBFS, or (noise of any level) part of
a second that varies by less than 5 dB and is 2 dB below the speech: no voice is so even.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

import numpy as np

from omni_bench.accuracy.signal.speech_level import decibels
from omni_bench.metrics.pcm import AUDIBLE_DBFS

WINDOW_S = 0.020
QUIET_DB = -25.0
EVEN_S, EVEN_RANGE_DB, EVEN_DB = 1.0, 5.0, -2.0
SHORTEST_S = 0.16  # a closure within a word is shorter, and no pause

ENDS_LIMIT_S, PAUSE_LIMIT_S = 1.5, 1.2
"""Above what clean clips of many voices have: 1.30 s at the ends (Kokoro, as it pads), 0.76 s within, when the limits
were set. That none of them is called dead air is measured by ``python -m benchmarks.audio_checks``."""

PLAIN_PAUSE_S, MARKED_PAUSE_S, MOST_QUIET = 0.40, 0.80, 0.50
PAUSING_SHARE = 0.25
"""Of the answers of a sound voice at most so many pause for longer than that, or are quiet for half of their time: most
do in none, one of those that the limit was set on (Kokoro's jf_gongitsune, Japanese) in a sixth."""

_INNER_MARK = re.compile(r"[^\w\s'’ʼ-]\s*(?=.*\w)|-{2}|\s-\s|\n", re.DOTALL)


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
        return self.before_s + self.after_s > ENDS_LIMIT_S or self.pause_s > PAUSE_LIMIT_S

    def is_long_for(self, text: str) -> bool:
        """Longer than most answers to ``text`` are quiet for: 0.4 s, or 0.8 s where a mark in it asks for a pause."""
        return self.pause_s > (MARKED_PAUSE_S if may_pause(text) else PLAIN_PAUSE_S) or self.share > MOST_QUIET


def may_pause(text: str) -> bool:
    """Whether a mark stands within ``text``, or a space in a script that uses it for one (Thai, and others)."""
    text = text.strip()
    caseless = any(unicodedata.category(character) == "Lo" for character in text)
    return _INNER_MARK.search(text) is not None or (caseless and " " in text)


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
