"""Dates and times of day as words. Numeric dates are month/day/year unless only day/month fits."""

from __future__ import annotations

import re

from reference_impl.prompt.text.words import cardinal, digit_by_digit, is_year_like, ordinal, year

MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
_SHORT = {"Sept": "September", **{name[:3]: name for name in MONTHS}}
_MONTH = "|".join((*MONTHS, "Sept", *(name[:3] for name in MONTHS if name != "May")))
_DAY = r"(?:0?[1-9]|[12]\d|3[01])"
_WEEKDAYS = {
    "Mon": "Monday",
    "Tue": "Tuesday",
    "Tues": "Tuesday",
    "Wed": "Wednesday",
    "Thu": "Thursday",
    "Thur": "Thursday",
    "Thurs": "Thursday",
    "Fri": "Friday",
    "Sat": "Saturday",
    "Sun": "Sunday",
}

_WEEKDAY = re.compile(rf"\b({'|'.join(sorted(_WEEKDAYS, key=len, reverse=True))})(?:\.,?|,)(?=\s(?:{_MONTH}|\d))")
_ISO = re.compile(r"(?<![\d-])(\d{4})-(\d{2})-(\d{2})(?:T(?=\d\d:)|(?![\d-]))")
_NUMERIC = re.compile(r"(?<![\d/.])(\d{1,2})([/.])(\d{1,2})\2(\d{4}|\d{2})(?![\d/]|\.\d)")
_MONTH_DAY = re.compile(
    rf"\b({_MONTH})\b\.?\s({_DAY})(?:st|nd|rd|th)?(?![\d:/]|[.,]\d)"
    rf"(?:\s?-\s?({_DAY})(?:st|nd|rd|th)?(?![\d:/]|[.,]\d))?(?:,?\s(\d{{4}})(?![\d:/]|[.,]\d))?"
)
_DAY_MONTH = re.compile(
    rf"(?<![\d.,:/$£€¥-])({_DAY})(?:st|nd|rd|th)?\s(?:of\s)?({_MONTH})\b(?:\.(?=\s\d))?(?:,?\s(\d{{4}})(?![\d:/]|[.,]\d))?"
)
_DETERMINER = re.compile(r"\b(?:the|this|each|every|last|next|a)\s$", re.IGNORECASE)
_MONTH_YEAR = re.compile(rf"\b({_MONTH})\b\.?,?\s(?=\d{{4}}(?!\d))")

_CLOCK_RANGE = re.compile(r"(?:(?<=\d)|(?<=\d [ap] m))\s?-\s?(?=\d{1,2}:\d\d(?!\d)|\d{1,2} [ap] m\b)")
_DURATION = re.compile(r"(?<![\d:.])(\d{1,3}):([0-5]\d):([0-5]\d)(?![\d:])")
_CLOCK = re.compile(r"(?<![\d:.,])([01]?\d|2[0-4]):([0-5]\d)(?![\d:])(\s?[ap] m\b)?")


def _name(month: str) -> str:
    return _SHORT.get(month, month)


def _year(digits: str | None) -> str:
    if not digits:
        return ""
    return ", " + (year(digits) if is_year_like(digits) else cardinal(digits))


def _full_year(digits: str) -> str:
    # The pivot of POSIX strptime: 69-99 are of the 20th century.
    return digits if len(digits) == 4 else ("19" if int(digits) >= 69 else "20") + digits


def _date(year_digits: str, month: int, day: int, as_written: str) -> str:
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return as_written
    return f"{MONTHS[month - 1]} {ordinal(str(day))}{_year(year_digits)}"


def _iso(match: re.Match[str]) -> str:
    spoken = _date(match[1], int(match[2]), int(match[3]), match[0])
    return spoken + " at " if match[0].endswith("T") and spoken != match[0] else spoken


def _numeric(match: re.Match[str]) -> str:
    first, second = int(match[1]), int(match[3])
    if match[2] == "." and len(match[4]) == 2:
        return match[0]  # a version number rather than a date
    # Dots are the continental day.month.year; slashes the American month/day/year.
    month, day = (second, first) if (match[2] == "." and second <= 12) or first > 12 else (first, second)
    return _date(_full_year(match[4]), month, day, match[0])


def _month_day(match: re.Match[str]) -> str:
    until = f" to {ordinal(str(int(match[3])))}" if match[3] else ""
    return f"{_name(match[1])} {ordinal(str(int(match[2])))}{until}{_year(match[4])}"


def _day_month(match: re.Match[str]) -> str:
    article = "" if _DETERMINER.search(match.string[max(0, match.start() - 6) : match.start()]) else "the "
    return f"{article}{ordinal(str(int(match[1])))} of {_name(match[2])}{_year(match[3])}"


def spell_dates(text: str) -> str:
    """``March 3rd``, ``3 Mar. 2021``, ``2024-05-01``, ``5/4/2021``, ``24.12.2024`` in words."""
    text = _WEEKDAY.sub(lambda m: _WEEKDAYS[m[1]] + ",", text)
    text = _ISO.sub(_iso, text)
    text = _NUMERIC.sub(_numeric, text)
    text = _MONTH_DAY.sub(_month_day, text)
    text = _DAY_MONTH.sub(_day_month, text)
    return _MONTH_YEAR.sub(lambda m: _name(m[1]) + " ", text)


def _plural_unit(digits: str, unit: str) -> str:
    return f"{cardinal(str(int(digits)))} {unit}" + ("" if int(digits) == 1 else "s")


def _duration(match: re.Match[str]) -> str:
    hours, minutes, seconds = match.groups()
    parts = [_plural_unit(hours, "hour"), _plural_unit(minutes, "minute"), _plural_unit(seconds, "second")]
    return f"{parts[0]}, {parts[1]} and {parts[2]}"


def _clock(match: re.Match[str]) -> str:
    hour, minute = int(match[1]), match[2]
    half = f" {match[3].strip()}" if match[3] else ""
    if minute == "00":
        if half:
            return cardinal(str(hour)) + half
        if hour == 0:
            return "midnight"
        return cardinal(str(hour)) + (" o'clock" if hour <= 12 else " hundred")
    spoken_minute = "oh " + digit_by_digit(minute[1]) if minute[0] == "0" else cardinal(minute)
    return f"{cardinal(str(hour))} {spoken_minute}{half}"


def spell_times(text: str) -> str:
    """``3:30 p m`` (the abbreviation already opened), ``14:05``, ``9:00``, ``1:02:03`` in words."""
    text = _CLOCK_RANGE.sub(" to ", text)
    return _CLOCK.sub(_clock, _DURATION.sub(_duration, text))
