"""Sentence templates: questions, times, dates, prices, numbers, names, word lists, long sentences.

Each holds slots of :data:`reference_impl.training.slots.SLOTS`, and ``{w}``, ``{n}``, ``{a}``,
``{P}``, ``{S}``: any word, a noun, an adjective, a place and a surname from word pools that
the caller supplies. Numbers are written in digits; the text front end makes words of them.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from reference_impl.training.slots import SLOTS, read_lists

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
