"""Runs of the open loop are compared by their rates."""

import json

import pytest

from omni_bench.compare.compare import compare_runs
from omni_bench.compare.document import to_document
from omni_bench.compare.load import load_arm
from omni_bench.compare.markdown import render_comparison
from omni_bench.compare.plots import draw_comparison
from omni_bench.errors import ComparabilityError
from omni_bench.records.level import Rate

RATES = (Rate(1.0), Rate(2.5))


def test_rates_are_levels_of_a_comparison(make, tmp_path):
    before, after = make.arm("a", 5, levels=RATES), make.arm("b", 5, levels=RATES, slower=1.2, start=1)
    comparison = compare_runs(before, after)
    assert comparison.levels == RATES
    document = json.loads(json.dumps(to_document(comparison)))
    assert document["levels"][1] == {"concurrency": None, "rate_hz": 2.5, "requests": 14}
    assert {cell["rate_hz"] for cell in document["cells"]} == {1.0, 2.5}
    text = render_comparison(comparison)
    assert "1 req/s, 2.5 req/s; 14 requests a level" in text and "| 2.5 req/s" in text
    paths = draw_comparison(comparison, before, after, tmp_path)
    assert all(path.stat().st_size > 0 for path in paths)


def test_runs_on_disk_are_read_by_their_rates(make):
    folder = make.folders("a", 2, levels=RATES)
    assert [[level.concurrency for level in view.levels] for view in load_arm(str(folder))] == [list(RATES)] * 2


def test_an_open_and_a_closed_loop_have_no_level_in_common(make):
    with pytest.raises(ComparabilityError, match=r"no concurrency level in common: before \[1, 4\], after \['1 req/s'"):
        compare_runs(make.arm("a", 1), make.arm("b", 1, levels=RATES), force=True)


def test_other_arrivals_are_not_the_same_load(make):
    burst = {"load.arrival": "gamma"}
    with pytest.raises(ComparabilityError, match=r"load\.arrival: poisson \| gamma"):
        compare_runs(make.arm("a", 1, levels=RATES), make.arm("b", 1, levels=RATES, config=burst, start=1))
