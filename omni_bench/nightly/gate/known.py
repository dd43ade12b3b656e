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

    def of_night(
        self, metric: str, load: str, tonight: int, segment_start: int, change: float, spread: float
    ) -> HistoryAlarm | None:
        """The alarm of the change that makes tonight fall outside of its segment's interval; None if it is a new one.

        Only a change that began after the segment did can: a later segment holds its level already. ``spread``: how
        much worse than the night of the alarm a night may be by chance.
        """
        after = [alarm for alarm in self._alarms if self.onset(alarm) - MIN_SEGMENT > segment_start]
        own = [alarm for alarm in after if (alarm.metric, alarm.load) == (metric, load)]
        near = [alarm for alarm in after if tonight - self.onset(alarm) <= TOLERANCE_NIGHTS]
        limit = max(ACUTE_LIMIT, spread)
        return self._same(own, metric, load, change, limit) or self._same(near, metric, load, change, limit)

    def _same(
        self, alarms: Sequence[HistoryAlarm], metric: str, load: str, change: float, limit: float = ACUTE_LIMIT
    ) -> HistoryAlarm | None:
        """The last alarm, unless it is of this metric and load and ``change`` is worse than it by more than ``limit``.

        As a fraction of what was alarmed: the noise of a night that takes twice as long is twice as many milliseconds.
        """
        mine = [alarm for alarm in alarms if (alarm.metric, alarm.load) == (metric, load)]
        if not mine:
            return alarms[-1] if alarms else None
        entry, alarmed = METRICS[metric], mine[-1].change
        more = change - alarmed if entry.points else (1 + change) / (1 + alarmed) - 1
        return mine[-1] if worse_sign(entry.better) * more <= limit else None
