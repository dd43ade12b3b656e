"""The folder of a run: made once, read back exactly, and never written half."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import run_factory as runs
import soundfile

from omni_bench.accuracy.wer import score_utterance
from omni_bench.errors import StoreError
from omni_bench.foreign_text import safe_name
from omni_bench.records.run_folder import RunFolder


@pytest.fixture
def folder(tmp_path):
    with RunFolder.create(tmp_path / "runs/smoke/1") as folder:
        yield folder


def test_create_accepts_a_folder_that_hydra_made_but_not_a_run(tmp_path, folder):
    (tmp_path / "made/.hydra").mkdir(parents=True)
    RunFolder.create(tmp_path / "made")
    folder.append_request({"request_id": "a"})
    with pytest.raises(StoreError, match=r"already holds a run \(requests\.jsonl\)"):
        RunFolder.create(folder.path)


def test_open_finds_a_run_by_folder_or_by_its_run_json(folder, tmp_path):
    with pytest.raises(StoreError, match="is not a run folder"):
        RunFolder.open(folder.path)
    folder.write_run(runs.make_run((1,)))
    assert RunFolder.open(folder.path).path == RunFolder.open(folder.run_json).path == folder.path
    with pytest.raises(StoreError, match="is not a run folder"):
        RunFolder.open(tmp_path / "nowhere")
    with pytest.raises(StoreError, match=f"it holds runs, so name one of them, such as {folder.path}$"):
        RunFolder.open(folder.path.parent)


def test_requests_survive_a_kill_and_can_be_appended_later(folder):
    folder.append_request({"request_id": "a"})
    folder.append_request({"request_id": "b"})
    with folder.requests_jsonl.open("ab") as file:
        file.write(b'{"request_id": "c", "te')
    killed = RunFolder.open(folder.path)
    assert [record["request_id"] for record in killed.read_requests()] == ["a", "b"]
    killed.append_request({"request_id": "d"})
    assert [record["request_id"] for record in killed.read_requests()] == ["a", "b", "d"]
    killed.close()
    killed.close()


def test_run_json_round_trip_keeps_null(folder):
    run = runs.make_run((1, 4))
    folder.write_run(run)
    assert folder.read_run() == json.loads(json.dumps(run))
    assert '"p99": null' in folder.run_json.read_text(encoding="utf-8")
    assert [path.name for path in folder.path.iterdir()] == ["run.json"]


def test_run_json_that_does_not_fit_is_not_written(folder):
    run = runs.make_run((1,))
    del run["levels"][0]["valid"]
    with pytest.raises(StoreError, match=r"\$\.levels\[0\]: 'valid' is a required property"):
        folder.write_run(run)
    run = runs.make_run((1,))
    run["duration_s"] = float("nan")
    with pytest.raises(StoreError, match="JSON"):
        folder.write_run(run)
    assert not folder.run_json.exists()


def test_reading_a_run_of_another_major_version(folder):
    folder.run_json.write_text(json.dumps({**runs.make_run((1,)), "schema_version": "3.0"}))
    with pytest.raises(StoreError, match=r"schema_version '3\.0'; this omni-bench reads 1\.x and 2\.x"):
        folder.read_run()


@pytest.mark.parametrize(
    ("text", "words"), [("{", "is not JSON"), ("[]", "not a JSON object"), ("{}", "schema_version None")]
)
def test_reading_a_broken_run(folder, text, words):
    folder.run_json.write_text(text)
    with pytest.raises(StoreError, match=words):
        folder.read_run()


def test_reading_an_unfinished_run(folder):
    folder.append_request({"request_id": "a"})
    with pytest.raises(StoreError, match=r"no run\.json: the run did not finish.* holds 1 finished requests"):
        RunFolder.open(folder.path).read_run()


def test_audio_from_bytes_and_from_a_spooled_file(folder, tmp_path):
    samples = np.arange(-500, 500, dtype="<i2")
    spooled = tmp_path / "x.pcm"
    spooled.write_bytes(samples.tobytes() + b"\x01")
    names = [folder.save_audio("c1-0001", samples.tobytes(), 24000), folder.save_audio("c1-0002", spooled, 16000)]
    assert names == ["audio/c1-0001.wav", "audio/c1-0002.wav"]
    for name, rate_hz in zip(names, (24000, 16000), strict=True):
        read, rate = soundfile.read(folder.path / name, dtype="int16")
        assert rate == rate_hz and np.array_equal(read, samples)


def test_audio_names_cannot_leave_the_folder_or_collide(folder):
    hostile = ["../../x", "a/b", "a_b", "a:b", "", ".", "..", ".hidden", "ü", "x" * 500, "nul\0", "\udc80"]
    paths = [folder.save_audio(name, b"\0\0", 24000) for name in hostile]
    assert len(set(paths)) == len(hostile)
    for path in paths:
        assert (folder.path / path).resolve().parent == (folder.path / "audio").resolve()
        assert (folder.path / path).is_file()
    assert safe_name("c16-0001") == "c16-0001"


def test_missing_spool_file_and_bad_rate(folder, tmp_path):
    with pytest.raises(StoreError, match="cannot read"):
        folder.save_audio("x", tmp_path / "gone.pcm", 24000)
    with pytest.raises(StoreError, match="-5 Hz"):
        folder.save_audio("x", b"\0\0", -5)
    assert not (folder.path / "audio").exists()


def test_utterances_round_trip_and_absence(folder):
    assert folder.read_utterances() == []
    scores = [score_utterance("a", "...", "x", "en"), score_utterance("b", "two words", "two", "en")]
    folder.write_utterances(map(asdict, scores))
    assert folder.read_utterances() == list(map(asdict, scores))
    folder.write_utterances([asdict(scores[0]), {"request_id": "b", "wer": 0.5}])
    with pytest.raises(StoreError, match=r"utterances\.jsonl, line 2: missing required field reference"):
        folder.read_utterances()


HIT = {"victim": "a", "source": "b", "kind": "target", "relation": "in flight", "also": [], "position": "whole"}
HIT |= {"heard": "x", "words": "x", "score": 9.0, "concurrency": 2}
PAIR = {"request_id": "a", "solo_id": "solo-a", "prompt_id": "p", "concurrency": 2, "repeat": False, "equal": True}
PAIR |= {"at_s": None, "neighbours": [], "heard": None, "heard_alone": None, "wer_between": None, "worse": None}


@pytest.mark.parametrize(("file", "whole"), [("cross_talk.jsonl", HIT), ("parity.jsonl", PAIR)])
def test_lines_that_a_report_cannot_read_are_refused(folder, file, whole):
    path = folder.path / file
    folder.write_lines(path, [whole])
    assert folder.read_lines(path) == [whole]
    for name in whole.keys() - {"concurrency", "prompt_id"}:
        folder.write_lines(path, [whole, {key: value for key, value in whole.items() if key != name}])
        with pytest.raises(StoreError, match=rf"{file}, line 2: missing required field {name}; remove it"):
            folder.read_lines(path)
        folder.write_lines(path, [whole | {name: {"of": "another type"}}])
        with pytest.raises(StoreError, match=rf"{file}, line 1: {name} is"):
            folder.read_lines(path)


@pytest.mark.parametrize("file", ["requests.jsonl", "warmup.jsonl", "solo.jsonl"])
def test_a_request_without_its_id_is_refused(folder, file):
    folder.write_lines(folder.path / file, [{"prompt_id": "p"}])
    with pytest.raises(StoreError, match=f"{file}, line 1: missing required field request_id"):
        folder.read_lines(folder.path / file)


def test_a_recording_that_can_be_no_path_is_refused(folder):
    (folder.path / "loop").symlink_to("loop")
    for relative in ("a\0b", "loop/a.wav", "../../elsewhere.wav"):
        with pytest.raises(StoreError, match="its recording"):
            folder.recording(relative)


def test_a_folder_without_permission_is_one_clear_message(tmp_path, monkeypatch):
    def denied(*_, **__):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "mkdir", denied)  # a real one would not stop root
    with pytest.raises(StoreError, match="permission denied; check the permissions"):
        RunFolder.create(tmp_path / "run")


def test_a_file_in_the_way_is_one_clear_message(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="cannot create"):
        RunFolder.create(tmp_path / "file/run")


def test_a_folder_is_claimed_by_one_run_at_a_time(tmp_path):
    with RunFolder.create(tmp_path / "run"), pytest.raises(StoreError, match=r"already holds a run .*going on now"):
        RunFolder.create(tmp_path / "run")
    with RunFolder.create(tmp_path / "run") as folder:
        assert list(folder.path.iterdir()) == []


def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(folder):
    os.mkfifo(folder.requests_jsonl)
    with pytest.raises(StoreError, match=r"requests\.jsonl is a device or a pipe, and must be a file"):
        folder.read_requests()


def test_audio_as_received_is_of_the_attempts_alone(folder):
    for name in ("1", "2", "10", "3x", "x"):
        (folder.spool / name).mkdir(parents=True)
    assert [path.name for path in folder.attempts()] == ["1", "2", "10"]
    for path in (folder.spool / "2/a.pcm", folder.spool / "x/b.pcm"):
        path.write_bytes(b"1234")
    assert folder.spooled("a", 4) == folder.spool / "2/a.pcm" and folder.spooled("a", 5) is None
    assert folder.spooled("../x/b", 4) is None and folder.spooled(str(folder.spool / "x/b"), 4) is None


def test_a_recording_that_is_a_link_to_itself(folder):
    (folder.path / "loop.wav").symlink_to("loop.wav")
    with pytest.raises(StoreError, match=r"its recording 'loop\.wav' is a link to itself"):
        folder.recording("loop.wav")
