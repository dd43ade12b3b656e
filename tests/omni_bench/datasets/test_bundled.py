"""The bundled sentences: what the bundled voice and the judge need them to be."""

from __future__ import annotations

import re
from collections import Counter

import pytest
import soundfile

from omni_bench.datasets import bundled
from omni_bench.datasets.bundled import bundled_locales, bundled_names, count_rows, read_bundled
from omni_bench.datasets.load import load_prompts
from omni_bench.errors import DatasetError
from omni_bench.records.config import DatasetConfig


@pytest.fixture(scope="module")
def prompts():
    source = read_bundled("seed_tts_mini", "en")
    return [source.take(i) for i in range(len(source.ids))]


def test_is_found_and_counted(prompts):
    assert "seed_tts_mini" in bundled_names()
    assert bundled_locales("seed_tts_mini") == ["en"]
    assert count_rows("seed_tts_mini", "en") == len(prompts) >= 282  # the sweep 1 to 32 without a repeat


def test_every_character_is_one_the_bundled_voice_knows(prompts):
    for prompt in prompts:
        for text in (prompt.text, prompt.ref_text):
            assert re.fullmatch(r"[A-Za-z ',.?!]+", text), text
            assert text[0].isupper() and text[-1] in ".?!" and "  " not in text, text


def test_lengths_and_ids(prompts):
    long = 0
    for prompt in prompts:
        words = len(prompt.text.split())
        if prompt.id.startswith("long_"):
            assert 15 <= words <= 24 and len(prompt.text) <= 140, prompt.text
            long += 1
        else:
            assert prompt.id.startswith("mini_")
            assert 5 <= words <= 14 and len(prompt.text) <= 105, prompt.text
    assert 0.07 <= long / len(prompts) <= 0.13


def test_no_sentence_twice_and_varied_openings(prompts):
    texts = [re.sub(r"[^a-z ]", "", prompt.text.lower()) for prompt in prompts]
    assert len(set(texts)) == len(texts)
    assert not set(texts) & {re.sub(r"[^a-z ]", "", prompt.ref_text.lower()) for prompt in prompts}
    first_words = Counter(text.split()[0] for text in texts)
    assert len(first_words) >= 150
    assert max(first_words.values()) <= 0.15 * len(texts)
    assert sum(prompt.text.endswith("?") for prompt in prompts) >= 50
    assert sum(prompt.text.endswith("!") for prompt in prompts) >= 10


def test_recordings_are_24_khz_mono_speech_in_turn(prompts):
    used = Counter(prompt.ref_audio for prompt in prompts)
    assert len(used) == 12 and max(used.values()) - min(used.values()) <= 1
    assert len({(prompt.ref_audio, prompt.ref_text) for prompt in prompts}) == 12
    for path in used:
        info = soundfile.info(path)
        assert (info.samplerate, info.channels, info.subtype, info.format) == (24000, 1, "PCM_16", "WAV")
        assert 1.0 < info.duration < 12.0
        samples, _ = soundfile.read(path)
        assert abs(samples).max() > 0.05


def test_load_prompts_mixes_long_and_short():
    config = DatasetConfig(kind="bundled", name="seed_tts_mini", seed=0)
    chosen = load_prompts(config, 100)
    assert 2 <= sum(prompt.id.startswith("long_") for prompt in chosen) <= 20


def test_the_design_variant_has_a_voice_for_every_sentence(prompts):
    source = read_bundled("seed_tts_mini_design", "en", design=True)
    designed = [source.take(i) for i in range(len(source.ids))]
    assert [prompt.text for prompt in designed] == [prompt.text for prompt in prompts]
    assert len({prompt.instructions for prompt in designed}) >= 20
    assert all(prompt.instructions and prompt.instructions.isascii() for prompt in designed)
    assert {(prompt.ref_text, prompt.ref_audio) for prompt in designed} == {(None, None)}


@pytest.mark.parametrize("name", ["none", "..", "../data/seed_tts_mini", ""])
def test_unknown_name_lists_the_sets(name):
    with pytest.raises(DatasetError, match="valid: seed_tts_mini"):
        read_bundled(name, "en")


def test_unknown_locale_lists_the_locales():
    with pytest.raises(DatasetError, match=r"locales in .*: en"):
        read_bundled("seed_tts_mini", "fr")


def test_texts_of_a_language():
    texts = bundled.bundled_texts("en")
    assert len(texts) >= bundled.count_rows("seed_tts_mini", "en") > 300
    assert all(text.strip() for text in texts) and bundled.bundled_texts("xx") == []
    assert len(set(texts)) == len(texts)
