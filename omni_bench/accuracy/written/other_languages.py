"""Languages other than English and Chinese: numbers, units, money, times, dates, ordinals and abbreviations as words.

Number words are those of :mod:`.number_words`; names of units, currencies, scales, months and days those of the CLDR
(by Babel).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from datetime import date as calendar_date
from functools import lru_cache
from itertools import islice, product

from omni_bench.accuracy.written.characters import is_letter, without_invisible
from omni_bench.accuracy.written.number_words import num2words_says, number_words
from omni_bench.accuracy.written.readings import Place, place
from omni_bench.accuracy.written.tables import (
    ABBREVIATIONS,
    AND_A_HALF,
    ARTICLES,
    BELOW_ABOVE,
    CURRENCIES,
    FRACTIONS,
    HOUR_WORDS,
    OF_MILLIONS,
    ONE_AND_A_HALF,
    ORDINAL_MARKS,
    PAST,
    SAID,
    SHORT_CURRENCIES,
    SHORT_UNITS,
    SIGNS,
    SQUARED,
    STOP_ORDINALS,
    STREETS,
    TO,
    UNITS,
    YEAR_ORDINALS,
)

_NUMBER = r"(?:[1-9]\d{0,2}(?:\ \d{3}(?!\d))+(?:[.,]\d+)?|\d[\d.,'\u066b\u066c]*)"
_GROUPED = re.compile(r"\d{1,3}(?:([.,' ])\d{3})(?:\1\d{3})*(?!\d)")
_DECIMAL = re.compile(r"(\d+)[.,\u066b](\d+)(?![.,]?\d)")
_ROMAN = re.compile(
    r"\b(?=[IVXLC]{2})C{0,3}(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})(?<=[IVXLC])(?=(?:er|ers|e|es|ème|eme|[oa])?\b)"
)
_MARK = "\ue000"
"""Before a Roman numeral, whose case is lost later."""
_UNIT_OF = {symbol: unit for unit, symbols in UNITS.items() for symbol in symbols.split()}
_COUNTS = (1, 2, 5, 1.5)
"""Of which at least one needs each form that a noun has beside a number (CLDR, plural rules)."""
_MOST_READINGS, _MOST_DATES = 240, 2400
"""Of one place: what a long one may be said like is a product."""
_ALEFS = str.maketrans({"أ": "ا", "إ": "ا", "آ": "ا", "ٱ": "ا", "ك": "ک", "ي": "ی", "ى": "ی"})
_CEDILLAS = str.maketrans("şţŞŢ", "șțȘȚ")

_TONES = {
    f"{first}{tone}": f"{toned}{second}"
    for first, second, tones, toneds in (
        ("o", "a", "àáảãạ", "òóỏõọ"), ("o", "e", "èéẻẽẹ", "òóỏõọ"), ("u", "y", "ỳýỷỹỵ", "ùúủũụ")
    )
    for tone, toned in zip(tones, toneds, strict=True)
}  # fmt: skip
"""Vietnamese writes the tone on either vowel: hoà, hòa."""
_VIETNAMESE = re.compile(rf"(?<!q)(?:{'|'.join(_TONES)})(?![^\W\d_])")
_SAME_NASALS = re.compile("ङ्(?=[क-घ])|ञ्(?=[च-झ])|ण्(?=[ट-ढ])|न्(?=[त-ध])|म्(?=[प-भ])")
_DEVANAGARI = ("hi", "mr", "ne", "sa")
_DOTTED_TIMES = frozenset(["it", "pl", "tr", "fi", "da", "no", "nn", "sv", "id"])
"""Languages that write 15.30."""
_DOTTED_TIME = re.compile(r"(2[0-4]|[01]?\d)\.([0-5]\d)")


def spoken_places(text: str, code: str) -> Iterator[Place]:
    """The places of a text of :func:`.characters.without_invisible` in the language of Whisper's ``code``."""
    text, end = folded(_ROMAN.sub(lambda match: _MARK + match[0], text), code), 0
    for match in _tokens(code).finditer(text):
        yield from _plain(text[end : match.start()])
        said, end = match[0], match.end()
        if match["clock"]:
            yield _clock(*map(int, said.split(":")), code)
        elif match["date"]:
            yield _date(said, code)
        elif match["fraction"]:
            yield _fraction(match["whole"], *re.findall(r"\d+", said)[-2:], code)
        elif match["time"]:
            yield _time(int(match["hour"]), int(match["minute"]), code)
        elif match["roman"]:
            yield _roman(said.removeprefix(_MARK), code)
        elif match["ordinal"]:
            yield _ordinal(match["ordinal"], code)
        elif match["money"]:
            amount, scale = (match[f"{name}_before"] or match[f"{name}_behind"] for name in ("amount", "scale"))
            yield from _money(match["before"] or match["behind"], amount, scale, code)
        elif match["measure"]:
            yield from _measure(
                match["measured"] or match["measured_behind"], match["unit"] or match["unit_before"], code
            )
        elif match["number"]:
            numbers = list(_numbers(said, code))
            if len(numbers) == 1 and re.fullmatch("[12]?\\d|3[01]", said) and _before_a_month(text[end:], code):
                numbers = [place(*map(" ".join, numbers[0]), *_ordinals(said, code))]
            time = _DOTTED_TIME.fullmatch(said.rstrip(".,")) if code in _DOTTED_TIMES else None
            if len(numbers) == 1 and time is not None:
                numbers = [(*numbers[0], *_time(int(time[1]), int(time[2]), code))]
            yield from numbers
        elif match["power"]:
            yield _power(match["exponent"], code)
        elif match["sign"]:
            sign = said.strip()
            around = (text[: match.start()].rstrip()[-1:], text[match.end() :].lstrip()[:1])
            words = _sign_words(sign.replace("*", "×"), code) or [sign]
            is_spoken = sign in "-@&" or (sign != "*" and all(map(str.isalnum, around)))
            yield place(*([] if is_spoken else [""]), *words)
        elif match["dot"]:
            yield place("", *_sign_words(".", code))
        elif match["dash"]:
            yield place("", *_sign_words("-", code)[:1], *folded(TO.get(code, ""), code).split("|"))
        elif said in _UNIT_OF:
            yield place(*_unit_words(_UNIT_OF[said], code) or [said], *_short_unit(_UNIT_OF[said], code))
        elif match["unspoken"]:
            yield ((said,),)
        else:
            longs = {short.replace(".", ""): words for short, words in _abbreviations(code).items()}
            yield place(_words_of(said), *longs[_short_key(said).replace(".", "")])
    yield from _plain(text[end:])


