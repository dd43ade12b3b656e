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

_NUMBER = r"(?:[1-9]\d{0,2}(?:\ \d{3}(?!\d))+(?:[.,]\d+)?|\d[\d.,']*)"
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
_PERCENT = {"ar": ["في المئه", "بالمئه"], "ko": ["퍼센트"], "vi": ["phần trăm"], "it": ["per cento"]}
"""Where the CLDR gives the sign, or another spelling."""
_CURRENCIES = {
    "€": "EUR",
    "$": "USD",
    "£": "GBP",
    "¥": "JPY",
    "₹": "INR",
    "₽": "RUB",
    "₩": "KRW",
    "₺": "TRY",
    "tl": "TRY",
}
_CURRENCIES |= {"₫": "VND", "₴": "UAH", "r$": "BRL", "zł": "PLN", "kč": "CZK"}
_COUNTS = (1, 2, 5, 1.5)
"""Of which at least one needs each form that a noun has beside a number (CLDR, plural rules)."""

_HOUR_WORDS = {
    "de": "uhr", "fr": "heures|heure", "es": "y|horas y|horas|con", "it": "e|ore e|ore", "pt": "e|horas e|horas|hora e",
    "nl": "uur", "sv": "och", "da": "og", "no": "og", "ca": "i", "ro": "și",
}  # fmt: skip
_HOUR_WORDS |= {"ja": "時", "ko": "시", "th": "นาฬิกา"}
_TO = {"de": "bis", "fr": "à", "es": "a", "it": "a", "pt": "a", "nl": "tot", "sv": "till", "ru": "до", "pl": "do"}
_TO |= {"ja": "から", "ko": "에서", "tr": "ile"}
_TURKISH = re.compile(
    "sıfır|bir|iki|üç|dört|beş|altmış|altı|yedi|sekiz|dokuz|on|yirmi|otuz|kırk|elli|yetmiş|seksen|doksan|yüz|bin|milyon"
    "|milyar|trilyon|virgül"
)
"""num2words writes a Turkish number as one word, people in one each."""
_GENDERS = (
    ("es", "uno", "ún un una"), ("ca", "u", "un una"), ("pt", "dois", "duas"), ("pt", "um", "uma"),
    ("it", "uno", "un una"),
    ("ru", "два", "две двух"), ("ru", "один", "одна одно одну"), ("uk", "два", "дві"), ("pl", "dwa", "dwie dwóch"),
    ("de", "eins", "ein eine einen einem einer"), ("fr", "un", "une"),
)  # fmt: skip
_AND = {"de": "und", "fr": "et", "es": "con|y", "it": "e", "pt": "e", "nl": "en", "sv": "och", "da": "og", "no": "og"}
_OPERATORS = {
    "de": "plus|und;minus;mal;geteilt durch|durch;gleich|ist gleich|ist;kleiner als|ist kleiner als"
    ";größer als|ist größer als",
    "fr": "plus|et;moins;fois|multiplié par;divisé par|sur;égale|égal à|font;inférieur à|est inférieur à|plus petit que"
    ";supérieur à|est supérieur à|plus grand que",
    "es": "más|y;menos;por;dividido por|dividido entre|entre;igual a|es igual a|son;menor que|es menor que"
    ";mayor que|es mayor que",
    "it": "più;meno;per;diviso;uguale|è uguale a|fa;minore di|è minore di;maggiore di|è maggiore di",
    "pt": "mais;menos;vezes;dividido por;igual a|é igual a;menor que|é menor que|menor do que"
    ";maior que|é maior que|maior do que",
    "nl": "plus;min|minus;keer|maal;gedeeld door;is|is gelijk aan;kleiner dan|is kleiner dan;groter dan|is groter dan",
    "sv": "plus;minus;gånger;delat med;lika med|är lika med;mindre än|är mindre än;större än|är större än",
    "da": "plus;minus;gange;divideret med;lig med|er lig med;mindre end|er mindre end;større end|er større end",
    "no": "pluss;minus;ganger;delt på;er lik|lik;mindre enn|er mindre enn;større enn|er større enn",
    "ru": "плюс;минус;умножить на|на;разделить на|делить на;равно|равняется;меньше|меньше чем;больше|больше чем",
    "uk": "плюс;мінус;помножити на;поділити на;дорівнює;менше|менше ніж;більше|більше ніж",
    "pl": "plus;minus;razy;podzielić przez;równa się;mniejsze niż|jest mniejsze niż;większe niż|jest większe niż",
    "tr": "artı;eksi;çarpı;bölü;eşittir|eşit;küçüktür|küçük;büyüktür|büyük",
    "ja": "足す|たす|プラス;マイナス|引く|ひく;掛ける|かける;割る|わる;は|イコール;小なり|より小さい;大なり|より大きい",
    "ko": "더하기|플러스;마이너스|빼기;곱하기;나누기;는|은|이퀄;보다 작다;보다 크다",
    "vi": "cộng;âm|trừ;nhân;chia;bằng;nhỏ hơn|bé hơn;lớn hơn",
    "fi": "plus;miinus;kertaa;jaettuna;on|on yhtä kuin;pienempi kuin|on pienempi kuin;suurempi kuin|on suurempi kuin",
    "cs": "plus;minus|mínus;krát;děleno;rovná se;menší než|je menší než;větší než|je větší než",
    "th": "บวก;ลบ;คูณ;หาร;เท่ากับ;น้อยกว่า;มากกว่า",
    "ar": "زائد;سالب|ناقص;ضرب|في;قسمة|على;يساوي;أصغر من;أكبر من",
}
"""Of + - × ÷ = < >. Elsewhere a sign is a word of its own."""
_SIGNS = {"+": 0, "-": 1, "×": 2, "*": 2, "÷": 3, "=": 4, "<": 5, ">": 6}
_SHORT_UNITS = {
    "mass-kilogram": {"ja": "キロ", "es": "kilos|kilo", "pt": "quilos|quilo", "fr": "kilos|kilo", "de": "kilo",
                      "ko": "킬로", "it": "chili|chilo|chilogrammi", "nl": "kilo", "sv": "kilo", "ru": "кило",
                      "vi": "ki lô gam|ký|cân"},
    "length-kilometer": {"ja": "キロ", "ko": "킬로", "vi": "ki lô mét|cây số"},
    "speed-kilometer-per-hour": {"de": "stundenkilometer", "ja": "キロ", "vi": "ki lô mét một giờ|ki lô mét trên giờ"},
    "temperature-celsius": {"ja": "度", "ko": "도", "vi": "độ|độ c"},
}  # fmt: skip
"""As people say them, beside the names of the CLDR."""
_SHORT_CURRENCIES = {
    "TRY": {"tr": ("lira",)},
    "BRL": {"pt": ("reais", "real")},
    "RUB": {"ru": ("рублей", "рубля", "рубль")},
}
_HALF_PAST = {"fr": "{0} heures et demie", "es": "{0} y media", "it": "{0} e mezza", "pt": "{0} e meia"}
_HALF_PAST |= {
    "de": "halb {1}",
    "nl": "half {1}",
    "sv": "halv {1}",
    "da": "halv {1}",
    "no": "halv {1}",
    "ja": "{0} 時 半",
    "ko": "{0} 시 반",
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
    "|o.a.=onder andere|a.u.b.=alstublieft|dr=dokter|st=sint",
    "ru": "no=номер|тыс=тысяч|млн=миллионов|млрд=миллиардов"
    "|т. е.=то есть|т. д.=так далее|т. п.=тому подобное|г=год|гг=годы|ул=улица|руб=рублей|др=другие|им=имени",
    "sv": "t. ex.=till exempel|bl. a.=bland annat|d. v. s.=det vill säga|osv=och så vidare|kl=klockan"
    "|dr=doktor|nr=nummer",
    "da": "bl. a.=blandt andet|f. eks.=for eksempel|kl=klokken|osv=og så videre|nr=nummer",
    "no": "bl. a.=blant annet|f. eks.=for eksempel|kl=klokken|osv=og så videre|nr=nummer",
    "pl": "np=na przykład|itd=i tak dalej|tzn=to znaczy|dr=doktor|ul=ulica|nr=numer|r=roku",
}
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
            numbers = list(_numbers(said, code))
            if len(numbers) == 1 and said.isdigit() and int(said) <= 31 and _before_a_month(text[end:], code):
                numbers = [(*numbers[0], *_ordinals(said, code))]
            yield from numbers
        elif match["sign"]:
            sign = said.strip()
            around = (text[: match.start()].rstrip()[-1:], text[match.end() :].lstrip()[:1])
            words = _sign_words(sign, code) or [sign]
            yield place(*([] if sign == "-" or (sign != "*" and all(map(str.isalnum, around))) else [""]), *words)
        elif match["dash"]:
            yield place("", *_sign_words("-", code)[:1], *_TO.get(code, "").split("|"))
        elif said == "%":
            yield place(
                *(folded(one, code) for one in _PERCENT.get(code, ())), *_unit_words("concentr-percent", code), ""
            )
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
    text = text.replace("œ", "oe").replace("æ", "ae") if code not in ("da", "no", "nn", "is", "fo") else text
    if code == "ru":
        text = text.replace("ё", "е")
    elif code in ("ar", "fa", "ur"):
        text = text.translate(_ALEFS)
        text = text.replace("ة", "ه").replace("مائ", "مئ") if code == "ar" else text
    elif code == "vi":
        text = _VIETNAMESE.sub(lambda found: _TONES[found[0]], unicodedata.normalize("NFC", text))
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
          (?P<sign>(?<![\w.-])-(?=(?:{signs})?\d)
            | \ ?[+×÷=<>*]\ ?
            | (?<=[\d\w]\ )-(?=\ \d))
        | (?P<dash>(?<=\d)-(?=\d))
        | (?P<time>(?<!\d)(?P<hour>[012]?\d)
            (?::|(?:h|\ h\ )(?=\d)|[時时시]\ ?(?=\d+\ ?[分분])|\.(?=\d\d\ (?:uhr|uur)\b)
              |(?:(?<=kl\.\ \d\d)|(?<=kl\ \d\d))\.)
            (?P<minute>[0-5]\d)(?!\d)(?:\ (?:uhr|uur)\b|\ ?[分분])?)
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
    if readings[0]:
        readings += _genders(readings[0], code)
    if code == "nl" and len(digits) == 4 and digits[1] != "0":
        high, low = _in_words(digits[:2], code, "cardinal"), _in_words(digits[2:].lstrip("0") or "0", code, "cardinal")
        readings.append(f"{high}honderd{low if int(digits[2:]) else ''}")
    if code == "ko" and len(digits) < 3 and int(digits):
        ones = _KOREAN_ONES[int(digits) % 10]
        native = _KOREAN_TENS[int(digits) // 10] + ones
        readings += [native, "스무"] if digits == "20" else [native]
        readings += {"6": ["유"], "10": ["시"]}.get(digits, [])  # 유월, 시월
    if code == "ko" and "0" in digits:
        said = ["공" if one == "0" else _in_words(one, code, "cardinal") or one for one in digits]
        readings += [" ".join(said), "".join(said)]
    if code == "ko" and len(digits) > 2:
        readings.append("".join(_in_words(one, code, "cardinal") or one for one in digits))
    if code == "vi" and readings[0] and " lẻ " in readings[0]:
        readings += [readings[0].replace(" lẻ ", other) for other in (" linh ", " không trăm ", " không trăm linh ")]
    return place(*([] if readings[0] else [digits]), *filter(None, readings))


def _genders(said: str, code: str) -> Iterator[str]:
    """The number beside nouns of other genders."""
    for language, ending, others in _GENDERS:
        if code == language and said.endswith(ending):
            yield from (said.removesuffix(ending) + other for other in others.split())
    if code in ("es", "pt") and re.search(r"(?:cient|cent|zent|quinient)os\b", said):
        yield re.sub(r"(?<=[nt])tos\b|(?<=quinien)tos\b", "tas", said)


def _before_a_month(text: str, code: str) -> bool:
    words = re.match(r"\s+(?:de |di |of )?([^\W\d_]+)", text)
    return words is not None and words[1] in _months(code)


@lru_cache(maxsize=8)
def _months(code: str) -> frozenset[str]:
    from babel import Locale, UnknownLocaleError

    try:
        months = Locale(code).months
    except (UnknownLocaleError, ValueError):
        return frozenset()
    return frozenset(folded(name, code) for of in months.values() for name in of["wide"].values())


def _ordinals(digits: str, code: str) -> Iterator[tuple[str, ...]]:
    """The day of a month."""
    said = _in_words(digits, code, "ordinal")
    forms = [said] if said else []
    forms += [said + ending for ending in _ENDINGS.get(code, ())] if said else []
    yield from (tuple(form.split()) for form in (*forms, *_cases(said)))


def _sign_words(sign: str, code: str) -> list[str]:
    if code not in _OPERATORS:
        return []
    return folded(_OPERATORS[code], code).split(";")[_SIGNS[sign]].split("|")


def _cases(ordinal: str | None) -> Iterator[str]:
    """Of a Slavic ordinal, whose last words are adjectives: the nominative, and the cases that years stand in."""
    if ordinal is None:
        return
    yield ordinal
    for ending, others in (
        ("ый", "ого ом ому ое ая"), ("ий", "его ем ему ье ья"), ("ой", "ого ом ому ое ая"), ("y", "ego ym e a"),
        ("ci", "ciego cim cie cia"),
    ):  # fmt: skip
        if ordinal.endswith(ending):
            yield from (re.sub(rf"{ending}\b", other, ordinal) for other in others.split())


def _decimal(whole: str, fraction: str, code: str) -> Place:
    said = _in_words(f"{whole}.{fraction}", code, "cardinal")
    if said is None:
        return place(f"{whole} {fraction}")
    return place(said, *([said.replace(" punto ", " coma ")] if code == "es" else []))


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
    readings += [one for one in _cases(said) if code in _YEAR_ORDINALS]
    is_certain = not written.endswith(".")
    return place(*readings, *first) if is_certain else place(*first, *readings)


def _money(sign: str, amount: str, code: str) -> Iterator[Place]:
    """5,50 €: "fünf Euro fünfzig", "fünf Euro und fünfzig Cent", "fünf Komma fünf Euro"."""
    numbers = list(_numbers(amount, code))
    if len(numbers) != 1:
        yield from numbers
        return
    currency = next(value for one, value in _CURRENCIES.items() if folded(one, code) == sign)
    names = (*_currency_names(currency, code), *_SHORT_CURRENCIES.get(currency, {}).get(code, ()))
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
    if currency == "BRL":  # the only currency of that language, which takes no other
        return _said(float(amount), "pt_BR", code, to="currency")
    return _said(float(amount), _NUM2WORDS.get(code, code), code, to="currency", currency=currency)


def _said(number: float, language: str, code: str, **options: str) -> str | None:
    """What num2words says, as words of ``code``; None for what it does not know."""
    from num2words import num2words

    try:
        said = num2words(number, lang=language, **options)
    except Exception:  # it raises many kinds for what it does not know, AttributeError among them
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
    short = folded(_SHORT_UNITS.get(_symbols(code)[symbol], {}).get(code, ""), code).split("|")
    said += [f"{number} {one}" for number in numbers for one in short if one]
    if _symbols(code)[symbol] == "temperature-celsius":
        said += [pattern.format(number) for number in numbers for pattern in _unit_patterns("angle-degree", code)]
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


@lru_cache(maxsize=1024)
def _in_words(digits: str, code: str, kind: str) -> str | None:
    if len(digits) > 15:
        return None
    number = float(digits) if "." in digits else int(digits)
    words = _said(number, _NUM2WORDS.get(code, code), code, to=kind)
    parts = _TURKISH.findall(words) if words and code == "tr" else []
    return " ".join(parts) if words and parts and "".join(parts) == words.replace(" ", "") else words


def _words_of(text: str) -> str:
    """Letters, marks and digits, single spaces for all others."""
    return " ".join("".join(one if is_letter(one) or one.isalnum() else " " for one in text).split())
