"""Languages other than English and Chinese: numbers, units, money, times, ordinals and abbreviations as words.

Number words are num2words', names of units and currencies those of the CLDR (by Babel).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

from omni_bench.accuracy.written.characters import is_letter
from omni_bench.accuracy.written.readings import Place, place

_NUM2WORDS = {"kk": "kz", "nn": "no"}

_NUMBER = r"\d[\d.,']*(?:\ \d{3}(?!\d))*"
_GROUPED = re.compile(r"\d{1,3}(?:([.,' ])\d{3})(?:\1\d{3})*(?!\d)")
_DECIMAL = re.compile(r"(\d+)[.,](\d+)(?![.,]?\d)")

_UNITS = {
    "length-kilometer": "km км",
    "length-meter": "m м",
    "length-centimeter": "cm см",
    "length-millimeter": "mm мм",
    "mass-kilogram": "kg кг",
    "mass-gram": "g г",
    "mass-milligram": "mg мг",
    "volume-liter": "l л",
    "volume-milliliter": "ml мл",
    "duration-hour": "h ч std",
    "duration-minute": "min мин",
    "duration-second": "s с sek sec",
    "speed-kilometer-per-hour": "km/h км/ч kmh",
    "temperature-celsius": "°c °с",
    "angle-degree": "°",
    "digital-gigabyte": "gb гб go",
    "digital-megabyte": "mb мб mo",
    "frequency-hertz": "hz гц",
    "frequency-kilohertz": "khz кгц",
    "power-watt": "w вт",
    "power-kilowatt": "kw квт",
    "area-square-meter": "m2 м2",
    "area-square-kilometer": "km2 км2",
}
_UNIT_OF = {symbol: unit for unit, symbols in _UNITS.items() for symbol in symbols.split()}
_PERCENT = {"ko": ["퍼센트"], "vi": ["phần trăm"], "it": ["per cento"]}
"""Where the CLDR gives the sign, or another spelling."""
_CURRENCIES = {"€": "EUR", "$": "USD", "£": "GBP", "¥": "JPY", "₹": "INR", "₽": "RUB", "₩": "KRW", "₺": "TRY"}
_CURRENCIES |= {"₫": "VND", "₴": "UAH", "r$": "BRL", "zł": "PLN", "kč": "CZK"}
_COUNTS = (1, 2, 5, 1.5)
"""Of which at least one needs each form that a noun has beside a number (CLDR, plural rules)."""

_HOUR_WORDS = {
    "de": "uhr", "fr": "heures|heure", "es": "y|horas y|horas|con", "it": "e|ore e|ore", "pt": "e|horas e|horas|hora e",
    "nl": "uur", "sv": "och", "da": "og", "no": "og", "ca": "i", "ro": "și",
}  # fmt: skip
_HOUR_WORDS |= {"ja": "時", "ko": "시", "th": "นาฬิกา"}
_AND = {"de": "und", "fr": "et", "es": "con|y", "it": "e", "pt": "e", "nl": "en", "sv": "och", "da": "og", "no": "og"}
_HALF_PAST = {"fr": "{0} heures et demie", "es": "{0} y media", "it": "{0} e mezza", "pt": "{0} e meia"}
_HALF_PAST |= {
    "de": "halb {1}",
    "nl": "half {1}",
    "sv": "halv {1}",
    "da": "halv {1}",
    "no": "halv {1}",
    "ja": "{0} 時 半",
    "ko": "{0}시 반",
}
_QUARTER_PAST = {"fr": "{0} heures et quart", "es": "{0} y cuarto", "it": "{0} e un quarto", "de": "viertel nach {0}"}
_QUARTER_PAST |= {"nl": "kwart over {0}"}

_ORDINAL_MARKS = {
    "fr": "er|re|ère|e|ème|eme|nd|nde", "es": r"\.?[oa]|\.?er|ro|ra|do|da|to|ta|mo|ma", "it": "[oa]", "pt": r"\.?[oa]",
    "nl": "e|de|ste", "sv": ":a|:e", "ru": "-?(?:й|я|е|го|му|м|х|ый|ая|ое)", "uk": "-?(?:й|а|е|го)", "ca": "r|n|t|è|a",
}  # fmt: skip
_STOP_ORDINALS = frozenset(
    ["de", "da", "no", "nn", "fi", "cs", "sk", "pl", "hu", "et", "hr", "sl", "sr", "is", "lv", "tr"]
)
"""Languages that write the third as "3."."""
_ENDINGS = {"de": ("", "n", "r", "s"), "nl": ("",)}
_YEAR_ORDINALS = frozenset(["ru", "uk", "pl", "cs", "be", "bg"])
"""In these a year is an ordinal, in whatever case the sentence wants."""

_ABBREVIATIONS = {
    "de": "z. b.=zum beispiel|d. h.=das heißt|u. a.=unter anderem|usw=und so weiter|bzw=beziehungsweise|dr=doktor"
    "|nr=nummer|hr=herr|fr=frau|ca=circa|st=sankt|str=straße|evtl=eventuell|ggf=gegebenenfalls|vgl=vergleiche",
    "fr": "m=monsieur|mm=messieurs|mme=madame|mlle=mademoiselle|dr=docteur|etc=et cetera|p. ex.=par exemple"
    "|c.-à-d.=c'est-à-dire|st=saint|ste=sainte|no=numéro|n°=numéro|av=avenue|bd=boulevard",
    "es": "sr=señor|sra=señora|srta=señorita|dr=doctor|dra=doctora|ud=usted|uds=ustedes|etc=etcétera"
    "|p. ej.=por ejemplo|núm=número|n.o=número|no=número|av=avenida|ee. uu.=estados unidos",
    "it": "sig=signor|sig.ra=signora|dott=dottor|dott.ssa=dottoressa|ecc=eccetera|prof=professor|pag=pagina|n=numero",
    "pt": "sr=senhor|sra=senhora|dr=doutor|dra=doutora|etc=et cetera|p. ex.=por exemplo|av=avenida|no=número",
    "nl": "bijv=bijvoorbeeld|bv=bijvoorbeeld|d.w.z.=dat wil zeggen|dhr=de heer|mevr=mevrouw|enz=enzovoort|nr=nummer"
    "|o.a.=onder andere|dr=dokter|st=sint",
    "ru": "т. е.=то есть|т. д.=так далее|т. п.=тому подобное|г=год|гг=годы|ул=улица|руб=рублей|др=другие|им=имени",
    "sv": "t. ex.=till exempel|bl. a.=bland annat|d. v. s.=det vill säga|osv=och så vidare|kl=klockan"
    "|dr=doktor|nr=nummer",
    "da": "bl. a.=blandt andet|f. eks.=for eksempel|kl=klokken|osv=og så videre|nr=nummer",
    "no": "bl. a.=blant annet|f. eks.=for eksempel|kl=klokken|osv=og så videre|nr=nummer",
    "pl": "np=na przykład|itd=i tak dalej|tzn=to znaczy|dr=doktor|ul=ulica|nr=numer|r=roku",
}
_ALEFS = str.maketrans({"أ": "ا", "إ": "ا", "آ": "ا", "ٱ": "ا", "ك": "ک", "ي": "ی", "ى": "ی"})
_CEDILLAS = str.maketrans("şţŞŢ", "șțȘȚ")

_KOREAN_TENS = ("", "열", "스물", "서른", "마흔", "쉰", "예순", "일흔", "여든", "아흔")
_KOREAN_ONES = ("", "한", "두", "세", "네", "다섯", "여섯", "일곱", "여덟", "아홉")


def spoken_places(text: str, code: str) -> Iterator[Place]:
    """The places of a text of :func:`.characters.without_invisible` in the language of Whisper's ``code``."""
    text, end = folded(text, code), 0
    for match in _tokens(code).finditer(text):
        yield from _plain(text[end : match.start()])
        said, end = match[0], match.end()
        if match["time"]:
            yield _time(int(match["hour"]), int(match["minute"]), code)
        elif match["ordinal"]:
            yield _ordinal(match["ordinal"], code)
        elif match["money"]:
            yield from _money(match["before"] or match["behind"], match["amount"] or match["amount2"], code)
        elif match["measure"]:
            yield _measure(match["measured"], match["unit"], code)
        elif match["number"]:
            yield from _numbers(said, code)
        elif said == "%":
            yield place(*_PERCENT.get(code, ()), *_unit_words("concentr-percent", code), "")
        else:
            yield place(_words_of(said), _abbreviations(code)[_short_key(said)])
    yield from _plain(text[end:])