def _plain(text: str) -> Iterator[Place]:
    return (((word,),) for word in _words_of(text).split())


def folded(text: str, code: str) -> str:
    """Letters without what some writers leave out: their case, "ё" for "е" in Russian, hamzas in Arabic, the tonos of
    Greek; "Straße" as "strasse", of Turkish "İ" as "i" and "I" as "ı", of Romanian the cedilla as a comma; of Hindi the
    nasals that are one sign (हिन्दी, हिंदी) and the dots of foreign sounds (फ़ोन, फोन)."""
    if code in ("tr", "az"):
        text = text.replace("İ", "i").replace("I", "ı")
    text = text.casefold().replace("i\u0307", "i")
    text = text.replace("œ", "oe").replace("æ", "ae") if code not in ("da", "no", "nn", "is", "fo") else text
    if code == "ru":
        text = text.replace("ё", "е")
    elif code in ("ar", "fa", "ur"):
        text = text.translate(_ALEFS)
        text = text.replace("ة", "ه").replace("مائ", "مئ") if code == "ar" else text
    elif code in _DEVANAGARI:
        text = re.sub("([क-घजफ])\u093c", r"\1", unicodedata.normalize("NFD", text))
        text = _SAME_NASALS.sub("\u0902", text.replace("\u0901", "\u0902"))
    elif code == "nl":
        text = text.replace("één", "een")
    elif code == "ko":
        text = re.sub("(?<![가-힣])유월", "육월", re.sub("(?<![가-힣])시월", "십월", text))
    elif code == "it":
        text = re.sub(r"é\b", "è", text)
    elif code == "ja":
        text = re.sub("(.)々", r"\1\1", text.replace("〇", "零"))
    elif code == "vi":
        text = _VIETNAMESE.sub(lambda found: _TONES[found[0]], unicodedata.normalize("NFC", text))
    elif code == "ro":
        text = text.translate(_CEDILLAS)
    elif code == "el":
        text = unicodedata.normalize("NFD", text).replace("\u0301", "")
    if code in STREETS:
        text = re.sub(r"(?<=[^\W\d_])str\.", STREETS[code].casefold(), text)
    return unicodedata.normalize("NFC", text)


