"""Judging processes side by side: order, failures, and nothing left running."""

import os
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
import soundfile

from omni_bench.accuracy.asr import pool
from omni_bench.accuracy.asr.clips import AsrClip
from omni_bench.accuracy.asr.weights.packages import find_installed_weights
from omni_bench.accuracy.asr.weights.resolve import JudgeSpec
from omni_bench.datasets.bundled import read_bundled
from omni_bench.errors import AccuracyError
from omni_bench.records.config import AsrConfig

SPEC = JudgeSpec("tiny.en", "path", "none", (Path("none.pt"),), "0" * 64, "cpu", 15.0)

# Answers as the real worker does: the text is the size of the clip's file.
FAKE_WORKER = """
import json, os, sys, time
setup = json.loads(sys.stdin.readline())
print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    request = json.loads(line)
    %s
    transcripts = [
        {"request_id": clip["request_id"], "text": str(os.path.getsize(clip["pcm16"])),
         "avg_logprob": -0.5, "no_speech_prob": None}
        for clip in request["clips"]
    ]
    print(json.dumps({"batch": request["batch"], "transcripts": transcripts}), flush=True)
"""


@pytest.fixture
def fake_worker(monkeypatch):
    def install(extra_line: str = "pass") -> None:
        monkeypatch.setattr(pool, "WORKER_COMMAND", (sys.executable, "-c", FAKE_WORKER % extra_line))

    return install


def config(**values) -> AsrConfig:
    return AsrConfig(kind="whisper", **{"batch_size": 2, "workers": 2, **values})


def make_clips(count: int) -> list[AsrClip]:
    return [AsrClip(f"r{index}", np.ones(2400 * (1 + index * 7 % count), np.int16), 24000) for index in range(count)]


def transcribe(clips, on_progress=None, **values):
    return pool.transcribe(clips, config(**values), "en", on_progress, spec=SPEC)


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_transcripts_come_in_the_order_of_the_clips(fake_worker, workers):
    fake_worker()
    clips = make_clips(9)
    progress = []
    transcripts = transcribe(clips, lambda done, total: progress.append((done, total)), workers=workers)
    assert [transcript.request_id for transcript in transcripts] == [clip.request_id for clip in clips]
    assert [transcript.text for transcript in transcripts] == [str(clip.pcm16.nbytes) for clip in clips]
    assert progress == [(done, 9) for done in range(1, 10)]


def test_a_file_is_passed_by_its_path_and_equal_ids_are_kept_apart(fake_worker, tmp_path, monkeypatch):
    fake_worker()
    (tmp_path / "a.pcm").write_bytes(bytes(100))
    (tmp_path / "b.pcm").write_bytes(bytes(200))
    monkeypatch.chdir(tmp_path)
    transcripts = transcribe([AsrClip("same", Path("a.pcm"), 24000), AsrClip("same", Path("b.pcm"), 24000)])
    assert [transcript.text for transcript in transcripts] == ["100", "200"]


def test_empty_clips_start_no_process(monkeypatch):
    monkeypatch.setattr(pool, "WORKER_COMMAND", ("/does/not/exist",))
    progress = []
    clips = [AsrClip("a", np.zeros(0, np.int16), 24000), AsrClip("b", np.zeros(0, np.int16), 24000)]
    transcripts = transcribe(clips, lambda done, total: progress.append(done))
    assert [(transcript.text, transcript.avg_logprob) for transcript in transcripts] == [("", None)] * 2
    assert progress == [1, 2]
    assert transcribe([]) == []


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("sys.stderr.write('out of luck\\n'); sys.exit(7)", r"died \(exit code 7\)[\s\S]*out of luck"),
        ("os.kill(os.getpid(), 9)", r"died \(exit code -9\)[\s\S]*nothing"),
        ("print(json.dumps({'error': 'clip r1: cannot read it'}), flush=True)", "clip r1: cannot read it"),
        ("print('progress: 3 percent', flush=True)", "something else than JSON: b'progress"),
        ("sys.stdout.write('{'); sys.stdout.flush(); os._exit(1)", r"died \(exit code 1\)"),
    ],
)
def test_a_worker_that_fails_is_an_accuracy_error_and_none_is_left(fake_worker, line, message):
    fake_worker(line)
    with pytest.raises(AccuracyError, match=message):
        transcribe(make_clips(6))
    assert workers_left() == []


