"""Floors and shares of hand-made measurements."""

from __future__ import annotations

import pytest

from omni_bench.report.roofline import HEADERS, Measured, cells, note_of, of_run, roofline
from reference_impl.model.presets import TINY
from reference_impl.roofline.cost_model import Limits

LIMITS = Limits(bytes_per_s=1e11, flop_per_s=1e12)


def found(**more):
    return roofline(
        TINY, LIMITS, device="this CPU", dtype="float32", element_bytes=4, context=64, chunk_frames=4,
        concurrency=(1, 8), **more,
    )  # fmt: skip


def test_shares_are_of_the_floor_and_of_the_ceiling():
    floor = found().rows[0]
    measured = {1: Measured(4 * floor.rtf_floor, floor.audio_per_s_ceiling / 5)}
    one, eight = found(measured=measured, source="by hand").rows
    assert one.rtf_share == pytest.approx(0.25)
    assert one.audio_per_s_share == pytest.approx(0.2)
    assert cells(one)[HEADERS.index("of floor")] == "4.00 x"
    assert (eight.rtf_p50, eight.rtf_share, eight.audio_per_s_share) == (None, None, None)
    assert cells(eight)[HEADERS.index("of floor")] == "n/a"


def test_the_table_says_what_was_measured_or_nothing():
    assert "Measured: by hand." in note_of(found(source="by hand"))
    assert "Measured:" not in note_of(found())
    assert found(source="by hand").to_json()["source"] == "by hand"


def test_invalid_and_open_loop_levels_count_as_unmeasured():
    metrics = {"rtf": {"p50": {"value": 0.5}}, "audio_per_s_steady": {"mean": {"value": 7.0}}}
    levels = [
        {"concurrency": 1, "valid": True, "metrics": metrics},
        {"concurrency": 4, "valid": False, "metrics": metrics},
        {"concurrency": 8, "valid": True, "rate_hz": 2.0, "metrics": metrics},
    ]
    assert set(of_run(levels)) == {1}
