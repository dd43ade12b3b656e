"""From a request to the vectors that the talker reads: one interface for every checkpoint.

In two steps, because they belong to different threads. :meth:`PromptBuilder.segments` runs in
the caller's: it checks the request and turns text into ids. :meth:`PromptBuilder.build` runs
in the engine's: it turns one segment into vectors on the device.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from reference_impl.engine_api import Capabilities, SpeechRequest
from reference_impl.model.config import TextConfig
from reference_impl.model.talker import Talker
from reference_impl.prompt.characters import CharTokenizer, PromptIds


class Segment(Protocol):
    """One piece of a request that the talker speaks in one go.

    ``length``: positions of the prompt; ``text_tokens``: ids of text in it; ``max_frames``:
    the most frames it may take; ``forced_frames``: exactly how many it takes, the end token
    ignored (None: the end token decides).
    """

    @property
    def length(self) -> int: ...

    @property
    def text_tokens(self) -> int: ...

    @property
    def max_frames(self) -> int: ...

    @property
    def forced_frames(self) -> int | None: ...


@dataclass(frozen=True)
class Prompt:
    """A segment as the talker sees it, on the device.

    ``embeds`` [S, H] and their rotary ``positions`` [S]; ``next_position`` of the first frame.
    ``trailing`` [T, H]: what is added to the input of decode steps 0..T-1 (text that is still
    to come); later steps add the builder's ``pad``. ``reference_codes`` [T, 16]: frames that
    Code2Wav hears before the first one (in-context cloning).
    """

    embeds: Tensor
    positions: Tensor
    next_position: int
    trailing: Tensor | None = None
    reference_codes: Tensor | None = None


class PromptBuilder(Protocol):
    """What the engine needs of a checkpoint's text side."""

    voices: tuple[str, ...]
    capabilities: Capabilities
    pad: Tensor | None  # [H]: added to every decode step without trailing text; None: nothing is ever added

    def segments(self, request: SpeechRequest) -> list[Any]:
        """The segments of a request, in order. Raises RequestRejected, which names the field at fault."""

    def build(self, segment: Any) -> Prompt:
        """The vectors of one of these segments."""

    def build_all(self, segments: list[Any]) -> list[Prompt]:
        """The same of several, which may cost less together."""

    def warm_up_request(self) -> SpeechRequest:
        """A short request that this checkpoint can speak."""


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

    def build(self, segment: PromptIds) -> Prompt:
        """See :meth:`PromptBuilder.build`."""
        ids = torch.tensor(segment.ids, device=self._device)
        positions = torch.tensor(segment.positions, device=self._device)
        return Prompt(self._talker.embed_text(ids), positions, segment.positions[-1] + 1)

    def build_all(self, segments: list[PromptIds]) -> list[Prompt]:
        """See :meth:`PromptBuilder.build_all`."""
        return [self.build(segment) for segment in segments]

    def warm_up_request(self) -> SpeechRequest:
        """See :meth:`PromptBuilder.warm_up_request`."""
        return SpeechRequest("warm-up", "Ready.", self.voices[0], seed=0, max_new_tokens=12)