@lru_cache(maxsize=8)
def _tokens(code: str) -> re.Pattern[str]:
    signs = "|".join(
        re.escape(sign) + (r"(?![^\W\d_])" if sign[-1].isalpha() else "")
        for sign in sorted(_currencies(code), key=len, reverse=True)
    )
    units = "|".join(re.escape(symbol) for symbol in sorted(_symbols(code), key=len, reverse=True))
    scales = "|".join(re.escape(scale) for scale in sorted(_scales(code), key=len, reverse=True)) or "(?!)"
    marks = [rf"\d{{1,4}}(?:{ORDINAL_MARKS[code]})(?![^\W\d_])"] if code in ORDINAL_MARKS else []
    marks += [r"\d{1,2}\.(?=\ [^\W\d_])"] if code in STOP_ORDINALS else []
    short = "|".join(
        r"\.?[ -]?".join(map(re.escape, one.split(".")))
        + (r"\." if len(one) == 1 or one in _calendar(code) else r"(?:\.|(?![^\W_]))")
        for one in sorted(_abbreviations(code), key=len, reverse=True)
    )
    return re.compile(
        rf"""
          (?P<sign>(?<![\w.-])-(?=(?:{signs})?\d)
            | \ ?[+×÷=<>*]\ ?
            | @ | &
            | (?<=[\d\w]\ )-(?=\ \d))
        | (?P<dash>(?<=\d)[-~](?=\d))
        | (?P<dot>(?<=[^\W\d_])\.(?=[^\W\d_]{{2}}))
        | (?P<clock>(?<![\d:])\d{{1,2}}:[0-5]\d:[0-5]\d(?![\d:]))
        | (?P<date>(?<![\d./-])(?:\d{{4}}(?P<cut>[-/.])\d{{1,2}}(?P=cut)\d{{1,2}}
            |\d{{1,2}}(?P<cut2>[-/.])\d{{1,2}}(?P=cut2)\d{{4}})(?![\d/-]|\.\d))
        | (?P<time>(?<!\d)(?P<hour>[012]?\d)
            (?::|(?:h|\ h\ |u)(?=\d)|[時时시]\ ?(?=\d+\ ?[分분])|\.(?=\d\d\ (?:uhr|uur)\b)
              |(?:(?<=kl\.\ \d\d)|(?<=kl\ \d\d))\.)
            (?P<minute>[0-5]\d)(?!\d)(?:\ (?:uhr|uur|h)\b|\ ?[分분])?)
        | (?P<fraction>(?<![\d/.,])(?P<whole>\d{{1,3}}\ )?\d{{1,3}}[/⁄]\d{{1,3}}(?![\d/]))
        | (?P<roman>{_MARK}[ivxlcı]+(?:er|ers|e|es|ème|eme|[oa])?(?![^\W_]))
        | (?P<ordinal>{"|".join(marks) or "(?!)"})
        | (?P<money>(?<![^\W\d_])(?P<before>{signs})\s?(?P<amount_before>{_NUMBER})
              (?:\s?(?P<scale_before>{scales})(?![^\W_]))?
            |(?P<amount_behind>{_NUMBER})(?:\s?(?P<scale_behind>{scales})\.?)?\s?(?:(?:de|di|d')\s?)?
              (?P<behind>{signs}))
        | (?P<measure>(?P<measured>{_NUMBER})\s?(?P<unit>{units})(?![^\W_])
            |(?P<unit_before>[%٪‰])\s?(?P<measured_behind>{_NUMBER}))
        | (?P<number>{_NUMBER})
        | (?P<power>\^(?P<exponent>-?\d+))
        | [%٪‰]
        | (?P<unspoken>[±≠≤≥≈√∞§])
        | (?P<short>(?<![^\W_])(?:{short or "(?!)"}))
        """,
        re.VERBOSE,
    )


@lru_cache(maxsize=8)
def _currencies(code: str) -> dict[str, str]:
    """Currencies by sign, by code, and the euro by its name: "19,99 Euro" is "neunzehn Euro neunundneunzig"."""
    found = {folded(sign, code): currency for sign, currency in CURRENCIES.items()}
    return found | dict.fromkeys((name for name in _currency_names("EUR", code) if name.isalpha()), "EUR")


@lru_cache(maxsize=8)
def _symbols(code: str) -> dict[str, str]:
    """Units by their symbols, in Latin letters and as the language writes them."""
    found = {folded(symbol, code): unit for symbol, unit in _UNIT_OF.items()}
    for unit in UNITS:
        for pattern in _formatted(unit, code, "short"):
            symbol = "".join(pattern).strip()
            found.setdefault(symbol, unit)
            found.setdefault(symbol.rstrip("."), unit)
    return {symbol: unit for symbol, unit in found.items() if symbol}


@lru_cache(maxsize=8)
def _scales(code: str) -> dict[str, tuple[str, ...]]:
    """Words of thousands, millions and so on by their short form and by themselves: "Mio" is "Million", "Millionen"."""
    from babel.core import UnknownLocaleError
    from babel.numbers import format_compact_decimal

    found: dict[str, list[str]] = {}
    for power in (3, 6, 9, 12):
        shorts, longs = [], []
        for count in (1, 2, 5):
            for form, said in (("short", shorts), ("long", longs)):
                try:
                    text = format_compact_decimal(count * 10**power, format_type=form, locale=code)
                except (UnknownLocaleError, ValueError):
                    return {}
                match = re.fullmatch(rf"{count}\s?([^\d]+)", text)
                said += [folded(match[1].strip().rstrip(".॰"), code)] if match is not None else []
        for one in (*shorts, *longs):
            found[one] = [*found.get(one, ()), *longs]
    return {one: tuple(dict.fromkeys(longs)) for one, longs in found.items()}


