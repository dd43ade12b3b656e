"""Numbers as English words, by num2words; the shapes a written number can take.

All functions take the digits as written (ASCII, thousands commas allowed) and return lower
case words without hyphens or commas.
"""

from __future__ import annotations

from num2words import num2words

# A grouped (also 1,23,456) or plain integer with an optional fraction, or a bare fraction like ".5".
NUMBER = r"(?:(?<!\d)(?:\d{1,3}(?:,\d{3}){1,6}(?!\d)(?:\.\d+)?|\d{1,2}(?:,\d\d){1,6},\d{3}(?!\d)|\d+(?:\.\d+)?|\.\d+))"
# A NUMBER, a fraction (3/4) or a mixed number (2 3/4).
QUANTITY = rf"(?:(?<!\d)(?:\d{{1,6}} )?\d{{1,6}}/\d{{1,6}}|{NUMBER})"
# Longer ones are read digit by digit: nobody says quadrillions, and it bounds the work.
LONGEST_CARDINAL_DIGITS = 15
_DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def _plain(words: str) -> str:
    return words.replace("-", " ").replace(",", "")


def digit_by_digit(digits: str) -> str:
    """``"407"`` -> ``"four zero seven"``; anything that is not a digit is skipped."""
    return " ".join(_DIGITS[int(d)] for d in digits if d.isdigit())


def cardinal(digits: str) -> str:
    """``"1,234"`` -> words; numbers with leading zeros or too many digits go digit by digit."""
    digits = digits.replace(",", "")
    if len(digits) > LONGEST_CARDINAL_DIGITS or (len(digits) > 1 and digits[0] == "0"):
        return digit_by_digit(digits)
    return _plain(num2words(int(digits)))


def ordinal(digits: str) -> str:
    """``"22"`` -> ``"twenty second"``."""
    digits = digits.replace(",", "")
    if len(digits) > LONGEST_CARDINAL_DIGITS:
        return digit_by_digit(digits) + "th"
    return _plain(num2words(int(digits), to="ordinal"))


def year(digits: str) -> str:
    """``"1905"`` -> ``"nineteen oh five"``, ``"2024"`` -> ``"twenty twenty four"``."""
    return _plain(num2words(int(digits), to="year"))


def is_year_like(digits: str) -> bool:
    """True for a bare four-digit number that is read in pairs: 1100 to 2099."""
    return len(digits) == 4 and 1100 <= int(digits) <= 2099


def number(text: str) -> str:
    """Any NUMBER: cardinal, or whole part "point" digit by digit."""
    whole, _, fraction = text.partition(".")
    words = cardinal(whole) if whole else ""
    return f"{words} point {digit_by_digit(fraction)}".strip() if fraction else words


def fraction(numerator: str, denominator: str) -> str:
    """``3/4`` -> ``"three quarters"``; an improper or unusual one is read with "over"."""
    top, bottom = int(numerator), int(denominator)
    if not (0 < top < bottom <= 100):
        return f"{cardinal(numerator)} over {cardinal(denominator)}"
    name = {2: "half", 4: "quarter"}.get(bottom) or ordinal(denominator)
    return f"{cardinal(numerator)} {name if top == 1 else plural(name)}"


def quantity(text: str) -> str:
    """Any QUANTITY: a number, a fraction, or a mixed number ("two and three quarters")."""
    if "/" not in text:
        return number(text)
    whole, _, rest = text.rpartition(" ")
    top, _, bottom = rest.partition("/")
    if not whole:
        return fraction(top, bottom)
    if top == "1":
        part = fraction(top, bottom).replace("one ", "an " if bottom in ("8", "11", "18") else "a ", 1)
    else:
        part = fraction(top, bottom)
    return f"{number(whole)} and {part}"


def plural(words: str) -> str:
    """The plural of the last word: ninety -> nineties, six -> sixes, half -> halves."""
    if words.endswith("half"):
        return words[:-1] + "ves"
    if words.endswith("y"):
        return words[:-1] + "ies"
    return words + ("es" if words.endswith(("x", "s", "ch")) else "s")
