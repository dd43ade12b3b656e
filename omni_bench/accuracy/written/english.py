"""English: numbers, money, times, dates, units, abbreviations, contractions and spelling, all as words.

Spelling is American, by the list in whisper.normalizers (tysto.com/uk-us-spelling-list.html).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

from omni_bench.accuracy.written.english_numbers import (
    MONTHS,
    ORDINAL_READINGS,
    clock,
    date,
    day_of_month,
    decade,
    feet_and_inches,
    fraction,
    money,
    number,
    ordinal,
    power,
    roman,
    time_of_day,
    version,
)
from omni_bench.accuracy.written.readings import Place, place

_NUMBER = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\d])|\d+(?:\.\d+)?|\.\d+"
_SCALES = "thousand|million|billion|trillion|k|m|mn|bn|tn"
_CODES = "usd|gbp|eur|jpy|inr|chf"
_MONTH_NAMES = (*MONTHS, "jan", "feb", "mar", "apr", "jun", "jul", "aug", "sept", "sep", "oct", "nov", "dec")
_UNITS_PER = {
    "km/h": "kilometers per hour|kilometers an hour",
    "m/s": "meters per second",
    "m/s^2": "meters per second squared|meters per square second",
    "mb/s": "megabytes per second",
}
_TOKEN = re.compile(
    rf"""
      (?P<money>(?:(?<![\w.)])(?P<minus>-))?
        (?:(?P<sign>(?:\bus)?[$£€¥₹]|\b(?:{_CODES})\b)\s?(?P<amount>{_NUMBER})(?:[\s-]?(?P<scale>{_SCALES})\b)?
          |(?P<amount_behind>{_NUMBER})\s?(?:(?P<scale_behind>{_SCALES})\s)?(?P<sign_behind>[£€¥₹]|(?:{_CODES})\b)))
    | (?P<clock>(?<![\d:])\d{{1,2}}:[0-5]\d:[0-5]\d(?![\d:]))
    | (?P<span>\b\d{{1,3}}\s?h\s?\d{{1,2}}\s?m(?:in)?\b)
    | (?P<time>\d{{1,2}}:\d{{2}}(?!\d))
    | (?P<date>(?<![\d/-])(?:\d{{1,2}}/\d{{1,2}}/(?:\d{{4}}|\d{{2}})|\d{{4}}-\d{{2}}-\d{{2}})(?![\d/-]))
    | (?P<monthday>(?:{"|".join(_MONTH_NAMES)})\.?\ (?:the\ )?\d{{1,2}}(?:st|nd|rd|th)?(?![\d:/.]\d|\d)
        | (?:the\ )?\b\d{{1,2}}(?:st|nd|rd|th)?\ (?:of\ )?(?:{"|".join(_MONTH_NAMES)})\b)
    | (?P<area>\b(?:km|cm|mm|m|ft|mi)\^?[23]\b)
    | (?P<power>\^-?\d{{1,9}})
    | (?P<feet>\d{{1,2}}'\s?\d{{1,2}}(?:"|''))
    | (?P<fraction>(?<![\d/])\d{{1,3}}[/⁄]\d{{1,3}}(?![\d/]))
    | (?P<version>\d+(?:\.\d+){{2,}})
    | (?P<ordinal>\d[\d,]{{0,99}}(?:st|nd|rd|th)\b)
    | (?P<decade>'?\d+0'?s\b)
    | (?P<number>(?:(?<![\w.)])-)?(?:{_NUMBER}))
    | (?P<dotted>(?:[^\W\d_]\.)+[^\W\d_]\b\.?)
    | (?P<per>(?:km/h|m/s\^2|m/s|mb/s)\b)
    | (?P<with>\bw/o?(?=\s))
    | (?P<sharp>\b[acdfg]\#(?!\w))
    | (?P<word>[^\W\d_]+(?:'[^\W\d_]+)*\.?)
    | (?P<symbol>°\s?[cf]\b|[<>]=|[-=]>|[-.,:/&%‰+=<>@\#°*×÷~^$£€¥₹¢'±≠≤≥≈√∞§©])
    """,
    re.VERBOSE,
)

_FILLERS = {"uh": "um", "um": "um", "uhm": "um", "er": "um", "erm": "um"}
_FILLERS |= dict.fromkeys(("hm", "hmm", "hmmm", "mm", "mmm", "mhm"), "hmm")

_ABBREVIATIONS = {
    "mr": "mister",
    "mrs": "missus|misses",
    "ms": "miz|miss|ms",
    "dr": "doctor|drive",
    "st": "saint|street",
    "vs": "versus",
    "jr": "junior",
    "sr": "senior|sister",
    "prof": "professor",
    "etc": "et cetera|etcetera",
    "etcetera": "et cetera",
    "https": "|https|h t t p s",
    "http": "|http|h t t p",
    "approx": "approximately",
    "dept": "department",
    "assoc": "associate|association",
    "asst": "assistant",
    "ave": "avenue",
    "blvd": "boulevard",
    "rd": "road",
    "capt": "captain",
    "lt": "lieutenant",
    "sgt": "sergeant",
    "esq": "esquire",
    "inc": "incorporated",
    "ltd": "limited",
    "mt": "mount",
    "ft": "fort|feet|foot",
    "π": "pi",
    "okay": "okay|ok",
    "ok": "okay|ok",
    "alright": "all right",
    "wanna": "want to|want a",
    "gonna": "going to",
    "gotta": "got to|got a",
    "gimme": "give me",
    "imma": "i am going to",
    "cannot": "can not",
    "cuz": "because",
    "n": "n|and",
    "woulda": "would have",
    "coulda": "could have",
    "shoulda": "should have",
    "ww": "world war",
    "wwii": "world war two",
    "aka": "also known as",
    "asap": "as soon as possible",
    "eg": "for example",
    "ie": "that is",
}
"""With or without a full stop."""
_STOPPED = {
    "no": "number",
    "ch": "chapter",
    "min": "minimum|minutes|minute",
    "max": "maximum",
    "p": "page",
    "pp": "pages",
    "gen": "general",
    "col": "colonel",
    "sen": "senator",
    "rep": "representative",
    "gov": "governor",
    "rev": "reverend",
    "pres": "president",
    "hon": "honorable",
    "vol": "volume",
    "fig": "figure",
    "art": "article",
    "sec": "section",
    "co": "company",
    "corp": "corporation",
    "jan": "january",
    "feb": "february",
    "mar": "march",
    "apr": "april",
    "aug": "august",
    "sep": "september",
    "sept": "september",
    "oct": "october",
    "nov": "november",
    "dec": "december",
    "mon": "monday",
    "tue": "tuesday",
    "tues": "tuesday",
    "wed": "wednesday",
    "thu": "thursday",
    "thurs": "thursday",
    "fri": "friday",
    "sat": "saturday",
    "sun": "sunday",
}
"""Only with a full stop, which may also end a sentence: they are words of their own too."""
_MONTHS = frozenset(MONTHS)
_SHORT_MONTHS = {short: name for short, name in _STOPPED.items() if name in _MONTHS}
_UNITS = {
    "km": "kilometers|kilometer",
    "cm": "centimeters|centimeter",
    "mm": "millimeters|millimeter",
    "m": "meters|meter|million",
    "mi": "miles|mile",
    "ft": "feet|foot",
    "yd": "yards|yard",
    "kg": "kilograms|kilogram|kilos|kilo",
    "g": "grams|gram",
    "mg": "milligrams|milligram",
    "lb": "pounds|pound",
    "lbs": "pounds|pound",
    "oz": "ounces|ounce",
    "l": "liters|liter",
    "ml": "milliliters|milliliter",
    "h": "hours|hour",
    "hr": "hours|hour",
    "hrs": "hours|hour",
    "min": "minutes|minute",
    "mins": "minutes|minute",
    "sec": "seconds|second",
    "secs": "seconds|second",
    "s": "seconds|second",
    "ms": "milliseconds|millisecond",
    "hz": "hertz",
    "khz": "kilohertz",
    "mhz": "megahertz",
    "ghz": "gigahertz",
    "kb": "kilobytes|kilobyte",
    "mb": "megabytes|megabyte",
    "gb": "gigabytes|gigabyte",
    "tb": "terabytes|terabyte",
    "w": "watts|watt",
    "kw": "kilowatts|kilowatt",
    "kwh": "kilowatt hours|kilowatt hour",
    "v": "volts|volt",
    "mph": "miles per hour|miles an hour",
    "in": "in|inches|inch",
    "p": "pence|p",
    "μm": "micrometers|micrometer|microns",
    "hpa": "hectopascals|hectopascal",
    "kbps": "kilobits per second",
    "mbps": "megabits per second|megabits a second",
    "gbps": "gigabits per second|gigabits a second",
    "kph": "kilometers per hour|kilometers an hour",
    "db": "decibels|decibel",
    "k": "thousand|kelvin",
    "bn": "billion",
    "x": "times|by",
}
"""Only after a number."""
_SYMBOLS = {
    "&": "and|ampersand",
    "%": "percent",
    "‰": "per mille|per mil|permille|per thousand",
    "±": "plus or minus|plus minus",
    "≠": "is not equal to|not equal to|does not equal",
    "≤": "less than or equal to|is less than or equal to|at most",
    "≥": "greater than or equal to|is greater than or equal to|at least",
    "≈": "approximately|about|is approximately|is approximately equal to",
    "√": "square root of|the square root of|root",
    "∞": "infinity",
    "§": "section",
    "©": "|copyright",
    "+": "plus|and",
    "=": "equals|is|is equal to|equal to",
    "<": "less than|is less than|smaller than|is smaller than",
    ">": "greater than|is greater than|more than|is more than|larger than",
    "<=": "less than or equal to|is less than or equal to|at most",
    ">=": "greater than or equal to|is greater than or equal to|at least",
    "->": "|to|arrow",
    "=>": "|to|arrow",
    "@": "at",
    "#": "number|hash|hashtag|",
    "°": "degrees|degree",
    "×": "times|by|x",
    "÷": "divided by",
    "/": "|slash|or|per|over|and",
    "-": "|to|dash|hyphen|minus",
    ".": "|dot|point",
    "*": "|times|star|asterisk",
    "~": "|about|approximately|tilde",
    "^": "|caret",
    "$": "dollar|dollars|",
    "£": "pound|pounds|",
    "€": "euro|euros|",
    "¢": "cents|cent",
    ":": "|to",
    "¥": "yen|",
    "₹": "rupees|rupee|",
}
_CONTRACTIONS = {
    "won't": "will not",
    "shan't": "shall not",
    "can't": "can not",
    "ain't": "aint|is not|am not|are not",
    "let's": "let us",
    "y'all": "you all",
    "ma'am": "madam|mam|maam",
    "'em": "them",
    "o'clock": "oclock|",
    "i'ma": "i am going to",
}
_ENDINGS = {"n't": "not", "'re": "are", "'ll": "will|shall", "'ve": "have", "'m": "am", "'d": "would|had|did"}
_OTHER_WORDS = frozenset(["were", "ill", "hell", "well", "shell", "wed", "shed", "id"])
"""What a contraction without its apostrophe would be."""
_IS = frozenset(
    [
        "he",
        "she",
        "it",
        "that",
        "this",
        "what",
        "who",
        "where",
        "there",
        "here",
        "how",
        "when",
        "why",
        "everything",
        "one",
    ]
)


def english_places(text: str) -> list[Place]:
    """The places of a text of :func:`.characters.visible`."""
    tokens = list(_TOKEN.finditer(_plain(text)))
    found: list[Place] = []
    for index, match in enumerate(tokens):
        found += _read(match, tokens[index - 1] if index else None)
    return _in_context(found)


def _plain(text: str) -> str:
    """Lower-case letters without diacritics. Roman numerals are marked before their case is lost."""
    from whisper.normalizers.basic import ADDITIONAL_DIACRITICS  # imports torch

    text = "".join(ADDITIONAL_DIACRITICS.get(character, character) for character in text.replace("_", " "))
    text = "".join(one if one == "≠" else unicodedata.normalize("NFKD", one) for one in text)
    bare = "".join(one for one in text if unicodedata.category(one) != "Mn")
    return re.sub(
        r"\b(?=[IVXL]{2})(XL|L?X{0,3})(IX|IV|V?I{0,3})(?<=[IVXL])\b(?!')", lambda match: f"{match[0]}_", bare
    ).lower()


@lru_cache(maxsize=1)
def _american() -> dict[str, str]:
    from whisper.normalizers.english import EnglishSpellingNormalizer

    return EnglishSpellingNormalizer().mapping


def _spelled(word: str) -> str:
    return _american().get(word, word)


def _readings(listed: str) -> Place:
    return place(*(" ".join(map(_spelled, reading.split())) for reading in listed.split("|")))


def _read(match: re.Match[str], before: re.Match[str] | None) -> Iterator[Place]:
    kind, said = match.lastgroup, match[0]
    text, start = match.string, match.start()
    if match["money"]:
        sign, amount, scale = (match[name] or match[f"{name}_behind"] for name in ("sign", "amount", "scale"))
        readings = money(sign, amount.replace(",", ""), scale)
        if re.match(r"\s?(?:-|to)\s?[$£€¥₹]", text[match.end() :]):  # $10-$20
            readings += tuple((*one, "to") for one in number(amount.replace(",", ""), grouped=True))
        signs = [("minus",), ("negative",)] if match["minus"] else [()]
        yield tuple((*first, *rest) for first in signs for rest in readings)
    elif kind == "clock":
        yield clock(*map(int, said.split(":")))
    elif kind == "span":
        yield clock(*map(int, re.findall(r"\d+", said)), 0)
    elif kind == "power":
        yield power(said[1:])
    elif kind == "with":
        yield place("with" if said == "w/" else "without")
    elif kind == "sharp":
        yield place(said[0])
        yield place("sharp", "number", "hash")
    elif kind == "time":
        yield time_of_day(*map(int, said.split(":")))
    elif kind == "date":
        yield date(said)
    elif kind == "monthday":
        yield day_of_month(said)
    elif kind == "area":
        short, square = said[:-1].removesuffix("^"), said[-1] == "2"
        unit, prefix = _UNITS[short].split("|")[0], "square" if square else "cubic"
        yield _readings(f"{prefix} {unit}|{unit} {'squared' if square else 'cubed'}|{prefix} {short}")
    elif kind == "feet":
        yield feet_and_inches(*map(int, re.findall(r"\d+", said)))
    elif kind == "fraction":
        yield fraction(*map(int, re.split("[/⁄]", said)))
    elif kind == "version":
        yield version(said)
    elif kind == "ordinal":
        yield ordinal(re.sub(r"\D", "", said))
    elif kind == "decade":
        yield decade(re.sub(r"\D", "", said))
    elif kind == "number":
        yield number(said.replace(",", ""), grouped="," in said)
    elif kind == "dotted":
        yield _word(said.replace(".", ""), stopped=False)
    elif kind == "per":
        yield _readings(_UNITS_PER[said])
    elif kind == "symbol":
        yield from _symbol(said, text, start)
    else:
        after_number = before is not None and (
            (before.lastgroup in ("number", "fraction") and start - before.end() <= 1)
            or (before[0] == "-" and before.end() == start and text[before.start() - 1 : before.start()].isdigit())
        )
        stopped, word = said.endswith("."), said.removesuffix(".")
        before_number = text[match.end() : match.end() + 1].isdigit()
        if word in _UNITS and after_number:
            yield _readings(f"{_UNITS[word]}|{word}")
        elif text[match.end() : match.end() + 1] == "_" and set(word) <= set("ivxl"):
            yield roman(word)
        elif word == "v" and before_number:
            yield place("v", "version")
        else:
            yield _word(word, stopped)
            if stopped and text[match.end() : match.end() + 1].isalnum():
                yield _readings(_SYMBOLS["."])  # an address, or a full stop without a space


def _symbol(said: str, text: str, start: int) -> Iterator[Place]:
    if said in ",'":
        return
    if said[0] == "°" and len(said) > 1:
        scale = "celsius" if said[-1] == "c" else "fahrenheit"
        yield place(f"degrees {scale}", "degrees", f"degrees {said[-1]}", f"degree {scale}", scale)
        return
    before, after = text[start - 1 : start], text[start + 1 : start + 2]
    inside = (before.isalnum() or (said == "-" and before in (".", ")"))) and after.isalnum()
    if said == "*":
        inside = inside or (text[:start].rstrip()[-1:].isdigit() and text[start + 1 :].lstrip()[:1].isdigit())
    if said in "-./*:" and not inside:
        return
    listed = _SYMBOLS[said]
    if said == "+" and not (after + text[start + 2 : start + 3]).strip()[:1].isalnum():
        listed += "|"  # 18+, C++
    opens = said == "<" and not before.isalnum() and after.strip()
    if opens or (said == ">" and (before.strip() or not start) and not after.isalnum()):
        listed += "|"  # a bracket: <hello world>
    yield _readings(listed)


def _word(word: str, stopped: bool) -> Place:
    if word in _FILLERS:
        return place(_FILLERS[word], "")
    if word in _ABBREVIATIONS:
        return _readings(f"{_ABBREVIATIONS[word]}|{word}")
    if word in _STOPPED:
        return _readings(f"{word}|{_STOPPED[word]}" if stopped else word)
    if word in _CONTRACTIONS:
        return _readings(f"{_CONTRACTIONS[word]}|{word.replace(chr(39), '')}")
    for ending, listed in _ENDINGS.items():
        if word.endswith(ending) and len(word) > len(ending):
            base = word.removesuffix(ending)
            bare = word.replace("'", "")
            bases = _word(base, stopped=False) if "'" in base else ((base,),)  # shouldn't've
            said = [f"{' '.join(first)} {one}" for first in bases for one in listed.split("|")]
            return place(*said, *([] if bare in _OTHER_WORDS else [bare]))
    if word.endswith("'s"):
        base = _spelled(word[:-2])
        readings = [f"{base} is", f"{base} has"], [f"{base}s"]
        first, then = readings if base in _IS else readings[::-1]
        return place(*first, *then, f"{base} s", *([base] if base.endswith("s") else []))
    return place(_spelled(word.replace("'", "")))


def _in_context(places: list[Place]) -> list[Place]:
    """What depends on the neighbours: "a hundred" and "and" in numbers, days and months, "a" beside a fraction."""
    found = list(places)
    for index, readings in enumerate(places):
        word = readings[0]
        before = places[index - 1][0] if index else ()
        after = places[index + 1][0] if index + 1 < len(places) else ()
        if (
            word == ("a",)
            and after[:1]
            and after[0] in ("hundred", "thousand", "million", "billion", "half", "quarter")
        ):
            found[index] = place("one", "a", "")
        elif word == ("and",) and before[-1:] and before[-1] in ("hundred", "thousand", "million"):
            found[index] = place("", "and")
        elif (
            word == ("and",) and before[-1:] and before[-1] in ("dollars", "pounds", "euros", "dollar", "pound", "euro")
        ):
            found[index] = place("and", "")
        elif readings in ORDINAL_READINGS and {*before[-1:], *after[:1]} & (_MONTHS | _SHORT_MONTHS.keys()):
            found[index] = (*readings, *ORDINAL_READINGS[readings])
        elif len(word) == 1 and word[0] in _SHORT_MONTHS and _beside_a_day(places, index):
            found[index] = (*readings, (_SHORT_MONTHS[word[0]],))
    return found


def _beside_a_day(places: list[Place], index: int) -> bool:
    return any(one in ORDINAL_READINGS for one in (*places[max(index - 1, 0) : index], *places[index + 1 : index + 2]))
