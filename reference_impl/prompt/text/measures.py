"""Amounts with a unit as words: money, percentages, temperatures, lengths, rates."""

from __future__ import annotations

import re

from reference_impl.prompt.text.words import NUMBER, QUANTITY, cardinal, digit_by_digit, number, plural, quantity

# symbol: (one, many, one hundredth, hundredths)
_CURRENCIES = {
    "$": ("dollar", "dollars", "cent", "cents"),
    "£": ("pound", "pounds", "penny", "pence"),
    "€": ("euro", "euros", "cent", "cents"),
    "¥": ("yen", "yen", "", ""),
    "₹": ("rupee", "rupees", "paisa", "paise"),
}
_CODES = {"USD": "$", "GBP": "£", "EUR": "€", "JPY": "¥", "INR": "₹"}
_SCALES = {
    **dict.fromkeys(("k", "K"), "thousand"),
    **dict.fromkeys(("m", "M", "mn"), "million"),
    **dict.fromkeys(("b", "B", "bn"), "billion"),
    **dict.fromkeys(("tn", "T"), "trillion"),
    **{word: word for word in ("thousand", "million", "billion", "trillion")},
}
_SIGN = "[$£€¥₹]"
_SCALE = r"(?:\s?(thousand|million|billion|trillion|mn|bn|tn|[kKmMbBT])\b)?"
_CODE_BEFORE = re.compile(rf"\b({'|'.join(_CODES)})\s?(?=\d)")
_CODE_AFTER = re.compile(rf"(?<![\d.,])({NUMBER})\s?({'|'.join(_CODES)}|{_SIGN})(?!\w|\s?\d)")
_PREFIXED_DOLLAR = re.compile(r"\b(?:US|CA|AU|NZ)(?=\$)")
_MONEY_RANGE = re.compile(rf"({_SIGN})({NUMBER})\s?-\s?\1?(?={NUMBER})")
_MONEY = re.compile(rf"(-?)({_SIGN})\s?(\d+,\d\d(?!\d|,\d)|{NUMBER}){_SCALE}")
_CENTS = re.compile(rf"({NUMBER})\s?¢")

_SCALED = re.compile(rf"(?<![\w.,])({NUMBER})(k|bn|M)\b")
_PERCENT = re.compile(rf"({QUANTITY})\s?%")
_DEGREES = re.compile(rf"({QUANTITY})\s?°\s?([CF]\b)?")
_SCALE_NAMES = {"C": " Celsius", "F": " Fahrenheit", None: ""}

_UNITS = {
    "km": "kilometer",
    "m": "meter",
    "cm": "centimeter",
    "mm": "millimeter",
    "um": "micrometer",
    "μm": "micrometer",
    "nm": "nanometer",
    "mi": "mile",
    "yd": "yard",
    "ft": "foot",
    "ha": "hectare",
    "kg": "kilogram",
    "g": "gram",
    "mg": "milligram",
    "μg": "microgram",
    "lb": "pound",
    "lbs": "pound",
    "oz": "ounce",
    "l": "liter",
    "L": "liter",
    "cl": "centiliter",
    "ml": "milliliter",
    "mL": "milliliter",
    "h": "hour",
    "hr": "hour",
    "hrs": "hour",
    "min": "minute",
    "mins": "minute",
    "s": "second",
    "sec": "second",
    "secs": "second",
    "ms": "millisecond",
    "μs": "microsecond",
    "ns": "nanosecond",
    "Hz": "hertz",
    "kHz": "kilohertz",
    "MHz": "megahertz",
    "GHz": "gigahertz",
    "W": "watt",
    "kW": "kilowatt",
    "MW": "megawatt",
    "GW": "gigawatt",
    "Wh": "watt hour",
    "kWh": "kilowatt hour",
    "V": "volt",
    "kV": "kilovolt",
    "mA": "milliamp",
    "Ω": "ohm",
    "J": "joule",
    "kJ": "kilojoule",
    "N": "newton",
    "Pa": "pascal",
    "kPa": "kilopascal",
    "kB": "kilobyte",
    "KB": "kilobyte",
    "MB": "megabyte",
    "GB": "gigabyte",
    "TB": "terabyte",
    "MiB": "mebibyte",
    "GiB": "gibibyte",
    "Mb": "megabit",
    "Gb": "gigabit",
    "Mbps": "megabit per second",
    "Gbps": "gigabit per second",
    "kbps": "kilobit per second",
    "mph": "mile per hour",
    "kph": "kilometer per hour",
    "kmh": "kilometer per hour",
    "fps": "frame per second",
    "rpm": "revolution per minute",
    "dB": "decibel",
    "px": "pixel",
    "kcal": "kilocalorie",
    "cal": "calorie",
}
_PLURALS = {
    "foot": "feet",
    "hertz": "hertz",
    "kilohertz": "kilohertz",
    "megahertz": "megahertz",
    "gigahertz": "gigahertz",
}
_POWERS = {"2": "square ", "3": "cubic "}
_UNIT = "|".join(sorted(map(re.escape, _UNITS), key=len, reverse=True))
_MEASURE = re.compile(
    rf"(?<![\d/,.^])(?<!\^-)({QUANTITY})(\s?|-)(sq\.?\s|cu\.?\s)?({_UNIT})(?:\^([23]))?(?:/({_UNIT}|day|week|month|year))?(?![\w^/])"
)
_FEET_INCHES = re.compile(r"(?<![\d'])(\d{1,2})(?:'|\s?ft\.?)\s?(\d{1,2})(?:\"|''|\s?in\b)")
_FEET_INCHES_PLAIN = re.compile(r"(?<![\d'])(\d)'(\d{1,2})(?![\d'\"])")


