"""The tiny voice's prompts, from the text of a request: spoken form, segments, character ids, vectors.

The tiny voice knows 32 characters. Numbers, times, prices and abbreviations become words
(:mod:`reference_impl.prompt.text`), what remains is folded to lower case and the known characters,
and a text longer than the voice was trained on is split at sentence ends.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import torch

from reference_impl.engine_api import Capabilities, RequestRejected, SpeechRequest
from reference_impl.model.config import TextConfig
from reference_impl.model.talker import Talker
from reference_impl.prompt.builder import TalkerPrompt
from reference_impl.prompt.text.split import split_sentences
from reference_impl.prompt.text.spoken import spoken_form


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
    """From text to segments of character ids."""

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


class CharPrompts:
    """The tiny voice: characters, and nothing added to the decode steps."""

    pad = None
    capabilities = Capabilities()

    def __init__(self, config: TextConfig, talker: Talker, device: torch.device):
        self._tokenizer = CharTokenizer(config)
        self._talker, self._device = talker, device
        self.voices = self._tokenizer.voices

    def segments(self, request: SpeechRequest) -> list[PromptIds]:
        """See :meth:`PromptBuilder.segments`."""
        return self._tokenizer.prompts(request.text, request.voice)

    def build(self, segment: PromptIds) -> TalkerPrompt:
        """See :meth:`PromptBuilder.build`."""
        ids = torch.tensor(segment.ids, device=self._device)
        positions = torch.tensor(segment.positions, device=self._device)
        return TalkerPrompt(self._talker.embed_text(ids), positions, segment.positions[-1] + 1)

    def build_all(self, segments: list[PromptIds]) -> list[TalkerPrompt]:
        """See :meth:`PromptBuilder.build_all`."""
        return [self.build(segment) for segment in segments]

    def warm_up_request(self) -> SpeechRequest:
        """See :meth:`PromptBuilder.warm_up_request`."""
        return SpeechRequest("warm-up", "Ready.", self.voices[0], seed=0, max_new_tokens=12)
