"""The ways to say a written English number: as a quantity, a year, a time, money, or digit by digit."""

from __future__ import annotations

import re
from collections.abc import Iterator

from num2words import num2words

from omni_bench.accuracy.written.readings import Place, place

_CURRENCIES = {
    "$": ("dollar", "dollars", "cents"),
    "£": ("pound", "pounds", "pence"),
    "€": ("euro", "euros", "cents"),
    "¥": ("yen", "yen", "sen"),
    "₹": ("rupee", "rupees", "paise"),
}
_CURRENCIES |= {"us$": ("us dollar", "us dollars", "cents"), "usd": ("us dollar", "us dollars", "cents")}
_CURRENCIES |= {"chf": ("swiss franc", "swiss francs", "centimes")}
_CURRENCIES |= {code: _CURRENCIES[sign] for code, sign in (("gbp", "£"), ("eur", "€"), ("jpy", "¥"), ("inr", "₹"))}
MONTHS = ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november")
MONTHS += ("december",)
_SCALES = {"k": "thousand", "m": "million", "mn": "million", "bn": "billion", "tn": "trillion"}
_LONGEST_QUANTITY = 15  # digits; longer ones are read one by one
_FRACTIONS = {
    (1, 2): ("half", "a half", "half a", "half an"),
    (1, 4): ("quarter", "a quarter", "one quarter"),
    (3, 4): ("three quarters",),
}


def cardinal(number: int) -> str:
    """As :func:`num2words.num2words`, without "and", commas and hyphens."""
    return _plain(num2words(number))


def ordinal(digits: str) -> Place:
    """21st: twenty first."""
    said = _ordinal(int(digits)) if len(digits) <= _LONGEST_QUANTITY else _spelled(digits)
    short = said.removeprefix("one ")
    return place(said, *([short] if short.startswith(("hundred", "thousand")) else []))


def number(written: str, *, grouped: bool = False) -> Place:
    """A whole or decimal number without commas, or a negative one; ``grouped``: it had commas, so it is a quantity."""
    if written.startswith("-"):
        said = [" ".join(reading) for reading in number(written[1:], grouped=grouped)]
        return place(*(f"{sign} {one}" for sign in ("minus", "negative") for one in said))
    if "." in written:
        return place(*_decimal(*written.split(".")))
    return place(*_whole(written, grouped=grouped))


def version(written: str) -> Place:
    """3.14.1, or an address: numbers with "point" or "dot" between them."""
    parts, digits = ([said(part) for part in written.split(".")] for said in (_quantity, _spelled))
    return place(*(word.join(one) for one in (parts, digits) for word in (" point ", " dot ", " ")))


def time_of_day(hour: int, minute: int) -> Place:
    """10:30: "ten thirty", "half past ten"; 10:00: "ten", "ten oclock"."""
    name, following = cardinal(hour), cardinal(hour % 12 + 1)
    if not minute:
        names = {0: ["midnight"], 12: ["noon", "midday"], 24: ["midnight"]}.get(hour, [])
        return place(name, *names, f"{name} oclock", f"{name} hundred", f"{name} hundred hours", f"{name} zero zero")
    said = cardinal(minute)
    readings = [f"{name} {said}"]
    if minute < 10:
        readings = [f"{name} oh {said}", f"{name} zero {said}", f"{name} {said}"]
    past = {15: "quarter", 30: "half"}.get(minute, said)
    readings += [f"{past} past {name}", f"a {past} past {name}", f"{said} minutes past {name}"]
    if minute > 30:
        left = {15: "quarter"}.get(60 - minute, cardinal(60 - minute))
        readings += [f"{left} to {following}", f"a {left} to {following}"]
    return place(*readings)


def clock(hour: int, minute: int, second: int) -> Place:
    """1:30:00: "one hour thirty minutes"; or a time of day with its seconds."""
    parts = [
        f"{cardinal(value)} {unit}{'' if value == 1 else 's'}"
        for value, unit in ((hour, "hour"), (minute, "minute"), (second, "second"))
        if value
    ] or ["zero seconds"]
    spans = [" ".join(parts), " ".join([*parts[:-1], "and", parts[-1]])] if len(parts) > 1 else parts
    times = [" ".join(one) for one in time_of_day(hour, minute)]
    said = cardinal(second)
    ends = [said, f"and {said} seconds", f"{said} seconds"] if second else ["", "zero"]
    return place(*spans, *(f"{one} {end}" for one in times for end in ends))


def power(exponent: str) -> Place:
    """The exponent of 2^10: "to the power of ten", "to the tenth"."""
    value = int(exponent)
    said = cardinal(abs(value))
    signs = ["minus ", "negative "] if value < 0 else [""]
    readings = [f"{link} {sign}{said}" for sign in signs for link in ("to the power of", "to the", "to")]
    readings += [f"to the {sign}{_ordinal(abs(value))}{end}" for sign in signs for end in ("", " power")]
    return place(*({2: ["squared"], 3: ["cubed"]}.get(value, [])), *readings)


