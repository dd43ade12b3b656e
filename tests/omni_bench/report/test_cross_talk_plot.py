"""The matrix: hits in the cell of their slots, and one picture a level that has more than one slot."""

from __future__ import annotations

import copy
import json

import figures
import numpy as np
import pytest
import run_factory as runs
from hypothesis import given
from hypothesis import strategies as st

from omni_bench.records.run_folder import RunFolder
from omni_bench.report import cross_talk_plot
from omni_bench.report.cross_talk import slots_of
from omni_bench.report.cross_talk_plot import draw_cross_talk, slot_matrix
from omni_bench.report.style import look
from omni_bench.report.write import write_report

FOUND = {"hits": 2, "pairs": 9, "expected_false_hits": None, "null_pairs": 0, "null_hits": 0, "chance": 0.5}
FOUND["first"] = None


def hit(victim, source, concurrency=2):
    return {"victim": victim, "source": source, "concurrency": concurrency}


def test_hits_are_counted_by_victim_and_source():
    matrix, elsewhere = slot_matrix([hit("a", "b"), hit("a", "b"), hit("b", "a"), hit("a", "far")], {"a": 0, "b": 1}, 2)
    assert np.array_equal(matrix, [[0, 2], [1, 0]]) and elsewhere == 1


def test_own_references_are_on_the_diagonal_and_unused_slots_are_shown():
    matrix, elsewhere = slot_matrix([hit("b", "b")], {"a": 0, "b": 1}, 4)
    assert matrix.shape == (4, 4) and matrix[1, 1] == matrix.sum() == 1 and elsewhere == 0


def test_more_in_flight_than_planned_has_room():
    assert slot_matrix([], {"a": 0, "b": 1, "c": 2}, 2)[0].shape == (3, 3)


@pytest.fixture
def run():
    run = copy.deepcopy(runs.make_run((1, 2, 4, 8)))
    for level in run["levels"][:3]:
        level["cross_talk"] = dict(FOUND)
    return run


def test_only_levels_with_hits_have_a_picture(run, tmp_path):
    in_flight = {2: {"a": (0, 10), "b": (0, 10)}}
    hits = [hit("a", "b"), hit("b", "a", 4), hit("a", "b", 8)]
    paths = draw_cross_talk(run, hits, in_flight, tmp_path)
    assert [path.name for path in paths] == ["cross_talk_c2.png", "cross_talk_c4.png"]
    assert draw_cross_talk(run, [], in_flight, tmp_path) == []
    assert list(tmp_path.iterdir()) == [], "those of an older report are gone"


def test_slot_0_is_at_the_top_and_the_picture_says_what_it_is(run):
    run["valid"], run["invalid_reasons"] = False, []
    run["provenance"]["target"]["description"]["health"]["fault"] = "neighbour_slot"
    with look():
        figure = cross_talk_plot._figure(run, run["levels"][2], np.array([[0, 2], [1, 0]]), 1)
    axes = figure.axes[0]
    top, bottom = (axes.transData.transform((0, slot))[1] for slot in (0, 1))
    assert top > bottom
    assert {(text.get_position(), text.get_text()) for text in axes.texts} == {((1, 0), "2"), ((0, 1), "1")}
    said = " ".join(figures.words(figure)).replace("\n", " ")
    assert "2 hits, n/a expected by chance, 9 pairs; 1 from another level" in said
    assert "FAULT INJECTED on purpose: reference.fault=neighbour_slot" in said and "INVALID (no performance" in said
    assert figures.cut_off(figure) == []


def test_the_report_draws_and_links_it(run, tmp_path, monkeypatch):
    monkeypatch.setattr("omni_bench.report.plots.draw_plots", lambda *_: [])  # the others
    folder = RunFolder(tmp_path)
    folder.write_run(run)
    full = hit("a", "b") | {"kind": "target", "relation": "in flight", "also": [], "position": "whole", "score": 9.0}
    folder.cross_talk_jsonl.write_text(json.dumps(full | {"heard": "x", "words": "x", "rate_hz": None}) + "\n")
    write_report(folder)
    assert "(plots/cross_talk_c2.png)" in folder.report_md.read_text()
    assert (tmp_path / "plots/cross_talk_c2.svg").is_file()


# --- slots: never shared by requests in flight at the same time, and no more than needed


times = st.tuples(st.integers(0, 40), st.integers(1, 20)).map(lambda pair: (pair[0], sum(pair)))


def test_a_freed_slot_is_taken_again_the_lowest_first():
    assert slots_of({"a": (0, 10), "b": (1, 5), "c": (5, 8), "d": (6, 9), "e": (10, 12)}) == {
        "a": 0,
        "b": 1,
        "c": 1,
        "d": 2,
        "e": 0,
    }


def test_nothing_in_flight():
    assert slots_of({}) == {}


@given(st.lists(times, max_size=15))
def test_no_two_in_flight_share_one_and_none_is_wasted(intervals):
    in_flight = {f"r{i}": interval for i, interval in enumerate(intervals)}
    slots = slots_of(in_flight)
    peak = 0
    for name, (start, _) in in_flight.items():
        together = [other for other, (s, e) in in_flight.items() if s <= start < e]
        assert len({slots[other] for other in together}) == len(together)
        peak = max(peak, len(together))
        assert name in together
    assert max(slots.values(), default=-1) + 1 == peak
