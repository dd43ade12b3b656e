"""A profile in a report, and two side by side."""

from __future__ import annotations

from dataclasses import replace

from omni_bench.records.profile import RunProfile, Stage, Trace
from omni_bench.report.profile import NO_CLAIM, before_after_section, profile_section

STAGES = (Stage("talker", 4, 20.0), Stage("Code2Wav", 2, 8.0, 4.0, 20, 2, 2))
TRACE = Trace("profile/trace.json.gz", 40.0, 4, 10.0, STAGES)
PROFILE = RunProfile(2, 2, 5.0, (TRACE,))


def cells(text):
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]


def test_figures_are_for_a_frame_and_make_no_claim():
    text = profile_section(PROFILE)
    assert "2 requests after the levels, 2 at a time." in text and NO_CLAIM in text
    assert cells(text)[2:] == [
        ["talker", "1.00", "5.00", "50.00 %", "n/a", "n/a", "n/a", "n/a"],
        ["Code2Wav", "0.500", "2.00", "20.00 %", "1.00", "5.00", "0.500", "0.500"],
    ]
    assert (
        "a frame (a decode step of all requests in flight): 10.0 ms of wall, of which the GPU stood idle 2.50" in text
    )
    busy = profile_section(replace(PROFILE, traces=(replace(TRACE, device_idle_ms=0.0),)))
    assert "of which the GPU stood idle 0." in busy
    assert "idle" not in profile_section(replace(PROFILE, traces=(replace(TRACE, device_idle_ms=None),)))
    assert "[profile/trace.json.gz](profile/trace.json.gz) opens in Perfetto" in text
    assert profile_section(None) is None


def test_a_server_that_marks_no_steps_is_counted_by_its_audio():
    text = profile_section(replace(PROFILE, traces=(replace(TRACE, steps=None),)))
    assert "All figures a second of audio: 8.00 ms of wall" in text and cells(text)[2][2] == "4.00"


def test_what_went_wrong_is_told():
    text = profile_section(RunProfile(2, 0, 0.0, problem="POST /start_profile answers 404 <b>"))
    assert "Not whole: POST /start\\_profile answers 404 &lt;b&gt;." in text and "|" not in text


def test_before_and_after():
    faster = replace(TRACE, steps=8, stages=(Stage("talker", 8, 10.0), Stage("new", 8, 8.0)))
    text = before_after_section(PROFILE, replace(PROFILE, traces=(faster,)))
    assert cells(text)[2:] == [
        ["talker", "5.00 → 1.25", "-75.0 %", "n/a", "n/a"],
        ["Code2Wav", "2.00 → n/a", "n/a", "1.00 → n/a", "5.00 → n/a"],
        ["new", "n/a → 1.00", "n/a", "n/a", "n/a"],
    ]
    assert NO_CLAIM in text
    assert before_after_section(PROFILE, None) is None
    assert before_after_section(PROFILE, RunProfile(2, 0, 0.0, problem="none")) is None