@lru_cache(maxsize=8)
def _abbreviations(code: str) -> dict[str, tuple[str, ...]]:
    """Words by their short form, its letters separated by full stops."""
    found = dict(_calendar(code))
    for short, longs in _scales(code).items():
        found |= {_short_key(short): longs} if len(short) > 1 and short not in longs else {}
    for one in filter(None, ABBREVIATIONS.get(code, "").split("|")):
        short, words = one.split("=")
        found[_short_key(folded(short, code))] = tuple(_words_of(folded(word, code)) for word in words.split("/"))
    return {short: words for short, words in found.items() if short}


@lru_cache(maxsize=8)
def _calendar(code: str) -> dict[str, tuple[str, ...]]:
    """Months and days of the week by their short form, which has a full stop: without, many are other words."""
    locale = _locale(code)
    found: dict[str, list[str]] = {}
    for names in (locale.months, locale.days) if locale is not None else ():
        for of in names.values():
            for key, short in of.get("abbreviated", {}).items():
                long = [folded(each["wide"][key], code) for each in names.values()]
                if folded(short, code).rstrip(".") not in long and short.strip(".").isalpha():
                    found.setdefault(_short_key(folded(short, code)), []).extend(long)
    return {short: tuple(dict.fromkeys(map(_words_of, longs))) for short, longs in found.items()}


@lru_cache(maxsize=8)
def _locale(code: str):
    from babel import Locale, UnknownLocaleError

    try:
        return Locale(code)
    except (UnknownLocaleError, ValueError):
        return None


def _short_key(short: str) -> str:
    return ".".join(re.findall(r"(?:[^\W\d_]|[\u0900-\u0963])+|°", short))


def _numbers(token: str, code: str) -> Iterator[Place]:
    token = token.rstrip(".,'\u066b\u066c ").replace("\u066c", "").replace("\u066b", ".")
    token = token.replace(",", "") if re.fullmatch(r"\d{1,2}(?:,\d\d)+,\d{3}", token) else token  # of India
    point = max(token.rfind("."), token.rfind(","))
    if "." in token and "," in token and token.count(token[point]) == 1:  # the last of the two is the decimal point
        token = re.sub(r"\D", "", token[:point]) + token[point:]
    if (grouped := _GROUPED.fullmatch(token)) is not None:
        digits = re.sub(r"\D", "", token)
        other = number_place(digits, code)
        if grouped[1] in ".," and token.count(grouped[1]) == 1:  # "1.234" is a decimal elsewhere
            other += _decimal(*re.split("[.,]", token), code)
        yield other
    elif (decimal := _DECIMAL.fullmatch(token)) is not None:
        yield _decimal(*decimal.groups(), code)
    else:
        yield from (number_place(digits, code) for digits in re.findall(r"\d+", token))


def number_place(digits: str, code: str) -> Place:
    """A whole number: in words, as a year, digit by digit; as it is where nothing knows the language."""
    readings = list(_in_words(digits, code, "cardinal"))
    usual = readings[0] if readings else ""
    if len(digits) == 4:
        readings += _in_words(digits, code, "year")
        readings += _ordinals(digits, code) if code in YEAR_ORDINALS else ()
    if len(digits) > 1:
        ones = [_in_words(digit, code, "cardinal")[:1] for digit in digits]
        said = [one[0] for one in ones if one]
        readings.append(" ".join(said if len(said) == len(digits) else digits))
        if code == "ko":
            readings.append("".join(said))
    if code in ("ko", "ja") and "0" in digits:
        zero = {"ko": "공", "ja": "ゼロ"}[code]
        ones = [zero if one == "0" else _in_words(one, code, "cardinal")[0] for one in digits]
        readings += [" ".join(ones), "".join(ones)]
    if code == "de" and usual.startswith(("einhundert", "eintausend")):
        readings.append(usual.removeprefix("ein"))
    if code in ("ru", "uk") and usual.startswith(("одна ", "один ")) and len(digits) > 3:
        readings.append(usual.partition(" ")[2])  # тысяча, миллион
    if code in ("de", "nl") and len(digits) == 4 and digits[0] != "0":
        low = str(int(digits[2:]))
        pairs = product(_in_words(digits[:2], code, "cardinal")[:1], _in_words(low, code, "cardinal")[:1])
        for high, last in pairs:
            readings += [f"{high} {last}"] if len(low) == 2 else []
            readings += [f"{high}honderd{last if int(low) else ''}"] if code == "nl" and digits[1] != "0" else []
    if code == "fr" and usual.endswith(("vingts", "cents")):
        readings.append(usual[:-1])  # les années quatre-vingt
    if code == "hi" and usual.startswith("एक ") and len(digits) > 2:
        readings.append(usual.partition(" ")[2])
        low = _in_words(digits[2:].lstrip("0"), code, "cardinal")[:1] if digits[2:].strip("0") else ("",)
        high = _in_words(digits[:2], code, "cardinal")[:1] if len(digits) == 4 and digits[1] != "0" else ()
        readings += [f"{one} सौ {then}" for one in high for then in low]
    if code == "vi" and " lẻ " in usual:
        readings += [usual.replace(" lẻ ", other) for other in (" linh ", " không trăm ", " không trăm linh ")]
    return place(*([] if usual else [digits]), *readings)


