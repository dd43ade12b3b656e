"""Chinese: one script, and numbers as they are spoken."""

from __future__ import annotations

import re
from functools import lru_cache

from omni_bench.accuracy.written.readings import Place

DIGITS = "零一二三四五六七八九"
_ASIDE = str.maketrans({"〇": "零", "著": "着"})
NUMBER = re.compile(
    r"""
      (?P<hour>\d{1,2}):(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d))?(?![:\d])
    | (?P<date>(?<![\d./-])\d{4}(?P<cut>[-/.])\d{1,2}(?P=cut)\d{1,2}(?![\d./-]))
    | (?P<mark>[±≠≤≥≈√∞§@&])
    | (?P<ratio>(?<=\d):(?=\d))
    | \^(?P<power>-?\d+)
    | (?P<above>\d{1,4})[/⁄](?P<below>\d{1,4})(?![\d/])
    | (?P<range>(?<=\d)[-~](?=\d))
    | (?P<sign>(?<!\d)-(?=\d))?(?P<currency>[¥$€£])?(?P<whole>\d{1,3}(?:,\d{3})+|\d+)(?:\.(?P<rest>\d+))?
      (?:\s?(?P<percent>[%‰])|\s?(?P<currency_behind>[¥$€£])|(?P<scale>[万亿])|\s?(?P<unit>km/h|km|kg|cm|mm|m\^?2|ml|mg|m|g|l|°c|°|gb|mb|hz|khz|kw|w)(?![a-z0-9]))?
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
_MARKS = {
    "±": "正负", "≠": "不等于", "≤": "小于等于 小于或等于", "≥": "大于等于 大于或等于", "≈": "约等于", "√": "根号",
    "@": "at 艾特", "&": "和 与 and",
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
    if found["mark"]:
        return tuple(map(tuple, _MARKS.get(found["mark"], found["mark"]).split()))
    if found["ratio"]:
        return (), ("比",)
    if found["power"]:
        digits = found["power"].removeprefix("-")
        sign = "负" if digits != found["power"] else ""
        squared = ["平方", "的平方"] if found["power"] == "2" else []
        return tuple(map(tuple, [*(f"的{sign}{one}次方" for one in _plain(digits)), *squared]))
    if found["date"]:
        year, month, day = re.findall(r"\d+", found["date"])
        names = [(one, two) for one in _plain(str(int(month))) for two in _plain(str(int(day)))]
        said = [f"{first}年{one}月{two}{end}" for first in _plain(year) for one, two in names for end in "日号"]
        return tuple(map(tuple, [*said, *(f"{first}{one}{two}" for first in _plain(year) for one, two in names)]))
    if found["operator"]:
        sign, text = found["operator"].strip(), match.string
        around = (text[: match.start()].rstrip()[-1:], text[match.end() :].lstrip()[:1])
        spoken = sign != "*" and all(map(str.isalnum, around))
        return (*([] if spoken else [()]), *map(tuple, _OPERATORS[sign].split()))
    if found["hour"]:
        readings = _clock(found["hour"], found["minute"], found["second"])
    elif found["above"]:
        readings = [f"{below}分之{above}" for below in _plain(found["below"]) for above in _plain(found["above"])]
    else:
        readings = _plain(found["whole"].replace(",", ""))
        if found["rest"] is not None:
            readings = [f"{one}点{spelled(found['rest'])}" for one in readings]
        if found["percent"]:
            readings = [f"{'百' if found['percent'] == '%' else '千'}分之{one}" for one in readings]
        if found["scale"]:
            whole, rest = found["whole"].replace(",", ""), found["rest"] or ""
            readings = [f"{one}{found['scale']}" for one in readings]
            zeros = _SCALES[found["scale"]]
            if rest and len(whole) < 5 and not zeros % 10 ** len(rest):
                readings.append(cardinal(int(whole + rest) * zeros // 10 ** len(rest)))
        if currency := found["currency"] or found["currency_behind"]:
            units = _CURRENCIES[currency]
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
            readings = [said for one in readings for said in _measured(one, found["unit"].replace("^", ""))]
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


def _clock(hour: str, minute: str, second: str | None) -> list[str]:
    """10:30: 十点半; 1:30:00: 一点三十分零秒, 一小时三十分; 3:1 is 三比一, and 3:10 may be."""
    hours = _plain(hour)
    times = [f"{one}点{then}" for one in hours for then in _minutes(minute)]
    if second is None:
        return [*times, *(f"{one}比{two}" for one in hours for two in _plain(minute))]
    last = [f"{one}秒" for one in _plain(str(int(second)))] if int(second) else [""]
    middle = [f"{one}{unit}" for one in _plain(str(int(minute))) for unit in ("分", "分钟")] if int(minute) else [""]
    whole = [f"{one}{unit}" for one in hours for unit in ("小时", "个小时")] if int(hour) else [""]
    spans = [f"{one}{two}{three}" for one in whole for two in middle for three in last]
    return [*(f"{one}{three}" for one in times for three in last), *filter(None, spans)]


def _minutes(digits: str) -> list[str]:
    """10:05 is 十点零五分 or 十点五分, 10:30 十点半, and 10:00 十点."""
    value = int(digits)
    if not value:
        return ["", "整"]
    said = [cardinal(value)] if value > 9 else [f"零{cardinal(value)}", cardinal(value)]
    quarters = {15: ["一刻"], 30: ["半"], 45: ["三刻"]}
    return [*(f"{one}{unit}" for one in said for unit in ("", "分")), *quarters.get(value, [])]


def _plain(digits: str) -> list[str]:
    """Short numbers with a leading zero, years and telephone numbers are read digit by digit, all else as a number."""
    by_digit = spelled(digits)
    if len(digits) > 15 or (len(digits) > 1 and digits[0] == "0"):
        return [by_digit, by_digit.replace("一", "幺")]
    words = cardinal(int(digits))
    paired = "两" + words[1:] if words[0] == "二" and words[1:2] != "十" else words
    first = [by_digit, words] if len(digits) == 4 else [words, by_digit]
    return [*first, paired, f"一{words}" if words[0] == "十" else words, by_digit.replace("一", "幺")]
