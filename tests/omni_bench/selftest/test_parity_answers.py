"""Answers of a run on disk."""

from __future__ import annotations

import json

import numpy as np
import pytest
from answers import make_timeline

from omni_bench.accuracy.parity.codes import codes_record
from omni_bench.errors import StoreError
from omni_bench.records.run_folder import RunFolder
from omni_bench.records.timeline_json import timeline_to_dict
from omni_bench.selftest.evidence import read_parity_answers


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "run"
    folder = RunFolder.create(path)
    wav = folder.save_audio("c2-0000", np.arange(100, dtype="<i2").tobytes(), 24000)
    for name, audio in (("c2-0000", wav), ("c2-0001", "audio/gone.wav"), ("c2-0002", None)):
        folder.append_request({**timeline_to_dict(make_timeline(name)), "audio": audio})
    folder.append_solo({**timeline_to_dict(make_timeline("solo-c2-0000")), "audio": None})
    folder.close()
    folder.write_lines(folder.codes_jsonl, [codes_record("c2-0002", np.ones((3, 16), np.int32))])
    return folder


def test_what_was_kept_is_read(folder):
    first, second, third = read_parity_answers(folder)
    assert first.audio == folder.path.resolve() / "audio/c2-0000.wav" and first.codes is None
    assert second.audio is None and third.audio is None
    assert third.codes.shape == (3, 16) and third.timeline.request_id == "c2-0002"
    (solo,) = read_parity_answers(folder, alone=True)
    assert solo.request_id == "solo-c2-0000"


def test_a_run_without_any_has_none(tmp_path):
    assert read_parity_answers(RunFolder(tmp_path)) == []


@pytest.mark.parametrize(
    ("name", "line", "message"),
    [
        ("requests.jsonl", {"request_id": "x"}, r"requests\.jsonl, line 4: .*missing required field"),
        ("codes.jsonl", {"frames": 0}, r"codes\.jsonl, line 2: request_id is None"),
        ("codes.jsonl", {"request_id": "x", "frames": 1}, r"codes\.jsonl, line 2: .*codebooks is None"),
    ],
)
def test_a_line_of_another_form_is_named(folder, name, line, message):
    with (folder.path / name).open("a") as file:
        file.write(json.dumps(line) + "\n")
    with pytest.raises(StoreError, match=message):
        read_parity_answers(folder)


@pytest.mark.parametrize("audio", ["../../etc/secret.wav", 7])
def test_a_recording_outside_the_folder_is_refused(folder, audio):
    folder.append_request({**timeline_to_dict(make_timeline("c2-0003")), "audio": audio})
    with pytest.raises(StoreError, match=r"requests\.jsonl, line 4: "):
        read_parity_answers(folder)
