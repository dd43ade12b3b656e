"""One judging process: its messages, and how it ends."""

import json
import subprocess
from dataclasses import asdict
from pathlib import Path

import pytest

from omni_bench.accuracy.asr import pool
from omni_bench.accuracy.asr.clips import AsrClip
from omni_bench.accuracy.asr.settings import JudgeSettings
from omni_bench.accuracy.asr.weights.packages import find_installed_weights
from omni_bench.accuracy.asr.weights.resolve import JudgeSpec, resolve_judge
from omni_bench.accuracy.asr.worker import clip_from_json, clip_to_json, spec_from_json, spec_to_json
from omni_bench.subprocesses import start

SPEC = JudgeSpec("tiny.en", "path", "a", (Path("/a.pt"), Path("/b é.pt")), "0" * 64, "cpu", 15.0)
SETTINGS = asdict(JudgeSettings(batch_size=4, lead_silence_ms=250, tail_silence_ms=200))


def test_messages_survive_json():
    assert spec_from_json(json.loads(json.dumps(spec_to_json(SPEC)))) == SPEC
    clip = AsrClip("r1", Path("/a b.pcm"), 24000, None)
    assert clip_from_json(json.loads(json.dumps(clip_to_json(clip)))) == clip


@pytest.fixture
def worker():
    process = start(pool.WORKER_COMMAND, stderr=subprocess.PIPE)
    with process:
        yield process
        process.kill()


def test_a_worker_ends_when_its_parent_closes_the_pipe(worker):
    worker.stdin.close()
    assert worker.wait(60) == 0


@pytest.fixture
def decoys(tmp_path, monkeypatch):
    """A current folder with files that bear the names of packages; children start in it."""
    for name in ("whisper", "torch", "numpy"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('a file of the current folder was imported')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)


def test_a_judge_that_cannot_be_loaded_is_reported_in_one_line(decoys, worker, tmp_path):
    path = tmp_path / "a.pt"
    path.write_bytes(b"not the file that was promised")
    spec = JudgeSpec("a", "path", str(path), (path,), "0" * 64, "cpu", 30.0)
    setup = {"spec": spec_to_json(spec), "settings": SETTINGS}
    worker.stdin.write(json.dumps(setup).encode() + b"\n")
    worker.stdin.flush()
    reply = json.loads(worker.stdout.readline())
    assert "has SHA-256" in reply["error"]
    assert worker.wait(60) == 3
    assert worker.stdout.read() == b""


def test_a_worker_ends_in_the_middle_of_a_batch_too(worker, tmp_path):
    if find_installed_weights("tiny.en") is None:
        pytest.skip("no package with tiny.en is installed")
    path = tmp_path / "long.pcm"
    path.write_bytes(bytes(2 * 16000 * 1700))  # half an hour: minutes of work
    setup = {"spec": spec_to_json(resolve_judge("tiny.en", "cpu")), "settings": SETTINGS}
    batch = {"batch": 0, "language": "en", "clips": [clip_to_json(AsrClip("long", path, 16000))]}
    for message in (setup, batch):
        worker.stdin.write(json.dumps(message).encode() + b"\n")
    worker.stdin.flush()
    assert json.loads(worker.stdout.readline()) == {"ready": True}
    worker.stdin.close()
    assert worker.wait(60) == 0
    assert worker.stdout.read() == b""
