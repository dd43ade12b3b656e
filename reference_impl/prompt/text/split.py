"""Long texts into segments the talker can hold: at sentence ends, else clauses, else spaces."""

from __future__ import annotations

import re

from omni_bench.errors import ConfigError

_SENTENCE_END = re.compile(r"(?<=[.?!])\s+")
# A sentence this short ("Yes.") has no melody of its own and joins its neighbour.
SHORT_SENTENCE_CHARS = 20


def _cut_word(word: str, max_chars: int) -> list[str]:
    return [word[i : i + max_chars] for i in range(0, len(word), max_chars)]


def _break_at(words: list[str], max_chars: int, target_chars: float) -> int:
    """How many of ``words`` to take: a clause end near the target, else the space nearest to it."""
    best, best_score, length = 1, float("inf"), -1
    for count, word in enumerate(words[:-1], start=1):
        length += 1 + len(word)
        if length > max_chars:
            break
        # A pause is worth a piece of half or one and a half times the even length.
        score = abs(length - target_chars) - (target_chars / 2 if word[-1] in ",.?!;:" else 0)
        if score <= best_score:
            best, best_score = count, score
    return best


def _split_sentence(sentence: str, max_chars: int) -> list[str]:
    """Pieces of about even length, so that none is a word or two."""
    words = [piece for word in sentence.split() for piece in _cut_word(word, max_chars)]
    pieces: list[str] = []
    remaining = sum(map(len, words)) + len(words) - 1
    while remaining > max_chars:
        parts = -(-remaining // max_chars)
        count = _break_at(words, max_chars, remaining / parts)
        pieces.append(" ".join(words[:count]))
        words = words[count:]
        remaining -= len(pieces[-1]) + 1
    return [*pieces, " ".join(words)] if words else pieces


def split_sentences(text: str, max_chars: int) -> list[str]:
    """Cut a text in its spoken form into segments of at most ``max_chars`` characters.

    No word is lost: the words of the segments in order are those of the text, but for a
    single word longer than ``max_chars``, which is cut. Each sentence is its own segment;
    one of fewer than ``SHORT_SENTENCE_CHARS`` joins the one before it, or the one after, if
    both fit. Returns [] for a text without words. Raises ConfigError if ``max_chars`` < 1.
    """
    if max_chars < 1:
        raise ConfigError(f"max_chars is {max_chars}; it must be at least 1")
    sentences = [s for s in _SENTENCE_END.split(" ".join(text.split())) if s]
    segments: list[str] = []
    for sentence in sentences:
        short = min(len(sentence), len(segments[-1]) if segments else len(sentence)) < SHORT_SENTENCE_CHARS
        if segments and short and len(segments[-1]) + 1 + len(sentence) <= max_chars:
            segments[-1] += " " + sentence
        else:
            segments.extend(_split_sentence(sentence, max_chars))
    return segments
