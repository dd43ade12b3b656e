"""Text to ids of the Qwen2 vocabulary, for the released checkpoints.

:class:`QwenTokenizer` reads a checkpoint's files; :class:`WordHashTokenizer` stands in where
there are none (random weights): it keeps the number of tokens of English text about right,
which is all that matters for speed.
"""

from __future__ import annotations

import json
import re
import zlib
from pathlib import Path
from typing import Protocol

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from omni_bench.errors import CheckpointError

# ids of the Qwen2 vocabulary, for the stand-in; a checkpoint's own files hold theirs
IM_START, IM_END, ASSISTANT, USER, NEWLINE = 151644, 151645, 77091, 872, 198
TOKEN_FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")
FILES = ("vocab.json", "merges.txt", "tokenizer_config.json")
# how the Qwen2 tokenizer cuts text before byte-pair merging (published with the Qwen2 models)
WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


class TextTokenizer(Protocol):
    """``assistant_role``: the ids of ``<|im_start|>assistant`` and a newline, always three."""

    assistant_role: tuple[int, ...]

    def encode(self, text: str) -> tuple[int, ...]:
        """Ids of plain text; markers such as ``<|im_end|>`` in it are text like any other."""

    def user_turn(self, text: str) -> tuple[int, ...]:
        """Ids of a whole user turn, markers included."""


class QwenTokenizer:
    """Byte-level BPE from ``vocab.json``, ``merges.txt`` and the added tokens of ``tokenizer_config.json``.

    Raises CheckpointError for missing or broken files, and for a vocabulary in which
    ``<|im_start|>assistant`` and a newline are not three tokens.
    """

    def __init__(self, folder: Path):
        missing = [name for name in FILES if not (folder / name).is_file()]
        if missing:
            raise CheckpointError(f"{folder}: tokenizer file(s) missing: {', '.join(missing)}")
        try:
            self._tokenizer = _read(folder)
        except CheckpointError:
            raise
        except Exception as error:  # the tokenizers library raises nothing narrower
            raise CheckpointError(f"{folder}: the tokenizer files cannot be used: {error}") from None
        self._start, self._end = (self._marker(folder, name) for name in ("<|im_start|>", "<|im_end|>"))
        # from here on markers inside text are text
        self._tokenizer.encode_special_tokens = True
        self.assistant_role = (self._start, *self.encode("assistant\n"))
        if len(self.assistant_role) != 3:
            raise CheckpointError(
                f"{folder}: '<|im_start|>assistant' and a newline are {len(self.assistant_role)} tokens, not 3"
            )

    def _marker(self, folder: Path, name: str) -> int:
        token = self._tokenizer.token_to_id(name)
        if token is None:
            raise CheckpointError(f"{folder / FILES[2]}: no added token {name}")
        return token

    def encode(self, text: str) -> tuple[int, ...]:
        """See :class:`TextTokenizer`."""
        return tuple(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def encode_all(self, texts: list[str]) -> list[list[int]]:
        """:meth:`encode` of many texts, side by side on the CPU's cores."""
        return [one.ids for one in self._tokenizer.encode_batch(texts, add_special_tokens=False)]

    def user_turn(self, text: str) -> tuple[int, ...]:
        """See :class:`TextTokenizer`."""
        return (self._start, *self.encode(f"user\n{text}"), self._end, *self.encode("\n"))


def _read(folder: Path) -> Tokenizer:
    bpe = models.BPE.from_file(str(folder / FILES[0]), str(folder / FILES[1]))
    tokenizer = Tokenizer(bpe)
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(WORDS), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    config = json.loads((folder / FILES[2]).read_text(encoding="utf-8"))
    added = sorted((int(i), entry) for i, entry in config.get("added_tokens_decoder", {}).items())
    for wanted, entry in added:
        flags = {key: bool(entry.get(key, False)) for key in TOKEN_FLAGS}
        token = AddedToken(entry["content"], **flags)
        (tokenizer.add_special_tokens if flags["special"] else tokenizer.add_tokens)([token])
        if tokenizer.token_to_id(entry["content"]) != wanted:
            raise CheckpointError(
                f"{folder / FILES[2]}: added token {entry['content']!r} has id {wanted}, "
                f"but the vocabulary before it ends at {tokenizer.get_vocab_size()}"
            )
    return tokenizer


class WordHashTokenizer:
    """One id a word or other visible character: CRC-32 of it, modulo the ids below the markers.

    English text has about as many Qwen2 tokens as words and punctuation marks. The ids mean
    nothing, so this is for random weights only. ``text_vocab_size`` bounds the ids.
    """

    def __init__(self, text_vocab_size: int):
        self._size = min(text_vocab_size, IM_START)
        self.assistant_role = tuple(i % text_vocab_size for i in (IM_START, ASSISTANT, NEWLINE))
        self._user = tuple(i % text_vocab_size for i in (IM_START, USER, NEWLINE))
        self._end = tuple(i % text_vocab_size for i in (IM_END, NEWLINE))

    def encode(self, text: str) -> tuple[int, ...]:
        """See :class:`TextTokenizer`."""
        return tuple(zlib.crc32(word.encode()) % self._size for word in re.findall(r"[A-Za-z']+|\S", text))

    def user_turn(self, text: str) -> tuple[int, ...]:
        """See :class:`TextTokenizer`."""
        return (*self._user, *self.encode(text), *self._end)
