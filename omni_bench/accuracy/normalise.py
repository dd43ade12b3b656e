"""Texts as they are compared: without case, punctuation or spelling variants.

English goes through Whisper's English normaliser (Radford et al. 2022, appendix C), languages
written without spaces through its basic one with every character a word of its own, as in
the same appendix, all others through the basic one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from omni_bench.accuracy.languages import is_english, whisper_language

UNSPACED_LANGUAGES = frozenset({"zh", "yue", "ja", "th", "lo", "my"})

_APOSTROPHES = dict.fromkeys(map(ord, "‘’ʼ＇"), "'")


def normalise_reference(text: str, language: str) -> str:
    """The words that should have been spoken, separated by single spaces; "" if there are none.

    Whisper's normalisers drop what stands in parentheses, since in a transcript that is a remark.
    In a text to be spoken it is speech, so that here only the parentheses themselves go.
    """
    return normalise_transcript(text.replace("(", " ").replace(")", " "), language)


def normalise_transcript(text: str, language: str) -> str:
    """The words that were heard, separated by single spaces; "" if there are none."""
    # Whisper's contractions know only the typewriter's apostrophe: "we’re" would become two words.
    words = _normaliser(language)(text.translate(_APOSTROPHES)).split()
    # The English normaliser keeps ".", "$" and "%" for the sake of numbers; alone they are no words.
    return " ".join(word for word in words if any(character.isalnum() for character in word))


def counts_characters(language: str) -> bool:
    """True if the words of :func:`normalise_reference` are single characters in this language."""
    return not is_english(language) and whisper_language(language) in UNSPACED_LANGUAGES


@lru_cache(maxsize=8)
def _normaliser(language: str) -> Callable[[str], str]:
    from whisper.normalizers import BasicTextNormalizer, EnglishTextNormalizer  # imports torch

    if is_english(language):
        return EnglishTextNormalizer()
    return BasicTextNormalizer(split_letters=counts_characters(language))
