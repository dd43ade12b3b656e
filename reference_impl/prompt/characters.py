"""From the text of a request to prompts of the tiny voice: spoken form, segments, character ids.

The tiny voice knows 32 characters. Numbers, times, prices and abbreviations become words
(:mod:`reference_impl.prompt.text`), what remains is folded to lower case and the known characters,
and a text longer than the voice was trained on is split at sentence ends.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from reference_impl.engine_api import RequestRejected
from reference_impl.model.config import TextConfig
from reference_impl.prompt.text import split_sentences, spoken_form


@dataclass(frozen=True)
class PromptIds:
    """One segment: token ids and their rotary positions (equal lengths), and the most frames it may take."""

    ids: tuple[int, ...]
    positions: tuple[int, ...]
    max_frames: int
    forced_frames: int | None = None

    @property
    def length(self) -> int:
        """Positions of the prompt."""
        return len(self.ids)

    @property
    def text_tokens(self) -> int:
        """Every id counts."""
        return len(self.ids)


class CharTokenizer:
    """See the module docstring."""

    def __init__(self, config: TextConfig):
        self._config = config
        self._ids = {char: config.first_char_id + i for i, char in enumerate(config.chars)}
        self._unknown = re.compile(f"[^{re.escape(config.chars)}]")

    @property
    def voices(self) -> tuple[str, ...]:
        """Names of the voices, the default one first."""
        return tuple(self._config.voices)

    def fold(self, text: str) -> str:
        """Lower case, unknown characters as spaces, single spaces, none before punctuation."""
        folded = self._unknown.sub(" ", text.lower())
        folded = re.sub(r"\s+", " ", folded).strip()
        return re.sub(r" ([,.?!])", r"\1", folded)

    def prompts(self, text: str, voice: str) -> list[PromptIds]:
        """The segments of a text, in order.

        Layout of a segment: voice token, characters, codec start. Positions count the first
        two from 0 and start again at 0 for the codec start, so that frame t sits near the
        character it speaks. Raises RequestRejected for an unknown voice and for a text in
        which nothing is left to speak.
        """
        if voice not in self._config.voices:
            raise RequestRejected(f"voice {voice!r} is unknown; valid: {', '.join(self.voices)}", "voice")
        segments = [self._ended(s) for s in split_sentences(self.fold(spoken_form(text)), self._config.max_chars)]
        segments = [s for s in segments if re.search("[a-z]", s)]
        if not segments:
            raise RequestRejected("input holds nothing this voice can speak (letters a-z, numbers)", "input")
        return [self._prompt(segment, voice) for segment in segments]

    def _ended(self, segment: str) -> str:
        """Every sentence the voice was trained on ends with punctuation."""
        segment = segment.strip(" ,'")
        return segment if segment[-1:] in (".", "?", "!") else f"{segment}."

    def _prompt(self, segment: str, voice: str) -> PromptIds:
        config = self._config
        ids = (config.voices[voice], *(self._ids[char] for char in segment), config.codec_bos_id)
        positions = (*range(len(ids) - 1), 0)
        return PromptIds(ids, positions, int(len(ids) * config.frames_per_char) + config.frames_extra)
