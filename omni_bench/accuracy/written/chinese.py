"""Chinese: one script, and numbers as they are spoken."""

from __future__ import annotations

import re
from functools import lru_cache

from omni_bench.accuracy.written.readings import Place

DIGITS = "零一二三四五六七八九"
_ASIDE = str.maketrans({"〇": "零", "著": "着"})
NUMBER = re.compile(
    r"""
      (?P<hour>\d{1,2}):(?P<minute>\d{2})(?!\d)
    | (?P<above>\d{1,4})[/⁄](?P<below>\d{1,4})(?![\d/])
    | (?P<range>(?<=\d)[-~](?=\d))
    | (?P<sign>(?<!\d)-(?=\d))?(?P<currency>[¥$€£])?(?P<whole>\d{1,3}(?:,\d{3})+|\d+)(?:\.(?P<rest>\d+))?(?P<percent>%?)
    """,
    re.VERBOSE,
)
"""What is not written as it is spoken."""
_CURRENCIES = {"¥": ("元", "块", "块钱"), "$": ("美元", "美金"), "€": ("欧元",), "£": ("英镑",)}


def simplified(text: str) -> str:
    """Traditional characters as simplified ones, by OpenCC's tables (t2s)."""
    return _converter().convert(text).translate(_ASIDE)


@lru_cache(maxsize=1)
def _converter():
    from opencc import OpenCC

    return OpenCC("t2s")


def cardinal(number: int) -> str:
    """A number below 10**16 in words: 20350 is 二万零三百五十."""
    if number < 10:
        return DIGITS[number]
    groups: list[str] = []
    pending_zero = False
    for unit, name in ((10**12, "兆"), (10**8, "亿"), (10**4, "万"), (1, "")):
        group = number // unit % 10**4
        if not group:
            pending_zero = bool(groups)
            continue
        if groups and (pending_zero or group < 1000):
            groups.append("零")
        groups.append(_below_ten_thousand(group) + name)
        pending_zero = False
    words = "".join(groups)
    return words[1:] if words.startswith("一十") else words


def _below_ten_thousand(number: int) -> str:
    words = ""
    for unit, name in ((1000, "千"), (100, "百"), (10, "十"), (1, "")):
        digit = number // unit % 10
        if digit:
            words += DIGITS[digit] + name
        elif words and number % unit:
            words += "" if words.endswith("零") else "零"
    return words


def spelled(digits: str) -> str:
    """Digit by digit."""
    return "".join(DIGITS[int(digit)] for digit in digits)


def number_place(match: re.Match[str]) -> Place:
    """The readings of a match of :data:`NUMBER`, as characters."""
    found = match.groupdict()
    if found["range"]:
        return (), ("到",), ("至",)
    if found["hour"]:
        readings = [f"{hour}点{then}" for hour in _plain(found["hour"]) for then in _minutes(found["minute"])]
    elif found["above"]:
        readings = [f"{below}分之{above}" for below in _plain(found["below"]) for above in _plain(found["above"])]
    else:
        readings = _plain(found["whole"].replace(",", ""))
        if found["rest"] is not None:
            readings = [f"{one}点{spelled(found['rest'])}" for one in readings]
        if found["percent"]:
            readings = [f"百分之{one}" for one in readings]
        if found["currency"]:
            readings = [f"{one}{unit}" for one in readings for unit in _CURRENCIES[found["currency"]]]
        if found["sign"]:
            readings = [f"{sign}{one}" for one in readings for sign in ("负", "零下")]
    return tuple(dict.fromkeys(map(tuple, readings)))


def _minutes(digits: str) -> list[str]:
    """10:05 is 十点零五分 or 十点五分, 10:30 十点半, and 10:00 十点."""
    value = int(digits)
    if not value:
        return ["", "整"]
    said = [cardinal(value)] if value > 9 else [f"零{cardinal(value)}", cardinal(value)]
    return [f"{one}{unit}" for one in said for unit in ("", "分")] + (["半"] if value == 30 else [])


def _plain(digits: str) -> list[str]:
    """Short numbers with a leading zero, years and telephone numbers are read digit by digit, all else as a number."""
    by_digit = spelled(digits)
    if len(digits) > 15 or (len(digits) > 1 and digits[0] == "0"):
        return [by_digit, by_digit.replace("一", "幺")]
    words = cardinal(int(digits))
    paired = "两" + words[1:] if words[0] == "二" and words[1:2] != "十" else words
    first = [by_digit, words] if len(digits) == 4 else [words, by_digit]
    return [*first, paired, f"一{words}" if words[0] == "十" else words, by_digit.replace("一", "幺")]
