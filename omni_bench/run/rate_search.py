"""The rate search's part of a run: which level comes next, and the answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from omni_bench.load.open_plan import OpenPlanner, probe_schedule
from omni_bench.load.search import bracket, is_precise, next_rate, probed
from omni_bench.metrics.open_loop import open_loop_facts
from omni_bench.metrics.probe import Probe, judge_probe, stopped_answering
from omni_bench.metrics.request import request_metrics
from omni_bench.metrics.slo import Slo
from omni_bench.records.config import RATE_SEARCH, LoadConfig, SloConfig
from omni_bench.records.plan import LevelPlan
from omni_bench.records.recording import LevelRecording
from omni_bench.run.level_result import LevelResult
from omni_bench.run.validity import client_late


def probe_plans(
    planner: OpenPlanner,
    load: LoadConfig,
    slo: SloConfig,
    recordings: Sequence[LevelRecording],
    say: Callable[[str], None],
) -> Iterator[LevelPlan]:
    """The level of each probe, the next one once ``recordings`` ends with the one before.

    ``say`` reports the result of each. The search ends early where the client itself cannot hold a schedule, as
    what a server does beyond that rate cannot be known from here, and where the server no longer answers any request.
    """
    held: dict[float, bool] = {}
    while (rate_hz := next_rate(held, load)) is not None:
        yield planner.plan(probe_schedule(load, rate_hz))
        recording = recordings[-1]
        broken = stopped_answering(recording.timelines)
        if broken is not None:
            say(f"the search ends here, at {recording.concurrency}: {broken}")
            return
        metrics = [request_metrics(timeline, None) for timeline in recording.timelines]
        probe = judge_probe(recording.timelines, metrics, slo_of(slo))
        held[rate_hz] = probe.holds
        say(f"{recording.concurrency} {'holds' if probe.holds else 'does not hold: ' + '; '.join(probe.why)}")
        late = client_late(open_loop_facts(recording.timelines, load.max_in_flight), load.lag_budget_ms)
        if late is not None:
            say(f"the search ends here: {late}")
            return


def slo_of(slo: SloConfig) -> Slo:
    """The service level that was asked for."""
    return Slo(**vars(slo))


def probe_of(level: LevelResult, load: LoadConfig, slo: SloConfig) -> Probe | None:
    """What a level says about its rate; None if it says nothing.

    That is so if the run is no rate search, was interrupted in this level, or if the server stopped answering in it.
    """
    timelines = [request.timeline for request in level.requests]
    cancelled = any(one.error is not None and one.error.kind == "cancelled" for one in timelines)
    if load.kind != RATE_SEARCH or cancelled or stopped_answering(timelines) is not None:
        return None
    return judge_probe(timelines, [request.metrics for request in level.requests], slo_of(slo))


def probe_record(probe: Probe | None) -> dict[str, Any] | None:
    """``probe`` of a level in run.json."""
    return None if probe is None else {**asdict(probe), "why": list(probe.why)}


def search_record(levels: Sequence[Mapping[str, Any]], load: LoadConfig, slo: SloConfig) -> dict[str, Any] | None:
    """``rate_search`` of run.json, from its levels; None if the run is no rate search.

    A rate whose level is invalid is not an answer, even if it holds: a reader of this number alone would take it
    for a claim.
    """
    if load.kind != RATE_SEARCH:
        return None
    probes = probed(levels)
    highest_hz, failing_hz = bracket(probes)
    if any(level["rate_hz"] == highest_hz and not level["valid"] for level in levels):
        highest_hz = None
    return {
        **asdict(slo_of(slo)),
        "highest_hz": highest_hz,
        "lowest_failing_hz": failing_hz,
        "precision": load.precision,
        "converged": is_precise(highest_hz, failing_hz, load.precision),
        "probes": len(probes),
    }
