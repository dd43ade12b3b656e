"""Abbreviations opened, so that the only full stops left are ends of sentences."""

from __future__ import annotations

import re

# Words that start a sentence far more often than they continue a name: a full stop of an
# abbreviation before one of these is the sentence's own as well.
_STARTER = re.compile(
    "A|After|All|Also|An|And|Another|Are|As|At|Before|But|Can|Did|Do|Does|For|From|Go|Has|Have|He|Her|Here|His|How|"
    "However|I|If|In|Is|It|Its|Let|Many|My|No|Nobody|Now|On|One|Our|She|So|Some|That|The|Their|Then|There|These|"
    "They|This|Those|To|Today|Two|Was|We|Were|What|When|Where|Who|Why|Will|With|Would|Yes|Yet|You|Your"
)
# After an abbreviation that often ends a sentence any capitalised word starts one, except
# what commonly follows a time of day ("8 p.m. Monday", "8 p.m. EST").
_SENTENCE_WORD = re.compile(
    r"(?!(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day|Eastern|Pacific|Central|Mountain)[A-Z][a-z]+"
)
_NEXT = re.compile(r"[\"')\]]*(?:\s+[\"'(\[]*([A-Za-z]+)|\s*$)")
_LOOKAHEAD_CHARS = 48

# Followed by a name or a number: the full stop is never a sentence's end.
_PREFIXES = {
    "Mr": "Mister",
    "Mrs": "Missus",
    "Ms": "Miz",
    "Messrs": "Messieurs",
    "Prof": "Professor",
    "Gen": "General",
    "Sen": "Senator",
    "Rep": "Representative",
    "Gov": "Governor",
    "Capt": "Captain",
    "Lt": "Lieutenant",
    "Col": "Colonel",
    "Sgt": "Sergeant",
    "Cpl": "Corporal",
    "Rev": "Reverend",
    "Hon": "Honorable",
    "Pres": "President",
    "Mt": "Mount",
    "Ft": "Fort",
}
# Usable without their full stop too, before a capitalised name.
_BARE_PREFIXES = {"MR": "Mister", "MRS": "Missus", **{key: _PREFIXES[key] for key in ("Mr", "Mrs", "Ms", "Prof")}}
_ANYWHERE = {
    "vs": "versus",
    "approx": "approximately",
    "dept": "department",
    "Dept": "Department",
    "est": "established",
    "Tel": "telephone",
    "tel": "telephone",
    "govt": "government",
    "misc": "miscellaneous",
    "e.g": "for example",
    "E.g": "For example",
    "i.e": "that is",
    "I.e": "That is",
    "cf": "compare",
    "ca": "circa",
    "w/o": "without",
}
# Before a number only.
_NUMBERED = {"Fig": "Figure", "fig": "figure", "Vol": "Volume", "vol": "volume", "Ch": "Chapter", "Sec": "Section"}
# These may end a sentence.
_SUFFIXES = {
    "etc": "et cetera",
    "et al": "and others",
    "Inc": "Incorporated",
    "Ltd": "Limited",
    "Corp": "Corporation",
    "Co": "Company",
    "Bros": "Brothers",
    "Jr": "Junior",
    "Sr": "Senior",
    "Esq": "Esquire",
    "Ave": "Avenue",
    "Blvd": "Boulevard",
    "Rd": "Road",
    "Hwy": "Highway",
    "Ph.D": "P H D",
}


def _alternatives(table: dict[str, str]) -> str:
    return "|".join(sorted(map(re.escape, table), key=len, reverse=True))


_PREFIX = re.compile(rf"\b({_alternatives(_PREFIXES)})\.\s*(?=[A-Z'\"])")
_BARE_PREFIX = re.compile(rf"\b({_alternatives(_BARE_PREFIXES)}) (?=[A-Z])")
_PREFIX_END = re.compile(rf"\b({_alternatives(_PREFIXES)})\.")
_ANY = re.compile(rf"(?<![\w.])({_alternatives(_ANYWHERE)})(?:\.|(?<=w/o)|(?<=vs)\b|(?<=[ei]\.[ge])\b)(?:,(?=\s))?")
_WITH = re.compile(r"(?<!\w)w/(?=\s?\w)\s?")
_BEFORE_NUMBER = re.compile(rf"\b({_alternatives(_NUMBERED)})\.\s?(?=\d)")
_PAGE = re.compile(r"(?<!\w)(pp?)\.\s?(?=\d)")
_SUFFIX = re.compile(rf"(?<![\w.])({_alternatives(_SUFFIXES)})\.")
_SAINT_OR_DOCTOR = re.compile(r"\b(St|Dr|DR)\.?\s(?=([A-Z][A-Za-z]*))")
_AFTER_NAME = re.compile(r"\b[A-Z][a-z]+ $")
_STREET = re.compile(r"(?<=[A-Za-z\d] )(St|Dr)\.")
_STREET_NAME = re.compile(
    r"(?<![\w-])(\d+[A-Za-z]?(?: (?:[NSEW]\.? )?(?:[A-Z][a-z]+|\d+(?:st|nd|rd|th))){1,3}) (St|Dr)\b(\.?)"
)
_MERIDIEM = re.compile(r"(?<=\d)\s?([AaPp])(?:\.\s?[Mm]\.|\.?[Mm]\b)")
_DOTTED = re.compile(r"(?<![\w.])(?:[A-Za-z]\.\s?){1,7}[A-Za-z]\.(?!\w)|(?<![\w.])(?:[A-Za-z]\.){2,8}")
_INITIAL = re.compile(r"(?<![\w.'])([A-HJ-Z])\.(?=\s[A-Z][a-z])")
_INITIALISM = re.compile(
    "AD|AI|API|ATM|BBC|BCE|CE|CEO|CIA|CPU|DIY|DNA|EST|EU|EUR|FAQ|FBI|GPU|IBM|IO|IP|IQ|IRS|ISO|MIT|OCR|OS|RNA|SUV|UFO|"
    "UI|UK|UN|URL|USA|USB|USD|UTC|VIP|[B-DF-HJ-NP-TV-XZ]+"
)
_JOINED = re.compile(r"\b([A-Z]{1,3})\s?&\s?([A-Z]{1,3})\b")  # AT&T
_UPPER = re.compile(r"\b([A-Z]{2,6})(s?)\b")


