"""When a run stalled, beside when its client was late."""

from __future__ import annotations

from timelines import make_timeline

from benchmarks.stall_times import stall_times
from omni_bench.records.timeline_json import timeline_to_dict


def told(*timelines):
    return stall_times([timeline_to_dict(one) for one in timelines]).splitlines()


def test_stalls_and_late_starts_have_their_times():
    smooth = make_timeline("a", 0, 2000, chunks=[(100, 24_000), (900, 24_000)])
    assert told(smooth) == ["0 stalls", "0 starts at least 50 ms late"]
    # 100 ms of audio at 3.1 s are over at 3.2 s; the next comes at 3.7 s
    stalls = make_timeline("b", 3000, 4000, chunks=[(3100, 2400), (3700, 2400)])
    late = make_timeline("c", 3050, 5000, chunks=[(3200, 24_000)], scheduled=3000)
    assert told(smooth, stalls, late) == [
        "1 stalls, from 3.20 to 3.70 s",
        "1 starts at least 50 ms late, from 3.00 to 3.05 s",
    ]
    failed = make_timeline("d", 6000, 6100, failed="timeout", rate_hz=None)
    assert told(smooth, failed) == told(smooth)
