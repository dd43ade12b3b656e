"""Numbers as words of languages other than English and Chinese, in every form that a sentence may want.

num2words has the usual form. The CLDR's rules (Unicode TS 35, part 3, rule-based number formatting; by unicode-rbnf)
add genders and cases, the forms of other countries ("septante"), and languages that num2words does not know (Hindi).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

_NUM2WORDS = {"kk": "kz", "nn": "no"}
_COUNTRIES = {"fr": ("fr_BE", "fr_CH"), "pt": ("pt_PT",), "no": ("nb",), "sr": ("sr_Latn",), "tl": ("fil",)}
_RARE = ("financial", "numbering-days")
"""Of bank notes, and of days of the Chinese calendar."""
_VARIANTS = {"pt": ("catorze", "quatorze"), "hi": ("निन्यानबे", "निन्यानवे")}
_JOINED = frozenset(["tr", "ro"])
"""num2words writes all of a number as one word, or in letters that are not used any more: its forms come last."""
LONGEST = 15
"""Digits; longer numbers are read one by one."""


@lru_cache(maxsize=1024)
def number_words(digits: str, code: str, kind: str) -> tuple[str, ...]:
    """A whole number in each form, the usual one first; () if neither source knows it.

    ``code``: Whisper's of a language; ``kind``: cardinal, ordinal or year.
    """
    if len(digits) > LONGEST:
        return ()
    usual = num2words_says(int(digits), code, to=kind)
    locales = (code, *_COUNTRIES.get(code, ())) if kind != "year" or digits[2] != "0" else ()
    others = [said for locale in locales for said in _cldr(int(digits), locale, kind)]
    found = [*others, usual] if code in _JOINED else [usual, *others]
    if code in _VARIANTS:
        found += [said.replace(*_VARIANTS[code]) for said in found if said]
    return tuple(dict.fromkeys(filter(None, found)))


def num2words_says(number: float, code: str, **options: str) -> str | None:
    """What num2words says, None for what it does not know. ``options``: its ``to`` and ``currency``."""
    from num2words import num2words

    language = "pt_BR" if options.get("currency") == "BRL" else _NUM2WORDS.get(code, code)
    if language == "pt_BR":
        options.pop("currency")  # the only one of that language, which takes no other
    try:
        return str(num2words(number, lang=language, **options))
    except Exception:  # it raises many kinds for what it does not know, AttributeError among them
        return None


def _cldr(number: int, locale: str, kind: str) -> list[str]:
    from unicode_rbnf import FormatPurpose
    from unicode_rbnf.engine import RbnfError

    engine = _engine(locale)
    if engine is None:
        return []
    try:
        forms = engine.format_number(number, FormatPurpose[kind.upper()]).text_by_ruleset
    except (RbnfError, ValueError):  # languages without ordinals, and numbers above what a rule is for
        return []
    return [
        said.replace("\u00ad", "").replace("\u200b", "")
        for name, said in forms.items()
        if not any(one in name for one in _RARE) and not any(map(str.isdigit, said))
    ]


@lru_cache(maxsize=16)
def _engine(locale: str) -> Any:
    from unicode_rbnf import RbnfEngine

    try:
        return RbnfEngine.for_language(locale)
    except ValueError:
        return None
