"""Prompts of random length, made from the bundled sentences: what a server makes of short and long texts mixed.

As in vllm-omni's benchmarks with random prompts (PR 3164), only the length is what matters; but
the words are those of real sentences, so that a judge can still hear whether they were spoken.
"""

from __future__ import annotations

import hashlib
from itertools import count

from omni_bench.datasets.bundled import bundled_locales, bundled_names, bundled_texts
from omni_bench.datasets.source import PromptSource
from omni_bench.errors import DatasetError
from omni_bench.records.prompt import Prompt

ROWS = 10_000


def read_random(locale: str, seed: int, min_words: int, max_words: int) -> PromptSource:
    """Ten thousand prompts of ``min_words`` to ``max_words`` words, all lengths equally likely.

    Row i is made of nothing but the seed, i and the bundled sentences in the language: its length
    is ``min_words`` plus a draw below ``max_words - min_words + 1``; sentences are drawn, with
    repetition, until that many words are reached, and the last is cut there and ended by a full stop.
    A draw below n is the first 8 bytes of the SHA-256 of ``"{seed}:{i}:{what}"``, as a big-endian
    number, modulo n; ``what`` is ``length``, or the number of the sentence within the row from 0.
    Raises DatasetError for a language without bundled sentences.
    """
    sentences = bundled_texts(locale)
    if not sentences:
        known = sorted({one for name in bundled_names() for one in bundled_locales(name)})
        raise DatasetError(
            f"dataset.kind=random with dataset.locale={locale!r}: no sentences in that language come with omni-bench; "
            f"valid: {', '.join(known)}"
        )

    def take(row: int) -> Prompt:
        length = min_words + _draw(seed, row, "length", max_words - min_words + 1)
        words: list[str] = []
        for number in count():
            if len(words) >= length:
                break
            words += sentences[_draw(seed, row, str(number), len(sentences))].split()
        text = " ".join(words[:length])
        if text[-1] not in ".?!":
            text = text.rstrip(",;:") + "."
        return Prompt(_id(seed, row), text, None, None, locale)

    label = f"random prompts ({min_words} to {max_words} words, seed {seed})"
    return PromptSource(label, tuple(_id(seed, row) for row in range(ROWS)), take)


def _id(seed: int, row: int) -> str:
    return f"random_{seed}_{row:05d}"


def _draw(seed: int, row: int, what: str, below: int) -> int:
    digest = hashlib.sha256(f"{seed}:{row}:{what}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % below