def _before_a_month(text: str, code: str) -> bool:
    words = re.match(r"\s+(?:de |di |of )?([^\W\d_]+)", text)
    return words is not None and words[1] in _months(code)


@lru_cache(maxsize=8)
def _months(code: str) -> frozenset[str]:
    locale = _locale(code)
    lists = locale.months.values() if locale is not None else ()
    names = (name for of in lists for form in ("wide", "abbreviated") for name in of[form].values())
    return frozenset(folded(name, code).rstrip(".") for name in names)


def _ordinals(digits: str, code: str) -> tuple[str, ...]:
    """In every gender and case."""
    said = _in_words(digits, code, "ordinal")
    return tuple(dict.fromkeys((*said, *(form for one in said for form in _cases(one)))))


def _cases(ordinal: str) -> Iterator[str]:
    """Of a Slavic ordinal, an adjective at its end, the cases of years and hours; of a Hindi one its genders."""
    for ending, others in (
        ("ый", "ого ом ому ое ая ые"), ("ий", "его ем ему ье ья"), ("ой", "ого ом ому ое ая"), ("y", "ego ym e a ej"),
        ("ci", "ciego cim cie cia ciej"), ("वां", "वीं वें"),
    ):  # fmt: skip
        if ordinal.endswith(ending):
            yield from (re.sub(rf"{ending}(?=\s|$)", other, ordinal) for other in others.split())


def _sign_words(sign: str, code: str) -> list[str]:
    if code not in SAID:
        return []
    return folded(SAID[code], code).split(";")[SIGNS.index(sign)].split("|")


def _listed(words: str, code: str) -> list[str]:
    return [_words_of(one) for one in folded(words, code).split("|") if one]


def _power(exponent: str, code: str) -> Place:
    """The exponent of 2^10: "hoch zehn"."""
    digits = exponent.removeprefix("-")
    said = [*_in_words(digits, code, "cardinal"), *_ordinals(digits, code)] or [digits]
    if exponent[0] == "-":
        said = [f"{minus} {one}" for one in said for minus in _sign_words("-", code) or ["-"]]
    readings = [pattern.format(one) for pattern in _sign_words("^", code) or ["^ {}"] for one in said]
    return place(*(_listed(SQUARED.get(code, ""), code) if exponent == "2" else ()), *readings)


def _decimal(whole: str, fraction: str, code: str) -> Place:
    """3,5: "drei Komma fünf", "dreieinhalb"; of 2.0 the zero counts."""
    wholes = _in_words(whole, code, "cardinal")
    if not wholes:
        return place(f"{whole} {fraction}")
    ones = [_in_words(digit, code, "cardinal")[0] for digit in fraction]
    rests = [" ".join(ones), *(_in_words(fraction, code, "cardinal") if fraction[0] != "0" else ())]
    rests += [one.replace("零", "ゼロ") for one in rests if code == "ja"]
    points = _sign_words(",", code)
    said = [f"{one} {point} {rest}" for one in wholes for point in points for rest in rests]
    usual = None
    if not fraction.endswith("0") and code not in ("tr", "ar") and len(whole + fraction) <= 15:
        usual = num2words_says(float(f"{whole}.{fraction}"), code, to="cardinal")
    first = [_words_of(folded(usual, code))] if usual else []
    halves = _halves(whole, code) if fraction == "5" else []
    return place(*first, *said, *halves, *([] if first or said else [" ".join([wholes[0], *ones])]))


def _halves(whole: str, code: str) -> list[str]:
    said = _in_words(whole, code, "cardinal")
    readings = [pattern.format(one) for pattern in AND_A_HALF.get(code, "").split("|") for one in said if pattern]
    return [*readings, *(ONE_AND_A_HALF.get(code, "").split("|") if whole == "1" else ())]


