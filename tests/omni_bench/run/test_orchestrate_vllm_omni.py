"""Whole runs against a fake vLLM-Omni: what the probe finds, and a server that dies at the worst moment."""

from __future__ import annotations

import json
import os
import subprocess

import pytest
from reasons import said as reasons_said

from omni_bench.errors import ProtocolError, TargetError
from omni_bench.records.run_folder import RunFolder
from omni_bench.run.config.compose import compose
from omni_bench.run.orchestrate import run
from omni_bench.targets.probe import free_port

FAST = (
    "scenario=smoke",
    "target=vllm_omni",
    "client.model=MODEL",
    "asr=none",
    "checks.signal=false",
    "output.plots=false",
    "load.concurrency=[2]",
    "load.requests_per_level=4",
    "load.warmup_per_slot=1",
)


@pytest.fixture
def said():
    """What the last run said on stderr."""
    return [""]


@pytest.fixture
def go(fake_environment, tmp_path, capsys, said):
    """A function that runs against the fake server; its run.json and what it said."""

    def start(manners="", *overrides):
        config = compose([*FAST, *overrides])
        config.target = fake_environment.target(
            "vllm_omni", manners, probe=config.target.probe, chaos=config.target.chaos
        )
        config.client.model = str(fake_environment.model)
        try:
            run(config, tmp_path / "run", quiet=False)
        finally:
            fake_environment.assert_nothing_runs()
            said[:] = [capsys.readouterr().err]
        return RunFolder.open(tmp_path / "run").read_run(), said[0]

    return start


def stored(tmp_path):
    return json.loads((tmp_path / "run" / "run.json").read_text())


def test_what_a_good_run_knows_of_its_server(go):
    document, said = go()
    assert document["valid"], reasons_said(document)
    target = document["provenance"]["target"]
    assert (target["kind"], target["version"]) == ("vllm_omni", "0.30.0") and target["commit"].startswith("0123456789")
    found = target["conformance"]
    assert found["status"] == 200 and found["transfer"] == "chunked" and found["content_type"] == "audio/pcm"
    assert found["sample_rate_hz"] == 24000 and found["sample_rate_stated"] is True
    assert found["streams"] is True and found["chunks"] == 2 and found["seed"] == "obeyed" and found["warnings"] == []
    assert "probe: HTTP 200, audio/pcm, chunked, 24000 Hz, 0.9 s of audio in 2 pieces" in said
    # two of warm-up and four that are measured; the three of the probe are before
    assert target["server_metrics"] == {
        "problem": None,
        "series": {"fake_requests": {"increase": 6.0}},
        "left_out": 0,
        "cut": None,
        "accounts": [],
    }


def test_no_valid_run_is_possible_without_audio(go, tmp_path):
    with pytest.raises(ProtocolError, match=r"/v1/audio/speech cannot be measured .* clean end, but no audio"):
        go("no-audio")
    assert any("cannot be measured" in reason for reason in reasons_said(stored(tmp_path)))


def test_the_probe_can_be_left_out(go):
    document, said = go("unseeded", "target.probe=false")
    target = document["provenance"]["target"]
    assert target["conformance"] is None and "probe:" not in said
    assert target["server_metrics"]["series"] == {"fake_requests": {"increase": 6.0}}, "it costs next to nothing"


def test_a_fault_on_purpose_is_left_to_the_run(go):
    document, said = go("", "target.chaos=http_500")
    target = document["provenance"]["target"]
    assert target["conformance"] is None and "probe: left out, as a fault is injected on purpose" in said
    assert not document["valid"]


def test_a_server_that_dies_in_the_probe(go, tmp_path):
    with pytest.raises(TargetError, match=r"(?s)died during the probe: exit code 1.*illegal memory access"):
        go("stray orphan die-at:3")
    (first, *_) = reasons_said(stored(tmp_path))
    assert first.startswith("the server died during the probe: exit code 1")


