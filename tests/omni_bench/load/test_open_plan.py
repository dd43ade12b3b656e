"""The plan of an open loop: every rate its own prompts and moments."""

import json
from dataclasses import replace

import pytest

from omni_bench.errors import ConfigError, DatasetError
from omni_bench.load.events import read_job, write_message
from omni_bench.load.open_plan import OpenPlanner, level_schedules, probe_schedule
from omni_bench.load.plan import plan_levels, size_load
from omni_bench.load.runner import make_job
from omni_bench.records.config import ClientConfig, LoadConfig
from omni_bench.records.level import Rate
from omni_bench.records.prompt import Prompt

CLIENT = ClientConfig(kind="openai_speech", seed=100)
LOAD = LoadConfig(kind="open_loop", rate_hz=[2.0, 8.0], requests_per_level=12, warmup_requests=3, max_in_flight=7)


def prompts(count):
    return [
        Prompt(id=f"p{number}", text="Hello.", ref_text=None, ref_audio=None, language="en") for number in range(count)
    ]


def plans_of(load):
    size = size_load(load)
    return plan_levels(prompts(size.prompts), size, load, CLIENT)


def test_each_rate_is_a_level_with_its_own_prompts_seeds_and_ids():
    first, second = plans_of(LOAD)
    assert (first.concurrency, second.concurrency) == (Rate(2.0), Rate(8.0))
    assert first.max_in_flight == second.max_in_flight == 7
    assert [one.request_id for one in first.measured][:2] == ["r2-0000", "r2-0001"]
    assert [one.request_id for one in second.warmup] == ["r8-w0000", "r8-w0001", "r8-w0002"]
    measured = [one for plan in (first, second) for one in plan.measured]
    warmup = [one for plan in (first, second) for one in plan.warmup]
    assert [one.seed for one in measured] == list(range(100, 124)) and warmup[0].seed == 124
    assert len({one.prompt_id for one in measured}) == 24
    assert not {one.prompt_id for one in measured} & {one.prompt_id for one in warmup}


def test_every_request_has_its_moment_beforehand_and_the_rates_differ():
    first, second = plans_of(LOAD)
    for plan, length_s in ((first, 6.0), (second, 1.5)):
        for phase in (plan.measured, plan.warmup):
            offsets = [one.scheduled_offset_ns for one in phase]
            assert offsets == sorted(offsets) and offsets[0] >= 0
        assert plan.measured[-1].scheduled_offset_ns < length_s * 1e9


def test_the_same_seed_gives_the_same_plan_and_another_does_not():
    assert plans_of(LOAD) == plans_of(LOAD)
    other = plans_of(replace(LOAD, seed=1))
    assert [one.scheduled_offset_ns for one in other[0].measured] != [
        one.scheduled_offset_ns for one in plans_of(LOAD)[0].measured
    ]


def test_a_level_keeps_its_schedule_whatever_the_order():
    turned = plans_of(replace(LOAD, rotate_levels=1))
    assert turned == plans_of(LOAD)[::-1]


def test_a_ramp_is_one_level_at_its_mean_rate_warmed_up_at_its_first():
    (schedule,) = level_schedules(replace(LOAD, ramp=[1.0, 9.0], arrival="constant", rate_hz=[1.0]))
    assert schedule.level == Rate(5.0) and len(schedule.measured_ns) == 12
    gaps = [after - before for before, after in zip(schedule.measured_ns, schedule.measured_ns[1:], strict=False)]
    assert gaps == sorted(gaps, reverse=True)
    assert schedule.warmup_ns == (0, 1_000_000_000, 2_000_000_000)


def test_a_trace_is_replayed_and_cut_by_a_duration(tmp_path):
    path = tmp_path / "arrivals.jsonl"
    path.write_text("".join(json.dumps({"offset_s": at}) + "\n" for at in (5.0, 5.5, 6.0, 9.0)))
    load = replace(LOAD, arrival="trace", trace=str(path), rate_hz=[])
    (schedule,) = level_schedules(load)
    assert schedule.measured_ns == (0, 500_000_000, 1_000_000_000, 4_000_000_000)
    assert schedule.level == Rate(0.75)
    (cut,) = level_schedules(replace(load, duration_s=2.0))
    assert len(cut.measured_ns) == 3 and cut.level == Rate(2.0)
    with pytest.raises(ConfigError, match="fewer than two arrivals"):
        level_schedules(replace(load, duration_s=0.1))


def test_a_duration_in_which_nothing_is_due_is_refused():
    with pytest.raises(ConfigError, match=r"no request is due in it at 2 req/s"):
        level_schedules(replace(LOAD, duration_s=0.1))


def test_too_few_prompts():
    size = size_load(LOAD)
    assert (size.measured, size.prompts) == (24, 27)
    with pytest.raises(DatasetError, match="needs 27 prompts"):
        plan_levels(prompts(26), size, LOAD, CLIENT)


def test_a_rate_search_reserves_prompts_for_all_its_probes_and_has_no_level_beforehand():
    load = replace(LOAD, kind="rate_search", rate_hz=[2.0], probe_requests=60, max_probes=4)
    size = size_load(load)
    assert (size.measured, size.prompts, size.schedules) == (240, 243, ())
    assert len(probe_schedule(load, 3.0).measured_ns) == 60
    assert len(probe_schedule(load, 20.0).measured_ns) == 200 and load.probe_s == 10.0


def test_probes_that_need_more_prompts_than_there_are_begin_anew():
    load = replace(LOAD, kind="rate_search", rate_hz=[2.0], probe_requests=60, max_probes=4)
    planner = OpenPlanner(prompts(243), 240, load, CLIENT, cycle=True)
    first, second = (planner.plan(probe_schedule(load, rate_hz)) for rate_hz in (20.0, 40.0))
    assert first.measured[0].prompt_id == second.measured[40].prompt_id == "p0"
    assert len({one.seed for plan in (first, second) for one in plan.measured}) == 600
    with pytest.raises(DatasetError, match="r20 needs 200 prompts more"):
        OpenPlanner(prompts(103), 100, load, CLIENT).plan(probe_schedule(load, 20.0))


def test_the_plan_reaches_the_worker_as_it_is(tmp_path):
    plan = plans_of(LOAD)[1]
    job = make_job(plan, "http://127.0.0.1:1", CLIENT, tmp_path, "/health")
    assert read_job(write_message(job)) == job
