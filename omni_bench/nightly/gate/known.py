"""Alarms that were raised before: one and the same change is alarmed once."""

from __future__ import annotations

from collections.abc import Sequence

from omni_bench.compare.stats.drift import MIN_SEGMENT
from omni_bench.compare.stats.nightly import ACUTE_LIMIT
from omni_bench.compare.stats.verdicts import worse_sign
from omni_bench.metrics.definitions import METRICS
from omni_bench.nightly.gate.result import TOLERANCE_NIGHTS
from omni_bench.nightly.history.database import HistoryAlarm
from omni_bench.nightly.history.records import StoredRun


class KnownChanges:
    """The alarms of a series of nights, placed in time; those of a change before the first of ``nights`` are closed.

    ``nights``: the valid nights, tonight last.
    """

    def __init__(self, alarms: Sequence[HistoryAlarm], nights: Sequence[StoredRun]):
        self._position = {night.run_id: number for number, night in enumerate(nights)}
        self._alarms = [alarm for alarm in alarms if alarm.onset_run in self._position]

    def position(self, night: StoredRun) -> int:
        """Where a night stands among the valid ones."""
        return self._position[night.run_id]

    def onset(self, alarm: HistoryAlarm) -> int:
        """Where an alarm's change began."""
        return self._position[alarm.onset_run]

    def own(self, metric: str, load: str) -> list[HistoryAlarm]:
        """What was alarmed of this metric at this load, in order of time."""
        return [alarm for alarm in self._alarms if (alarm.metric, alarm.load) == (metric, load)]

    def of_point(self, metric: str, load: str, position: int, change: float) -> HistoryAlarm | None:
        """The alarm of the change that a change point at ``position`` is; None if it is a new one."""
        near = [alarm for alarm in self._alarms if abs(self.onset(alarm) - position) <= TOLERANCE_NIGHTS]
        return self._same(near, metric, load, change)

    def of_night(self, metric: str, load: str, tonight: int, segment_start: int, change: float) -> HistoryAlarm | None:
        """The alarm of the change that makes tonight fall outside of its segment's interval; None if it is a new one.

        Only a change that began after the segment did can: a later segment holds its level already.
        """
        after = [alarm for alarm in self._alarms if self.onset(alarm) - MIN_SEGMENT > segment_start]
        own = [alarm for alarm in after if (alarm.metric, alarm.load) == (metric, load)]
        near = [alarm for alarm in after if tonight - self.onset(alarm) <= TOLERANCE_NIGHTS]
        return self._same(own, metric, load, change) or self._same(near, metric, load, change)

    def _same(self, alarms: Sequence[HistoryAlarm], metric: str, load: str, change: float) -> HistoryAlarm | None:
        mine = [alarm for alarm in alarms if (alarm.metric, alarm.load) == (metric, load)]
        if mine:
            sign = worse_sign(METRICS[metric].better)
            return mine[-1] if sign * (change - mine[-1].change) <= ACUTE_LIMIT else None
        return alarms[-1] if alarms else None