def date(written: str) -> Place:
    """12/25/2020 and 2020-12-25: number by number, or the month by its name; 3/4/20 may be of March or of April."""
    numbers = [int(part) for part in re.split("[/-]", written)]
    year_first = "-" in written
    year, one, two = (numbers[0], *numbers[1:]) if year_first else (numbers[2], *numbers[:2])
    plain = [cardinal(part) for part in (one, two)]
    years = list(_whole(str(year)))[:3]
    orders = [(one, two)] if year_first else [(one, two), (two, one)]
    days: list[str] = []
    for month, day in orders:
        if 1 <= month <= len(MONTHS) and 1 <= day <= 31:
            name, nth, plain_day = MONTHS[month - 1], _ordinal(day), cardinal(day)
            days += [f"{name} {nth}", f"{name} {plain_day}", f"the {nth} of {name}", f"{nth} of {name}"]
            days += [f"{name} the {nth}", f"{plain_day} {name}"]
    if year_first:
        by_number = [f"{said} {' '.join(plain)}" for said in years]
    else:
        by_number = [word.join([*plain, said]) for said in years for word in (" ", " slash ")]
    return place(*by_number, *(f"{said} {one}" for said in days for one in years))


def day_of_month(written: str) -> Place:
    """March 3rd, Mar. 3, 3 March, the 3rd of March: in any of these orders."""
    day = int(re.search(r"\d+", written)[0])  # type: ignore[index]  # the token holds one
    short = re.search(rf"{'|'.join(name[:3] for name in MONTHS)}", written)[0]  # type: ignore[index]
    month = next(name for name in MONTHS if name.startswith(short))
    nth, plain = _ordinal(day), cardinal(day)
    days = (f"{nth} of {month}", f"the {nth} of {month}", f"{nth} {month}", f"{plain} {month}")
    months = (f"{month} {plain}", f"{month} {nth}", f"{month} the {nth}")
    return place(*(months + days if written[0].isalpha() and not written.startswith("the ") else days + months))


def feet_and_inches(feet: int, inches: int) -> Place:
    """6'2": "six foot two", "six feet two inches"."""
    high, low = cardinal(feet), cardinal(inches)
    pairs = [f"{high} {unit} {low}" for unit in ("foot", "feet")]
    return place(*pairs, *(f"{one} {unit}" for one in pairs for unit in ("inches", "inch")), f"{high} {low}")


def fraction(above: int, below: int) -> Place:
    """1/2: "one half", "a half", "half"; "and" before it where a whole number stands there."""
    readings = list(_FRACTIONS.get((above, below), ()))
    if below > 1:
        part = {2: "half", 4: "fourth"}.get(below, _ordinal(below))
        parts = "halves" if below == 2 else f"{part}s"
        readings = [f"{cardinal(above)} {part if above == 1 else parts}", *readings]
        readings += [f"a {part}"] if above == 1 else []
        readings += [f"and {reading}" for reading in readings]
    apart = (f"{cardinal(above)} {word} {cardinal(below)}" for word in ("over", "slash", "out of", "of", ""))
    return place(*readings, *apart)


def money(sign: str, amount: str, scale: str | None) -> Place:
    """$2.50, £40000, €1.5 million."""
    one, many, small = _CURRENCIES[sign]
    whole, _, rest = amount.partition(".")
    if scale:
        said = [" ".join(reading) for reading in number(amount)]
        units = dict.fromkeys((many, one, *(unit.removeprefix("us ") for unit in (many, one))))
        return place(*(f"{reading} {_SCALES.get(scale, scale)} {unit}" for reading in said for unit in units))
    quantities = list(_whole(whole or "0", grouped=True))
    if not rest.strip("0"):
        units = (one, many) if whole == "1" else (many, one)
        readings = [f"{said} {unit}" for said in quantities for unit in units]
        readings += ["a " + one] if whole == "1" else []
        readings += [reading.replace(" us ", " ") for reading in readings if " us " in reading]
        return place(*readings, *([f"{quantities[0]} bucks"] if sign == "$" else []))
    cents = cardinal(int(rest.ljust(2, "0")[:2]))
    unit = one if whole == "1" else many
    readings = [f"{quantities[0]} {unit} and {cents} {small}", f"{quantities[0]} {unit} {cents} {small}"]
    readings += [f"{quantities[0]} {unit} {cents}", f"{quantities[0]} {unit} and {cents}", f"{quantities[0]} {cents}"]
    readings += [reading.replace("one ", "a ", 1) for reading in readings if whole == "1"]
    readings += [f"{reading} {many}" for reading in _decimal(whole, rest)]
    return place(*([f"{cents} {small}"] if not whole.strip("0") else []), *readings)


