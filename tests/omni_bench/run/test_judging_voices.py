"""The judge's own error through a run and after it, and voices on a fake encoder."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from omni_bench.accuracy.asr.clips import load_samples_16k
from omni_bench.accuracy.voices import encoder
from omni_bench.errors import AccuracyError, DatasetError
from omni_bench.records.config import ChecksConfig
from omni_bench.records.prompt import Prompt
from omni_bench.records.run_folder import RunFolder
from omni_bench.run import judging
from omni_bench.run.orchestrate import run
from omni_bench.run.progress import RunProgress
from omni_bench.run.rejudge import judge_again, redraw


def stored_judge(folder):
    return RunFolder.open(folder).read_run()["provenance"]["judge"]


def utterances(folder):
    return RunFolder.open(folder).read_utterances()


@pytest.fixture
def with_voices(config, monkeypatch):
    """The smoke run with voices compared; ``strange``: ids of requests that begin in another voice."""
    strange = set()

    def prints(_, clips):
        for clip in clips:
            load_samples_16k(clip)
        own, other = np.array([1.0, 0.0]), np.array([0.0, 1.0])
        return [judging.VoicePrint(other if clip.request_id in strange else own, own, own) for clip in clips]

    monkeypatch.setattr(encoder, "load_speaker_encoder", lambda: None)
    monkeypatch.setattr(encoder, "describe_encoder", lambda: "encoder 1.0")
    monkeypatch.setattr(judging, "voice_prints", prints)
    load = replace(config.load, requests_per_level=12)
    checks = replace(config.checks, speaker_similarity=True)
    dataset = replace(config.dataset, allow_repeats=True)
    return replace(config, load=load, checks=checks, dataset=dataset), strange


def test_a_run_stores_the_judges_own_error(target, load, judge, config, tmp_path, capsys):
    outcome = run(config, tmp_path / "run")
    own = stored_judge(tmp_path / "run")["own_wer"]
    assert own["wer"] == 0 and 1 <= own["utterances"] <= 12 and own["words"] > own["utterances"]
    assert f"on {own['utterances']} reference recordings" in capsys.readouterr().out
    assert len(judge.heard) == outcome.run["levels"][0]["requests"]
    assert "reference" not in str([one["request_id"] for one in utterances(tmp_path / "run")])


def test_without_it_no_recording_is_heard_and_the_reason_is_stored(target, load, judge, config, tmp_path):
    config.asr.own_error = False
    run(config, tmp_path / "run")
    facts = stored_judge(tmp_path / "run")
    assert (facts["own_wer"], facts["own_wer_reason"]) == (None, "asr.own_error=false")


def test_judging_again_measures_it_again_or_keeps_that_of_the_same_judge(
    target, load, judge, judge_spec, config, tmp_path, monkeypatch
):
    config.output.save_audio = "all"
    run(config, tmp_path / "run")
    first = stored_judge(tmp_path / "run")
    monkeypatch.setattr("omni_bench.run.rejudge.find_judge", lambda *_: judge_spec)
    judge_again(tmp_path / "run", [], RunProgress())
    assert stored_judge(tmp_path / "run") == first

    def gone(*_):
        raise DatasetError("the data set is gone")

    monkeypatch.setattr(judging, "load_prompts", gone)
    judge_again(tmp_path / "run", [], RunProgress())
    assert stored_judge(tmp_path / "run")["own_wer"] == first["own_wer"]
    other = replace(judge_spec, sha256="1" * 64)
    monkeypatch.setattr("omni_bench.run.rejudge.find_judge", lambda *_: other)
    judge_again(tmp_path / "run", [], RunProgress())
    facts = stored_judge(tmp_path / "run")
    assert (facts["own_wer"], facts["own_wer_reason"]) == (None, judging.DATA_SET_GONE)


def test_utterances_carry_their_alignment(target, load, judge, config, tmp_path):
    run(config, tmp_path / "run")
    for record in utterances(tmp_path / "run"):
        assert record["alignment"] == [["equal", record["reference_normal"], record["hypothesis_normal"]]]
        assert record["voice_outlier"] is None


def test_a_strange_onset_is_flagged_kept_and_no_reason_to_reject(target, load, judge, with_voices, tmp_path):
    config, strange = with_voices
    strange.add("c2-0005")
    outcome = run(config, tmp_path / "run")
    assert outcome.run["valid"], [one["invalid_reasons"] for one in outcome.run["levels"]]
    assert outcome.run["levels"][0]["voices"] == {"checked": 12, "outliers": 1}
    flagged = [one for one in utterances(tmp_path / "run") if one["voice_outlier"]]
    assert [one["request_id"] for one in flagged] == ["c2-0005"] and flagged[0]["audio"]
    assert stored_judge(tmp_path / "run")["speaker_encoder"] == "encoder 1.0"
    _, again = redraw(tmp_path / "run")
    assert again["levels"][0]["voices"] == {"checked": 12, "outliers": 1}


def test_the_recording_that_was_sent_is_the_anchor(target, load, judge, with_voices, tmp_path, monkeypatch):
    config, _ = with_voices
    config = replace(config, client=replace(config.client, send_reference=True))
    asked = []
    real = judging.compare_level
    monkeypatch.setattr(
        judging, "compare_level", lambda prints, anchors: asked.append(anchors) or real(prints, anchors)
    )
    run(config, tmp_path / "run")
    assert len(asked) == 1 and len(asked[0]) == 12
    lines = [json.loads(line) for line in (tmp_path / "run" / "requests.jsonl").read_text().splitlines()]
    kept = [line for line in lines if line["audio"]]
    assert kept and all((tmp_path / "run" / line["ref_audio"]).is_file() for line in kept)
    assert "reference recording" in (tmp_path / "run" / "report.html").read_text()


def test_an_encoder_that_is_asked_for_and_missing_ends_the_run_before_it_begins(
    target, load, judge, config, tmp_path, monkeypatch
):
    def missing():
        raise AccuracyError("speaker similarity: pip install it")

    monkeypatch.setattr(encoder, "describe_encoder", missing)
    asking = replace(config, checks=ChecksConfig(speaker_similarity=True))
    with pytest.raises(AccuracyError, match="pip install it"):
        run(asking, tmp_path / "run")
    assert target.started == 0
    run(replace(config, checks=ChecksConfig()), tmp_path / "other")
    assert stored_judge(tmp_path / "other")["speaker_encoder"] is None


def test_prompts_of_a_data_set_that_is_gone_are_none(config, monkeypatch):
    stored = {"provenance": {"prompts": {"count": 3}}}
    assert len(judging.prompts_again(config.dataset, stored)) == 3
    assert all(isinstance(one, Prompt) for one in judging.prompts_again(config.dataset, stored))
    config.dataset.name = "no_such_set"
    assert judging.prompts_again(config.dataset, stored) == []
