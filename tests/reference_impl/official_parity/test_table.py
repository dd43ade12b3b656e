"""The parity table: what passes, and what the report says."""

from __future__ import annotations

import math

import pytest

from reference_impl.official_parity.table import TOLERANCE, Result, document, render


@pytest.mark.parametrize(
    ("error", "limit", "passed"),
    [(0.0, 0, True), (1e-9, 0, False), (TOLERANCE, TOLERANCE, True), (2e-4, TOLERANCE, False), (math.nan, 1.0, False)],
)
def test_a_result_passes_within_its_limit_and_never_without_a_number(error, limit, passed):
    assert Result("x", "y", error, "1", limit).passed is passed


def test_the_table_names_the_error_and_the_failure():
    results = [Result("codes", "base", 0.0, "50", 0), Result("logits", "base", 0.002, "15")]
    codes, logits = render(results).splitlines()[2:]
    assert "identical" in codes and "yes" in codes
    assert "2.0e-03" in logits and "**no**" in logits


def test_the_report_says_how_it_was_made_and_what_failed():
    good = document([Result("codes", "base", 0.0, "50", 0)], {"qwen-tts": "0.1.1"})
    assert "All checks passed" in good and "qwen-tts 0.1.1" in good and "make parity" in good
    assert "1 of 1 checks failed: codes" in document([Result("codes", "base", 0.5, "50", 0)], {})
