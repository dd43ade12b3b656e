"""What is left of digits after dates, times and measures: ranges, ordinals, years, cardinals."""

from __future__ import annotations

import re

from reference_impl.prompt.text.words import NUMBER, cardinal, is_year_like, number, ordinal, plural, quantity, year

_FIXED = {"24/7": "twenty four seven", "9/11": "nine eleven"}
_ROMAN_VALUES = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100}
_FIXED_PATTERN = re.compile(rf"(?<![\w/.,$£€¥-])({'|'.join(map(re.escape, _FIXED))})(?![\w/]|[.,]\d)")
_ROMAN = re.compile(r"\b(World War|Chapter|Part|Act|Scene|Volume|Book|Phase|Episode|Appendix) ([IVXLC]+)\b")
# "no. 5" with a small letter and a space is more often the end of a sentence.
_NUMBERED = re.compile(r"(?:\bNo\.\s?|\bno\.|#\s?)(?=\d)")
_NUMBERED_MANY = re.compile(r"\b(?:Nos|nos)\.\s?(?=\d)")
_SUBTRACTION = re.compile(rf"(?<=\d)\s?-\s?(?=(?:{NUMBER}|x)\s*=)")
_TIMES = re.compile(r"(?<=\d)\s?[×*]\s?(?=\d)")
_BY = re.compile(r"(?<=\d)\s?x\s?(?=\d)")
_RANGE = re.compile(rf"(?<![\w.,/-])({NUMBER})\s?-\s?(?={NUMBER}(?![\w-]*-\d))")
_POWER = re.compile(r"\^\(?(-?\d+)\)?")
_ORDINAL = re.compile(r"(?<!\d)(\d{1,3}(?:,\d{3}){1,5}|\d{1,18})(?:st|nd|rd|th)\b", re.IGNORECASE)
# "5s" may be seconds: a plural is a full year, or tens after an apostrophe or such a word.
_DECADE = re.compile(
    r"(?<![\d.,$£€¥])(?:'(?=\d0)|(?<=\bthe )|(?<=\bmy )|(?<=\bhis )|(?<=\bher )|(?<=\bin )|(?<=\btheir )"
    r"|(?<=mid-)|(?<=\bearly )|(?<=\blate )|(?=\d{4}))(1[1-9]\d0|20\d0|[2-9]0)'?s\b"
)
_PLURAL = re.compile(r"(?<![\d.,])(\d+)'s\b")
_MIXED = re.compile(r"(?<![\w/.,])((?:\d{1,6} )?\d{1,6}/\d{1,6})(?![\w/]|[.,]\d)")
_RATIO = re.compile(r"(?<=\d)\s?:\s?(?=\d)")
_DOTTED = re.compile(r"(?<![\d.])\d+(?:\.\d+){2,}(?!\d)")
_MINUS = re.compile(r"(?<![\w)^-])-(?=\.?\d)")
_PLUS = re.compile(r"\+\s?(?=\.?\d)")
_ABOUT = re.compile(r"[~≈]\s?(?=[-+]?\.?\d)")
_LETTER_DIGIT = re.compile(r"(?<=[A-Za-z])[-_]?(?=\d)")
_DIGIT_LETTER = re.compile(r"(?<=\d)[-_]?(?=[A-Za-z])")
_YEAR = re.compile(r"(?<![\d.,])\d{4}(?!\d|[.,]\d)")
_NUMBER = re.compile(rf"(?<!\d)({NUMBER})")


def _roman(match: re.Match[str]) -> str:
    values = [_ROMAN_VALUES[letter] for letter in match[2]]
    total = sum(-v if v < after else v for v, after in zip(values, [*values[1:], 0], strict=True))
    return f"{match[1]} {cardinal(str(total))}"


def _power(match: re.Match[str]) -> str:
    exponent = match[1]
    if exponent in ("2", "3"):
        return " squared " if exponent == "2" else " cubed "
    sign = "minus " if exponent.startswith("-") else ""
    return f" to the power of {sign}{cardinal(exponent.lstrip('-'))} "


def _plural(match: re.Match[str]) -> str:
    digits = match[1]
    return plural(year(digits) if is_year_like(digits) else cardinal(digits))


def _year(match: re.Match[str]) -> str:
    return year(match[0]) if is_year_like(match[0]) else cardinal(match[0])


def spell_ranges(text: str) -> str:
    """Join ranges by "to" and signs by "minus" while their digits still stand, so that units apply to both ends."""
    text = _FIXED_PATTERN.sub(lambda m: _FIXED[m[1]], text)
    text = _ROMAN.sub(_roman, text)
    text = _NUMBERED_MANY.sub("numbers ", _NUMBERED.sub("number ", text))
    text = _SUBTRACTION.sub(" minus ", text)
    text = _DECADE.sub(_plural, text)
    return _MINUS.sub("minus ", _RANGE.sub(lambda m: f"{m[1]} to ", text))


def spell_numbers(text: str) -> str:
    """Every digit still in the text as words; the result has none."""
    text = _BY.sub(" by ", _TIMES.sub(" times ", text))
    text = _POWER.sub(_power, text)
    text = _ORDINAL.sub(lambda m: ordinal(m[1]), text)
    text = _PLURAL.sub(_plural, text)
    text = _ABOUT.sub("about ", text)
    text = _PLUS.sub(" plus ", text)
    text = _MIXED.sub(lambda m: quantity(m[1]), text)
    text = re.sub(r"(?<=\d)/(?=\d)", " over ", text)
    text = _RATIO.sub(" to ", text)
    text = _LETTER_DIGIT.sub(" ", text)
    text = _DIGIT_LETTER.sub(" ", text)
    text = _DOTTED.sub(lambda m: " point ".join(map(cardinal, m[0].split("."))), text)
    text = _YEAR.sub(_year, text)
    return _NUMBER.sub(lambda m: f" {number(m[1])} ", text)