def test_a_worker_that_says_nothing_is_given_up(fake_worker, monkeypatch):
    fake_worker("time.sleep(600)")
    monkeypatch.setattr(pool, "REPLY_TIMEOUT_S", 2.0)
    with pytest.raises(AccuracyError, match="has not answered for 2 s"):
        transcribe(make_clips(4))
    assert workers_left() == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_an_interrupted_call_leaves_no_process_and_no_file(fake_worker, monkeypatch, tmp_path, error):
    fake_worker()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def interrupt(done, total):
        assert list(tmp_path.rglob("*.pcm"))
        raise error

    with pytest.raises(error):
        transcribe(make_clips(6), interrupt)
    assert workers_left() == []
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_cannot_be_started_is_an_accuracy_error(monkeypatch):
    monkeypatch.setattr(pool, "WORKER_COMMAND", ("/does/not/exist",))
    with pytest.raises(AccuracyError, match="cannot start a judging process"):
        transcribe(make_clips(2))


def test_a_bad_clip_is_known_before_any_process_starts(monkeypatch):
    monkeypatch.setattr(pool, "WORKER_COMMAND", ("/does/not/exist",))
    with pytest.raises(AccuracyError, match="clip bad: cannot read"):
        transcribe([*make_clips(2), AsrClip("bad", Path("/nowhere.pcm"), 24000)])


def workers_left() -> list[psutil.Process]:
    """Children of this process that run a worker (zombies would show too)."""
    deadline = time.monotonic() + 5
    while True:
        left = [child for child in psutil.Process(os.getpid()).children() if "-c" in child.cmdline()]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.05)


def plan(durations_s, batch_size=4, languages=None):
    languages = languages or ["en"] * len(durations_s)
    batches = pool.plan_batches(
        dict(enumerate(durations_s)),
        dict(enumerate(languages)),
        batch_size=batch_size,
        short_s=8.55,
        window_s=29.55,
    )
    assert sorted(index for batch in batches for index in batch.indices) == list(range(len(durations_s)))
    return [batch.indices for batch in batches]


def test_clips_are_batched_with_their_like_the_costliest_first():
    assert plan([1.0, 40.0, 2.0, 9.0, 100.0, 3.0, 20.0]) == [(4,), (1,), (6,), (3,), (5,), (2, 0)]


def test_batches_are_even_in_number_and_size():
    assert [len(indices) for indices in plan([1.0] * 9, batch_size=4)] == [2, 2, 2, 3]
    assert [len(indices) for indices in plan([1.0] * 32, batch_size=16)] == [16, 16]
    assert [len(indices) for indices in plan([1.0] * 5, batch_size=16)] == [2, 3]
    assert plan([1.0]) == [(0,)]
    assert plan([]) == []


def test_languages_are_not_mixed():
    assert plan([1.0, 2.0, 3.0, 4.0], languages=["en", "zh", "en", "zh"]) == [(2,), (0,), (3,), (1,)]


@pytest.mark.slow
def test_two_real_workers_agree_with_one():
    if find_installed_weights("tiny.en") is None:
        pytest.skip("no package with tiny.en is installed")
    # speech: a judge that hears noise tries again and again
    source = read_bundled("seed_tts_mini", "en")
    files = [source.take(index).ref_audio for index in range(4)]
    clips = [AsrClip(f"r{index}", file, soundfile.info(file).samplerate) for index, file in enumerate(files)]
    heard = [pool.transcribe(clips, config(model="tiny.en", device="cpu", workers=workers), "en") for workers in (1, 2)]
    assert heard[0] == heard[1]
    assert [transcript.request_id for transcript in heard[0]] == ["r0", "r1", "r2", "r3"]
    assert all(transcript.text and transcript.avg_logprob < 0 for transcript in heard[0])
