"""The clips and figures of benchmarks/audio_checks are those of held-out speech, and are made once."""

import numpy as np

from benchmarks.audio_checks import measure, voices
from benchmarks.audio_checks.__main__ import _rate, reference_recordings
from benchmarks.audio_checks.corruptions import Speech
from benchmarks.audio_checks.voices import CHOSEN_ON, VOICES, bundled_texts, held_out_texts

VOICE = VOICES[0]


def test_no_sentence_is_one_that_the_limits_were_chosen_on():
    assert set(held_out_texts()).isdisjoint(bundled_texts()[:CHOSEN_ON])
    assert len(set(held_out_texts())) == 192, "six levels of 32"


def test_a_voice_goes_on_where_it_stopped(tmp_path, monkeypatch):
    spoken = []

    def speaker(text, number):
        spoken.append(text)
        return np.full(2400 + number, number, "<i2"), 24_000

    monkeypatch.setattr(voices, "_speaker", lambda *_: (speaker, "1.0"))
    texts = held_out_texts()[:5]
    assert voices.make(VOICE, texts[:3], tmp_path, None, 60.0) == 3
    assert voices.make(VOICE, texts, tmp_path, None, 60.0) == 5 and spoken == texts
    found = voices.load(VOICE, tmp_path)
    assert [speech.text for speech in found] == texts and [len(one.samples) for one in found] == [*range(2400, 2405)]
    assert found[0].edges == (1920,) and voices.versions(tmp_path) == {"espeak-ng": "1.0"}


def test_figures_are_kept_until_the_clips_change(tmp_path, monkeypatch):
    one = measure.Outcome(
        24_000, 1, [1], [["clicks"]], {}, {"": ()}, 1, {}, {}, {}, {}, {}, [1.0, 1.0, []], [1.0, 1.0, []]
    )
    calls = []
    monkeypatch.setattr(measure, "measure", lambda *_: calls.append(1) or one)
    clip = Speech("a", np.ones(9, "<i2"), (), "text")
    kept = tmp_path / "kept.json"
    assert [measure.measured("v", [clip], kept, 0) for _ in range(2)] == [one, one] and len(calls) == 1
    measure.measured("v", [Speech("a", np.zeros(9, "<i2"), (), "text")], kept, 0)
    measure.measured("v", [clip], kept, 1)
    assert len(calls) == 3


def test_each_damage_of_a_level_has_its_code():
    recordings = reference_recordings()
    own = measure._recordings(recordings)
    found = {name: measure.damaged_level(name, recordings, own) for name in ("too_fast", "cut_tail", "other_voice")}
    assert "wrong_rate" in found["too_fast"].codes
    assert "cut_off" in found["cut_tail"].codes and found["cut_tail"].named >= 9
    assert found["other_voice"].damaged == 2 and found["other_voice"].wrongly == 0


def test_intervals_are_exact():
    """None of n: the upper end is 1 − 0.025^(1/n) (Clopper & Pearson 1934)."""
    assert _rate(0, 192) == f"0/192 (0.0% to {1 - 0.025 ** (1 / 192):.1%})"
    assert _rate(6, 6) == f"6/6 ({0.025 ** (1 / 6):.0%} to 100%)" and _rate(0, 0) == "n/a"
