"""From the events of a trace to its stages: hand-made events, in microseconds."""

from __future__ import annotations

import pytest

from omni_bench.metrics.trace_stages import HOST_GAPS, step_groups, trace_of
from omni_bench.records.profile import Stage


def event(name, start, end, cat="user_annotation", tid=1, correlation=None):
    name = f"omni:{name}" if cat == "user_annotation" else name
    args = {} if correlation is None else {"correlation": correlation}
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": start, "dur": end - start, "args": args}


HOST = [
    event("step", 0, 100_000),
    event("predictor", 0, 40_000),
    event("sampling", 30_000, 40_000),
    event("talker", 40_000, 70_000),
    event("codes to the host", 80_000, 95_000),
    event("step", 120_000, 220_000),
    event("Code2Wav", 50_000, 90_000, tid=2),
    {"ph": "M", "name": "thread_name"},
    "not an event",
]
GPU = [
    event("cudaGraphLaunch", 1_000, 2_000, "cuda_runtime", correlation=1),
    event("cudaLaunchKernel", 41_000, 42_000, "cuda_runtime", correlation=2),
    event("cuLaunchKernelEx", 60_000, 61_000, "cuda_driver", tid=2, correlation=3),
    event("cudaMemcpyAsync", 81_000, 82_000, "cuda_runtime", correlation=4),
    event("cudaStreamSynchronize", 82_000, 94_000, "cuda_runtime", correlation=5),
    event("a", 3_000, 13_000, "kernel", tid=7, correlation=1),
    event("b", 13_000, 23_000, "kernel", tid=7, correlation=1),
    event("c", 43_000, 63_000, "kernel", tid=7, correlation=2),
    event("d", 61_000, 71_000, "kernel", tid=8, correlation=3),
    event("Memcpy DtoH (Device -> Pinned)", 90_000, 91_000, "gpu_memcpy", tid=7, correlation=4),
    event("of before the trace", 95_000, 96_000, "kernel", tid=7, correlation=99),
]


def by_name(trace):
    return {stage.name: stage for stage in trace.stages}


def test_host_time_counts_for_the_inner_range_and_gaps_are_apart():
    trace = trace_of(HOST, "profile/t.json.gz", "t")
    assert (trace.file, trace.wall_ms, trace.steps, trace.device_idle_ms) == ("profile/t.json.gz", 220.0, 2, None)
    found = {stage.name: (stage.calls, stage.host_ms) for stage in trace.stages}
    assert found == {
        "Code2Wav": (1, 40.0),
        "predictor": (1, 30.0),
        "talker": (1, 30.0),
        "codes to the host": (1, 15.0),
        "sampling": (1, 10.0),
        HOST_GAPS: (0, 135.0),  # 15 and 100 within the steps, 20 between them
    }
    assert trace.stages[-1].name == HOST_GAPS
    assert all(one.device_ms is one.launches is one.syncs is one.to_host is None for one in trace.stages), "no GPU"


def test_what_a_gpu_does_counts_for_the_stage_that_launched_it():
    trace = trace_of([*GPU, *HOST], "t.json", "t")
    found = by_name(trace)
    figures = {name: (one.device_ms, one.launches, one.syncs, one.to_host) for name, one in found.items()}
    assert figures == {
        "predictor": (20.0, 1, 0, 0),
        "sampling": (0.0, 0, 0, 0),
        "talker": (20.0, 1, 0, 0),
        "Code2Wav": (10.0, 1, 0, 0),
        "codes to the host": (1.0, 0, 1, 1),
        HOST_GAPS: (1.0, 0, 0, 0),
    }
    assert trace.device_idle_ms == pytest.approx(220 - (20 + 28 + 1 + 1))


def test_the_kernels_of_a_whole_step_in_one_graph_tell_their_stages():
    names = ["begin_frame_kernel", "linear_kernel", "frame_attention_kernel", "linear_kernel", "draw_rest_kernel"]
    names += ["embed_frame_kernel", "linear_kernel", "slot_attention_kernel", "linear_kernel", "draw_first_kernel"]
    kernels = [event(name, 1000 * i, 1000 * (i + 1), "kernel", 7, 1) for i, name in enumerate(names)]
    launch = event("cudaGraphLaunch", 0, 500, "cuda_runtime", correlation=1)
    host = [event("step", 0, 20_000), event("step graph", 0, 1000)]
    found = by_name(trace_of([launch, *reversed(kernels), *host], "t.json", "t"))
    assert {name: one.device_ms for name, one in found.items()} == {
        "step graph": 0.0, "predictor": 3.0, "talker": 3.0, "sampling": 2.0, "embeddings": 2.0, HOST_GAPS: 0.0,
    }  # fmt: skip
    assert found["step graph"].launches == 1 and found["talker"].host_ms == 0.0


def test_a_trace_without_our_ranges_is_one_stage():
    trace = trace_of(GPU, "profile/stage0.json", "stage 0")
    assert trace.stages == (Stage("stage 0", 1, 95.0, 52.0, 3, 1, 1),)
    assert (trace.steps, trace.wall_ms, trace.device_idle_ms) == (None, 95.0, pytest.approx(45.0))


def test_a_trace_in_which_nothing_took_time():
    assert trace_of([], "t", "t") is None
    assert (
        trace_of([{"ph": "X", "name": "a", "ts": "1", "dur": 2}, 7, {"ph": "i", "name": "b", "ts": 1}], "t", "t")
        is None
    )


def test_a_kernel_that_started_early_and_waited_counts_from_the_end_of_the_one_before():
    waiting = [event("b", 4_000, 23_000, "kernel", tid=7, correlation=1) if one["name"] == "b" else one for one in GPU]
    assert by_name(trace_of([*waiting, *HOST], "t.json", "t"))["predictor"].device_ms == 20.0


@pytest.mark.parametrize(
    "wrong",
    [
        {"args": {"correlation": [1]}},
        {"tid": [1]},
        {"pid": {"of": "a list"}},
        {"ts": 10**400},
        {"dur": -5.0},
        {"dur": 1e300},
    ],
    ids=str,
)
@pytest.mark.parametrize("cat", ["cuda_runtime", "kernel", "user_annotation"])
def test_an_event_that_is_no_range_of_time_is_passed_over(cat, wrong):
    odd = event("odd", 3_000, 4_000, cat) | wrong
    trace = trace_of([*HOST, odd], "t.json", "t")
    assert (trace.wall_ms, trace.steps) == (220.0, 2)
    assert all(stage.host_ms >= 0 for stage in trace.stages)


def test_more_products_than_a_layer_has_are_of_its_stage():
    names = ["slot_attention_kernel", *["linear_kernel"] * 6]
    assert step_groups(names)[1:] == [
        f"talker {one}" for one in ("output", "gate, up", "down", "head", "other", "other")
    ]
