"""Texts and transcripts as they are compared, in any language that Whisper knows."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from functools import lru_cache

from omni_bench.accuracy.languages import is_english, whisper_language
from omni_bench.accuracy.written import chinese
from omni_bench.accuracy.written.characters import is_letter, without_invisible
from omni_bench.accuracy.written.readings import Place, place, reconcile, words_of

NORMALISER = 3
"""Rises with every change of what is compared; stored with a run. Runs that name none are of 1, whisper.normalizers."""

UNSPACED_LANGUAGES = frozenset({"zh", "yue", "ja", "th", "lo", "my", "km", "bo"})
_CHINESE = ("zh", "yue")
_REMARK = re.compile(r"\[[^\[\]]*\]|\([^()]*\)|\*[^*]*\*")
_GROUPED = re.compile(r"\d{1,3}(?:([.,' ])\d{3})(?:\1\d{3})*(?!\d)")
_DECIMAL = re.compile(r"(\d+)[.,](\d+)(?![.,]?\d)")
_NUM2WORDS = {"kk": "kz", "nn": "no"}
_PERCENT = {"de": "prozent", "fr": "pour cent", "es": "por ciento", "it": "per cento", "pt": "por cento"}
_PERCENT |= {"nl": "procent", "sv": "procent", "da": "procent", "pl": "procent", "ru": "процентов", "uk": "відсотків"}
_PERCENT |= {"tr": "yüzde", "ko": "퍼센트", "ja": "パーセント", "th": "เปอร์เซ็นต์", "vi": "phần trăm"}


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
        return lambda text: _characters(
            text, re.compile(r"\d+"), lambda match: tuple(map(_joined, _number(match[0], code)))
        )
    return lambda text: list(_words(text, code))


def _joined(reading: tuple[str, ...]) -> tuple[str, ...]:
    return tuple("".join(reading))


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


def _words(text: str, code: str) -> Iterator[Place]:
    for token in re.findall(r"\d[\d.,']*(?: \d{3}(?!\d))*|%|[^\d%]+", _folded(text, code)):
        if token[0].isdigit():
            yield from _numbers(token, code)
        elif token == "%":
            if code in _PERCENT:
                yield place(_PERCENT[code], "")
        else:
            letters = "".join(character if _is_word(character) else " " for character in token)
            yield from (((word,),) for word in letters.split())


def _numbers(token: str, code: str) -> Iterator[Place]:
    token = token.rstrip(".,' ")
    point = max(token.rfind("."), token.rfind(","))
    if "." in token and "," in token and token.count(token[point]) == 1:  # the last of the two is the decimal point
        token = re.sub(r"\D", "", token[:point]) + token[point:]
    if (grouped := _GROUPED.fullmatch(token)) is not None:
        digits = re.sub(r"\D", "", token)
        other = _number(digits, code)
        if grouped[1] in ".," and token.count(grouped[1]) == 1:  # "1.234" is a decimal elsewhere
            other += _decimal(*re.split("[.,]", token), code)
        yield other
    elif (decimal := _DECIMAL.fullmatch(token)) is not None:
        yield _decimal(*decimal.groups(), code)
    else:
        yield from (_number(digits, code) for digits in re.findall(r"\d+", token))


def _number(digits: str, code: str) -> Place:
    """A whole number: in words, as a year, digit by digit; as it is where num2words does not know the language."""
    readings = [_in_words(digits, code, "cardinal")]
    if len(digits) > 1:
        if len(digits) == 4:
            readings.append(_in_words(digits, code, "year"))
        one_by_one = [_in_words(digit, code, "cardinal") for digit in digits]
        readings.append(" ".join(one_by_one) if None not in one_by_one else " ".join(digits))
    return place(*([] if readings[0] else [digits]), *filter(None, readings))


def _decimal(whole: str, fraction: str, code: str) -> Place:
    said = _in_words(f"{whole}.{fraction}", code, "cardinal")
    return place(said) if said else place(f"{whole} {fraction}")


def _in_words(digits: str, code: str, kind: str) -> str | None:
    from num2words import num2words

    if len(digits) > 15:
        return None
    try:
        said = num2words(float(digits) if "." in digits else int(digits), lang=_NUM2WORDS.get(code, code), to=kind)
    except (NotImplementedError, ValueError, KeyError, IndexError, TypeError, OverflowError):
        return None
    folded = _folded(said, code)
    return " ".join("".join(one if _is_word(one) else " " for one in folded).split())


def _folded(text: str, code: str) -> str:
    """Letters without case: "Straße" as "strasse", of Turkish "İ" as "i" and "I" as "ı", of Russian "ё" as "е"."""
    if code in ("tr", "az"):
        text = text.replace("İ", "i").replace("I", "ı")
    text = text.casefold().replace("i\u0307", "i")
    return unicodedata.normalize("NFC", text.replace("ё", "е") if code == "ru" else text)


def _is_word(character: str) -> bool:
    return is_letter(character) or character.isalnum()
