"""Doctor tells problems from notes, and only problems count."""

from __future__ import annotations

import re
from collections import namedtuple

import pytest

from omni_bench.accuracy.asr import engines
from omni_bench.accuracy.asr.weights import resolve_faster
from omni_bench.accuracy.asr.weights.resolve import DownloadNeeded, JudgeSpec
from omni_bench.accuracy.voices import encoder
from omni_bench.commands import doctor
from omni_bench.commands.cli import main
from omni_bench.errors import AccuracyError
from omni_bench.records.config import OutputConfig
from omni_bench.run import prepare
from omni_bench.targets import preflight
from omni_bench.targets.preflight import Finding


@pytest.fixture(autouse=True)
def judge(monkeypatch):
    spec = JudgeSpec("tiny.en", "package", "some-package 1.0", (), "0" * 64, "cpu", 15.0)
    monkeypatch.setattr(engines, "resolve_judge", lambda *_, **__: spec)


def findings(out: str) -> dict[str, tuple[str, str]]:
    parts = [line.split(None, 1) for line in out.split("\n\n")[0].splitlines()]
    return {rest[:12].strip(): (state, rest[12:].strip()) for state, rest in parts}


def test_a_machine_that_can(capsys):
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    found = findings(out)
    assert found["judge"] == ("ok", "Whisper tiny.en on cpu, from package: some-package 1.0")
    assert {"Python", "torch", "data set", "checkpoint", "disk", "port", "vllm-omni", "sglang-omni"} <= set(found)
    assert "PROBLEM" not in out and "can run here" in out


def test_no_judge_is_a_problem_with_the_ways_out(monkeypatch, capsys):
    def none(*_, **__):
        raise AccuracyError("there is no Whisper to judge with: pip install ...")

    monkeypatch.setattr(engines, "resolve_judge", none)
    assert main(["doctor"]) == 3
    out = capsys.readouterr().out
    assert "PROBLEM  judge        there is no Whisper to judge with: pip install ..." in out
    assert "cannot run here: judge." in out


def test_weights_that_would_be_downloaded_are_a_note_and_stay_where_they_are(monkeypatch, capsys):
    def needed(*_, download=True, **__):
        assert not download
        raise DownloadNeeded("Whisper tiny.en is not here; a run downloads it from https://models.invalid")

    monkeypatch.setattr(engines, "resolve_judge", needed)
    assert main(["doctor"]) == 0
    state, text = findings(capsys.readouterr().out)["judge"]
    assert state == "note" and "a run downloads it from https://models.invalid" in text


def test_the_judge_that_is_asked_for_decides(monkeypatch, capsys):
    """openai-whisper's weights are there, and are no use to the other judge."""
    monkeypatch.setattr(resolve_faster, "installed_version", lambda: None)
    assert main(["doctor", "asr=faster_whisper"]) == 3
    state, text = findings(capsys.readouterr().out)["judge"]
    assert state == "PROBLEM" and "needs the package faster-whisper, which is not installed" in text


def test_what_a_run_asks_for_and_lacks_is_a_problem(monkeypatch, capsys):
    monkeypatch.setattr(encoder, "PACKAGE", "no-such-package-at-all")
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    assert main(["doctor", "checks.speaker_similarity=true", "client.api_key_env=NO_SUCH_KEY"]) == 3
    found = findings(capsys.readouterr().out)
    assert found["voices"][0] == "PROBLEM" and "that environment variable is not set" in found["API key"][1]
    monkeypatch.setenv("NO_SUCH_KEY", "abc")
    assert main(["doctor", "client.api_key_env=NO_SUCH_KEY"]) == 0
    assert findings(capsys.readouterr().out)["API key"] == ("ok", "NO_SUCH_KEY is set: client.api_key_env")


def test_prompts_that_the_judge_would_not_understand_are_a_problem(capsys):
    assert main(["doctor", "dataset.language=zh"]) == 3
    state, text = findings(capsys.readouterr().out)["data set"]
    assert state == "PROBLEM" and "dataset.language='zh'" in text


def test_a_full_disk_is_a_problem(monkeypatch, capsys):
    usage = namedtuple("usage", "total used free")(1 << 40, 1 << 40, 5 << 20)
    monkeypatch.setattr(prepare.shutil, "disk_usage", lambda _: usage)
    assert main(["doctor"]) == 3
    assert findings(capsys.readouterr().out)["disk"][0] == "PROBLEM"


def test_servers_that_are_not_installed_are_notes(monkeypatch, capsys):
    monkeypatch.setattr(preflight, "find_program", lambda *_: None)
    assert main(["doctor"]) == 0
    found = findings(capsys.readouterr().out)
    assert found["vllm-omni"][0] == found["sglang-omni"][0] == "note"
    assert found["vllm-omni"][1].startswith("vLLM-Omni is not installed: there is no program 'vllm'")
    assert "target=external target.url=..." in found["sglang-omni"][1]