def _fraction(whole: str | None, above: str, below: str, code: str) -> Place:
    """3/4: "drei Viertel", "drei durch vier"; 2 1/2: "zweieinhalb"."""
    over, under = ((_in_words(one, code, "cardinal") or (one,)) for one in (above, below))
    readings: list[str] = []
    if code in FRACTIONS:
        halves, thirds, quarters, others = folded(FRACTIONS[code], code).split(";")
        nouns = list(filter(None, {"2": halves, "3": thirds, "4": quarters}.get(below, "").split("|")))
        nouns = nouns or [one.format(nth) for one in others.split("|") for nth in _ordinals(below, code) if one]
        nouns += [f"{one}s" for one in nouns if code in ("fr", "es", "pt")]
        if below == "2" and above == "1":
            readings += [*nouns, *(f"{one} {noun}" for one in over for noun in nouns)]
        else:
            readings += [f"{one} {noun}" for one in over for noun in nouns] + (nouns if above == "1" else [])
    templates = folded(BELOW_ABOVE.get(code, ""), code).split("|")
    readings += [one.format(over[0], under[0]) for one in templates if one]
    if code == "tr":
        readings.append(f"{_turkish_in(under[0])} {over[0]}")
        readings += ["yarım", "buçuk"] if (above, below) == ("1", "2") else []
    readings += [f"{over[0]} {word} {under[0]}" for word in _sign_words("÷", code)]
    readings.append(f"{over[0]} {under[0]}")
    if whole is None:
        return place(*readings)
    parts = number_place(whole.strip(), code)
    links = ["", *_sign_words("&", code)]
    mixed = _halves(whole.strip(), code) if (above, below) == ("1", "2") else []
    return place(*mixed, *_combined([map(" ".join, parts), links, readings]))


def _turkish_in(word: str) -> str:
    """The locative: dörtte, altıda."""
    vowel = next(one for one in reversed(word) if one in "aıoueiöü")
    return word + ("t" if word[-1] in "fstkçşhp" else "d") + ("a" if vowel in "aıou" else "e")


def _combined(parts: Iterable[Iterable[str]], most: int = _MOST_READINGS) -> Iterator[str]:
    return (" ".join(one) for one in islice(product(*parts), most))


def _date(written: str, code: str) -> Place:
    """14.07.1789: number by number, or as the CLDR writes it out, "14. Juli 1789"."""
    from babel.dates import format_date

    parts = re.findall(r"\d+", written)
    plain = [[*map(" ".join, number_place(str(int(one)), code))] for one in parts]
    if len(parts[0]) == 4:
        orders = [(int(parts[0]), int(parts[1]), int(parts[2]))]
    else:
        plain[:2] = [[*said, *_ordinals(str(int(one)), code)] for one, said in zip(parts, plain[:2], strict=False)]
        orders = [(int(parts[2]), int(parts[1]), int(parts[0])), (int(parts[2]), int(parts[0]), int(parts[1]))]
    readings: list[str] = []
    for numbers in orders[: 2 if "/" in written else 1]:
        try:
            text = format_date(calendar_date(*numbers), "long", locale=_locale(code))
        except (ValueError, AttributeError):  # no such day, or no such locale
            continue
        places = spoken_places(without_invisible(text), code)
        readings += _combined([[" ".join(reading) for reading in one] for one in places], _MOST_DATES)
    readings += [re.sub(" (?=[년월일]( |$))", "", one) for one in readings if code == "ko"]
    return place(*islice(_combined(plain), _MOST_READINGS), *readings)


def _clock(hour: int, minute: int, second: int, code: str) -> Place:
    """1:30:00: "eine Stunde dreißig Minuten"; or a time of day with its seconds."""
    numbers = [[*map(" ".join, number_place(str(value), code))] for value in (hour, minute, second)]
    parts = [
        [pattern.format(one) for pattern in _unit_patterns(unit, code) for one in said]
        for said, unit, value in zip(numbers, ("hour", "minute", "second"), (hour, minute, second), strict=True)
        if value
        for unit in (f"duration-{unit}",)
    ]
    links = [["", *_sign_words("&", code)]] if len(parts) > 1 else []
    readings = list(_combined([*parts[:-1], *links, *parts[-1:]])) if parts else []
    times = [" ".join(one) for one in _time(hour, minute, code)] if hour <= 24 else []
    ends = [numbers[2][0], *parts[-1]] if second else ["", numbers[2][0]]
    return place(
        *_combined([one[:1] for one in numbers]), *readings, *(f"{one} {end}" for one in times for end in ends)
    )


