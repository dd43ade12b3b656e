"""Errors by words (WER) or by characters (CER): called what they are, and never compared with one another."""

from __future__ import annotations

import re

import pytest

from omni_bench.compare.compare import compare_runs
from omni_bench.compare.document import to_document
from omni_bench.compare.markdown import render_comparison
from omni_bench.errors import ComparabilityError

CHINESE = {"prompts.locale": "zh"}


@pytest.fixture
def rows():
    """A function that gives the rows of the first table by their first two cells."""

    def of(comparison):
        text = render_comparison(comparison)
        lines = text[text.index("| metric") :].split("\n\n")[0].splitlines()[2:]
        cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
        return {(one[0], one[1]): one[2:] for one in cells}

    return of


def test_chinese_is_compared_by_cer_and_nothing_says_wer(make, rows):
    before = make.arm("before", 2, config=CHINESE)
    after = make.arm("after", 2, start=2, config=CHINESE, corrupted=(1, 5, 9, 13))
    comparison = compare_runs(before, after)
    text = render_comparison(comparison)
    assert rows(comparison)["CER", "all"][:2] == ["0.00 %", "28.57 %"]
    assert "| CER |" in re.sub(" +", " ", text) and "WER" not in text
    assert any(note.startswith("CER: errors are counted by character") for note in comparison.notes)
    assert to_document(comparison)["accuracy"]["rates"] == ["CER", "CER"]


def test_english_is_compared_by_wer_and_nothing_says_cer(make, rows):
    comparison = compare_runs([make.view()], [make.view(started=1)])
    assert ("WER", "all") in rows(comparison) and "CER" not in render_comparison(comparison)
    assert to_document(comparison)["accuracy"]["rates"] == ["WER", "WER"]


def test_a_rate_that_rose_is_said_in_the_verdict_line(make):
    worse = compare_runs(make.arm("b", 2), make.arm("a", 2, start=2, corrupted=(1, 2)))
    assert not worse.accuracy_worse, "too few for McNemar's test"
    assert "igher WER: 0.00 % → 14.29 %;" in render_comparison(worse)
    assert "higher WER" not in render_comparison(compare_runs(make.arm("b", 2), make.arm("a", 2, start=2)))


def test_words_against_characters_is_refused_and_when_forced_said(make, rows):
    before, after = make.view(), make.view(started=1, config=CHINESE, corrupted=(1, 5, 9, 13))
    with pytest.raises(ComparabilityError, match=r"prompts\.locale: en \| zh"):
        compare_runs([before], [after])
    comparison = compare_runs([before], [after], force=True)
    assert rows(comparison)["errors", "all"] == [
        *("WER 0.00 %", "CER 28.57 %", "n/a", "–", "n/a", "–", "–", "not compared: not the same rate")
    ]
    assert rows(comparison)["corrupted utterances", "all"][:3] == ["n/a", "n/a", "n/a"]
    assert any("(WER before, CER after)" in note for note in comparison.notes)
    text = render_comparison(comparison)
    assert "WER → CER" in text and "higher" not in text
    accuracy = to_document(comparison)["accuracy"]
    assert (accuracy["rates"], accuracy["wer"], accuracy["flags"], accuracy["worse"]) == (
        ["WER", "CER"],
        None,
        None,
        False,
    )


def test_arms_that_are_mixed_alike_are_not_compared_either(make, rows):
    def mixed(start):
        return [make.view(f"en{start}", started=start), make.view(f"zh{start}", started=start + 1, config=CHINESE)]

    comparison = compare_runs(mixed(0), mixed(2), force=True)
    assert comparison.accuracy.rates == ("WER and CER", "WER and CER") and comparison.accuracy.rate is None
    assert rows(comparison)["errors", "all"][:2] == ["WER and CER n/a"] * 2
    assert comparison.accuracy.wer is None and comparison.accuracy.flags is None


def test_without_a_judge_there_is_no_rate(make, rows):
    comparison = compare_runs([make.view(judge=False)], [make.view(started=1, judge=False)])
    assert comparison.accuracy.rates == (None, None)
    assert rows(comparison)["WER", "all"][:3] == ["n/a", "n/a", "n/a"]
