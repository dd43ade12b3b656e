"""The section for people: counts beside what chance gives, and hits that cannot break the page."""

from __future__ import annotations

import pytest
import run_factory as runs
from level_cells import level_headers, level_rows

from omni_bench.records.schema import validate_run
from omni_bench.report.cross_talk import HITS_SHOWN, cross_talk_section, source_name
from omni_bench.report.markdown import render_report
from omni_bench.report.utterances import Records

FOUND = {
    "hits": 1,
    "pairs": 388,
    "expected_false_hits": 0.25,
    "null_pairs": 13652,
    "null_hits": 9,
    "chance": 0.00012,
    "first": None,
}
HIT = {
    "victim": "c4-0003",
    "source": "c4-0005",
    "kind": "target",
    "relation": "in flight",
    "also": [],
    "position": "onset",
    "heard": "hundreds of tiny lights",
    "words": "hundreds of tiny lights",
    "score": 18.25,
    "concurrency": 4,
    "audio": "audio/c4-0003.wav",
}


@pytest.fixture
def checked():
    run = runs.make_run((1, 4))
    run["levels"][1]["cross_talk"] = dict(FOUND)
    validate_run(run)
    return run


def cells(section, start):
    (line,) = [line for line in section.splitlines() if line.startswith(f"|{start}")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_counts_stand_beside_what_chance_gives(checked):
    section = cross_talk_section(checked, [HIT])
    rows = [line for line in section.splitlines() if line.startswith("|   4 |") or line.startswith("|   1 |")]
    table = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    assert ["1", "n/a", "n/a", "n/a", "n/a", "n/a", "n/a"] in table
    assert ["4", "1", "0.25", "0.00012", "388", "13652", "9"] in table


def test_a_hit_says_who_whose_where_what_and_where_to_listen(checked):
    section = cross_talk_section(checked, [HIT])
    for part in ("c4-0003", "c4-0005", "onset", "hundreds of tiny lights", "18.2", "[audio/c4-0003.wav]"):
        assert part in section


def test_hits_are_sorted_and_bounded(checked):
    hits = [{**HIT, "victim": f"victim-{i:03d}", "score": float(i)} for i in range(HITS_SHOWN + 5)]
    section = cross_talk_section(checked, hits)
    assert f"{HITS_SHOWN + 5} outputs with another's words; the {HITS_SHOWN} with the most letters" in section
    assert f"victim-{HITS_SHOWN + 4:03d}" in section and "victim-000" not in section


def test_texts_cannot_break_the_table(checked):
    section = cross_talk_section(checked, [{**HIT, "heard": "a | b <b>*c*</b>", "audio": None}])
    assert r"a \| b &lt;b&gt;\*c\*&lt;/b&gt;" in section and "not kept" in section


def test_only_its_own_plots_are_linked(checked):
    section = cross_talk_section(checked, [], ["plots/rtf.png", "plots/cross_talk_c4.png"])
    assert "[plots/cross_talk_c4.png](plots/cross_talk_c4.png)" in section and "rtf" not in section


def test_not_checked_is_not_available_and_without_a_judge_there_is_no_section():
    assert cross_talk_section(runs.make_run(), []) == "n/a: not checked."
    assert cross_talk_section(runs.make_run(provenance=runs.make_provenance(judge=False)), []) is None


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({}, "c4-0005"),
        ({"also": ["x", "y"]}, "c4-0005 or x or y"),
        ({"also": list("abcde")}, "c4-0005 or a or b or c or 2 more"),
        ({"kind": "reference"}, "c4-0005, reference text"),
        ({"relation": "earlier"}, "c4-0005, earlier"),
        ({"source": "c4-0003", "kind": "reference"}, "its own reference text"),
    ],
)
def test_names_of_sources(changes, name):
    assert source_name({**HIT, **changes}) == name


def test_the_level_table_has_the_count_only_if_it_was_checked(checked):
    assert "cross-talk" not in level_headers(runs.make_run())
    column = level_headers(checked).index("cross-talk")
    assert [row[column] for row in level_rows(checked)] == ["n/a", "1"]
    assert all(len(row) == len(level_headers(checked)) for row in level_rows(checked))


def test_the_worst_utterances_name_the_source(checked):
    utterances = [
        {**vars(score), "concurrency": 4, "audio": None}
        for score in runs.scores([f"c4-{number:04d}" for number in range(4)])
    ]
    report = render_report(checked, Records(utterances=utterances, hits=[{**HIT, "victim": "c4-0002"}]))
    worst = report.partition("## Worst utterances")[2].partition("\n## ")[0]
    assert "words of" in worst and "c4-0005" in worst
    assert "words of |" not in render_report(checked, Records(utterances=utterances))
