"""Audio after the end: stale samples that a padded or reused output buffer appends (vllm-omni 4466)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from omni_bench.accuracy.signal.dropouts import Hole
from omni_bench.accuracy.signal.speech_level import WINDOW_S

LONGEST_TAIL_S = 0.7  # a padded chunk of eight 80 ms frames, and some
AT_END_S = 0.020
GAP_S = 0.060
GAP_DB = -25.0
STOPS_DB = -10.0


def restarts_at_end(onsets: list[Hole], duration_s: float) -> bool:
    """True if the audio begins again within one sample, at most 0.7 s before its end.

    ``onsets``: of :func:`omni_bench.accuracy.signal.dropouts.abrupt_onsets`, after quiet that is longer than a
    closure. A last word begins gradually.
    """
    return any(duration_s - (hole.at_s + hole.duration_s) <= LONGEST_TAIL_S for hole in onsets)


def reaches_end(copied_until_s: Iterable[float], duration_s: float) -> bool:
    """True if samples that are copies (of an earlier stretch, or of another request) go on to the end, within 20 ms."""
    return any(until_s >= duration_s - AT_END_S for until_s in copied_until_s)


def stops_at_full_level(samples: np.ndarray, active: float, sample_rate_hz: int) -> bool:
    """True if the end is a short stretch that follows a gap and stops in the middle of speech.

    ``samples``: float [n] in −1..1; ``active``: RMS of the speech. Stops: the last 10 ms are
    within 10 dB of ``active``; even a tightly trimmed voice dies away further. Short: a gap of
    60 ms or more, whose peak is 25 dB below ``active``, ended at most 0.7 s before. Speech
    that is cut shortly after a pause is called the same, and is as wrong.
    """
    if end_level_db(samples, active, sample_rate_hz) < STOPS_DB:
        return False
    tail = samples[-round((LONGEST_TAIL_S + GAP_S) * sample_rate_hz) :]
    loud = np.flatnonzero(np.abs(tail) > active * 10 ** (GAP_DB / 20))
    return bool(len(loud)) and bool(np.diff(loud, prepend=-1).max() > GAP_S * sample_rate_hz)


def end_level_db(samples: np.ndarray, active: float, sample_rate_hz: int, window_s: float = WINDOW_S) -> float:
    """RMS of the last 10 ms (``window_s``) against ``active``, dB."""
    end = samples[-round(window_s * sample_rate_hz) :]
    return float(20 * np.log10(max(np.sqrt(np.square(end).mean()) / active, 1e-6)))
