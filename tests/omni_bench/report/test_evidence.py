"""wer_evidence.md: everything that differs, sorted, linked, and safe."""

from __future__ import annotations

import pytest
import run_factory as runs

from omni_bench.accuracy.wer import score_utterance
from omni_bench.records.run_folder import RunFolder
from omni_bench.report.evidence import render_evidence
from omni_bench.report.write import write_report
from omni_bench.run.document import utterance_record


def record(name, text, heard, forced=None, **more):
    return utterance_record(score_utterance(name, text, heard, "en", forced), concurrency=8, prompt_id="p", **more)


def test_every_damaged_utterance_is_there_the_worst_first():
    records = [record(f"one-{index}", "the cat sat on a mat", "the cat sat on a hat") for index in range(30)]
    records += [record("fine", "all is well", "all is well"), record("lost", "nothing came", "", forced="empty")]
    text = render_evidence(runs.make_run(), records)
    titles = [line for line in text.splitlines() if line.startswith("## ")]
    assert len(titles) == 31 and titles[0] == "## 1. lost" and "fine" not in text
    assert "31 of 32 utterances differ" in text
    assert "the cat sat on a ~~mat~~ → **hat**" in text and "S 1, D 0, I 0 of 6 words" in text
    assert "WER 100.00 % (empty)" in text and "- heard: n/a" in text


def test_the_recording_and_a_strange_voice_are_named():
    voice = {"voice_outlier": True, "voice_onset": 0.5, "voice_whole": None}
    text = render_evidence(
        runs.make_run(), [record("a", "one dog", "no dog", audio="audio/a-1.wav", avg_logprob=-0.5, voice=voice)]
    )
    assert "[audio/a-1.wav](audio/a-1.wav)" in text and "mean log probability -0.500, no speech n/a" in text
    assert "voice out of line: onset 0.500, whole n/a" in text


@pytest.mark.parametrize("evil", ["<img src=x>", "](http://evil)", "x\n# title", "`tick`", "a | b"])
def test_hostile_texts_stay_text(evil):
    text = render_evidence(runs.make_run(), [record(f"r {evil}", f"one {evil} dog", f"two {evil}")])
    assert "<img" not in text and "](http" not in text.replace("\\]", "")
    assert [line[:2] for line in text.splitlines() if line.startswith("#")] == ["# ", "##"]


def test_nothing_to_show_is_no_file(tmp_path):
    fine = [record("fine", "all is well", "all is well")]
    assert render_evidence(runs.make_run(), fine) is None
    unjudged = runs.make_run(levels=[runs.make_level(1, judge=False)], provenance=runs.make_provenance(judge=False))
    assert render_evidence(unjudged, [record("a", "b c", "d")]) is None
    with RunFolder.create(tmp_path / "run") as folder:
        folder.write_run(runs.make_run())
        folder.write_utterances([record("a", "b c", "d")])
        report = write_report(folder, plots=False).read_text()
        assert folder.wer_evidence_md.is_file() and "[wer_evidence.md](wer_evidence.md)" in report
        folder.write_utterances(fine)
        write_report(folder, plots=False)
        assert not folder.wer_evidence_md.exists()


def test_in_a_language_without_words_characters_are_counted():
    run = runs.make_run()
    run["provenance"]["prompts"]["locale"] = "zh"
    heard = utterance_record(score_utterance("a", "你好吗", "你好", "zh", None), concurrency=8, prompt_id="p")
    text = render_evidence(run, [heard])
    assert "- CER 33.33 %, S 0, D 1, I 0 of 3 characters" in text and "WER" not in text and "words" not in text
