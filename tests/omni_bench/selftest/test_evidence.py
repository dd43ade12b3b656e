"""What is read back from a run folder."""

from __future__ import annotations

import json

import pytest

from omni_bench.errors import StoreError
from omni_bench.selftest.evidence import ALONE, read_evidence


def line(name, **changes):
    record = {
        "request_id": name,
        "prompt_id": "p1",
        "seed": 3,
        "concurrency": 4,
        "text": "Hello.",
        "language": "en",
        "error": None,
        "faults": ["clicks"],
        "audio": f"audio/{name}.wav",
        "sample_rate_hz": 24000,
        "metrics": {"audio_s": 1.5, "ttfp_ms": 80.0, "stall_s": None},
    }
    return json.dumps({**record, **changes}) + "\n"


def test_answers_of_the_levels_and_those_spoken_alone(tmp_path):
    failed = line("c4-0001", error={"kind": "timeout", "message": "late"}, audio=None, metrics=None, faults=[])
    (tmp_path / "requests.jsonl").write_text(line("c4-0000") + failed)
    (tmp_path / "solo.jsonl").write_text(line("solo-c4-0000"))
    (tmp_path / "audio").mkdir()
    (tmp_path / "audio/c4-0000.wav").write_bytes(b"RIFF")
    run, (first, second, alone) = read_evidence(tmp_path)
    assert run is None
    assert (first.concurrency, first.key, first.faults, first.sound) == (4, ("p1", 3), ("clicks",), True)
    assert first.recording == tmp_path / "audio/c4-0000.wav"
    assert (second.error, second.sound, second.audio_s) == (("timeout", "late"), False, None)
    assert (alone.concurrency, alone.key) == (ALONE, first.key)
    assert not alone.sound  # its recording is gone


@pytest.mark.parametrize(
    "changes",
    [
        {"audio": "../../elsewhere.wav"},
        {"audio": 7},
        {"error": "late"},
        {"metrics": [1]},
        {"concurrency": None},
        {"concurrency": "many"},
        {"faults": 3},
    ],
)
def test_a_line_of_another_form_is_named(tmp_path, changes):
    (tmp_path / "requests.jsonl").write_text(line("c4-0000") + line("c4-0001", **changes))
    with pytest.raises(StoreError, match=r"requests\.jsonl, line 2: "):
        read_evidence(tmp_path)


def test_a_folder_without_a_run_is_an_error(tmp_path):
    with pytest.raises(StoreError, match="not a run folder"):
        read_evidence(tmp_path)
