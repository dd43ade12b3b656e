"""The section on parity, and its column in the tables."""

from __future__ import annotations

import pytest
import run_factory as runs
from level_cells import level_headers, level_rows

from omni_bench.accuracy.parity.compare import Neighbour, ParityComparison, Words
from omni_bench.accuracy.parity.records import comparison_record, parity_record
from omni_bench.accuracy.parity.verdict import level_parity
from omni_bench.report.console import summary_table
from omni_bench.report.markdown import render_report
from omni_bench.report.parity import parity_section, place_of
from omni_bench.report.utterances import Records


def one(name: str = "c4-0000", **fields) -> ParityComparison:
    values = {"prompt_id": "p", "seed": 1, "concurrency": 4, "repeat": False, "kind": "codes", "equal": True}
    return ParityComparison(request_id=name, solo_id=f"solo-{name}", **{**values, "exact": True, **fields})


REPEAT = one("solo-c4-0000", repeat=True)
WORDS = Words("heard | this", "heard that", 0.5, 0.0, 0.5, True, False, False, False)
OTHER = one(
    "c4-0001",
    equal=False,
    exact=False,
    first_frame=6,
    first_codebook=3,
    at_s=0.48,
    arrived_ns=5,
    neighbours=tuple(Neighbour(f"c4-{i:04d}", f"prompt {i}") for i in range(2, 10)),
    words=WORDS,
)


@pytest.fixture
def checked():
    """``checked(comparisons, deterministic)``: a run of the levels 1 and 4, of which the second was checked."""

    def make(comparisons, deterministic=False):
        run = runs.make_run((1, 4))
        run["levels"][1]["parity"] = parity_record(level_parity(comparisons, 4, deterministic=deterministic))
        return run

    return make


def section(run, comparisons):
    return parity_section(run, [comparison_record(comparison) for comparison in comparisons])


def test_a_run_that_was_not_checked_has_no_section():
    assert parity_section(runs.make_run(), []) is None
    assert "Parity" not in render_report(runs.make_run())
    assert "parity" not in level_headers(runs.make_run())


def test_equal_answers(checked):
    comparisons = [one(), one("c4-0001"), REPEAT]
    text = section(checked(comparisons), comparisons)
    assert "|   4 | codes         |     2/2 |           2/2 | none" in text
    assert "The server repeats itself: 1 of 1" in text and "claims" not in text and "that differ" not in text


def test_a_difference_is_shown_with_its_place_its_company_and_its_words(checked):
    comparisons = [one(), OTHER, REPEAT]
    text = section(checked(comparisons, deterministic=True), comparisons)
    assert "c4-0001 at 0.48 s (frame 6, codebook 3)" in text and "It claims to be deterministic." in text
    assert "c4-0002 (prompt 2), c4-0003 (prompt 3)" in text and "and 2 more" in text and "c4-0008" not in text
    assert "50.00 %" in text and r"heard \| this" in text
    assert "1 / 0 of 1, p = 1.0" in text
    assert "With 1 judged pairs McNemar's p cannot fall below 1.0." in text


def test_a_server_that_does_not_repeat_itself(checked):
    comparisons = [one("c4-0000", equal=False), OTHER, one("solo-c4-0000", repeat=True, equal=False, first_frame=0)]
    text = section(checked(comparisons), comparisons)
    assert "**Not repeatable**: 1 of 1" in text and "Compared by transcripts only." in text and "transcripts" in text
    rows = text.split("parity.jsonl.")[1]
    assert "c4-0001" in rows and "| solo-c4-0000 " in rows and "| c4-0000 " not in rows


def test_nothing_that_could_be_compared(checked):
    comparisons = [one(kind=None, equal=None, exact=None, problem="failed", solo_error="timeout")]
    text = section(checked(comparisons), comparisons)
    assert "n/a" in text and "is not known: no request was answered twice" in text


def test_a_long_list_is_cut(checked):
    comparisons = [one(f"c4-{i:04d}", equal=False, first_sample=1920, at_s=0.08) for i in range(12)]
    text = section(checked(comparisons), comparisons)
    assert "12 pairs differ; the first 10." in text and "0.08 s (sample 1920)" in text and "c4-0011" not in text


def test_the_tables_count_equal_answers(checked):
    run = checked([one(), OTHER, REPEAT])
    headers = level_headers(run)
    cells = [row[headers.index("parity")] for row in level_rows(run)]
    assert (
        cells == ["n/a", "1/2"] and headers[-1] == "valid" and all(len(row) == len(headers) for row in level_rows(run))
    )
    for width in (80, 200):
        assert "parity" in [str(column.header) for column in summary_table(run, width).columns]
    report = render_report(run, Records(parity=[comparison_record(OTHER)]))
    assert "## Parity: alone and in company" in report and "parity: requests that got the same answer" in report


@pytest.mark.parametrize(
    ("first", "text"),
    [
        ({"first_frame": 6, "first_codebook": 3, "at_s": 0.48}, "0.48 s (frame 6, codebook 3)"),
        ({"first_frame": 8, "first_codebook": None, "at_s": 0.64}, "0.64 s (frame 8, one has ended)"),
        ({"first_frame": None, "first_sample": 7, "at_s": None}, "n/a s (sample 7)"),
        ({"first_frame": None, "first_sample": None}, "n/a"),
    ],
)
def test_places(first, text):
    assert place_of(first) == text


def test_the_rate_between_two_answers_is_called_what_it_is(checked):
    comparisons = [one(), OTHER, REPEAT]
    run = checked(comparisons)
    assert "WER between" in section(run, comparisons)
    run["provenance"]["prompts"]["locale"] = "zh"
    assert "CER between" in section(run, comparisons) and "WER" not in section(run, comparisons)
