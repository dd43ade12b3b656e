"""Every detector on hand-made answers: it alarms where it must and nowhere else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from omni_bench.accuracy.parity.compare import ParityComparison
from omni_bench.accuracy.wer import score_utterance
from omni_bench.records.invalid_reason import Code, InvalidReason
from omni_bench.selftest.cases import NEEDS_AB, SelftestCase, all_faults
from omni_bench.selftest.detectors import DETECTORS, RunEvidence, alarms_of
from omni_bench.selftest.evidence import StoredAnswer

TEXT = "The moon looked huge above the trees."


@pytest.fixture
def answer(tmp_path):
    def make(name="c4-0000", concurrency=4, samples=b"good", **changes):
        recording = tmp_path / f"{name}-{samples.decode()}.wav"
        recording.write_bytes(samples)
        whole = StoredAnswer(
            request_id=name,
            prompt_id=name[-4:],
            seed=1,
            concurrency=concurrency,
            text=TEXT,
            language="en",
            error=None,
            faults=(),
            recording=recording,
            sample_rate_hz=24000,
            audio_s=2.0,
            ttfp_ms=100.0,
            stall_s=0.0,
        )
        return replace(whole, **changes)

    return make


def hears(text):
    return lambda answer: score_utterance(answer.request_id, answer.text, text, "en")


def names(alarms):
    return sorted((alarm.detector, alarm.concurrency) for alarm in alarms)


def detect(answers, clean=(), heard=TEXT, run=None, differences=(), kind="speed", clean_run=None, expected=()):
    evidence = RunEvidence(run, answers, clean_run, clean, differences, hears(heard), wer_limit=0.15)
    return alarms_of(SelftestCase("some_fault", kind, "what", expected, 1, ()), evidence)


def test_a_sound_answer_that_equals_the_clean_one_raises_nothing(answer):
    assert detect([answer()], [answer()]) == []


def test_errors_and_faults_are_named_with_the_request(answer):
    broken = answer("c4-0001", error=("timeout", "not finished after 8 s"), recording=None)
    (error,) = detect([broken])
    assert (error.detector, error.concurrency) == ("timeout", 4)
    assert "c4-0001" in error.detail and "8 s" in error.detail
    assert names(detect([answer(faults=("clicks", "noise"))])) == [("clicks", 4), ("noise", 4)]


def test_many_alarms_of_a_kind_become_one_with_their_number(answer):
    (alarm,) = detect([answer(f"c4-000{i}", faults=("clicks",)) for i in range(3)])
    assert "and 2 more" in alarm.detail


def test_wrong_words_are_shown(answer):
    (alarm,) = detect([answer()], heard="Something quite different was said here today.")
    assert alarm.detector == "wer"
    assert "moon" in alarm.detail and "different" in alarm.detail


def test_a_failed_answer_is_not_counted_as_wrong_words(answer):
    assert names(detect([answer(error=("cut", "x"), recording=None)], heard="nothing of it")) == [("cut", 4)]


def comparison(concurrency=4, equal=False, **place):
    return ParityComparison("c4-0000", "c4-0000", "0000", 1, concurrency, False, "codes", equal, **place)


def test_another_answer_than_the_clean_servers_is_a_parity_finding(answer):
    differences = [comparison(first_frame=7, first_codebook=3), comparison(equal=True), comparison(1, equal=None)]
    (alarm,) = detect([answer(), answer("solo", concurrency=1)], [answer()], differences=differences)
    assert (alarm.detector, alarm.concurrency) == ("parity", 4)
    assert "1 of 2" in alarm.detail and "c4-0000 from frame 7, codebook 3 on" in alarm.detail
    (by_samples,) = detect([answer()], differences=[comparison(at_s=0.5)])
    assert "from 0.50 s on" in by_samples.detail


def test_longer_audio(answer):
    assert ("length", 4) in names(detect([answer(audio_s=2.16)], [answer()]))
    assert detect([answer(audio_s=2.02)], [answer()]) == []


def test_first_audio_must_be_late_for_every_request(answer):
    late = [answer("c4-0000", ttfp_ms=300.0), answer("c4-0001", ttfp_ms=260.0)]
    clean = [answer("c4-0000"), answer("c4-0001")]
    assert names(detect(late, clean)) == [("ttfp", 4)]
    assert detect([late[0], clean[1]], clean) == []
    assert detect(late, clean, kind="model") == []


def test_stalls_of_half_of_the_requests(answer):
    clean = [answer("c4-0000"), answer("c4-0001"), answer("c4-0002", stall_s=None)]
    stalled = [replace(one, stall_s=0.4) for one in clean]
    assert names(detect(stalled, clean)) == [("stalls", 4)]
    assert detect([stalled[0], *clean[1:]], clean) == []


def run_json(audio_per_s, reasons=()):
    metrics = {"audio_per_s": {"mean": audio_per_s}}
    return {
        "levels": [
            {"concurrency": 4, "metrics": metrics, "invalid_reasons": [one.to_json() for one in reasons], "valid": True}
        ]
    }


def test_what_the_run_says_of_its_own_cross_talk_and_parity(answer):
    reasons = [InvalidReason(code, code.blame, "x") for code in (Code.CROSS_TALK, Code.PARITY_WORDS, Code.WER)]
    found = detect([answer()], run=run_json(1.0, reasons))
    assert names(found) == [("cross_talk", 4), ("parity", 4)]


def test_slower_than_the_clean_run():
    def slower(now, then=6.0, expected=("audio_per_s",)):
        return detect([], run=now and run_json(*now), clean_run=run_json(then), expected=expected)

    assert names(slower([3.0])) == [("audio_per_s", 4)]
    assert slower([5.0]) == slower([None]) == slower(None) == slower([3.0], None) == []
    assert slower([3.0], expected=("stalls",)) == [], "other faults may be slow too"


def test_every_fault_names_detectors_that_there_are():
    names = {NEEDS_AB, *(name for detector in DETECTORS for name in detector.names)}
    for case in all_faults():
        assert case.expected and set(case.expected) <= names, case.name
