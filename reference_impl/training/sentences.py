"""Which sentences may be read aloud: plain, new, and kept apart from those of the evaluation."""

from __future__ import annotations

import random
import re
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path

from omni_bench.errors import DatasetError
from reference_impl.prompt.text.spoken import spoken_form

REPOSITORY = Path(__file__).resolve().parents[2]
EXCLUDED_SETS = (
    REPOSITORY / "omni_bench" / "datasets" / "data" / "seed_tts_mini" / "en" / "meta.lst",
    Path(__file__).parent / "evaluation_set" / "en" / "meta.lst",
)
MAX_CHARS = 180
MAX_WORDS = 32
RESERVE = 64  # one free sentence in so many is kept for evaluation
MIN_ZIPF = 1.8
_WEIRD = re.compile(
    r"[^A-Za-z0-9 ,.;:?!'’\"()%$-]|\.\.|--|\b[A-Z]{2,}\b|\b(?!(?:I|A|a|O|s|t|d|m)\b)[A-Za-z]\b|\d{5}|\w\.\w|''"
)


def key(text: str) -> str:
    """Letters only, lower case: two texts with the same key are the same sentence."""
    return re.sub(r"[^a-z]", "", text.lower())


def reserved(text: str) -> bool:
    """Whether a free sentence is kept for evaluation."""
    return zlib.crc32(key(text).encode()) % RESERVE == 0


def excluded_keys(paths: Iterable[Path] = EXCLUDED_SETS) -> set[str]:
    """Keys of all texts of the given ``meta.lst`` files, spoken form. Raises DatasetError if one is missing."""
    keys: set[str] = set()
    for path in paths:
        if not path.is_file():
            raise DatasetError(f"{path}: missing; the corpus must leave out its sentences")
        for line in path.read_text(encoding="utf-8").splitlines():
            fields = line.split("|")
            if len(fields) >= 4 and not line.startswith("#"):
                keys |= {key(spoken_form(fields[1])), key(spoken_form(fields[3]))}
    return keys - {""}


def usable(raw: str, frequency: Callable[[str], float], min_words: int = 3) -> bool:
    """Whether a free sentence is plain enough to be read aloud: ordinary characters and known words."""
    if _WEIRD.search(raw):
        return False
    words = re.findall(r"[A-Za-z']+", raw)
    if not min_words <= len(words) <= MAX_WORDS or len(raw) > MAX_CHARS:
        return False
    return all(frequency(w.lower().strip("'")) >= MIN_ZIPF for w in words)


def tidy(raw: str) -> str:
    """Single spaces, none before punctuation, final punctuation."""
    text = re.sub(r"\s+([,.;:?!])", r"\1", re.sub(r"\s+", " ", raw.replace('"', " "))).strip(" '’,;:")
    return text if text[-1:] in (".", "?", "!") else f"{text}."


class Chooser:
    """Takes sentences from lists in random order, each once, none that is excluded or reserved."""

    def __init__(self, rng: random.Random, frequency: Callable[[str], float], excluded: set[str]):
        self._rng, self._frequency, self._taken = rng, frequency, set(excluded)

    def claim(self, sentence: str) -> bool:
        """Whether the sentence is new; it is taken then."""
        name = key(sentence)
        if name in self._taken or not name:
            return False
        self._taken.add(name)
        return True

    def take(self, raw: list[str], count: int, min_words: int = 3) -> list[str]:
        """At most ``count`` usable sentences of ``raw``."""
        out: list[str] = []
        for sentence in self._rng.sample(raw, len(raw)):
            if len(out) == count:
                break
            text = tidy(sentence)
            if usable(text, self._frequency, min_words) and not reserved(text) and self.claim(text):
                out.append(text)
        return out

    def pairs(self, sentences: list[str], count: int) -> list[str]:
        """Two short sentences in one: side by side, or joined by a conjunction."""
        short = [s for s in sentences if len(s) <= 70]
        out = []
        for _ in range(count if len(short) > 1 else 0):
            first, second = self._rng.sample(short, 2)
            if self._rng.random() < 0.45:
                text = f"{first} {second}"
            else:
                joint = self._rng.choice([", and ", ", but ", ", so ", " because ", " while ", ", or "])
                starts = second.split(" ")[0]
                lower = starts.lower() if starts not in ("I", "I'm", "I've", "I'll", "I'd") else starts
                text = first.rstrip(".?!") + joint + lower + second[len(starts) :]
            if len(text) <= MAX_CHARS and self.claim(text):
                out.append(text)
        return out
