"""Language names of data sets as Whisper's codes, and the scripts that languages are written in."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence

from omni_bench.errors import AccuracyError, shorten

_TAG = re.compile(r"(?P<base>[a-z]{2,3})(-[a-z]{4})?(-([a-z]{2}|\d{3}))?")
"""A language with an optional script and region (BCP 47), so that a folder "my-set" is not taken for Burmese."""
_ALIASES = {"cmn": "zh", "zh-yue": "yue", "zh-cmn": "zh", "nb": "no", "iw": "he", "jv": "jw", "fil": "tl"}
"""Other codes of languages that Whisper knows, as FLEURS and Common Voice use them (nb_no, fil_ph, jv_id)."""
_SHOWN_CHARS = 60

LATIN = "LATIN"
_SCRIPTS = {
    "CJK": "zh yue ja ko",
    "HIRAGANA": "ja",
    "KATAKANA": "ja",
    "HANGUL": "ko",
    "CYRILLIC": "ru uk bg mk be kk mn tg tt ba sr uz az bs tk",
    "GREEK": "el",
    "HEBREW": "he yi",
    "ARABIC": "ar fa ur ps sd pa kk az",
    "DEVANAGARI": "hi mr ne sa sd",
    "BENGALI": "bn as",
    "GURMUKHI": "pa",
    "GUJARATI": "gu",
    "TAMIL": "ta",
    "TELUGU": "te",
    "KANNADA": "kn",
    "MALAYALAM": "ml",
    "SINHALA": "si",
    "THAI": "th",
    "LAO": "lo",
    "TIBETAN": "bo",
    "MYANMAR": "my",
    "KHMER": "km",
    "GEORGIAN": "ka",
    "ARMENIAN": "hy",
    "ETHIOPIC": "am",
    "MONGOLIAN": "mn",
    LATIN: "sr uz az bs tk kk tt mn",
}
"""Scripts, as Unicode names begin, and the languages that are written in them; all other languages are in Latin."""


def is_english(name: str) -> bool:
    """True for "en", "en-GB", "en_US" and "English"."""
    return _base(name) in ("en", "english")


def whisper_language(name: str) -> str:
    """Whisper's code for "en", "en-US", "zh_CN", "cmn-Hans-CN" or "Chinese". Raises AccuracyError for another name."""
    if is_english(name):
        return "en"  # without the import
    from whisper.tokenizer import LANGUAGES, TO_LANGUAGE_CODE  # imports torch

    for candidate in (TO_LANGUAGE_CODE.get(name.strip().lower()), _base(name)):
        if candidate in LANGUAGES:
            return candidate
    raise AccuracyError(f"Whisper does not know the language {name!r}; valid are {', '.join(sorted(LANGUAGES))}")


def _base(name: str) -> str:
    tag = name.strip().lower().replace("_", "-")
    if tag in _ALIASES or tag == "english":
        return _ALIASES.get(tag, tag)
    match = _TAG.fullmatch(tag)
    return _ALIASES.get(match["base"], match["base"]) if match is not None else ""


# ---- Scripts: what cannot be compared is said beforehand ----


def script_of(text: str) -> str | None:
    """The script of most letters of ``text``, as Unicode names begin ("LATIN", "CJK"); None without letters."""
    found: Counter[str] = Counter()
    for character in unicodedata.normalize("NFKC", text):
        if character.isalpha():
            found[unicodedata.name(character, "").split(" ")[0].split("-")[0]] += 1
    return found.most_common(1)[0][0] if found else None


def check_scripts(texts: Sequence[str], language: str) -> None:
    """Raise AccuracyError if texts are not written as their language is, so that no transcript could equal them.

    A text in Latin letters is let pass where most others are in the language's own: names, loan words.
    """
    scripts = _scripts(whisper_language(language))
    foreign = [(text, script) for text in texts if (script := script_of(text)) is not None and script not in scripts]
    odd = [one for one in foreign if one[1] != LATIN] or (foreign if 2 * len(foreign) > len(texts) else [])
    if odd:
        text, script = odd[0]
        raise AccuracyError(
            f"{len(odd)} of {len(texts)} texts are not written in the language {language!r} "
            f"({', '.join(sorted(scripts)).lower()}), such as, in {script.lower()}: {shorten(text, _SHOWN_CHARS)!r}"
        )


def other_script(text: str, heard: str, language: str) -> bool:
    """Whether a transcript is in another of the scripts of its language than the text, as Serbian may be."""
    scripts = _scripts(whisper_language(language))
    pair = {script_of(text), script_of(heard)}
    return (
        len(scripts) > 1
        and len(pair) == 2
        and pair <= scripts
        and not pair <= {"CJK", "HIRAGANA", "KATAKANA", "HANGUL"}
    )


def _scripts(code: str) -> frozenset[str]:
    return frozenset(script for script, codes in _SCRIPTS.items() if code in codes.split()) or frozenset({LATIN})