def _roman(letters: str, code: str) -> Place:
    """XIV, IIe: as it is written, a number, or an ordinal behind a name ("der Zweite")."""
    numeral = re.match("[ivxlcı]+", letters)[0].replace("ı", "i")  # type: ignore[index]  # the token begins with some
    values = [{"i": 1, "v": 5, "x": 10, "l": 50, "c": 100}[letter] for letter in numeral]
    digits = str(sum(-one if one < two else one for one, two in zip(values, [*values[1:], 0], strict=True)))
    ordinals = _ordinals(digits, code)
    articles = ["", *ARTICLES.get(code, "").split("|")]
    return place(
        letters,
        *(_in_words(digits, code, "cardinal") if len(numeral) == len(letters) else ()),
        *(f"{article} {one}" for article in articles for one in ordinals),
    )


def _ordinal(written: str, code: str) -> Place:
    """3., 1er, 2:a, 5-й: of every gender; "3." may also end a sentence."""
    digits = re.match(r"\d+", written)[0]  # type: ignore[index]  # the token begins with one
    first = [" ".join(reading) for reading in number_place(digits, code)]
    readings = list(_ordinals(digits, code))
    if code == "fr" and digits == "2":
        readings += ["second", "seconde"]
    if written.endswith("°"):
        first = [" ".join(reading) for one in _measure(digits, "°", code) for reading in one]
    if not readings:
        return place(*(f"{one} {_words_of(written[len(digits) :])}" for one in first))
    return place(*first, *readings) if written.endswith(".") else place(*readings, *first)


def _money(sign: str, amount: str, scale: str | None, code: str) -> Iterator[Place]:
    """5,50 €: "fünf Euro fünfzig", "fünf Euro und fünfzig Cent", "fünf Komma fünf Euro"; 2 Mio. €."""
    numbers = list(_numbers(amount, code))
    if len(numbers) != 1:
        yield from numbers
        return
    currency = _currencies(code)[sign]
    names = (*_currency_names(currency, code), *_listed(SHORT_CURRENCIES.get(currency, {}).get(code, ""), code))
    said = [" ".join(reading) for reading in numbers[0]]
    if scale:
        links = ["", *OF_MILLIONS.get(code, "").split("|")]
        yield place(*_combined([said, _scales(code)[scale], dict.fromkeys(links), names]))
        return
    readings = [f"{one} {name}" for one in said for name in names]
    parts = re.split(r"[.,](?=\d{1,2}$)", amount.rstrip(".,' "))
    whole = re.sub(r"\D", "", parts[0])
    if len(parts) == 2:
        whole_said = [" ".join(reading) for reading in number_place(whole, code)]
        if not parts[1].strip("0"):
            yield place(*(f"{one} {name}" for one in whole_said for name in names), *readings)
            return
        rest = " ".join(number_place(str(int(parts[1].ljust(2, "0"))), code)[0])
        links = ["", *_sign_words("&", code)]
        short = [f"{one} {name} {link} {rest}" for one in whole_said[:1] for name in names for link in links]
        short += [f"{whole_said[0]} {link} {rest} {name}" for name in names for link in links[1:]]
        joined = num2words_says(float(f"{whole}.{parts[1]}"), code, to="currency", currency=currency)
        joined = _words_of(folded(joined, code)) if joined else ""
        cents = joined.split()[-1:]
        short += [f"{one} {cent}" for one in short[: len(names) * len(links)] for cent in cents]
        short += [f"{rest} {cent}" for cent in cents if not whole.strip("0")]
        readings = [*short, *([joined] if joined else []), *readings]
    yield place(*readings)


@lru_cache(maxsize=64)
def _currency_names(currency: str, code: str) -> tuple[str, ...]:
    """The name beside each kind of number, and its first noun alone ("dólares estadounidenses", "dólares")."""
    from babel.core import UnknownLocaleError
    from babel.numbers import get_currency_name

    try:
        names = [get_currency_name(currency, count=count, locale=code) for count in (5, *_COUNTS)]
    except (UnknownLocaleError, ValueError):
        return (currency.lower(),)
    plain = [_words_of(folded(name, code)) for name in names]
    parts = [part for name in plain for part in name.split() if len(name.split()) > 1 and len(part) > 3]
    return tuple(dict.fromkeys([*plain, *parts]))


