"""Series over nights: one gated metric at one load, as logarithms, so that a step is a relative change."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from omni_bench.compare.stats.length_guard import LIMIT
from omni_bench.compare.stats.pairs import as_change, intercept_effect, log_ratio, points_effect
from omni_bench.load.clients.openai_chat_audio import AUDIO, TEXT
from omni_bench.metrics.definitions import METRICS, gated_metrics
from omni_bench.metrics.metric import WithLength
from omni_bench.nightly.history.records import StoredLevel, StoredRun


def gated_of(run: StoredRun, *, by_fit: bool = False) -> tuple[str, ...]:
    """The metrics of a run that are gated, by what its client asked for: those of audio, of a text, or of both.

    ``by_fit``: its audio is not as long as in other runs.
    """
    modalities = run.keys.get("client.modalities") or (AUDIO,)  # speech asks for none by name
    return gated_metrics(audio=AUDIO in modalities, text=TEXT in modalities, by_fit=by_fit)


@dataclass(frozen=True)
class MetricSeries:
    """``nights`` and their ``logs`` (of a share: itself), oldest first. ``values``: None in a ratio to pinned runs.

    A night is left out if it is invalid or has no value.
    """

    metric: str
    load: str
    nights: tuple[StoredRun, ...]
    logs: tuple[float, ...]
    values: tuple[float | None, ...]

    @property
    def points(self) -> bool:
        """Whether it is of a share, whose changes are differences."""
        return METRICS[self.metric].points

    def change(self, step: float) -> float:
        """A difference of two of ``logs`` as a fraction."""
        return as_change(step, points=self.points)


def loads(runs: Sequence[StoredRun]) -> list[str]:
    """The loads of all runs, in the order in which they appear."""
    return list(dict.fromkeys(level.load for run in runs for level in run.levels))


def series_of(
    runs: Sequence[StoredRun],
    metric: str,
    load: str,
    *,
    pinned: Mapping[str, StoredRun] | None = None,
    as_long_as: StoredRun | None = None,
) -> MetricSeries:
    """The series of the valid runs.

    ``pinned``: night -> reference run; then the series is ln(night / pinned), which cancels the machine, of the nights
    that have one. ``as_long_as``: leave out nights whose audio is not as long (±2 %) as that of this run.
    """
    valid = [(run, level) for run in runs if run.valid and (level := run.level(load)) is not None]
    if as_long_as is not None:
        valid = [(run, level) for run, level in valid if equally_long(level, as_long_as.level(load))]
    entry, whole = METRICS[metric], METRICS[metric].relative_to
    scale = _scale([level for _, level in valid], whole) if whole else None
    kept: list[tuple[StoredRun, float, float | None]] = []
    for run, level in valid:
        value = level.value(metric)
        if pinned is None:
            share = points_effect(0.0, value) if entry.points else _log_of_share(value, scale)
            log = share if entry.as_share else log_ratio(1.0, value)
        else:
            reference = pinned[run.run_id].level(load) if run.run_id in pinned else None
            log = _against(level, reference, metric)
            value = None
        if log is not None:
            kept.append((run, log, value))
    nights, logs, values = zip(*kept, strict=True) if kept else ((), (), ())
    return MetricSeries(metric, load, nights, logs, values)


def _against(level: StoredLevel, reference: StoredLevel | None, metric: str) -> float | None:
    if reference is None:
        return None
    if METRICS[metric].points:
        return points_effect(reference.value(metric), level.value(metric))
    whole = METRICS[metric].relative_to
    if whole:
        return intercept_effect(reference.value(metric), level.value(metric), reference.value(whole))
    return log_ratio(reference.value(metric), level.value(metric))


def _log_of_share(value: float | None, scale: float | None) -> float | None:
    """ln(1 + intercept / E2EL): an intercept may be near zero or negative, where its own logarithm means nothing."""
    return None if scale is None else intercept_effect(0.0, value, scale)


def _scale(levels: Sequence[StoredLevel], metric: str) -> float | None:
    """The E2EL that intercepts are measured against: one for the whole series."""
    known = [value for level in levels if (value := level.value(metric)) is not None]
    return statistics.median(known) if known else None


def equally_long(level: StoredLevel, other: StoredLevel | None) -> bool:
    """Whether the mean audio lengths are within ±2 % (the length guard); true where one is not known."""
    if other is None:
        return True
    change = log_ratio(other.figure("audio_s", "mean"), level.figure("audio_s", "mean"))
    return change is None or abs(math.expm1(change)) <= LIMIT


def needs_equal_length(metric: str) -> bool:
    """Whether a metric changes with the audio's length without any change of speed."""
    return METRICS[metric].with_length is WithLength.BIASED
