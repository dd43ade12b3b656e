"""Names of languages in data sets, as Whisper's codes."""

import pytest

from omni_bench.accuracy.languages import is_english, whisper_language
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
    ],
)
def test_names_of_data_sets_become_whisper_codes(name, code):
    assert whisper_language(name) == code
    assert is_english(name) == (code == "en")


@pytest.mark.parametrize("name", ["", "xx", "klingon"])
def test_an_unknown_language_is_named_with_the_valid_ones(name):
    with pytest.raises(AccuracyError, match=rf"'{name}'; valid are .*\ben\b.*\bzh\b"):
        whisper_language(name)
