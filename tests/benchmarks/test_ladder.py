"""The ladder's table and its comparison of codes (the ladder itself needs a GPU)."""

from __future__ import annotations

import numpy as np

from benchmarks.ladder import __main__ as ladder
from benchmarks.ladder import codes as ladder_codes

ROW = {
    "model": "m", "rung": "full_step", "codes": "equal", "concurrency": 8, "rounds": 2, "frames_each": 99.0,
    "ms_per_frame": 3.25, "runs_ms": [3.25], "rtf": 0.0406, "audio_per_s": 197.0, "ttfp_p50_ms": 21.0, "step_ms": 3.1,
    "floor_share": 0.58, "stall_s": 0.0, "peak_gb": 6.6,
}  # fmt: skip


def test_a_row_says_how_long_its_utterances_were_and_its_range():
    cells = dict(zip(ladder.HEADERS, ladder.cells(ROW), strict=True))
    assert cells["frames"] == "2 x 99" and cells["ms a frame"] == "3.25" and cells["share of the floor"] == "58%"
    spread = dict(zip(ladder.HEADERS, ladder.cells({**ROW, "runs_ms": [3.25, 3.1, 3.4]}), strict=True))
    assert spread["ms a frame"] == "3.25 (3.10-3.40)"


def test_a_rung_that_cannot_run_has_a_row_as_well():
    rows = [ROW, {"model": "m", "rung": "compile", "error": "ConfigError: needs CUDA"}]
    document = {"rows": rows, "device": "a card", "torch": "2.11", "command": "python ladder.py --x 'a b'"}
    text = ladder.render(document)
    assert "ConfigError: needs CUDA" in text and "not checked" in text
    assert "python ladder.py --x 'a b'" in text and "TB/s" not in text
    limits = {"bytes_per_s": 3.01e12, "flop_per_s": 7.89e14}
    assert "3.01 TB/s" in ladder.render({**document, "limits": limits})


def test_the_first_difference_is_named():
    want = [np.zeros((4, 16), dtype=np.int16), np.ones((3, 16), dtype=np.int16)]
    assert ladder_codes.difference(want, [codes.copy() for codes in want]) is None
    other = [codes.copy() for codes in want]
    other[1][2, 5] = 9
    assert ladder_codes.difference(want, other) == "request 1 differs from frame 2 on"
    assert ladder_codes.difference(want, [want[0], want[1][:2]]) == "request 1 has 2 frames instead of 3"


def test_a_rung_that_speaks_other_codes_is_not_equal(monkeypatch):
    right, wrong = [np.zeros((2, 16), dtype=np.int16)], [np.ones((2, 16), dtype=np.int16)]
    monkeypatch.setattr(ladder_codes, "_eager", {"cpu": right})
    monkeypatch.setattr(ladder_codes, "spoken_codes", lambda settings: (right, wrong))
    assert ladder_codes.check_codes({}, "cpu") == "alone: equal; in company: request 0 differs from frame 0 on"
    monkeypatch.setattr(ladder_codes, "spoken_codes", lambda settings: (right, right))
    assert ladder_codes.check_codes({}, "cpu") == "equal"
