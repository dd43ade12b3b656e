"""Which spellings count as the same words."""

import pytest

from omni_bench.accuracy.wer import counts_characters, normalise_reference, normalise_transcript


@pytest.mark.parametrize(
    ("said", "heard"),
    [
        ("Mr. Smith doesn't like colour!", "mister smith does not like color"),
        ("It costs $20, about twenty percent.", "it costs twenty dollars about 20%"),
        ("We’re  here —\tnow.", "we are here now"),
    ],
)
def test_english_variants_are_equal(said, heard):
    assert normalise_reference(said, "en") == normalise_transcript(heard, "en-US")


def test_chinese_is_compared_by_characters_without_punctuation():
    assert normalise_reference("你好，世界！", "zh") == "你 好 世 界"
    assert normalise_transcript("你好 世界", "zh-CN") == "你 好 世 界"
    assert normalise_reference("我有３本书", "zh") == "我 有 3 本 书"
    assert counts_characters("zh_CN")
    assert not counts_characters("en")
    assert not counts_characters("de")


def test_other_languages_keep_their_diacritics():
    assert normalise_reference("L'Été, c'est fini!", "fr") == "l été c est fini"


def test_speech_in_parentheses_counts_in_the_reference_only():
    assert normalise_reference("He (John) left.", "en") == "he john left"
    assert normalise_transcript("(door slams) he left", "en") == "he left"


@pytest.mark.parametrize("text", ["", "   ", "...", "—", "$ %", "🙂", "[music]"])
@pytest.mark.parametrize("language", ["en", "zh", "fr"])
def test_what_holds_no_words_is_empty(text, language):
    assert normalise_reference(text, language) == ""