def _stop(match: re.Match[str], any_capital: bool) -> str:
    """``"."`` if the abbreviation's own full stop also ends the sentence, else nothing."""
    following = _NEXT.match(match.string[match.end() : match.end() + _LOOKAHEAD_CHARS])
    if not following:
        return ""
    word = following[1]
    if word is None:
        return "." if match.end() + _LOOKAHEAD_CHARS >= len(match.string) else ""
    return "." if _STARTER.fullmatch(word) or (any_capital and _SENTENCE_WORD.fullmatch(word)) else ""


def _street(match: re.Match[str]) -> str:
    kind = "Street" if match[2] == "St" else "Drive"
    return f"{match[1]} {kind}{_stop(match, any_capital=False) if match[3] else ''}"


def _saint_or_doctor(match: re.Match[str]) -> str:
    saint = match[1] == "St"
    before = match.string[max(0, match.start() - 32) : match.start()]
    if _STARTER.fullmatch(match[2]) and "." in match[0] and _AFTER_NAME.search(before):
        return "Street. " if saint else "Drive. "
    return "Saint " if saint else "Doctor "


def _dotted(match: re.Match[str]) -> str:
    letters = re.findall("[A-Za-z]", match[0])
    space = " " if match[0][-1] == " " else ""
    return " ".join(letters) + _stop(match, any_capital=False) + space


def _meridiem(match: re.Match[str]) -> str:
    stop = _stop(match, any_capital=True) if match[0].endswith(".") else ""
    return f" {match[1].lower()} m{stop}"


def _initial(match: re.Match[str]) -> str:
    following = _NEXT.match(match.string[match.end() : match.end() + _LOOKAHEAD_CHARS])
    return match[0] if following and _STARTER.fullmatch(following[1] or "") else match[1]


def _letters(match: re.Match[str]) -> str:
    word, plural_s = match.groups()
    if not _INITIALISM.fullmatch(word):
        return match[0]
    return " ".join(word) + ("'s" if plural_s else "")


def spell_abbreviations(text: str) -> str:
    """Titles, addresses, Latin, companies, a.m./p.m. and initials, as words or letters."""
    text = _MERIDIEM.sub(_meridiem, text)
    text = _STREET_NAME.sub(_street, text)
    text = _SAINT_OR_DOCTOR.sub(_saint_or_doctor, text)
    text = _STREET.sub(lambda m: ("Street" if m[1] == "St" else "Doctor") + _stop(m, any_capital=False), text)
    text = _PREFIX.sub(lambda m: _PREFIXES[m[1]] + " ", text)
    text = _BARE_PREFIX.sub(lambda m: _BARE_PREFIXES[m[1]] + " ", text)
    text = _PREFIX_END.sub(lambda m: _PREFIXES[m[1]] + _stop(m, any_capital=True), text)
    text = _ANY.sub(lambda m: _ANYWHERE[m[1]], text)
    text = _WITH.sub("with ", text)
    text = _BEFORE_NUMBER.sub(lambda m: _NUMBERED[m[1]] + " ", text)
    text = _PAGE.sub(lambda m: "page " if m[1] == "p" else "pages ", text)
    text = _SUFFIX.sub(lambda m: _SUFFIXES[m[1]] + _stop(m, any_capital=m[1] in ("etc", "Ph.D")), text)
    text = _DOTTED.sub(_dotted, text)
    return _INITIAL.sub(_initial, text)


def spell_initialisms(text: str) -> str:
    """``TTS``, ``GPUs``: capitals without a vowel, or well-known ones, letter by letter."""
    text = _JOINED.sub(lambda m: f"{' '.join(m[1])} and {' '.join(m[2])}", text)
    # In a text all in capitals a capital word means nothing.
    return _UPPER.sub(_letters, text) if any(c.islower() for c in text) else text
