"""The judge's own error and the voices, as people read them."""

from __future__ import annotations

import pytest
import run_factory as runs

from omni_bench.report.console import notes
from omni_bench.report.judge import own_error_line, voices_line, voices_section
from omni_bench.report.markdown import render_report
from omni_bench.report.utterances import Records
from omni_bench.run.document import utterance_record

OWN = {"wer": 0.0125, "cer": 0.004, "utterances": 12, "words": 137}


def judged(**facts):
    provenance = runs.make_provenance()
    provenance["judge"] |= facts
    run = runs.make_run((1, 4), provenance=provenance)
    return run


def utterances(strange):
    scores = runs.scores([f"r{index}" for index in range(4)])
    return [
        utterance_record(
            score,
            concurrency=4,
            prompt_id="p",
            voice={
                "voice_onset_rest": 0.5,
                "voice_onset": 0.6 + index / 100,
                "voice_whole": None,
                "voice_outlier": index in strange,
            },
        )
        for index, score in enumerate(scores)
    ]


def test_the_own_error_stands_beside_wer_in_report_and_console():
    run = judged(own_wer=OWN, own_wer_reason=None)
    line = own_error_line(run)
    assert line.startswith("The judge alone errs 1.25 % (CER 0.40 %) on 12 reference recordings")
    assert line in render_report(run) and line in notes(run)


def test_in_chinese_the_own_error_is_of_characters():
    run = judged(own_wer=OWN, own_wer_reason=None)
    run["provenance"]["prompts"]["locale"] = "zh"
    line = own_error_line(run)
    assert line.startswith("The judge alone errs 1.25 % on 12 reference recordings of the data set with ")
    assert line.endswith(" characters: read CER against that.")
    report = render_report(run)
    assert line in report and "CER is of the whole level (edits over reference characters" in report
    assert "WER" not in report and "all figures but CER are of these" in report


def test_a_missing_own_error_is_na_with_its_reason():
    run = judged(own_wer=None, own_wer_reason="asr.own_error=false")
    assert own_error_line(run) == "The judge's own error is n/a (asr.own_error=false)."
    assert r"is n/a (asr.own\_error=false)." in render_report(run)


@pytest.mark.parametrize("judge", [True, False])
def test_old_runs_and_runs_without_a_judge_say_nothing(judge):
    levels = [runs.make_level(1, judge=judge)]
    run = runs.make_run(levels=levels, provenance=runs.make_provenance(judge=judge))
    assert (own_error_line(run), voices_line(run), voices_section(run, ()), notes(run)) == (None, None, None, [])


def test_voices_that_were_not_compared_are_na_in_one_line():
    run = judged(speaker_encoder=None)
    assert "Voices: n/a, not compared" in voices_line(run)
    report = render_report(run, Records(utterances=utterances(())))
    assert "Voices: n/a" in report and "## Voices" not in report and notes(run) == []


def test_outliers_are_counted_and_shown_the_strangest_first():
    run = judged(speaker_encoder="resemblyzer 0.1.4")
    run["levels"][0]["voices"] = {"checked": 12, "outliers": 0}
    run["levels"][1]["voices"] = {"checked": 11, "outliers": 2}
    assert voices_line(run) == "Voices out of line (resemblyzer 0.1.4): c = 1: 0 of 12; c = 4: 2 of 11."
    assert voices_line(run) in notes(run)
    section = voices_section(run, utterances((2, 0)))
    rows = [line for line in section.splitlines() if line.startswith("|")][2:]
    assert len(rows) == 2 and "r0" in rows[0] and "0.600" in rows[0] and "n/a" in rows[0] and "r2" in rows[1]
    assert "## Voices" in render_report(run, Records(utterances=utterances((2, 0))))
    assert "|" not in voices_section(run, utterances(()))
