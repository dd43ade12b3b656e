"""The commands that repeat a run."""

from __future__ import annotations

import pytest
import run_factory as runs

from omni_bench.report.reproduce import reproduce_section


def section(asked: list[str], asr: dict | None, judge: bool = True) -> str:
    provenance = runs.make_provenance(judge=judge)
    provenance["command"] = asked and ["omni-bench", "run", *asked]
    provenance["config"] = {} if asr is None else {"asr": asr}
    return reproduce_section(runs.make_run(provenance=provenance))


@pytest.mark.parametrize(
    ("asked", "asr", "judged"),
    [
        (["asr=none"], {"kind": "whisper", "model": "auto", "workers": None, "own_error": True}, ""),
        (["asr=none"], {"kind": "whisper", "model": "my judge.pt"}, " 'asr.model=my judge.pt'"),
        (["asr=none"], {"kind": "faster_whisper", "own_error": False}, " asr.kind=faster_whisper asr.own_error=false"),
        (["asr=whisper", "asr.kind=none"], {"kind": "whisper", "model": "base"}, " asr.model=base"),
        (["asr=none", "asr.wer_limit=0.2"], {"kind": "whisper", "wer_limit": 0.2}, ""),  # the run has it already
        (["asr=none", "asr.wer_limit=0.2"], {"kind": "whisper", "wer_limit": 0.3}, " asr.wer_limit=0.3"),
        (
            ["asr=none", "asr.lead_silence_ms=0"],
            {"kind": "whisper", "lead_silence_ms": 250},
            " asr.lead_silence_ms=250",
        ),
    ],
)
def test_a_run_that_was_judged_later(asked, asr, judged):
    body = section(asked, asr)
    assert body.startswith(f"```sh\nomni-bench run {' '.join(asked)}\nomni-bench judge RUN{judged}\n```")
    assert "judged later; RUN: its folder" in body


@pytest.mark.parametrize(
    ("asked", "asr", "judge"),
    [
        (["asr=none"], {"kind": "none"}, False),
        (["asr=none", "asr.kind=whisper"], {"kind": "whisper"}, True),
        (["asr=none", "asr=whisper"], {"kind": "whisper"}, True),
        (["asr.model=tiny"], {"kind": "whisper", "model": "base"}, True),
        (["asr=none"], None, True),
        ([], {"kind": "whisper"}, True),
    ],
)
def test_any_other_run(asked, asr, judge):
    assert "omni-bench judge" not in section(asked, asr, judge)