def decade(digits: str) -> Place:
    """1990s: nineteen nineties; 80s: eighties."""
    readings = [" ".join([*said.split()[:-1], _plural(said.split()[-1])]) for said in _whole(digits)]
    return place(*readings)


def roman(written: str) -> Place:
    """A numeral of two or more letters, as in Henry VIII, World War II and Chapter IV; or the letters themselves."""
    values = [{"i": 1, "v": 5, "x": 10, "l": 50}[letter] for letter in written]
    total = sum(-one if one < two else one for one, two in zip(values, [*values[1:], 0], strict=True))
    return place(cardinal(total), f"the {_ordinal(total)}", _ordinal(total), written)


def _whole(digits: str, *, grouped: bool = False) -> Iterator[str]:
    """Readings of a whole number, the likeliest first: four digits from 1100 on are a year."""
    leading_zero = len(digits) > 1 and digits[0] == "0"
    value = int(digits[:_LONGEST_QUANTITY])
    if len(digits) > _LONGEST_QUANTITY or leading_zero:
        yield from _one_by_one(digits)
        if leading_zero and len(digits) <= _LONGEST_QUANTITY:
            yield cardinal(value)
            if len(digits) == 4 and value % 100 == 0:
                yield from (f"{zero} {cardinal(value // 100)} hundred" for zero in ("oh", "zero"))
        return
    year = _plain(num2words(value, to="year")) if 1000 <= value <= 9999 else None
    if year is not None and not grouped and value >= 1100 and not 2000 <= value <= 2009:
        yield year
    yield cardinal(value)
    if year is not None:
        yield year
    if value == 0:
        yield from ("oh", "o", "nil", "nought")
    if 100 <= value <= 199:
        yield "a " + cardinal(value).removeprefix("one ")
    if 1000 <= value <= 9999:
        high, low = divmod(value, 100)
        yield f"{cardinal(high)} hundred {cardinal(low) if low else ''}"
        yield f"{cardinal(high)} {cardinal(low) if low > 9 else 'oh ' + cardinal(low)}"
    if 100 <= value <= 999 and value % 100:
        high, low = divmod(value, 100)
        yield f"{cardinal(high)} {cardinal(low) if low > 9 else 'oh ' + cardinal(low)}"
    for unit, name in ((10**9, "billion"), (10**6, "million"), (10**3, "thousand")):
        if value > unit and value % (unit // 10) == 0 and value % unit:
            yield from (f"{one} {name}" for one in _decimal(str(value // unit), str(value % unit // (unit // 10))))
    if len(digits) > 1:
        yield from _one_by_one(digits)


def _decimal(whole: str, rest: str) -> Iterator[str]:
    """3.14: three point one four; 2.5: two and a half."""
    named = [_quantity(whole), *(("", "oh") if not whole.strip("0") else ())] if whole else ["zero", ""]
    for name in named:
        for zero in ("zero", "oh", "o"):
            yield f"{name} point {_spelled(rest, zero)}"
        if len(rest) == 2 and rest[0] != "0":
            yield f"{name} point {cardinal(int(rest))}"
        for ending, part in (("5", "a half"), ("25", "a quarter"), ("75", "three quarters")):
            if rest == ending:
                bare = part.removeprefix("a ")
                yield from (part, f"{bare} a", bare) if name in ("", "zero") else (f"{name} and {part}",)


def _quantity(digits: str) -> str:
    return cardinal(int(digits)) if len(digits) <= _LONGEST_QUANTITY else _spelled(digits)


def _one_by_one(digits: str) -> Iterator[str]:
    for zero in ("zero", "oh"):
        yield _spelled(digits, zero)
        for pair in (0, 1, 2):
            if pair + 1 < len(digits) and digits[pair] == digits[pair + 1]:
                said = [_spelled(one, zero) for one in digits]
                yield " ".join([*said[:pair], "double", said[pair], *said[pair + 2 :]])


def _spelled(digits: str, zero: str = "zero") -> str:
    return " ".join(zero if digit == "0" else cardinal(int(digit)) for digit in digits)


def _ordinal(value: int) -> str:
    return _plain(num2words(value, to="ordinal"))


def _plural(word: str) -> str:
    if word.endswith("y"):
        return f"{word[:-1]}ies"
    return f"{word}es" if word.endswith("x") else f"{word}s"


def _plain(said: str) -> str:
    return " ".join(word for word in said.replace("-", " ").replace(",", " ").split() if word != "and")


ORDINAL_READINGS: dict[Place, Place] = {
    number(str(day)): place(_ordinal(day), f"the {_ordinal(day)}", f"{_ordinal(day)} of", f"the {_ordinal(day)} of")
    for day in range(1, 32)
}
"""Of the days of a month: "June 3" is read "June third"."""
