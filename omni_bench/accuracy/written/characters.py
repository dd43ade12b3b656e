"""What of a text's characters can be heard: invisible ones go, apostrophes and dashes become one, marks stay."""

from __future__ import annotations

import html
import re
import unicodedata

# SSML and control tokens of models: a name, attributes with quoted values. "x < 5 and y > 3" is no tag. What has to be
# looked for has a limit: of a text full of beginnings each would be looked through to its end.
_TAG = re.compile(
    r"""
      <!--.{0,4000}?--> | <\?.{0,4000}?\?> | <\|[^|<>]*\|> | <!\[CDATA\[ | \]\]>
    | (?<!<)</?(?P<name>[A-Za-z][\w:.-]*)(?P<attributes>(?:\s+[\w:.-]+\s*=\s*(?:"[^"]*"|'[^']*'|[^\s"'<>=]+))*)\s*/?>
    """,
    re.VERBOSE | re.DOTALL,
)
_FILLERS = frozenset("\u115f\u1160\u3164\uffa0")
"""Letters of Hangul by category, that show nothing."""
_APOSTROPHES = dict.fromkeys(map(ord, "‘’‛ʼʻʽʹˈ′`´＇ꞌ"), "'")
_LETTERLIKE = {ord("№"): "No. ", ord("™"): " ", ord("℠"): " "}
"""Signs that NFKC makes letters of: one is said otherwise, the others are not said."""
_OPTIONAL_MARKS = re.compile(
    "[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u064b-\u065f\u0670\u06d6-\u06ed\u0640]"
)
"""Vowel points of Hebrew and Arabic, and the Arabic tatweel: most writers leave them out."""
_ENTITY = re.compile(r"&(?:#\d{1,7}|#x[0-9a-f]{1,6}|[a-z][a-z0-9]{1,30});", re.IGNORECASE)
_RAISED = re.compile(r"(?<=[\w)])(?<![⁰¹²³⁴-⁹₀-₉])[⁺⁻]?[⁰¹²³⁴-⁹]+")
"""An exponent, which NFKC makes a digit of its own."""
_DIGITS_THEN_FRACTION = re.compile(r"(?<=\d)(?=[¼-¾⅐-⅞])")


def without_invisible(text: str) -> str:
    """The text in NFKC, entities of HTML as characters, x² as x^2, without tags, control and format characters.

    Format characters are those of zero width, soft hyphens and marks of direction.
    """
    text = _ENTITY.sub(lambda match: html.unescape(match[0]), _without_tags(text)).translate(_APOSTROPHES | _LETTERLIKE)
    text = _RAISED.sub(r"^\g<0>", _DIGITS_THEN_FRACTION.sub(" ", text))
    kept = []
    for character in unicodedata.normalize("NFKC", text).translate(_APOSTROPHES):
        category = unicodedata.category(character)
        if category == "Nd":
            kept.append(str(unicodedata.digit(character)))
        elif category == "Pd" or character == "−":
            kept.append("-")
        elif category == "Cc" or category[0] == "Z":
            kept.append(" ")
        elif category != "Cf" and character not in _FILLERS and not "\ufe00" <= character <= "\ufe0f":
            kept.append(character)
    return _OPTIONAL_MARKS.sub("", "".join(kept))


def _without_tags(text: str) -> str:
    """A bare ``<b>`` inside of a word, as in "a<b>c" and "List<String>", is a tag only if it is closed later."""

    def replaced(match: re.Match[str]) -> str:
        name, before = match["name"], text[: match.start()][-1:]
        bare = name is not None and not match["attributes"] and match[0][1] != "/" and match[0][-2] != "/"
        if bare and before.isalnum() and f"</{name}>" not in text[match.end() :]:
            return match[0]
        return " "

    return _TAG.sub(replaced, text)


def is_letter(character: str) -> bool:
    """True for letters and the marks that are written with them, such as the vowel signs of Hindi and Thai."""
    return unicodedata.category(character)[0] in "LM"
