"""From a request to the vectors that the talker reads: one interface for every checkpoint.

In two steps, because they belong to different threads. :meth:`PromptBuilder.segments` runs in
the caller's: it checks the request and turns text into ids. :meth:`PromptBuilder.build` runs
in the engine's: it turns one segment into vectors on the device.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from reference_impl.engine_api import Capabilities, SpeechRequest


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
class TalkerPrompt:
    """A segment as the talker sees it, on the device.

    ``embeds`` [S, H] and their rotary ``positions`` [S]; ``next_position`` of the first frame.
    ``trailing`` [T, H]: what is added to the input of decode steps 0..T-1 (text that is still
    to come); later steps add the builder's ``pad``. ``reference_codes`` [T, 16]: frames that
    Code2Wav decodes silently before the first one (in-context cloning).
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

    def build(self, segment: Any) -> TalkerPrompt:
        """The vectors of one of these segments."""

    def build_all(self, segments: list[Any]) -> list[TalkerPrompt]:
        """The same of several, which may cost less together."""

    def warm_up_request(self) -> SpeechRequest:
        """A short request that this checkpoint can speak."""
