"""Texts and transcripts as they are compared, in any language that Whisper knows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache

from omni_bench.accuracy.languages import is_english, whisper_language
from omni_bench.accuracy.written import chinese
from omni_bench.accuracy.written.characters import is_letter, without_invisible
from omni_bench.accuracy.written.other_languages import spoken_places
from omni_bench.accuracy.written.readings import Place, reconcile, words_of

NORMALISER = 4
"""Rises with every change of what is compared; stored with a run. Runs that name none are of 1, whisper.normalizers."""

UNSPACED_LANGUAGES = frozenset({"zh", "yue", "ja", "th", "lo", "my", "km", "bo"})
_CHINESE = ("zh", "yue")
_REMARK = re.compile(r"\[[^\[\]]*\]|\([^()]*\)|\*[^*]*\*|【[^【】]*】")


def compared(text: str, heard: str, language: str) -> tuple[str, str]:
    """Text and transcript in the forms that differ least, words separated by single spaces; "" if there are none.

    Raises AccuracyError for a language that Whisper does not know.
    """
    reference, hypothesis = reconcile(_places(text, language), _heard_places(heard, language))
    return " ".join(reference), " ".join(hypothesis)


def normalise_reference(text: str, language: str) -> str:
    """The words that should be spoken, in one form, separated by single spaces; "" if there are none."""
    return " ".join(words_of(_places(text, language)))


def normalise_transcript(text: str, language: str) -> str:
    """The words that were heard. What a judge puts in brackets is a remark of its own, such as "[Music]"."""
    return " ".join(words_of(_heard_places(text, language)))


def counts_characters(language: str) -> bool:
    """True if the words of :func:`normalise_reference` are single characters in this language."""
    return not is_english(language) and whisper_language(language) in UNSPACED_LANGUAGES


def _heard_places(text: str, language: str) -> list[Place]:
    """As :func:`_places`, but a remark in brackets may be left out, and is at first."""
    found: list[Place] = []
    end = 0
    text = without_invisible(text)
    for match in _REMARK.finditer(text):
        if any(map(is_letter, match[0])):
            found += _places(text[end : match.start()], language)
            found.append(((), tuple(words_of(_places(match[0], language)))))
            end = match.end()
    return found + _places(text[end:], language)


def _places(text: str, language: str) -> list[Place]:
    return _reader(language)(without_invisible(text))


@lru_cache(maxsize=8)
def _reader(language: str) -> Callable[[str], list[Place]]:
    if is_english(language):
        from omni_bench.accuracy.written.english import english_places

        return english_places
    code = whisper_language(language)
    if code in _CHINESE:
        return lambda text: _characters(chinese.simplified(text), chinese.NUMBER, chinese.number_place)
    if code in UNSPACED_LANGUAGES:
        return lambda text: list(_split(spoken_places(text, code)))
    return lambda text: list(spoken_places(text, code))


def _characters(text: str, number: re.Pattern[str], number_place: Callable[[re.Match[str]], Place]) -> list[Place]:
    """One place a letter, mark or digit; one a number."""
    found: list[Place] = []
    text = text.casefold()
    position = 0
    while position < len(text):
        match = number.match(text, position)
        if match is not None:
            found.append(number_place(match))
            position = match.end()
            continue
        if is_letter(text[position]) or text[position].isalnum():
            found.append(((text[position],),))
        position += 1
    return found


def _split(places: Iterator[Place]) -> Iterator[Place]:
    """Places by words as places by characters: a word of one reading becomes one for each."""
    for readings in places:
        if len(readings) == 1:
            yield from (((character,),) for word in readings[0] for character in word)
        else:
            yield tuple(dict.fromkeys(tuple("".join(reading)) for reading in readings))