def _is_one(text: str) -> bool:
    return text in ("1", "1/2", "1/4", "3/4")


def _many(unit: str) -> str:
    head, per, rest = unit.partition(" per ")
    return _PLURALS.get(head, plural(head)) + per + rest


def _money(match: re.Match[str]) -> str:
    minus, sign, amount, scale = match.groups()
    one, many, cent, cents = _CURRENCIES[sign]
    if re.fullmatch(r"\d+,\d\d", amount):
        amount = amount.replace(",", ".")  # a decimal comma
    prefix = "minus " if minus else ""
    if scale:
        return f"{prefix}{number(amount)} {_SCALES[scale]} {many}"
    whole, _, hundredths = amount.partition(".")
    if hundredths and (len(hundredths) != 2 or not cent):
        return f"{prefix}{number(amount)} {many}"
    whole = whole or "0"
    units = f"{cardinal(whole)} {one if whole == '1' else many}"
    if not int(hundredths or 0):
        return prefix + units
    small = f"{cardinal(str(int(hundredths)))} {cent if hundredths == '01' else cents}"
    return prefix + (small if not whole.strip("0") else f"{units} and {small}")


def spell_money(text: str) -> str:
    """``$4.50``, ``£3``, ``€10,99``, ``5 EUR``, ``$1.5bn``, ``$5-10``, ``50¢`` in words."""
    text = _PREFIXED_DOLLAR.sub("", text)
    text = _CODE_BEFORE.sub(lambda m: _CODES[m[1]], text)
    text = _CODE_AFTER.sub(lambda m: _CODES.get(m[2], m[2]) + m[1], text)
    text = _MONEY_RANGE.sub(lambda m: f"{m[1]}{m[2]} to {m[1]}", text)
    text = _MONEY.sub(_money, text)
    return _CENTS.sub(lambda m: f"{number(m[1])} {'cent' if m[1] == '1' else 'cents'}", text)


def _measure(match: re.Match[str]) -> str:
    amount, joiner, area, symbol, power, per = match.groups()
    unit = _UNITS[symbol]
    if area:
        power = "2" if area.startswith("sq") else "3"
    name = _POWERS.get(power, "") + (unit if _is_one(amount) or joiner == "-" else _many(unit))
    joint = " of a " if "/" in amount and " " not in amount else " "
    rate = f" per {_UNITS.get(per, per)}" if per else ""
    return f"{quantity(amount)}{joint}{name}{rate}"


def _feet(match: re.Match[str]) -> str:
    return f"{cardinal(match[1])} foot {cardinal(match[2])}"


def spell_measures(text: str) -> str:
    """``5 km``, ``20°C``, ``3.5%``, ``90 km/h``, ``12 m^2``, ``10k``, ``6'2"`` in words."""
    text = _PERCENT.sub(lambda m: f"{quantity(m[1])} percent", text)
    text = _DEGREES.sub(
        lambda m: f"{quantity(m[1])} {'degree' if m[1] == '1' else 'degrees'}{_SCALE_NAMES[m[2]]} ", text
    )
    text = _FEET_INCHES_PLAIN.sub(_feet, _FEET_INCHES.sub(_feet, text))
    text = _SCALED.sub(lambda m: f"{number(m[1])} {_SCALES[m[2]]}", text)
    return _MEASURE.sub(_measure, text)


def spell_digit_strings(text: str) -> str:
    """Telephone, card and serial numbers digit by digit, a comma between their groups."""

    def groups(match: re.Match[str]) -> str:
        plus = "plus " if match[0].startswith("+") else ""
        return " " + plus + ", ".join(digit_by_digit(g) for g in re.findall(r"\d+", match[0])) + " "

    for pattern in _DIGIT_STRINGS:
        text = pattern.sub(groups, text)
    return text


_DIGIT_STRINGS = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?<![\w+])\+\d{1,3}(?:[ .-]?\(?\d{1,5}\)?){1,6}(?![\w(]|[.,:/]\d)",  # +1 (555) 123-4567
        r"(?<![\w(])\(\d{3,5}\) ?\d{3,4}[ -]?\d{3,4}(?!\w)",  # (555) 123-4567
        r"(?<![\w.,/-])\d{3}[-. ]\d{3}[-. ]\d{4}(?![\w-])",  # 555-123-4567
        r"(?<![\w.,/-])\d{3}-\d{4}(?![\w-])",  # 555-1234
        r"(?<![\w.,/-])0\d{2,4}(?: \d{3,4}){1,3}(?!\w)",  # 020 7946 0958
        r"(?<![\w.,/-])\d+(?:-\d+){2,}(?![\w-])",  # 978-3-16-148410-0
        r"(?<![\w.,/-])\d{4}(?: \d{4}){2,3}(?![\w ]\d)",  # 1234 5678 9012 3456
    )
)
