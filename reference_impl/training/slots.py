"""Sentence templates, and the word lists and small grammars that fill their slots. Written for this project.

Questions, times, dates, prices, numbers, names, word lists, long sentences. Beside the slots of :data:`SLOTS` a
template holds ``{w}``, ``{n}``, ``{a}``, ``{P}``, ``{S}``: any word, a noun, an adjective, a place and a surname from
word pools that the caller supplies. Numbers are written in digits; the text front end makes words of them. A slot is a
function of a :class:`random.Random`; nothing else is random, so a corpus is a function of its seed.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path


def read_lists(path: Path) -> dict[str, list[str]]:
    """Lists by name from a file of ``[name]`` lines and entries separated by ``|``; ``#`` begins a comment line."""
    lists: dict[str, list[str]] = {}
    current: list[str] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            current = lists.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            current += line.split("|")
    return lists


LISTS = read_lists(Path(__file__).with_name("word_lists.txt"))


class WordPool:
    """Words with frequencies; :meth:`draw` prefers those seen least so far, then the frequent ones.

    ``weights`` are relative frequencies. Deterministic for a given order of calls.
    """

    def __init__(self, words: Sequence[str], weights: Sequence[float], seen: Counter[str], candidates: int = 6):
        self._words = list(words)
        self._cumulative: list[float] = []
        total = 0.0
        for weight in weights:
            total += weight**0.4
            self._cumulative.append(total)
        self._seen, self._candidates = seen, candidates

    def draw(self, rng: random.Random) -> str:
        """One word; it counts as seen."""
        drawn = rng.choices(self._words, cum_weights=self._cumulative, k=self._candidates)
        word = min(drawn, key=lambda w: self._seen[w])
        self._seen[word] += 1
        return word


def _number(rng: random.Random) -> str:
    low, high = rng.choice([(2, 12), (2, 20), (13, 99), (20, 99), (100, 999), (1000, 9999), (10_000, 999_999)])
    value = rng.randint(low, high)
    if value >= 1000 and rng.random() < 0.5:
        value = round(value, -2)
    return f"{value:,}" if value >= 10_000 else str(value)


def _time(rng: random.Random) -> str:
    hour, minute = rng.randint(1, 12), rng.choice([0, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55, rng.randint(1, 59)])
    return f"{hour}:{minute:02d}" + rng.choice(["", "", " am", " pm"])


def _date(rng: random.Random) -> str:
    day, year = rng.randint(1, 28), rng.randint(1780, 2030)
    return rng.choice([f"{rng.choice(LISTS['months'])} {day}", f"{rng.choice(LISTS['months'])} {day}, {year}"])


def _price(rng: random.Random) -> str:
    whole = rng.choice([rng.randint(1, 20), rng.randint(5, 99), 10 * rng.randint(10, 95)])
    sign = rng.choice(["$", "$", "$", "£", "€"])
    return rng.choice([f"{sign}{whole}", f"{sign}{whole}.{rng.randint(5, 99):02d}"])


def _person(rng: random.Random) -> str:
    return rng.choice(
        [_name(rng), _full_name(rng), rng.choice(LISTS["people"]), f"my {rng.choice(LISTS['relatives'])}"]
    )


def _name(rng: random.Random) -> str:
    return rng.choice(LISTS["first_names"])


def _full_name(rng: random.Random) -> str:
    return f"{rng.choice(LISTS['first_names'])} {rng.choice(LISTS['surnames'])}"


def _titled(rng: random.Random) -> str:
    return f"{rng.choice(['Mister', 'Mrs.', 'Doctor', 'Miss', 'Professor', 'Captain'])} {rng.choice(LISTS['surnames'])}"


SLOTS: dict[str, Callable[[random.Random], str]] = {
    "name": _name,
    "full": _full_name,
    "titled": _titled,
    "sur": lambda rng: rng.choice(LISTS["surnames"]),
    "city": lambda rng: rng.choice(LISTS["cities"]),
    "country": lambda rng: rng.choice(LISTS["countries"]),
    "day": lambda rng: rng.choice(LISTS["days"]),
    "month": lambda rng: rng.choice(LISTS["months"]),
    "language": lambda rng: rng.choice(LISTS["languages"]),
    "color": lambda rng: rng.choice(LISTS["colors"]),
    "rel": lambda rng: rng.choice(LISTS["relatives"]),
    "thing": lambda rng: rng.choice(LISTS["things"]),
    "person": _person,
    "place": lambda rng: rng.choice(LISTS["places"]),
    "when": lambda rng: rng.choice(LISTS["times"]),
    "did": lambda rng: rng.choice(LISTS["actions"]),
    "todo": lambda rng: rng.choice(LISTS["infinitives"]),
    "reason": lambda rng: rng.choice(LISTS["reasons"]),
    "vd": lambda rng: rng.choice(LISTS["verbs_past"]),
    "v": lambda rng: rng.choice(LISTS["verbs_present"]),
    "num": _number,
    "small": lambda rng: str(rng.randint(2, 12)),
    "teen": lambda rng: str(rng.randint(11, 99)),
    "year": lambda rng: str(rng.choice([rng.randint(1650, 1999), rng.randint(2000, 2035)])),
    "pct": lambda rng: f"{rng.randint(1, 100)}%",
    "dec": lambda rng: f"{rng.randint(0, 99)}.{rng.randint(1, 99)}",
    "ord": lambda rng: ["1st", "2nd", "3rd", *(f"{i}th" for i in range(4, 21)), "21st", "30th", "100th"][
        rng.randrange(23)
    ],
    "time": _time,
    "date": _date,
    "price": _price,
    "phone": lambda rng: f"555-{rng.randint(0, 9999):04d}",
    "room": lambda rng: f"{rng.randint(1, 450)}",
}


_SLOT = re.compile(r"\{(\w+)\}")


def read_groups(path: Path) -> dict[str, tuple[float, list[str]]]:
    """Weight and templates of every group: a ``[name weight]`` line, then one template a line."""
    groups: dict[str, tuple[float, list[str]]] = {}
    for header, templates in read_lists(path).items():
        name, weight = header.split()
        groups[name] = (float(weight), templates)
    return groups


GROUPS = read_groups(Path(__file__).with_name("templates.txt"))


def article(sentence: str) -> str:
    """``a`` before a vowel letter becomes ``an``; a sentence begins with a capital."""
    sentence = re.sub(r"\b([Aa]) (?=[aeio]|u[mn](?!i)|hour|honest)", r"\1n ", sentence)
    return sentence[:1].upper() + sentence[1:]


def fill(rng: random.Random, pools: Mapping[str, Callable[[random.Random], str]]) -> str:
    """One sentence: a group by weight, a template of it, its slots. ``pools`` supplies w, n, a, P and S."""
    _, templates = rng.choices(list(GROUPS.values()), weights=[g[0] for g in GROUPS.values()])[0]

    def slot(match: re.Match[str]) -> str:
        name = match[1]
        if name == "Person":
            value = SLOTS["person"](rng)
            return value[:1].upper() + value[1:]
        return (pools.get(name) or SLOTS[name])(rng)

    return article(_SLOT.sub(slot, rng.choice(templates)))
