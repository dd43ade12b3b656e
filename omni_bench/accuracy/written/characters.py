"""What of a text's characters can be heard: invisible ones go, apostrophes and dashes become one, marks stay."""

from __future__ import annotations

import re
import unicodedata

# SSML and control tokens of models: a name, attributes with quoted values. "x < 5 and y > 3" is no tag.
_TAG = re.compile(r"""</?[A-Za-z][\w:.-]*(?:\s+[\w:.-]+\s*=\s*(?:"[^"]*"|'[^']*'))*\s*/?>|<\|[^|<>]*\|>""")
_APOSTROPHES = dict.fromkeys(map(ord, "‘’‛ʼʻʽʹˈ′`´＇ꞌ"), "'")
_OPTIONAL_MARKS = re.compile(
    "[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u064b-\u065f\u0670\u06d6-\u06ed\u0640]"
)
"""Vowel points of Hebrew and Arabic, and the Arabic tatweel: most writers leave them out."""
_DIGITS_THEN_FRACTION = re.compile(r"(?<=\d)(?=[¼-¾⅐-⅞])")


def without_invisible(text: str) -> str:
    """The text in NFKC, without tags, control and format characters (zero width, soft hyphen, direction marks)."""
    text = _TAG.sub(" ", _DIGITS_THEN_FRACTION.sub(" ", text)).translate(_APOSTROPHES)
    kept = []
    for character in unicodedata.normalize("NFKC", text):
        category = unicodedata.category(character)
        if category == "Nd":
            kept.append(str(unicodedata.digit(character)))
        elif category == "Pd" or character == "−":
            kept.append("-")
        elif category == "Cc" or category[0] == "Z":
            kept.append(" ")
        elif category != "Cf" and not "\ufe00" <= character <= "\ufe0f":
            kept.append(character)
    return _OPTIONAL_MARKS.sub("", "".join(kept))


def is_letter(character: str) -> bool:
    """True for letters and the marks that are written with them, such as the vowel signs of Hindi and Thai."""
    return unicodedata.category(character)[0] in "LM"
