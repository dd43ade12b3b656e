"""How a trace is read: names to groups, time to kernels."""

from __future__ import annotations

from benchmarks import step_profile as bench
from omni_bench.metrics.trace_stages import step_groups

LAYER = ("few_rows_kernel", "{}_attention_kernel", "few_rows_kernel", "few_rows_kernel", "few_rows_kernel")


def test_groups_of_a_step():
    frame, slot = ([name.format(kind) for name in LAYER] for kind in ("frame", "slot"))
    head = "few_rows_kernel"
    names = ["begin_frame_kernel", "linear_kernel"]
    names += [*frame, *frame, head, "draw_rest_kernel"] * 2
    names += ["embed_frame_kernel", *slot, *slot, *slot, "end_frame_kernel", head, "draw_first_kernel"]
    groups = step_groups(names)
    assert len(groups) == len(names)
    counts = {group: groups.count(group) for group in groups}
    predictor = {f"predictor {part}": 4 for part in ("QKV", "attention", "output", "gate, up", "down")}
    talker = {f"talker {part}": 3 for part in ("QKV", "attention", "output", "gate, up", "down")}
    others = {"embeddings, states": 3, "predictor input": 1, "predictor head": 2, "talker head": 1, "sampling": 3}
    assert counts == {**predictor, **talker, **others}


def test_charges_add_up_and_gaps_are_apart():
    spans = [(0, 10), (4, 15), (7, 12), (20, 30)]  # the third ends before the second does
    kernels = [bench.Kernel("k", start, end, 7) for start, end in spans]
    charges = bench.charges(kernels)
    assert charges == [(10, 0), (5, 0), (0, 0), (15, 5)]
    assert sum(charge for charge, _ in charges) == 30


def test_loop_rows_tell_alone_from_together():
    kernels = [
        bench.Kernel("few_rows_kernel", 0, 4_000_000, 1),
        bench.Kernel("convolution_kernel", 3_000_000, 6_000_000, 2),
        bench.Kernel("nvjet_something", 6_000_000, 7_000_000, 2),
        bench.Kernel("nvjet_something", 8_000_000, 10_000_000, 1),
    ]
    rows = {name: (ms, share) for name, ms, share in bench.loop_rows(kernels, code2wav_stream=2, frames=10)}
    assert rows == {
        "steps alone": ("0.30", "30.0%"),
        "Code2Wav alone": ("0.30", "30.0%"),
        "prompts and the rest alone": ("0.20", "20.0%"),
        "several at once": ("0.10", "10.0%"),
        "nothing": ("0.10", "10.0%"),
        "all": ("1.00", "100.0%"),
        "(steps, alone or not)": ("0.40", "40.0%"),
        "(Code2Wav, alone or not)": ("0.40", "40.0%"),
        "(prompts and the rest, alone or not)": ("0.20", "20.0%"),
    }


def test_groups_of_a_call():
    names = {
        "convolution_kernel": "convolution",
        "window_attention_kernel": "window attention",
        "nvjet_sm90_tst_64x8": "matrix products",
        "void at::native::vectorized_layer_norm_kernel": "norms",
        "pytorch_flash::flash_fwd_kernel": "attention",
        "Memcpy DtoH (Device -> Pinned)": "copies",
        "void at::native::elementwise_kernel": "others",
    }
    assert {name: bench.call_group(name) for name in names} == names
