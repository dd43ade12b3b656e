"""One judge, every distinct recording once."""

from __future__ import annotations

import numpy as np
import pytest

from omni_bench.accuracy.asr.clips import AsrClip, Transcript
from omni_bench.accuracy.asr.weights.resolve import JudgeSpec
from omni_bench.errors import AccuracyError
from omni_bench.records.config import AsrConfig
from omni_bench.selftest import judging


@pytest.fixture
def ear(monkeypatch):
    asked = []

    def transcribe(clips, asr, language, on_progress=None, *, spec=None):
        asked.append([clip.request_id for clip in clips])
        assert len(set(asked[-1])) == len(asked[-1])
        return [Transcript(clip.request_id, f"heard {np.asarray(clip.pcm16).sum()}", -0.1, 0.0) for clip in clips]

    monkeypatch.setattr(judging, "transcribe", transcribe)
    made = judging.Ear(AsrConfig(kind="whisper"), object.__new__(JudgeSpec), "en")
    made.asked = asked
    return made


def clip(name, value):
    return AsrClip(name, np.full(10, value, dtype=np.int16), 24000)


def test_equal_recordings_are_heard_once_and_keep_their_own_ids(ear):
    found = ear([clip("a", 1), clip("b", 2), clip("c", 1)], None, "en")
    assert [one.request_id for one in found] == ["a", "b", "c"]
    assert [one.text for one in found] == ["heard 10", "heard 20", "heard 10"]
    assert len(ear.asked[0]) == 2


def test_what_is_known_is_not_asked_again(ear):
    ear([clip("a", 1)], None, "en")
    told = []
    ear([clip("z", 1), clip("y", 1)], None, "en", lambda *counts: told.append(counts))
    assert len(ear.asked) == 1 and told[-1] == (2, 2), "a bar that stays at 0/2 looks like one that failed"


def test_references_are_heard_with_the_recordings_and_are_none_of_them(ear, tmp_path):
    for name in "ab":
        (tmp_path / name).write_text("same")
    references = [clip("r", 1), clip("s", 2)]
    assert ear.learn([(tmp_path / name, 24000) for name in "ab"], references) == 1
    assert ear.asked == [["0", "1", "2"]]
    ear(references, None, "en")
    assert len(ear.asked) == 1


def test_the_rate_belongs_to_the_recording(ear):
    ear([clip("a", 1), AsrClip("a", np.full(10, 1, dtype=np.int16), 16000)], None, "en")
    assert len(ear.asked[0]) == 2


def test_a_missing_file_is_named(ear, tmp_path):
    with pytest.raises(AccuracyError, match=r"gone\.wav"):
        ear([AsrClip("a", tmp_path / "gone.wav", 24000)], None, "en")
