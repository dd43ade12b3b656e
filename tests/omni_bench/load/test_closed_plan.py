"""The plan: every level its own prompts, warm-up apart, the same whatever the order."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omni_bench.errors import ConfigError, DatasetError
from omni_bench.load.closed_plan import build_level_plans, measured_requests, prompts_needed
from omni_bench.records.config import ClientConfig, LoadConfig
from omni_bench.records.prompt import Prompt

CLIENT = ClientConfig(kind="openai_speech", seed=100)


def prompts(count):
    return [Prompt(id=f"p{i}", text=f"text {i}", ref_text=None, ref_audio=None, language="en") for i in range(count)]


def load(concurrency, requests=4, warmup=2, rotate=0, per_slot=0):
    return LoadConfig(
        kind="closed_loop",
        concurrency=list(concurrency),
        requests_per_level=requests,
        requests_per_slot=per_slot,
        warmup_per_slot=warmup,
        rotate_levels=rotate,
    )


def test_the_sweep_measures_at_least_two_requests_a_slot():
    sweep = load([1, 4, 8, 16, 32], requests=32, per_slot=2)
    assert measured_requests(sweep) == 4 * 32 + 64
    assert prompts_needed(sweep) == 192 + 16
    levels = build_level_plans(prompts(232), sweep, CLIENT)
    assert [len(level.measured) for level in levels] == [32, 32, 32, 32, 64]
    assert [len(level.warmup) for level in levels] == [2, 8, 16, 32, 64]
    warmup_ids = {request.prompt_id for level in levels for request in level.warmup}
    assert warmup_ids == {f"p{i}" for i in range(192, 232)}


def test_ids_prompts_and_seeds_of_a_small_plan():
    one, two = build_level_plans(prompts(8), load([1, 2], requests=2, warmup=1), CLIENT)
    assert [(r.request_id, r.prompt_id, r.seed, r.warmup) for r in one.measured + one.warmup] == [
        ("c1-0000", "p0", 100, False),
        ("c1-0001", "p1", 101, False),
        ("c1-w0000", "p4", 104, True),
    ]
    assert [(r.request_id, r.prompt_id, r.seed, r.warmup) for r in two.measured + two.warmup] == [
        ("c2-0000", "p2", 102, False),
        ("c2-0001", "p3", 103, False),
        ("c2-w0000", "p5", 105, True),
        ("c2-w0001", "p4", 106, True),
    ]
    assert one.measured[0].body["input"] == "text 0" and one.measured[0].body["seed"] == 100
    assert one.measured[0].scheduled_offset_ns is None


def test_no_seed():
    (level,) = build_level_plans(prompts(9), load([1]), dataclasses.replace(CLIENT, seed=None))
    assert level.measured[0].seed is None and "seed" not in level.measured[0].body


def test_without_warmup_exactly_the_measured_prompts_do():
    assert prompts_needed(load([1, 2], requests=3, warmup=0)) == 6
    levels = build_level_plans(prompts(6), load([1, 2], requests=3, warmup=0), CLIENT)
    assert [level.warmup for level in levels] == [(), ()]


def test_too_few_prompts():
    with pytest.raises(DatasetError, match=r"needs 12 prompts \(8 measured.*got 11"):
        build_level_plans(prompts(11), load([1, 2]), CLIENT)


def test_a_level_listed_twice():
    with pytest.raises(ConfigError, match=r"\[4, 4\]"):
        build_level_plans(prompts(50), load([4, 4]), CLIENT)


loads = st.builds(
    load,
    st.lists(st.integers(1, 12), min_size=1, max_size=4, unique=True),
    requests=st.integers(1, 6),
    warmup=st.integers(0, 3),
    rotate=st.integers(0, 7),
    per_slot=st.integers(0, 3),
)


@given(loads, st.integers(0, 30))
def test_plans_are_disjoint_complete_and_do_not_depend_on_the_order(config, spare):
    data = prompts(prompts_needed(config) + spare)
    levels = build_level_plans(data, config, CLIENT)
    measured = [request for level in levels for request in level.measured]
    warmup = [request for level in levels for request in level.warmup]
    assert len({request.prompt_id for request in measured}) == len(measured)
    assert not {request.prompt_id for request in measured} & {request.prompt_id for request in warmup}
    everything = measured + warmup
    assert len({request.request_id for request in everything}) == len(everything)
    assert sorted(request.seed for request in everything) == list(range(100, 100 + len(everything)))
    for level in levels:
        assert len(level.measured) == max(config.requests_per_level, config.requests_per_slot * level.concurrency)
        assert len(level.warmup) == config.warmup_per_slot * level.concurrency
    unrotated = build_level_plans(data, dataclasses.replace(config, rotate_levels=0), CLIENT)
    turn = config.rotate_levels % len(levels)
    assert levels == unrotated[turn:] + unrotated[:turn]
    assert [level.concurrency for level in unrotated] == config.concurrency
