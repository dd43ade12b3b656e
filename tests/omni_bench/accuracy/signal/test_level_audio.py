"""What a level shows together: stored recordings of one voice, as they are and damaged by the proxy's own functions."""

from functools import cache

import numpy as np
import pytest
import soundfile

from omni_bench.accuracy.signal.checks import reference_traits, signal_findings
from omni_bench.accuracy.signal.level_audio import CUT_SHARE, level_audio
from omni_bench.accuracy.signal.level_p import LEVEL_P, at_least_p
from omni_bench.accuracy.signal.splices import OWN_JUMPS, level_splice_p, splice_p
from omni_bench.datasets.bundled import bundled_root
from omni_bench.datasets.seed_tts import META_NAME, parse_meta
from omni_bench.targets.chaos_proxy import damages

FOLDER = bundled_root() / "seed_tts_mini" / "en"
HALF_S = 1.6


@cache
def recordings():
    """(name, int16 samples, rate, text) of the bundled reference recordings."""
    entries = {
        entry.wav: entry.ref_text for entry in parse_meta((FOLDER / META_NAME).read_bytes(), META_NAME) if entry.wav
    }
    return [(wav, *soundfile.read(FOLDER / wav, dtype="int16"), text) for wav, text in entries.items()]


@cache
def traits(damage=None, every=1):
    damaged = {}
    for number, (name, samples, rate, text) in enumerate(recordings()):
        sent = damage(samples, rate) if damage and number % every == 0 else samples
        damaged[name] = signal_findings(sent, rate, (), text).traits
    return damaged


def level(damage=None, every=1):
    references = [reference_traits(samples / np.float32(32768), rate, text) for _, samples, rate, text in recordings()]
    return level_audio(traits(damage, every), 24_000, references=references)


def test_clean_recordings_are_no_finding():
    found = level()
    assert found.answers == 12 and 170 < found.f0_hz < 220
    assert (found.cut, found.others, found.wrong_rate, dict(found.suspects)) == (0, 0, None, {})
    assert found.splice_p > 1e-3 and found.other_p > 1e-3


def test_a_forgotten_resampler():
    found = level(damages.too_fast).wrong_rate
    assert found.made_at_hz == 22_050
    assert [found.f0, found.formants, found.pace] == pytest.approx([160 / 147] * 3, rel=0.03)


def test_cut_tails():
    found = level(damages.cut_tail)
    assert found.cut_p <= LEVEL_P and len(found.suspects["cut_off"]) == found.cut >= 9


def test_lost_samples_need_many_answers_and_show_in_each():
    once, clean = level(damages.lost_samples), level()
    assert once.splice_p < 1e-4 < 0.5 < clean.splice_p, "of 12 answers"
    times = [one.splice_p * (1 + 1e-9 * copy) for one in traits(damages.lost_samples).values() for copy in range(2)]
    assert level_splice_p(times) <= LEVEL_P, "of 24 such answers"


def test_equal_samples_prove_a_splice_once():
    one = next(iter(traits(damages.lost_samples).values()))
    assert level_audio({"a": one, "b": one}, 24_000).splice_p == pytest.approx(one.splice_p)


def test_another_voice_is_named():
    found = level(damages.other_voice, every=6)
    assert found.others == 2 and found.other_p <= LEVEL_P
    assert set(found.suspects["other_voice"]) == {name for name in list(traits())[::6]}


def test_a_level_that_may_have_many_voices_or_few_answers_is_not_judged_by_them():
    mixed = traits(damages.other_voice, every=6)
    assert level_audio(mixed, 24_000, one_voice=False).other_p is None
    assert level_audio(dict(list(mixed.items())[:7]), 24_000).other_p is None


def test_each_answer_is_compared_with_its_own_recording():
    mixed = traits(damages.other_voice, every=6)
    assert level_audio(mixed, 24_000, own_references=mixed).others == 0
    assert level_audio(mixed, 24_000, own_references=traits()).others == 2


def test_no_wrong_rate_without_references_and_rate():
    assert level_audio(traits(damages.too_fast), 24_000).wrong_rate is None
    references = list(traits().values())
    assert level_audio(traits(damages.too_fast), None, references=references).wrong_rate is None
    assert level_audio(traits(damages.other_voice), 24_000, references=references).wrong_rate is None, "no usual rate"


def test_the_binomial_tail():
    assert at_least_p(0, 32, CUT_SHARE) == 1.0
    assert at_least_p(2, 2, 0.1) == pytest.approx(0.01)
    assert at_least_p(1, 3, 0.5) == pytest.approx(7 / 8)


def test_spacings_of_an_exponential_tail_are_no_splice():
    """Whatever the steepness: p is uniform if the first spacing is OWN_JUMPS times as large, else an upper bound."""
    rng = np.random.default_rng(0)
    tails = [np.sort(rng.exponential(scale, 400))[::-1][:12] for scale in (0.1, 2.0) for _ in range(400)]
    jumping = [np.array([tail[1] + (tail[0] - tail[1]) * OWN_JUMPS, *tail[1:]]) for tail in tails]
    by_formula = (1 + OWN_JUMPS * (0.3**-0.1 - 1)) ** -10  # of F(2, 20)
    for half in (slice(400), slice(400, None)):
        assert np.mean([splice_p(tail) < 0.3 for tail in jumping[half]]) == pytest.approx(0.3, abs=0.06)
        assert np.mean([splice_p(tail) < 0.3 for tail in tails[half]]) == pytest.approx(by_formula, abs=0.03)
    assert splice_p(np.ones(3)) is None


def test_tones_have_no_end_and_no_splices():
    tones = [(8000 * np.sin(0.05 * np.arange(24_000 + 800 * n))).astype("<i2") for n in range(20)]
    found = level_audio(
        {str(n): signal_findings(tone, 24_000, (), "some words").traits for n, tone in enumerate(tones)}, 24_000
    )
    assert found.answers == 20 and found.suspects == {} and found.splice_p is None and found.cut == 0
