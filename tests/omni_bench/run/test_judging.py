"""What makes a level's accuracy invalid, and what the rate is called."""

from __future__ import annotations

import pytest

from omni_bench.accuracy.wer import score_corpus, score_utterance
from omni_bench.run.validity import wer_reasons


@pytest.mark.parametrize(
    ("language", "text", "heard", "reason"),
    [
        ("en", "Apples are very good.", "apples are good", "WER 25.0% is above asr.wer_limit=0.15 (15.0%)"),
        ("zh", "今天天气很好。", "今天天很好", "CER 16.7% is above asr.wer_limit=0.15 (15.0%)"),
    ],
)
def test_a_rate_above_the_limit_is_called_by_its_name(language, text, heard, reason):
    corpus = score_corpus("judge", [score_utterance("r", text, heard, language)])
    assert [str(one) for one in wer_reasons(corpus, 0.15, language)] == [reason]
    assert list(wer_reasons(corpus, 0.5, language)) == []


def test_nothing_judged_is_no_reason():
    assert list(wer_reasons(None, 0.15, "en")) == []
    assert list(wer_reasons(score_corpus("judge", []), 0.15, "klingon")) == []