def test_a_server_that_dies_under_load(go, tmp_path, said):
    with pytest.raises(TargetError, match=r"(?s)died during concurrency 2: exit code 1.*illegal memory access"):
        go("stray orphan die-at:8")
    assert "the server died during concurrency 2: exit code 1" in said[0], "at once, before all is written down"
    document = stored(tmp_path)
    assert not document["valid"] and document["levels"][0]["errors"]
    assert document["provenance"]["target"]["conformance"]["seed"] == "obeyed"


# As vLLM-Omni 0.20.0 ended at 32 sequences with 512 batched tokens, shortened.
CRASH = """\
(EngineCore_DP0 pid=77) ERROR 11-28 10:11:12 [core.py:910] Traceback (most recent call last):
(EngineCore_DP0 pid=77) ERROR RuntimeError: Missing tts_pad_embed in additional_information; prefill must run first.
(APIServer pid=7) vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above).
""" + "\n".join(f"(APIServer pid=7) INFO: shutting down, step {step}" for step in range(40))


def test_a_known_crash_is_named_by_its_level_its_last_error_and_what_to_try(fake_environment, tmp_path):
    """The second level's first request, after three of the probe, one of warm-up and two that are measured."""
    config = compose([*FAST, "load.concurrency=[1,2]", "load.requests_per_level=2"])
    config.target = fake_environment.target("vllm_omni", "die-at:8")
    config.target.env["FAKE_LAST_WORDS"] = CRASH
    config.client.model = str(fake_environment.model)
    with pytest.raises(TargetError):
        run(config, tmp_path / "run", quiet=True)
    said = (
        "the server died during concurrency 2: exit code 1; its last error: RuntimeError: Missing tts_pad_embed in "
        "additional_information; prefill must run first; try more max_num_batched_tokens in stage 0, so that no prompt "
        "is split over two steps (target.stage_overrides={0:{max_num_batched_tokens:1024}}), or a lower "
        "load.concurrency; the end of its log "
    )
    document = stored(tmp_path)
    assert reasons_said(document)[0].startswith(said)
    assert [level["valid"] for level in document["levels"]] == [True, False]
    assert "Missing tts_pad_embed" in (tmp_path / "run" / "report.md").read_text().replace("\\", "")


def test_an_external_server_that_dies_under_load(fake_environment, tmp_path):
    """It was launched elsewhere: the requests tell, and the run ends as one that may not be trusted."""
    port = free_port("127.0.0.1")
    target = fake_environment.target("vllm_omni", "die-at:8")
    command = [f"{fake_environment.folder}/bin/vllm", "serve", "m", "--host", "127.0.0.1", "--port", str(port)]
    server = subprocess.Popen(command, env={**os.environ, **target.env}, stdout=subprocess.DEVNULL)
    try:
        external = ("target=external", f"target.url=http://127.0.0.1:{port}", "target.startup_timeout_s=60")
        outcome = run(compose([*(one for one in FAST if one != "target=vllm_omni"), *external]), tmp_path / "run")
    finally:
        server.kill()
        server.wait()
    assert outcome.exit_code == 1 and server.returncode == 1, "it had ended before it was killed"
    assert outcome.run["provenance"]["target"]["description"]["stated_version"] == {"version": "0.30.1"}
    (level,) = outcome.run["levels"]
    assert level["failed"] and set(level["errors"]) <= {"connect", "disconnected"}
    assert any("requests failed" in reason for reason in reasons_said(outcome.run))
    assert outcome.run["provenance"]["target"]["server_metrics"]["problem"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": "/no/such/model"}, "client.model, or target.model, is /no/such/model: there is no such folder"),
        ({"gpus": 99}, "needs 99 GPUs"),
    ],
)
def test_what_is_missing_is_told_before_anything_else_is_done(change, message, fake_environment, tmp_path):
    config = compose([*FAST, "dataset=seed_tts", "dataset.root=/nowhere"])
    config.target = fake_environment.target("vllm_omni", **change)
    with pytest.raises(TargetError) as caught:
        run(config, tmp_path / "run", quiet=True)
    assert message in str(caught.value)
    assert fake_environment.pids == [] and not (tmp_path / "run" / "run.json").exists()