def test_a_server_that_is_installed_is_told_with_how_to_look_further(monkeypatch, capsys):
    found = Finding("ok", "vllm-omni", "0.30.0 is installed: /env/bin/vllm")
    monkeypatch.setattr(doctor, "installed", lambda *_: iter([found]))
    assert main(["doctor"]) == 0
    state, text = findings(capsys.readouterr().out)["vllm-omni"]
    assert state == "ok" and "omni-bench doctor target=vllm_omni client.model=MODEL" in text


def test_the_target_that_is_asked_for_decides(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(preflight, "find_program", lambda *_: None)
    monkeypatch.setattr(preflight, "visible_gpus", lambda _: [])
    overrides = ["target=vllm_omni", "client.model=Qwen/X", f"+target.env.HF_HOME={tmp_path}", "asr=none"]
    assert main(["doctor", *overrides]) == 3
    out = capsys.readouterr().out
    found = findings(out)
    assert found["vllm-omni"][0] == found["GPU"][0] == found["model"][0] == "PROBLEM" and found["port"][0] == "ok"
    assert "downloads no models" in found["model"][1] and found["sglang-omni"][0] == "note"
    assert "checkpoint" not in found and "judge" not in found
    assert f"omni-bench run {' '.join(overrides)} cannot run here: vllm-omni, GPU, model." in out


def test_an_external_server_is_asked(capsys):
    assert main(["doctor", "target=external", "target.url=http://127.0.0.1:1", "asr=none"]) == 3
    state, text = findings(capsys.readouterr().out)["server"]
    assert state == "PROBLEM" and "no server answers at http://127.0.0.1:1/health: " in text


def test_a_checkpoint_that_is_given_is_looked_for(capsys):
    assert main(["doctor", "reference.checkpoint=random", "reference.preset=qwen3_tts_0_6b", "asr=none"]) == 0
    assert findings(capsys.readouterr().out)["checkpoint"] == ("ok", "qwen3_tts_0_6b: random")
    assert main(["doctor", "reference.checkpoint=/no/such", "asr=none"]) == 3
    assert "there is no folder /no/such" in findings(capsys.readouterr().out)["checkpoint"][1]


def test_overrides_that_make_no_run_are_a_usage_error(capsys):
    assert main(["doctor", "target=vllm"]) == 2
    assert "unknown target 'vllm'; did you mean 'vllm_omni'?" in capsys.readouterr().err


def test_little_memory_is_a_note(monkeypatch, capsys):
    memory = namedtuple("memory", "available")(1 << 30)
    monkeypatch.setattr(doctor.psutil, "virtual_memory", lambda: memory)
    assert main(["doctor"]) == 0
    assert findings(capsys.readouterr().out)["memory"] == ("note", "1.0 GiB available; the main job takes up to 4 GiB")


def test_what_is_optional_is_told_and_no_problem(monkeypatch, capsys):
    monkeypatch.setattr(resolve_faster, "installed_version", lambda: None)
    monkeypatch.setattr(encoder, "PACKAGE", "no-such-package-at-all")
    assert main(["doctor"]) == 0
    found = findings(capsys.readouterr().out)
    assert found["other judge"][0] == found["voices"][0] == "note"
    assert "pip install 'omni-bench[faster-whisper]'" in found["other judge"][1]
    assert "checks.speaker_similarity is n/a" in found["voices"][1]
    assert "pip install --no-deps resemblyzer==0.1.4" in found["voices"][1]


def test_what_is_optional_and_there_says_how_to_use_it(monkeypatch, capsys):
    monkeypatch.setattr(resolve_faster, "installed_version", lambda: "1.2.1")
    monkeypatch.setattr(encoder, "why_no_encoder", lambda: None)
    monkeypatch.setattr(encoder, "describe_encoder", lambda: "resemblyzer 0.1.4")
    assert main(["doctor"]) == 0
    found = findings(capsys.readouterr().out)
    assert found["other judge"] == ("ok", "faster-whisper 1.2.1 is installed: asr=faster_whisper")
    assert found["voices"] == ("ok", "resemblyzer 0.1.4 has the speaker encoder: checks.speaker_similarity=true")


# --- omni-bench list


def test_everything_that_can_be_chosen_is_listed(capsys):
    assert main(["list"]) == 0
    out = capsys.readouterr().out
    for expected in ("external ", "huggingface ", "whisper ", "openai_chat_audio ", "openai_speech_ws "):
        assert expected in out
    assert re.search(r"^  qwen3_tts_c16 +The main job", out, re.MULTILINE)
    prompts = re.search(r"seed_tts_mini/en +(\d+) prompts", out)
    assert prompts is not None and int(prompts.group(1)) >= 200


def test_the_disk_is_looked_at_for_every_request_of_an_open_loop(monkeypatch, capsys):
    asked = []
    monkeypatch.setattr(prepare, "check_disk_space", lambda _, needed_bytes: asked.append(needed_bytes))
    open_loop = ["asr=none", "load=open_loop", "dataset.allow_repeats=true", "load.requests_per_level=400"]
    assert main(["doctor", *open_loop, "load.rate_hz=[1,2]"]) == 0
    assert asked == [prepare.space_needed_bytes(800, OutputConfig())]
