"""Evidence: order, alignment, links, and texts that try to break the table."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omni_bench.accuracy.wer import score_utterance
from omni_bench.errors import StoreError
from omni_bench.report.utterances import alignment_markdown, by_damage, is_rejected, rejected_table, utterance_table
from omni_bench.run.document import utterance_record


def record(name, text, heard, forced=None, audio=None):
    score = score_utterance(name, text, heard, "en", forced)
    return utterance_record(score, concurrency=8, prompt_id="p", audio=audio)


def columns(line):
    return len(re.split(r"(?<!\\)\|", line)) - 2


def test_worst_first_and_perfect_ones_left_out():
    records = [
        record("fine", "all is well", "all is well"),
        record("one", "one two three four", "one two three"),
        record("lost", "nothing came back", "", forced="empty"),
        record("half", "one two three four", "one two"),
    ]
    assert [entry["request_id"] for entry in by_damage(records)] == ["lost", "half", "one"]


def test_table_shows_alignment_and_recording():
    table = utterance_table([record("a", "see the dog", "see a dog now", audio="audio/a-1.wav")], 5)
    assert "see ~~the~~ → **a** dog **now**" in table
    assert "[audio/a-1.wav](audio/a-1.wav)" in table
    assert "66.67 %" in table and "1 / 0 / 1 |" in table


def test_forced_utterance_says_why():
    assert "failed: ~~all is well~~" in utterance_table([record("a", "all is well", "", forced="failed")], 1)


def test_limit_and_missing_recording():
    table = utterance_table([record(str(i), "a b", "c d") for i in range(5)], 2)
    assert len(table.splitlines()) == 4 and table.count("not kept") == 2


@pytest.mark.parametrize("text", ["a | b", "x](http://evil) [y", "<img src=x>", "**bold**", "line\nbreak", "`tick`"])
def test_hostile_text_stays_in_its_cell(text):
    entry = record(f"id {text}", f"one {text} two", f"one {text}", audio=f"audio/{text}.wav")
    entry["forced"] = f"forced {text}"
    lines = utterance_table([entry], 1).splitlines()
    assert len(lines) == 3 and {columns(line) for line in lines} == {6}
    assert "<img" not in lines[2] and "](http" not in lines[2].replace("\\]", "")


def test_record_that_lacks_a_field():
    broken = record("a", "b c", "d")
    del broken["hypothesis"]
    with pytest.raises(StoreError, match=r"'a': missing required field hypothesis"):
        by_damage([broken])


def test_rejected_requests_with_their_reasons():
    failed = {"request_id": "f", "concurrency": 4, "error": {"kind": "timeout", "message": "60 s | passed\n<b>"}}
    silent = {
        "request_id": "s",
        "concurrency": 4,
        "error": None,
        "faults": ["silent", "odd_bytes"],
        "audio": "audio/s.wav",
    }
    fine = {"request_id": "ok", "concurrency": 4, "error": None, "faults": []}
    assert [is_rejected(one) for one in (failed, silent, fine, {})] == [True, True, False, False]
    lines = rejected_table([failed, silent], 9).splitlines()
    assert {columns(line) for line in lines} == {5}
    assert r"timeout: 60 s \| passed &lt;b&gt;" in lines[2] and "n/a" in lines[2]
    assert r"silent; odd\_bytes" in lines[3] and "audio/s.wav" in lines[3]
    assert len(rejected_table([failed] * 9, 3).splitlines()) == 5
    long = {**failed, "error": {"kind": "x", "message": "y" * 5000}}
    assert len(rejected_table([long], 1)) < 2000


def score(text, heard, forced=None):
    return score_utterance("r1", text, heard, "en", forced)


def test_an_alignment_marks_what_went_wrong():
    assert alignment_markdown(score("the cat sat on the warm mat", "the bat sat on warm mat today")) == (
        "the ~~cat~~ → **bat** sat on ~~the~~ warm mat **today**"
    )
    assert alignment_markdown(score("good morning", "good morning")) == "good morning"
    assert alignment_markdown(score("good morning", "", forced="empty")) == "~~good morning~~"
    assert alignment_markdown(score("...", "you")) == "**you**"
    assert alignment_markdown(score("...", "")) == ""


def test_an_alignment_is_safe_in_a_table_cell():
    stored = replace(score("a", "a"), reference_normal="$5 and $6", hypothesis_normal="$5")  # of normaliser 1
    assert alignment_markdown(stored) == r"\$5 ~~and \$6~~"


@settings(max_examples=100)
@given(st.text(max_size=30), st.text(max_size=30))
def test_an_alignment_is_one_line_for_any_text(text, heard):
    assert "\n" not in alignment_markdown(score(text, heard))


def test_shared_audio_names_its_source():
    record = {
        "concurrency": 4,
        "request_id": "c4-0001",
        "prompt_id": "p",
        "error": None,
        "faults": ["noise", "shared_audio"],
        "shared_audio": [{"source": "c4-0003", "at_s": 0.5, "source_at_s": 1.25, "duration_s": 0.375}],
        "audio": None,
    }
    table = rejected_table([record], 1)
    assert "noise" in table
    assert "0.38 s at 0.50 s are the samples of c4-0003 at 1.25 s" in table
    assert "shared" in rejected_table([{**record, "faults": ["shared_audio"], "shared_audio": []}], 1)
