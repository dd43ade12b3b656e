"""What the official package does with a request: the prompt it builds, and every step of its generation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from reference_impl.official_parity.official import Kind


@dataclass(frozen=True)
class ParityCase:
    """A request in both packages' terms. ``audio`` float32 [n] at 24 kHz; with ``audio_text``, cloned in context."""

    name: str
    text: str
    voice: str | None = None
    language: str | None = None
    instructions: str | None = None
    audio: np.ndarray | None = None
    audio_text: str | None = None
    streaming_text: bool = False


@dataclass(frozen=True)
class Recorded:
    """Greedy generation of B requests, until all have ended.

    codes [B, T, 16]; hidden [B, T + 1, H] and logits [B, T + 1, V] of each step.
    """

    codes: np.ndarray
    hidden: Tensor
    logits: Tensor


class _Captured(Exception):
    """Ends the official call once it has said what it would generate from."""

    def __init__(self, arguments: dict[str, Any]):
        super().__init__()
        self.arguments = arguments


def _speak(official: Any, kind: Kind, cases: Sequence[ParityCase], **more: Any) -> list[np.ndarray]:
    """Call the public method for this kind of checkpoint -> samples float32 [n] of each case."""
    texts = [case.text for case in cases]
    common = {
        "language": [case.language or "Auto" for case in cases],
        "non_streaming_mode": not cases[0].streaming_text,
        **more,
    }
    instructions = [case.instructions or "" for case in cases]
    if kind.task == "custom_voice":
        waves, _ = official.generate_custom_voice(
            texts, [case.voice for case in cases], instruct=instructions, **common
        )
    elif kind.task == "voice_design":
        waves, _ = official.generate_voice_design(texts, instructions, **common)
    else:
        # recordings encoded in one batch are padded to the longest, which changes the last codes of the others
        prompts = [
            official.create_voice_clone_prompt(
                (case.audio, 24000), ref_text=case.audio_text, x_vector_only_mode=case.audio_text is None
            )
            for case in cases
        ]
        waves, _ = official.generate_voice_clone(texts, voice_clone_prompt=[item for (item,) in prompts], **common)
    return waves


def official_prompt(official: Any, kind: Kind, case: ParityCase) -> tuple[Tensor, Tensor]:
    """Prompt embeddings [S, H] and trailing text [T, H] that the official package generates from."""

    def capture(**arguments: Any) -> None:
        raise _Captured(arguments)

    talker = official.model.talker
    talker.generate = capture  # hides the method of the class
    try:
        _speak(official, kind, [case])
    except _Captured as captured:
        arguments = captured.arguments
        return arguments["inputs_embeds"][0], arguments["trailing_text_hidden"][0]
    finally:
        del talker.generate
    raise AssertionError("the official package did not call its talker")


def official_audio(official: Any, kind: Kind, case: ParityCase, frames: int) -> np.ndarray:
    """Greedy audio of at most ``frames`` frames, float32 [n]."""
    # the last token that may be generated is never turned into a frame
    (wave,) = _speak(official, kind, [case], do_sample=False, subtalker_dosample=False, max_new_tokens=frames + 1)
    return wave


def official_generation(official: Any, kind: Kind, cases: Sequence[ParityCase], frames: int) -> Recorded:
    """Greedy generation through the public method, every talker step recorded."""
    hidden, logits, codes = [], [], []

    def record(_: Any, __: Any, output: Any) -> None:
        hidden.append(output.past_hidden[:, 0].clone())
        logits.append(output.logits[:, -1].clone())
        if output.hidden_states[1] is not None:
            codes.append(output.hidden_states[1].clone())

    tokenizer = official.model.speech_tokenizer
    decode = tokenizer.decode

    def no_audio(entries: Sequence[dict[str, Tensor]]) -> tuple[list[np.ndarray], int]:
        return [np.zeros(1, np.float32) for _ in entries], 24000

    handle = official.model.talker.register_forward_hook(record)
    tokenizer.decode = no_audio
    try:
        _speak(official, kind, cases, do_sample=False, subtalker_dosample=False, max_new_tokens=frames + 1)
    finally:
        handle.remove()
        tokenizer.decode = decode
    return Recorded(
        torch.stack(codes, dim=1).numpy() if codes else np.zeros((len(cases), 0, 16), dtype=np.int64),
        torch.stack(hidden, dim=1),
        torch.stack(logits, dim=1),
    )
