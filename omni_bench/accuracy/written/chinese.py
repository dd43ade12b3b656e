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
    | (?P<sign>(?<!\d)-(?=\d))?(?P<currency>[¥$€£])?(?P<whole>\d{1,3}(?:,\d{3})+|\d+)(?:\.(?P<rest>\d+))?
      (?:(?P<percent>%)|(?P<scale>[万亿])|\s?(?P<unit>km/h|km|kg|cm|mm|m2|ml|mg|m|g|l|°c|°|gb|mb|hz|khz|kw|w)(?![a-z0-9]))?
    | (?P<operator>\s?[+×÷=<>*]\s?|(?<=\w)\s-\s(?=\w))
    """,
    re.VERBOSE,
)
"""What is not written as it is spoken."""
_CURRENCIES = {"¥": ("元", "块", "块钱"), "$": ("美元", "美金"), "€": ("欧元",), "£": ("英镑",)}
_UNITS = {
    "km": "公里 千米", "m": "米", "cm": "厘米 公分", "mm": "毫米", "kg": "公斤 千克", "g": "克", "mg": "毫克",
    "ml": "毫升", "l": "升", "m2": "平方米 平米", "°c": "度 摄氏度", "°": "度", "gb": "吉字节 G",
    "mb": "兆字节 兆", "hz": "赫兹 赫",
    "khz": "千赫兹 千赫", "kw": "千瓦", "w": "瓦",
}  # fmt: skip
_OPERATORS = {
    "+": "加", "-": "减 到 至", "×": "乘 乘以", "*": "乘 乘以", "÷": "除以", "=": "等于", "<": "小于", ">": "大于",
}  # fmt: skip
_SCALES = {"万": 10**4, "亿": 10**8}


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
    if found["operator"]:
        sign, text = found["operator"].strip(), match.string
        around = (text[: match.start()].rstrip()[-1:], text[match.end() :].lstrip()[:1])
        spoken = sign != "*" and all(map(str.isalnum, around))
        return (*([] if spoken else [()]), *map(tuple, _OPERATORS[sign].split()))
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
        if found["scale"]:
            whole, rest = found["whole"].replace(",", ""), found["rest"] or ""
            readings = [f"{one}{found['scale']}" for one in readings]
            zeros = _SCALES[found["scale"]]
            if rest and len(whole) < 5 and not zeros % 10 ** len(rest):
                readings.append(cardinal(int(whole + rest) * zeros // 10 ** len(rest)))
        if found["currency"]:
            units = _CURRENCIES[found["currency"]]
            amounts = [f"{one}{unit}" for one in readings for unit in units]
            if found["rest"] is not None and len(found["rest"]) <= 2:
                small = found["rest"].ljust(2, "0")
                tenths = [f"{spelled(small[0])}{end}" for end in ("角", "毛", "")] if small[0] != "0" else ["零"]
                hundredths = [f"{spelled(small[1])}{end}" for end in ("分", "")] if small[1] != "0" else [""]
                amounts += [
                    f"{whole}{unit}{tenth}{last}"
                    for whole in _plain(found["whole"].replace(",", ""))
                    for unit in units
                    for tenth in tenths
                    for last in hundredths
                ]
            readings = amounts
        if found["unit"]:
            readings = [said for one in readings for said in _measured(one, found["unit"])]
        if found["sign"]:
            readings = [f"{sign}{one}" for one in readings for sign in ("负", "零下")]
    return tuple(dict.fromkeys(map(tuple, readings)))


def _measured(number: str, unit: str) -> list[str]:
    """3km: 三公里 or 三千米; 100km/h: 每小时一百公里, 时速一百公里."""
    if unit == "km/h":
        speeds = [f"{number}{one}" for one in _UNITS["km"].split()]
        return [f"{said}" for one in speeds for said in (f"每小时{one}", f"时速{one}", f"{one}每小时", f"{one}每时")]
    said = [f"{number}{one}" for one in _UNITS[unit].split()]
    return [*said, *(f"摄氏{number}度" for _ in "1" if unit == "°c"), number + unit]


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
