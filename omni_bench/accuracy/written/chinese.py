"""Chinese: one script, and numbers as they are spoken."""

from __future__ import annotations

import re
from functools import lru_cache

from omni_bench.accuracy.written.readings import Place

DIGITS = "零一二三四五六七八九"
_ASIDE = str.maketrans({"〇": "零", "著": "着"})
_NUMBER = re.compile(r"(\d{1,2}):(\d{2})(?!\d)|(\d{1,3}(?:,\d{3})+|\d+)(?:\.(\d+))?(%?)")


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


NUMBER = _NUMBER


def number_place(match: re.Match[str]) -> Place:
    """The readings of a match of :data:`NUMBER`, as characters."""
    hour, minute, whole, fraction, percent = match.groups()
    if hour is not None:
        after = "" if minute == "00" else cardinal(int(minute))
        readings = [f"{one}点{then}" for one in _plain(hour) for then in dict.fromkeys((after, after and f"{after}分"))]
        readings += [f"{one}点半" for one in _plain(hour) if minute == "30"]
    else:
        readings = _plain(whole.replace(",", ""))
        if fraction is not None:
            readings = [f"{one}点{spelled(fraction)}" for one in readings]
        if percent:
            readings = [f"百分之{one}" for one in readings]
    return tuple(dict.fromkeys(map(tuple, readings)))


def _plain(digits: str) -> list[str]:
    """Short numbers with a leading zero, years and telephone numbers are read digit by digit, all else as a number."""
    by_digit = spelled(digits)
    if len(digits) > 15 or (len(digits) > 1 and digits[0] == "0"):
        return [by_digit, by_digit.replace("一", "幺")]
    words = cardinal(int(digits))
    paired = "两" + words[1:] if words[0] == "二" and words[1:2] != "十" else words
    first = [by_digit, words] if len(digits) == 4 else [words, by_digit]
    return [*first, paired, f"一{words}" if words[0] == "十" else words, by_digit.replace("一", "幺")]