def _measure(amount: str, symbol: str, code: str) -> Iterator[Place]:
    """5 km: "fünf Kilometer"; the noun in every form, as sentences inflect it."""
    *others, last = _numbers(amount, code)  # of 1.2.3 km
    yield from others
    numbers = [" ".join(reading) for reading in last]
    unit = _symbols(code)[symbol]
    said = [pattern.format(number) for number in numbers for pattern in _unit_patterns(unit, code)]
    said += [f"{number} {one}" for number in numbers for one in _short_unit(unit, code)]
    if unit == "temperature-celsius":
        said += [pattern.format(number) for number in numbers for pattern in _unit_patterns("angle-degree", code)]
    if unit == "duration-hour" and re.fullmatch("[01]?\\d|2[0-4]", amount):
        said += [" ".join(reading) for reading in _time(int(amount), 0, code)]
    letters = _words_of(symbol) or ("" if said else symbol)
    yield place(*said, *(f"{number} {letters}" for number in numbers if letters))


def _short_unit(unit: str, code: str) -> list[str]:
    return _listed(SHORT_UNITS.get(unit, {}).get(code, ""), code)


@lru_cache(maxsize=256)
def _formatted(unit: str, code: str, length: str) -> tuple[list[str], ...]:
    """What stands before and behind a number of such units."""
    from babel.core import UnknownLocaleError
    from babel.units import UnknownUnitError, format_unit

    try:
        said = [format_unit(count, unit, length=length, locale=code) for count in (5, *_COUNTS)]
    except (UnknownLocaleError, UnknownUnitError, ValueError):
        return ()
    pieces = [re.split(r"[-+]?\d+(?:[.,٫]\d+)?", folded(one, code)) for one in said]
    return tuple(one for one in pieces if len(one) == 2)


@lru_cache(maxsize=256)
def _unit_patterns(unit: str, code: str) -> tuple[str, ...]:
    """With {} for the number; none is the number alone, as where the CLDR has only a sign."""
    patterns = [" {} ".join(map(_words_of, one)).strip() for one in _formatted(unit, code, "long")]
    return tuple(dict.fromkeys(pattern for pattern in patterns if pattern != "{}"))


def _unit_words(unit: str, code: str) -> list[str]:
    return [pattern.replace("{}", "").strip() for pattern in _unit_patterns(unit, code)]


def _time(hour: int, minute: int, code: str) -> Place:
    """15:30: the numbers with the language's words between them, "halb vier"."""
    hours, minutes = ([" ".join(reading) for reading in number_place(str(value), code)] for value in (hour, minute))
    twelve = hour - 12 if hour > 12 else hour
    small = [" ".join(reading) for reading in number_place(str(twelve), code)]
    following = str(twelve % 12 + 1)
    after, nth = ([" ".join(one) for one in number_place(following, code)], _ordinals(following, code))
    of_hour, of_minute = _unit_words("duration-hour", code), _unit_words("duration-minute", code)
    links = HOUR_WORDS.get(code, "").split("|")
    starts = list(dict.fromkeys([*hours, *small, *(_ordinals(str(hour), code) if code == "pl" else ())]))
    if not minute:
        nouns = [*(link.split()[0] for link in links if link and link not in _sign_words("&", code)), "", *of_hour]
        locale = _locale(code)
        periods = locale.day_periods["format"]["wide"] if locale is not None else {}
        name = {12: "noon", 0: "midnight", 24: "midnight"}.get(hour, "")
        readings = [f"{one} {word}" for one in starts for word in dict.fromkeys(nouns)]
        return place(*readings, *(f"{one} {minutes[0]}" for one in hours), *_listed(periods.get(name, ""), code))
    words = list(dict.fromkeys([*links, "", *of_hour]))
    zeros = _in_words("0", code, "cardinal") if minute < 10 else ()
    said = [minutes[0], *(f"{zero} {minutes[0]}" for zero in zeros)]
    readings = [f"{one} {word} {then}" for one in starts for word in words for then in said]
    readings += [f"{one} {minutes[0]} {word}" for one in hours for word in words]  # "15:30 Uhr" as it is written
    readings += [f"{one} {word} {minutes[0]} {last}" for one in starts for word in words for last in of_minute]
    readings += ONE_AND_A_HALF.get(code, "").split("|") if (twelve, minute, code) == (1, 30, "hi") else []
    for pattern in PAST.get(minute, {}).get(code, "").split("|"):
        forms = product(small, after, nth or [""]) if pattern else ()
        readings += dict.fromkeys(folded(pattern.format(*one), code) for one in forms)
    return place(*readings)


@lru_cache(maxsize=1024)
def _in_words(digits: str, code: str, kind: str) -> tuple[str, ...]:
    words = [_words_of(folded(one, code)) for one in number_words(digits, code, kind)]
    return tuple(dict.fromkeys(one.replace(" و ", " و") if code == "ar" else one for one in words))


def _words_of(text: str) -> str:
    """Letters, marks and digits, single spaces for all others."""
    return " ".join("".join(one if is_letter(one) or one.isalnum() else " " for one in text).split())
