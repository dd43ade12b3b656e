"""Judges one metric at one load: acute and drift, against the nights before."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from omni_bench.compare.stats.drift import MIN_MAGNITUDE, MIN_SEGMENT, ChangePoint, change_points
from omni_bench.compare.stats.nightly import MIN_NIGHTS, Prediction, prediction, without_alarmed
from omni_bench.compare.stats.pairs import as_change, as_ratio
from omni_bench.compare.stats.verdicts import worse_sign
from omni_bench.metrics.definitions import METRICS
from omni_bench.nightly.gate.known import KnownChanges
from omni_bench.nightly.gate.result import TOLERANCE_NIGHTS, Expected, Onset, SeriesResult, Status
from omni_bench.nightly.history.database import Baseline, HistoryAlarm
from omni_bench.nightly.history.records import StoredRun
from omni_bench.nightly.history.series import MetricSeries, needs_equal_length, series_of
from omni_bench.nightly.history.trend import baseline_log, commit_range, first_onset, values_of
from omni_bench.report.format import change_text

ACUTE, DRIFT, JOINED = "acute", "drift", "joined"


@dataclass(frozen=True)
class Evidence:
    """What a night is judged by. ``nights``: the valid ones before it, oldest first (since the baseline, if any).

    ``pinned``: night -> reference run of the same night, tonight's too; None: the metrics themselves are judged.
    """

    nights: Sequence[StoredRun]
    alarms: Sequence[HistoryAlarm] = ()
    baseline: Baseline | None = None
    pinned: Mapping[str, StoredRun] | None = None


def judge_series(metric: str, load: str, tonight: StoredRun, evidence: Evidence) -> SeriesResult:
    """The verdict on one metric at one load. An acute night is UNCONFIRMED: a second run has to say the same."""
    series = series_of(
        [*evidence.nights, tonight],
        metric,
        load,
        pinned=evidence.pinned,
        as_long_as=tonight if needs_equal_length(metric) else None,
    )
    if not series.nights or series.nights[-1].run_id != tonight.run_id:
        level = tonight.level(load)
        missing = "was not measured tonight" if level is None else "has no value tonight"
        return SeriesResult(metric, load, Status.INCONCLUSIVE, f"{metric} {missing}", None, None, None)
    return _Judge(series, tonight, evidence).result()


class _Judge:
    def __init__(self, series: MetricSeries, tonight: StoredRun, evidence: Evidence):
        self.series, self.evidence = series, evidence
        self.metric, self.load = series.metric, series.load
        self.sign = worse_sign(METRICS[series.metric].better)
        self.known = KnownChanges(evidence.alarms, [*evidence.nights, tonight])
        self.log, past = series.logs[-1], series.logs[:-1]
        self.points = change_points(series.logs, points=series.points)
        self.start = max((point.index for point in change_points(past, points=series.points)), default=0)
        onset = first_onset(series, self.start, self.known.own(self.metric, self.load))
        self.past = without_alarmed(past[self.start :], onset, self.sign, points=series.points)
        self.prediction = prediction(self.past, points=series.points)

    def result(self) -> SeriesResult:
        for point in reversed(self.points):
            if self._still_worse(point.index, point):
                drift = self._drift(point)
                if drift is not None:
                    return drift
        acute = self._acute()
        if acute is not None:
            return acute
        standing = self._standing()
        if standing is not None:
            text, index = standing
            status = Status.KNOWN
            if self.prediction is None:
                status, text = Status.INCONCLUSIVE, f"{self._too_few()}; {text}"
            return self._joined(replace(self._result(status, text), onset=self._onset(index, is_new=False)))
        if self.prediction is None:
            return self._result(Status.INCONCLUSIVE, self._too_few())
        return self._result(Status.PASS, "within what the nights before allow")

    def _drift(self, point: ChangePoint) -> SeriesResult | None:
        """The alarm of a change point; None if it was alarmed before."""
        night = self.series.nights[point.index]
        position = self.known.position(night)
        if self.known.of_point(self.metric, self.load, position, point.change) is not None:
            return None
        onset = self._onset(point.index, is_new=True)
        text = (
            f"drift: {self._said(point.change)} since {night.date}, "
            f"commits {commit_range(onset.commits)}, p = {point.p:.2g}"
        )
        found = self._result(Status.REGRESSION, text)
        return replace(found, onset=onset, alarm=self._alarm(DRIFT, night, point.change))

    def _acute(self) -> SeriesResult | None:
        if self.prediction is None or not self.prediction.acute(self.log, self.sign):
            return None
        change = self.prediction.change(self.log)
        tonight = self.series.nights[-1]
        position, start = self.known.position(tonight), self.known.position(self.series.nights[self.start])
        spread = self.prediction.spread()
        known = self.known.of_night(self.metric, self.load, position, start, change, spread)
        if known is not None and not self._mended(known):
            text = f"{self._said(change)}, the change alarmed before (since {self._onset_date(known)})"
            found = replace(self._result(Status.KNOWN, text), onset=self._onset(self._index_of(known), is_new=False))
            return self._joined(found, acute=True)
        text = (
            f"acute: {self._said(change)} against {self.prediction.nights} nights, "
            f"outside of {self._said(self.prediction.change(self.prediction.low))} to "
            f"{self._said(self.prediction.change(self.prediction.high))}"
        )
        last = len(self.series.nights) - 1
        found = self._result(Status.UNCONFIRMED, text)
        return replace(found, onset=self._onset(last, is_new=True), alarm=self._alarm(ACUTE, tonight, change))

    def _standing(self) -> tuple[str, int] | None:
        """The text of an open alarm, not accepted and not undone by a later change, and its first night; None."""
        for point in reversed(self.points):
            position = self.known.position(self.series.nights[point.index])
            known = self.known.of_point(self.metric, self.load, position, point.change)
            if known is not None and self._still_worse(point.index, point):
                since = self.series.nights[point.index].date
                return f"{self._said(point.change)} since {since}, alarmed before", point.index
        for alarm in reversed(self.known.own(self.metric, self.load)):
            index = self._index_of(alarm)
            if self._still_worse(index, None) and not self._mended(alarm):
                return f"{self._said(alarm.change)} since {self._onset_date(alarm)}, alarmed before", index
        return None

    def _mended(self, alarm: HistoryAlarm) -> bool:
        """Whether any two nights in a row since were nearer to the nights before the alarm than to it.

        A change point, which says the same, needs more nights. An alarm of another metric or load is not known to be.
        """
        index = self._index_of(alarm)
        is_own = (alarm.metric, alarm.load) == (self.metric, self.load)
        if self.prediction is None or not is_own or index - MIN_SEGMENT <= self.start:
            return False
        changes = (self.prediction.change(log) for log in self.series.logs[index + 1 :])
        return any(
            all(2 * self.sign * change < self.sign * alarm.change for change in two) for two in pairwise(changes)
        )

    def _still_worse(self, index: int, point: ChangePoint | None) -> bool:
        """Whether the newest level is worse by 3 % than the one before the change at ``index``."""
        if point is not None and self.sign * point.change <= 0:
            return False
        bounds = [0, *(one.index for one in self.points)]
        begin = max((bound for bound in bounds if bound < index), default=0)
        newest = self.series.logs[bounds[-1] if bounds[-1] >= index else index :]
        if not newest or index == begin:
            return False
        step = statistics.fmean(newest) - statistics.fmean(self.series.logs[begin:index])
        return self.sign * step > 0 and as_change(abs(step)) >= MIN_MAGNITUDE

    def _joined(self, found: SeriesResult, *, acute: bool = False) -> SeriesResult:
        """A known change; if it was alarmed by another metric or load, this one joins that alarm."""
        point = next((one for one in reversed(self.points) if self.sign * one.change > 0), None)
        if acute and self.prediction is not None:
            night, change = self.series.nights[-1], self.prediction.change(self.log)
        elif point is not None:
            night, change = self.series.nights[point.index], point.change
        else:
            return found
        position = self.known.position(night)
        own = self.known.own(self.metric, self.load)
        if any(abs(self.known.onset(alarm) - position) <= TOLERANCE_NIGHTS for alarm in own):
            return found
        return replace(found, alarm=self._alarm(JOINED, night, change))

    def _result(self, status: Status, reason: str) -> SeriesResult:
        normal = baseline_log(self.metric, self.load, self.evidence.baseline)
        as_measured = self.evidence.pinned is None
        return SeriesResult(
            metric=self.metric,
            load=self.load,
            status=status,
            reason=reason,
            value=self.series.values[-1] if as_measured else self.log if self.series.points else as_ratio(self.log),
            expected=None if self.prediction is None else _expected(self.prediction, self.series, as_measured),
            change=self.series.change(self.log - statistics.fmean(self.past)) if self.past else None,
            against_baseline=None if normal is None or not as_measured else self.series.change(self.log - normal),
        )

    def _said(self, change: float) -> str:
        return change_text(METRICS[self.metric], change)

    def _alarm(self, kind: str, night: StoredRun, change: float) -> HistoryAlarm:
        return HistoryAlarm(self.metric, self.load, kind, night.run_id, self.series.nights[-1].run_id, change)

    def _onset(self, index: int, *, is_new: bool) -> Onset:
        nights = self.series.nights
        return Onset(nights[index], nights[index - 1] if index else None, tuple(nights[index:]), is_new)

    def _index_of(self, alarm: HistoryAlarm) -> int:
        """The first night of the series at or after the alarm's onset: tonight, if no other is."""
        onset = self.known.onset(alarm)
        return next(number for number, night in enumerate(self.series.nights) if self.known.position(night) >= onset)

    def _onset_date(self, alarm: HistoryAlarm) -> str:
        return self.series.nights[self._index_of(alarm)].date

    def _too_few(self) -> str:
        what = "valid nights"
        if self.start:
            what = f"nights since the change of {self.series.nights[self.start].date}"
        elif self.evidence.baseline is not None:
            what += f" since the baseline of {self.evidence.baseline.set_utc[:10]}"
        ratio = " with a pinned run" if self.evidence.pinned is not None else ""
        return f"too little history: {len(self.past)} of {MIN_NIGHTS} {what}{ratio}"


def _expected(found: Prediction, series: MetricSeries, as_measured: bool) -> Expected | None:
    logs = (found.mean, found.low, found.high)
    against_pinned = logs if series.points else tuple(map(as_ratio, logs))  # a difference of shares, else a ratio
    values = values_of(series, logs) if as_measured else against_pinned
    return None if values is None else Expected(found.nights, *values)
