"""Places of a text and how each may be read: "10:30" is "ten thirty" or "half past ten", and either is right.

A judge writes what it hears in one of many forms, and so does an author. Neither form is an error of the server, so
that text and transcript are compared in the readings of both that differ least.
"""

from __future__ import annotations

from collections.abc import Sequence

from rapidfuzz.distance import Levenshtein

Reading = tuple[str, ...]
"""Words (or characters, where a language is compared by them); () for what need not be spoken."""
Place = tuple[Reading, ...]
"""All readings of a piece of text; the first is the one that it has on its own."""

LONGEST_COMPOUND = 8
"""Words that are looked for in one: "집에 가고 싶다" is written "집에가고싶다" too, "e-mail" "email"."""
MAX_WORK = 2_000_000
"""Words looked at in one pair of texts; a reply of thousands of numbers keeps its first readings from there on."""
_PASSES = 3


def place(*readings: str) -> Place:
    """A place from readings whose words are separated by white space, each reading once."""
    return tuple(dict.fromkeys(tuple(reading.split()) for reading in readings))


def words_of(places: Sequence[Place], chosen: Sequence[int] | None = None) -> list[str]:
    """The words of a text, in the first readings, or in those whose indices are ``chosen``."""
    if chosen is None:
        return [word for readings in places for word in readings[0]]
    return [word for readings, index in zip(places, chosen, strict=True) for word in readings[index]]


def reconcile(reference: Sequence[Place], heard: Sequence[Place]) -> tuple[list[str], list[str]]:
    """The words of both sides in the readings with the fewest word edits between them.

    Readings are chosen one place at a time where the sides differ, each time for fewer edits, until none helps any
    more. A place keeps its first reading unless another is strictly better. A reference that has words keeps some.
    """
    words = [words_of(reference), words_of(heard)]
    sides = [_with_compounds(reference, words[1]), _with_compounds(heard, words[0])]
    chosen = [[0] * len(side) for side in sides]
    best = Levenshtein.distance(*words)
    must_speak = bool(words[0])
    work = MAX_WORK
    for _ in range(_PASSES):
        before = best
        for number, side in enumerate(sides):
            for position in _differing(side, chosen[number], words, number):
                for index in range(len(side[position])):
                    if not best or work < 0:
                        return words[0], words[1]
                    trial = chosen[number].copy()
                    trial[position] = index
                    candidate = words_of(side, trial)
                    work -= len(candidate) + len(words[1 - number])
                    edits = Levenshtein.distance(candidate, words[1 - number])
                    if edits < best and (candidate or number or not must_speak):
                        best, chosen[number], words[number] = edits, trial, candidate
        if best == before:
            break
    return words[0], words[1]


def _differing(side: Sequence[Place], chosen: Sequence[int], words: Sequence[Sequence[str]], number: int) -> list[int]:
    """The places with several readings at, or beside, words that the sides do not share."""
    unlike = {
        index
        for operation in Levenshtein.opcodes(words[number], words[1 - number])
        if operation.tag != "equal"
        for index in range(operation.src_start - 1, operation.src_end + 1)
    }
    found, end = [], 0
    for position, readings in enumerate(side):
        start, end = end, end + len(readings[chosen[position]])
        if len(readings) > 1 and not unlike.isdisjoint(range(start - 1, end + 1)):
            found.append(position)
    return found


def _with_compounds(side: Sequence[Place], other: Sequence[str]) -> list[Place]:
    """``side``, where a word that the ``other`` side writes as several may be read as those."""
    wanted = {reading[0] for readings in side for reading in readings if len(reading) == 1}
    found: dict[str, Reading] = {}
    for start in range(len(other)):
        joined = other[start]
        for end in range(start + 1, min(start + LONGEST_COMPOUND, len(other))):
            joined += other[end]
            if joined in wanted:
                found.setdefault(joined, tuple(other[start : end + 1]))
    return [
        (*readings, *(found[reading[0]] for reading in readings if len(reading) == 1 and reading[0] in found))
        for readings in side
    ]
