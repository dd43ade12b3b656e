"""Unicode folding: everything that has an ASCII look-alike becomes it; digits become 0-9.

Symbols that later passes read aloud (currency, degree, Greek letters and so on) stay.
"""

from __future__ import annotations

import re
import unicodedata

# Letters that have no canonical decomposition.
_LETTERS = {
    "ß": "ss",
    "ẞ": "SS",
    "æ": "ae",
    "Æ": "Ae",
    "œ": "oe",
    "Œ": "Oe",
    "ø": "o",
    "Ø": "O",
    "đ": "d",
    "Đ": "D",
    "ð": "d",
    "Ð": "D",
    "ł": "l",
    "Ł": "L",
    "þ": "th",
    "Þ": "Th",
    "ı": "i",
}
_PUNCTUATION = {
    **dict.fromkeys("‘’‚‛ʼ′`´", "'"),
    **dict.fromkeys("“”„‟«»″", '"'),
    **dict.fromkeys("‐‑‒–⁃", "-"),
    **dict.fromkeys("—―⸺", " -- "),
    **dict.fromkeys("™®©℠", ""),
    "…": "...",
    "№": "No. ",
    "⁄": "/",
    "∕": "/",
    "·": " ",
    "•": ", ",
    "\u200b": "",
    "\ufeff": "",
}
_TABLE = str.maketrans({**_LETTERS, **_PUNCTUATION})

_VULGAR_FRACTION = re.compile(r"[¼-¾⅐-⅞↉]")
_SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻"
# An exponent follows a number, a bracket or a symbol of up to three letters (a unit, a
# variable); after a longer word a superscript is a footnote mark.
_EXPONENT = re.compile(rf"(?:(?<=[0-9)])|(?<=\b[A-Za-z])|(?<=\b[A-Za-z]{{2}})|(?<=\b[A-Za-z]{{3}}))[{_SUPERSCRIPTS}]+")
_FOOTNOTE = re.compile(rf"[{_SUPERSCRIPTS}]+")
_PARAGRAPH = re.compile(r"(?<=\w)[^\S\n]*\n[^\S\n]*\n\s*(?=\S)")
_GROUPING_SPACE = re.compile(r"(?<=\d)[\u00a0\u2009\u202f](?=\d{3}(?!\d))")
_DOTTED_MILLIONS = re.compile(r"(?<![\w.])\d{1,3}\.\d{3}\.\d{3}(?![\w]|\.\d)")
_SPACED_THOUSANDS = re.compile(r"(?<![\w.,+-])(?<!\d )\d{1,3}(?: 000){1,4}(?![\w-]| \d)")


def _exponent(match: re.Match[str]) -> str:
    return "^" + unicodedata.normalize("NFKC", match[0]).replace("−", "-").replace("+", "")


def _fold_character(character: str) -> str:
    category = unicodedata.category(character)
    if category in ("Mn", "Me", "Cf", "Cs", "Co", "Cn"):
        return ""  # accents, joiners, surrogates, private use
    if category[0] == "Z" or category == "Cc":
        return " "
    if category[0] == "N" and not character.isascii():
        digit = unicodedata.digit(character, None)
        return "" if digit is None else str(digit)
    return character


def fold_unicode(text: str) -> str:
    """Fold quotes, dashes, ligatures, accents, superscripts and foreign digits.

    An empty line after a word (the end of a heading or paragraph) becomes a full stop; all
    other white space one space.
    """
    text = _PARAGRAPH.sub(". ", text)
    text = _GROUPING_SPACE.sub("", text)
    text = _SPACED_THOUSANDS.sub(lambda m: m[0].replace(" ", ""), text)
    text = _DOTTED_MILLIONS.sub(lambda m: m[0].replace(".", ""), text)
    text = _VULGAR_FRACTION.sub(lambda m: " " + unicodedata.normalize("NFKC", m[0]) + " ", text)
    text = _EXPONENT.sub(_exponent, text)
    text = _FOOTNOTE.sub("", text)
    text = re.sub(r"º\s?(?=[CF]\b)", "°", text)
    text = re.sub(r"(?<=\s)−(?=\s)", "minus", text).replace("−", "-")
    text = unicodedata.normalize("NFKD", text.translate(_TABLE))
    text = "".join(map(_fold_character, text.translate(_TABLE)))
    return re.sub(r"\s+", " ", text).strip()
