"""The size of the self-test and its sentences."""

from __future__ import annotations

import pytest

from omni_bench.datasets.seed_tts import read_seed_tts
from omni_bench.load.closed_plan import prompts_needed
from omni_bench.run.config.compose import compose
from omni_bench.selftest.plan import FULL, LONGEST_CHARS, QUICK, SHORTEST_CHARS, write_prompts


def test_the_sentences_are_short_and_have_references(tmp_path):
    count = len(write_prompts(tmp_path))
    source = read_seed_tts(tmp_path, "en")
    prompts = [source.take(index) for index in range(count)]
    assert len(prompts) == len(source.ids) == count >= 40
    assert all(SHORTEST_CHARS <= len(prompt.text) <= LONGEST_CHARS for prompt in prompts)
    assert all(prompt.ref_text and prompt.ref_audio.is_file() for prompt in prompts)


@pytest.mark.parametrize("plan", [QUICK, FULL])
def test_the_overrides_make_a_valid_configuration_with_enough_sentences(plan, tmp_path):
    count = len(write_prompts(tmp_path))
    first, second = (compose(plan.overrides(repeat, tmp_path)) for repeat in range(2))
    assert prompts_needed(first.load) <= count
    assert first.checks.parity_requests == plan.solo > 0
    assert first.reference.deterministic and first.reference.max_batch == max(plan.concurrency)
    # another repetition says other things: its sentences are shuffled and seeded differently
    assert (first.dataset.seed, first.client.seed) != (second.dataset.seed, second.client.seed)
    assert second.client.seed - first.client.seed > prompts_needed(first.load)


@pytest.mark.parametrize("name", ["a b", "a,b", "a=b", "it's", 'q"q', "(1)", "[x]", "${x}", "é", "b\\"])
def test_a_folder_may_be_called_anything(name, tmp_path):
    assert compose(QUICK.overrides(0, tmp_path / name)).dataset.root == str(tmp_path / name)