def _plain(text: str) -> Iterator[Place]:
    return (((word,),) for word in _words_of(text).split())


def folded(text: str, code: str) -> str:
    """Letters without what some writers leave out: their case, "ё" for "е" in Russian, hamzas in Arabic, the tonos of
    Greek; "Straße" as "strasse", of Turkish "İ" as "i" and "I" as "ı", of Romanian the cedilla as a comma."""
    if code in ("tr", "az"):
        text = text.replace("İ", "i").replace("I", "ı")
    text = text.casefold().replace("i\u0307", "i")
    if code == "ru":
        text = text.replace("ё", "е")
    elif code in ("ar", "fa", "ur"):
        text = text.translate(_ALEFS)
    elif code == "ro":
        text = text.translate(_CEDILLAS)
    elif code == "el":
        text = unicodedata.normalize("NFD", text).replace("\u0301", "")
    return unicodedata.normalize("NFC", text)


@lru_cache(maxsize=8)
def _tokens(code: str) -> re.Pattern[str]:
    signs = "|".join(re.escape(folded(sign, code)) for sign in sorted(_CURRENCIES, key=len, reverse=True))
    units = "|".join(re.escape(symbol) for symbol in sorted(_symbols(code), key=len, reverse=True))
    marks = [rf"\d{{1,4}}(?:{_ORDINAL_MARKS[code]})(?![^\W\d_])"] if code in _ORDINAL_MARKS else []
    marks += [r"\d{1,2}\.(?=\ [^\W\d_])"] if code in _STOP_ORDINALS else []
    shorts = sorted(_abbreviations(code), key=len, reverse=True)
    short = "|".join(
        r"\.?\ ?".join(map(re.escape, one.split("."))) + (r"\." if len(one) == 1 else r"(?:\.|(?![^\W_]))")
        for one in shorts
    )
    return re.compile(
        rf"""
          (?P<time>(?<!\d)(?P<hour>[012]?\d)
            (?::|(?:h|\ h\ )(?=\d)|\.(?=\d\d\ (?:uhr|uur)\b)|(?:(?<=kl\.\ \d\d)|(?<=kl\ \d\d))\.)
            (?P<minute>[0-5]\d)(?!\d)(?:\ (?:uhr|uur)\b)?)
        | (?P<ordinal>{"|".join(marks) or "(?!)"})
        | (?P<money>(?P<before>{signs})\s?(?P<amount>{_NUMBER})|(?P<amount2>{_NUMBER})\s?(?P<behind>{signs}))
        | (?P<measure>(?P<measured>{_NUMBER})\s?(?P<unit>{units})(?![^\W_]))
        | (?P<number>{_NUMBER})
        | %
        | (?P<short>(?<![^\W_])(?:{short or "(?!)"}))
        """,
        re.VERBOSE,
    )


