"""Prompts of random length: their lengths, their words, and that they depend on the seed and the row alone."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import replace

import pytest

from omni_bench.datasets.bundled import bundled_texts
from omni_bench.datasets.load import load_prompts
from omni_bench.datasets.random_lengths import ROWS, read_random
from omni_bench.errors import DatasetError
from omni_bench.records.config import DatasetConfig


def texts(count=300, seed=0, low=5, high=40):
    source = read_random("en", seed, low, high)
    return [source.take(row).text for row in range(count)]


def test_every_length_in_the_range_comes_and_no_other():
    lengths = Counter(len(text.split()) for text in texts(1000, low=3, high=12))
    assert sorted(lengths) == list(range(3, 13))
    assert min(lengths.values()) > 60  # of 100 expected


def test_the_words_are_those_of_bundled_sentences():
    known = {word.strip(",.?!") for text in bundled_texts("en") for word in text.split()}
    for text in texts():
        assert text[-1] in ".?!" and text[-2].isalpha()
        assert {word.strip(",.?!") for word in text.split()} <= known


def test_the_rule_is_the_documented_one():
    def draw(what, below):
        digest = hashlib.sha256(f"7:3:{what}".encode()).digest()
        return int(digest.hex()[:16], 16) % below

    sentences = bundled_texts("en")
    drawn = [sentences[draw(str(number), len(sentences))] for number in range(40)]
    spoken = read_random("en", 7, 5, 40).take(3).text.split()
    assert len(spoken) == 5 + draw("length", 36)
    assert spoken[:-1] == " ".join(drawn).split()[: len(spoken) - 1]


def test_rows_depend_on_the_seed_and_on_nothing_else():
    assert texts(20) == texts(20)
    assert texts(20) != texts(20, seed=1)
    source = read_random("en", 0, 5, 40)
    assert source.take(9).text == texts(10)[9] and len(set(source.ids)) == len(source.ids) == ROWS


def test_one_word_is_a_prompt_too():
    assert all(len(text.split()) == 1 and text[:-1].replace("'", "").isalpha() for text in texts(low=1, high=1))


def test_through_load_prompts():
    config = DatasetConfig(kind="random", name="random", seed=2, min_words=4, max_words=6)
    prompts = load_prompts(config, 50)
    assert len({prompt.id for prompt in prompts}) == 50
    assert {len(prompt.text.split()) for prompt in prompts} == {4, 5, 6}
    assert {(prompt.language, prompt.ref_text, prompt.ref_audio) for prompt in prompts} == {("en", None, None)}
    assert load_prompts(replace(config, max_words=7), 50) != prompts


def test_a_language_without_sentences_is_refused():
    with pytest.raises(DatasetError, match=r"dataset\.locale='zh'.*valid: en"):
        read_random("zh", 0, 5, 40)
