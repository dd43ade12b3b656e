"""Names of languages in data sets, as Whisper's codes."""

import pytest

from omni_bench.accuracy.languages import check_scripts, is_english, whisper_language
from omni_bench.errors import AccuracyError


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("en", "en"),
        ("EN-us", "en"),
        ("English", "en"),
        ("zh_CN", "zh"),
        ("Chinese", "zh"),
        ("mandarin", "zh"),
        ("de", "de"),
        ("cmn_hans_cn", "zh"),
        ("zh-yue", "yue"),
        ("es-419", "es"),
        ("nb_no", "no"),
        ("fil_ph", "tl"),
        ("jv_id", "jw"),
    ],
)
def test_names_of_data_sets_become_whisper_codes(name, code):
    assert whisper_language(name) == code
    assert is_english(name) == (code == "en")


@pytest.mark.parametrize("name", ["", "xx", "klingon", "my-set", "hard", "test-clean", "en-set"])
def test_an_unknown_language_is_named_with_the_valid_ones(name):
    with pytest.raises(AccuracyError, match=rf"'{name}'; valid are .*\ben\b.*\bzh\b"):
        whisper_language(name)


@pytest.mark.parametrize(
    ("language", "texts", "script"),
    [
        ("en", ["Hello.", "你好"], "cjk"),
        ("hi", ["kya haal hai", "sab theek"], "latin"),
        ("zh", ["今天", "नमस्ते"], "devanagari"),
        ("en", ["Привет, John"], "cyrillic"),
    ],
)
def test_texts_in_a_script_that_cannot_be_compared_are_refused_by_name(language, texts, script):
    with pytest.raises(AccuracyError, match=rf"of {len(texts)} texts are not written in .*, in {script}: '"):
        check_scripts(texts, language)


@pytest.mark.parametrize(
    ("language", "texts"),
    [
        ("zh", ["今天天气", "iPhone 15 Pro"]),
        ("en", ["café 12", "...", "Ｈｉ"]),
        ("sr", ["Dobar dan", "добар дан"]),
        ("ja", ["カメラ"]),
    ],
)
def test_texts_in_the_scripts_of_their_language_pass(language, texts):
    check_scripts(texts, language)
