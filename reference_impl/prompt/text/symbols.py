"""Addresses of the net, symbols and punctuation: what is left becomes the talker's alphabet."""

from __future__ import annotations

import re
import unicodedata

_NET_NAMES = {
    ".": " dot ",
    "/": " slash ",
    "@": " at ",
    "-": " dash ",
    "_": " underscore ",
    ":": " colon ",
    "?": " question mark ",
    "=": " equals ",
    "&": " and ",
    "#": " hash ",
    "+": " plus ",
    "%": " percent ",
    "~": " tilde ",
}
_NET = re.compile(
    r"(?<![\w.+-])(?:"
    r"[\w.+-]{1,64}@[A-Za-z\d-]{1,63}(?:\.[A-Za-z\d-]{1,63}){1,8}"  # name@example.com
    r"|(?:https?://|www\.)[^\s<>\"]+"
    r"|[A-Za-z\d-]{1,63}(?:\.[A-Za-z\d-]{1,63}){0,6}\.(?:com|org|net|edu|gov|io|ai|dev|co\.uk)(?:/[^\s<>\"]*)?"
    r")(?![\w-])"
)
_INNER_DOT = re.compile(r"(?<=[A-Za-z\d])\.(?=[a-z])")
_GLUED_SENTENCE = re.compile(r"(?<=[a-z])([.?!])(?=[A-Z])")
_GREEK = re.compile(r"(?<![Ͱ-Ͽ])[Ͱ-Ͽ](?![Ͱ-Ͽ])")
_WORDS = (
    (re.compile(r"\band/or\b"), "and or"),
    (re.compile(r"(?<=\S)\s?≥\s?|>=\s?"), " greater than or equal to "),
    (re.compile(r"≤|<="), " less than or equal to "),
    (re.compile(r"≠|!="), " does not equal "),
    (re.compile(r"<?-+>|→"), ", "),
    (re.compile(r"={1,2}"), " equals "),
    (re.compile(r"&"), " and "),
    (re.compile(r"\+"), " plus "),
    (re.compile(r"@"), " at "),
    (re.compile(r"%"), " percent "),
    (re.compile(r"\b([CF])#"), r"\1 sharp"),
    (re.compile(r"#(?=\w)"), " hashtag "),
    (re.compile(r"÷"), " divided by "),
    (re.compile(r"×"), " times "),
    (re.compile(r"±"), " plus or minus "),
    (re.compile(r"≈"), " about "),
    (re.compile(r"(?<=\s)<(?=\s)"), " less than "),
    (re.compile(r"(?<=\s)>(?=\s)"), " greater than "),
    (re.compile(r"(?<=\w)\s?/\s?(?=\w)"), " slash "),
    (re.compile(r"\$"), " dollar "),
    (re.compile(r"£"), " pound "),
    (re.compile(r"€"), " euro "),
    (re.compile(r"°"), " degrees "),
    (re.compile(r"§"), " section "),
    (re.compile(r"∞"), " infinity "),
    (re.compile(r"√"), " square root of "),
)
_PAUSE = re.compile(r"\s-+\s|-{2,}|[:;()\[\]{}]")
_ELLIPSIS = re.compile(r"\.{2,}\s*(?=(\S)?)")
_APOSTROPHE = re.compile(r"(?<![A-Za-z])'|'(?![A-Za-z])")
_OUTSIDE = re.compile(r"[^A-Za-z' ,.?!]+")
_MARKS = re.compile(r"[,.?!](?:[\s,.?!]*[,.?!])?")


def _net(match: re.Match[str]) -> str:
    address = re.sub(r"^https?://", "", match[0])
    body = address.rstrip(".,!?:;')\"/")
    tail = address[len(body) :].lstrip("/")
    return "".join(_NET_NAMES.get(c, c) for c in body) + tail


def _greek(match: re.Match[str]) -> str:
    return f" {unicodedata.name(match[0], '').lower().split(' letter ')[-1].split(' ')[-1]} "


def _ellipsis(match: re.Match[str]) -> str:
    following = match[1]
    return ". " if following is None or following.isupper() else ", "


def _mark(match: re.Match[str]) -> str:
    # The strongest of a run: "?!" is a question, ",." ends the sentence.
    return next(mark for mark in "?!.," if mark in match[0]) + " "


def spell_addresses(text: str) -> str:
    """``info@example.com`` -> ``info at example dot com``; digits in them are left for later."""
    return _NET.sub(_net, text)


def spell_symbols(text: str) -> str:
    """Symbols as words, other characters dropped: only letters and ``' , . ? !`` remain."""
    text = _INNER_DOT.sub(" dot ", _GLUED_SENTENCE.sub(r"\1 ", text))
    for pattern, words in _WORDS:
        text = pattern.sub(words, text)
    text = _ELLIPSIS.sub(_ellipsis, _PAUSE.sub(", ", _GREEK.sub(_greek, text)))
    text = _APOSTROPHE.sub("", _OUTSIDE.sub(" ", text.replace("-", " ")))
    text = _MARKS.sub(_mark, re.sub(r"\s+(?=[,.?!])", "", text))
    return re.sub(r"\s+", " ", text).lstrip(",.?! ").rstrip(", ")