@lru_cache(maxsize=8)
def _symbols(code: str) -> dict[str, str]:
    """Units by their symbols, in Latin letters and as the language writes them."""
    found = {folded(symbol, code): unit for symbol, unit in _UNIT_OF.items()}
    for unit in _UNITS:
        for pattern in _formatted(unit, code, "short"):
            found.setdefault("".join(pattern).strip(), unit)
    return {symbol: unit for symbol, unit in found.items() if symbol}


@lru_cache(maxsize=8)
def _abbreviations(code: str) -> dict[str, str]:
    """Words by their short form, its letters separated by full stops."""
    listed = (one.partition("=")[::2] for one in _ABBREVIATIONS.get(code, "").split("|") if one)
    return {_short_key(folded(short, code)): _words_of(folded(words, code)) for short, words in listed}


def _short_key(short: str) -> str:
    return ".".join(re.findall(r"[^\W\d_]+|°", short))


def _numbers(token: str, code: str) -> Iterator[Place]:
    token = token.rstrip(".,' ")
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
    """A whole number: in words, as a year, digit by digit; as it is where num2words does not know the language."""
    readings = [_in_words(digits, code, "cardinal")]
    if len(digits) > 1:
        if len(digits) == 4:
            readings.append(_in_words(digits, code, "year"))
            readings += _cases(_in_words(digits, code, "ordinal")) if code in _YEAR_ORDINALS else ()
        one_by_one = [_in_words(digit, code, "cardinal") for digit in digits]
        readings.append(" ".join(one_by_one) if None not in one_by_one else " ".join(digits))
    if readings[0] and digits in ("100", "1000") and readings[0].startswith("ein"):
        readings.append(readings[0].removeprefix("ein"))  # German: hundert, tausend
    if code in ("es", "ca") and readings[0] and readings[0].endswith("uno"):
        readings += [f"{readings[0][:-3]}{one}" for one in ("ún", "un", "una")]
    if code == "ko" and len(digits) < 3 and int(digits):
        ones = _KOREAN_ONES[int(digits) % 10]
        native = _KOREAN_TENS[int(digits) // 10] + ones
        readings += [native, "스무"] if digits == "20" else [native]
    return place(*([] if readings[0] else [digits]), *filter(None, readings))


def _cases(ordinal: str | None) -> Iterator[str]:
    """Of a Slavic ordinal, whose last words are adjectives: the nominative, and the cases that years stand in."""
    if ordinal is None:
        return
    yield ordinal
    for ending, others in (("ый", "ого ом ому"), ("ий", "его ем ему"), ("ой", "ого ом ому"), ("y", "ego ym")):
        if ordinal.endswith(ending):
            yield from (re.sub(rf"{ending}\b", other, ordinal) for other in others.split())


def _decimal(whole: str, fraction: str, code: str) -> Place:
    said = _in_words(f"{whole}.{fraction}", code, "cardinal")
    return place(said) if said else place(f"{whole} {fraction}")


def _ordinal(written: str, code: str) -> Place:
    """3., 1er, 2:a, 5-й: of every gender; "3." may also end a sentence."""
    digits = re.match(r"\d+", written)[0]  # type: ignore[index]  # the token begins with one
    first = [" ".join(reading) for reading in number_place(digits, code)]
    said = _in_words(digits, code, "ordinal")
    if said is None:
        return place(*first)
    readings = [said + ending for ending in _ENDINGS.get(code, ("",))]
    if said.endswith("o"):
        readings += [said[:-1] + ending for ending in ("a", "os", "as", "")]
    if said == "premier":
        readings += ["première", "premiers", "premières"]
    readings += _cases(said)
    is_certain = not written.endswith(".")
    return place(*readings, *first) if is_certain else place(*first, *readings)


def _money(sign: str, amount: str, code: str) -> Iterator[Place]:
    """5,50 €: "fünf Euro fünfzig", "fünf Euro und fünfzig Cent", "fünf Komma fünf Euro"."""
    numbers = list(_numbers(amount, code))
    if len(numbers) != 1:
        yield from numbers
        return
    currency = next(value for one, value in _CURRENCIES.items() if folded(one, code) == sign)
    names = _currency_names(currency, code)
    said = [" ".join(reading) for reading in numbers[0]]
    readings = [f"{one} {name}" for one in said for name in names]
    parts = re.split(r"[.,](?=\d{1,2}$)", amount.rstrip(".,' "))
    whole = re.sub(r"\D", "", parts[0])
    if len(parts) == 2:
        whole_said = [" ".join(reading) for reading in number_place(whole, code)]
        if not parts[1].strip("0"):
            yield place(*(f"{one} {name}" for one in whole_said for name in names), *readings)
            return
        rest = [" ".join(one) for one in number_place(parts[1].ljust(2, "0").lstrip("0"), code)][:1]
        short = [
            f"{one} {name} {link} {small}"
            for one in whole_said[:1]
            for name in names
            for link in ("", *_AND.get(code, "").split("|"))
            for small in rest
        ]
        joined = _currency_in_words(f"{whole}.{parts[1]}", currency, code)
        readings = [*short, *([joined] if joined else []), *readings]
    yield place(*readings, *said)


def _currency_in_words(amount: str, currency: str, code: str) -> str | None:
    from num2words import num2words

    try:
        said = num2words(float(amount), lang=_NUM2WORDS.get(code, code), to="currency", currency=currency)
    except Exception:  # it raises many kinds for what it does not know
        return None
    return _words_of(folded(str(said), code))


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


def _measure(amount: str, symbol: str, code: str) -> Place:
    """5 km: "fünf Kilometer"; the noun in every form, as sentences inflect it."""
    numbers = [" ".join(reading) for one in list(_numbers(amount, code))[:1] for reading in one]
    patterns = _unit_patterns(_symbols(code)[symbol], code)
    letters = _words_of(symbol)
    said = [pattern.format(number) for number in numbers for pattern in patterns]
    return place(*said, *(f"{number} {letters}" for number in numbers))


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


def _unit_patterns(unit: str, code: str) -> tuple[str, ...]:
    patterns = [" {} ".join(map(_words_of, one)).strip() for one in _formatted(unit, code, "long")]
    return tuple(dict.fromkeys(patterns))


def _unit_words(unit: str, code: str) -> list[str]:
    return [pattern.replace("{}", "").strip() for pattern in _unit_patterns(unit, code)]


def _time(hour: int, minute: int, code: str) -> Place:
    """15:30: the numbers with the language's words between them, "halb vier"."""
    name, said = (number_place(str(value), code) for value in (hour, minute))
    hours, minutes = ([" ".join(reading) for reading in one] for one in (name, said))
    twelve = hour - 12 if hour > 12 else hour
    small = [" ".join(reading) for reading in number_place(str(twelve), code)]
    after = " ".join(number_place(str(twelve % 12 + 1), code)[0])
    of_hour, of_minute = _unit_words("duration-hour", code), _unit_words("duration-minute", code)
    words = [*_HOUR_WORDS.get(code, "").split("|"), "", *of_hour]
    starts = [*hours[:1], *hours[-1:], *small]
    if not minute:
        return place(*(f"{one} {word}" for one in starts for word in words), *(f"{one} {minutes[0]}" for one in hours))
    readings = [f"{one} {word} {minutes[0]}" for one in starts for word in words]
    readings += [f"{one} {minutes[0]} {word}" for one in starts[:1] for word in words]  # "15:30 Uhr" as it is written
    readings += [f"{one} {word} {minutes[0]} {last}" for one in starts for word in words for last in of_minute]
    if minute == 30 and code in _HALF_PAST:
        readings += [_HALF_PAST[code].format(one, after) for one in starts]
    if minute == 15 and code in _QUARTER_PAST:
        readings += [_QUARTER_PAST[code].format(one, after) for one in starts]
    return place(*readings)


def _in_words(digits: str, code: str, kind: str) -> str | None:
    from num2words import num2words

    if len(digits) > 15:
        return None
    try:
        said = num2words(float(digits) if "." in digits else int(digits), lang=_NUM2WORDS.get(code, code), to=kind)
    except (NotImplementedError, ValueError, KeyError, IndexError, TypeError, OverflowError):
        return None
    return _words_of(folded(str(said), code))


def _words_of(text: str) -> str:
    """Letters, marks and digits, single spaces for all others."""
    return " ".join("".join(one if is_letter(one) or one.isalnum() else " " for one in text).split())
