"""Text to prompt ids: what the tiny voice was trained on, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omni_bench.errors import ConfigError
from reference_impl.engine_api import RequestRejected
from reference_impl.model.config import TextConfig
from reference_impl.prompt.characters import CharTokenizer
from reference_impl.settings import ServerSettings

CONFIG = TextConfig()
TOKENIZER = CharTokenizer(CONFIG)


def spelled(prompt) -> str:
    return "".join(CONFIG.chars[i - CONFIG.first_char_id] for i in prompt.ids[1:-1])


def test_layout_of_a_segment():
    (prompt,) = TOKENIZER.prompts("Hi there!", "heart_low")
    assert prompt.ids[0] == 2 and prompt.ids[-1] == 3
    assert spelled(prompt) == "hi there!"
    assert prompt.positions == (*range(10), 0)
    assert prompt.max_frames == int(11 * 1.3) + 20


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("He paid $5.", "he paid five dollars."),
        ("Dr. Lee is here", "doctor lee is here."),
        ("It’s   fine", "it's fine."),
        ("Wait—what?", "wait, what?"),
        ("Café; naïve", "cafe, naive."),
        ('She said "yes".', "she said yes."),
    ],
)
def test_written_to_spelled(text, spoken):
    assert [spelled(p) for p in TOKENIZER.prompts(text, "heart")] == [spoken]


def test_long_text_becomes_segments_at_sentence_ends():
    text = "The first sentence is about trains and boats. " * 5
    prompts = TOKENIZER.prompts(text, "heart")
    assert len(prompts) >= 3
    assert all(len(spelled(p)) <= CONFIG.max_chars + 1 for p in prompts)  # + 1: the full stop that a piece may be given
    assert " ".join(spelled(p) for p in prompts).split() == text.lower().split()


def test_unknown_voice_lists_the_valid_ones():
    with pytest.raises(RequestRejected, match="heart, heart_low"):
        TOKENIZER.prompts("Hello.", "nova")


@given(st.text(max_size=300))
def test_any_text_gives_known_ids_or_a_rejection(text):
    try:
        prompts = TOKENIZER.prompts(text, "heart")
    except RequestRejected as error:
        assert error.param == "input"
        return
    for prompt in prompts:
        assert len(prompt.ids) == len(prompt.positions)
        assert all(0 < i < CONFIG.first_char_id + len(CONFIG.chars) for i in prompt.ids)
        assert spelled(prompt)[-1] in ".?!"


def test_settings_round_trip_and_refuse_unknown_keys():
    settings = ServerSettings(max_batch=4, deterministic=True, threads=1)
    assert ServerSettings.from_json(settings.to_json()) == settings
    with pytest.raises(ConfigError, match=r"unknown key.*batch.*valid: preset"):
        ServerSettings.from_json('{"batch": 4}')
    with pytest.raises(ConfigError, match="not JSON"):
        ServerSettings.from_json("{")
