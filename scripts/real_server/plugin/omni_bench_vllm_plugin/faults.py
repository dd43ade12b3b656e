"""Mistakes of this field, made again in vLLM-Omni 0.30.0 from outside: ``OMNI_BENCH_FAULT=NAME`` (see ``FAULTS``).

Each replaces a function of the code predictor (stage 0) or of Code2Wav (stage 1), in the worker's process and before
the model is made. What each must be caught by stands in ``faults.toml``, in the folder above.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as functional

VARIABLE = "OMNI_BENCH_FAULT"


class _PredictorCalls(ABC):
    """The calls of a frame, counted: in call N (from 1 on) of a frame the predictor reads the positions 0 to N."""

    def __init__(self, wrapper: type, body: type):
        self._call = 0
        frame, transformer = wrapper.forward, body.forward

        def counted_frame(model: Any, *args: Any, **kwargs: Any) -> Any:
            self._call = 0
            return frame(model, *args, **kwargs)

        def broken(model: Any, inputs_embeds: torch.Tensor, position_ids: torch.Tensor) -> torch.Tensor:
            self._call += 1
            return transformer(model, self.inputs(inputs_embeds, self._call), position_ids)

        wrapper.forward, body.forward = counted_frame, broken

    @abstractmethod
    def inputs(self, embeds: torch.Tensor, call: int) -> torch.Tensor:
        """What the predictor reads in the place of ``embeds`` [B, positions, hidden]."""


class _SharedBuffer(_PredictorCalls):
    """``shared_proj_buf``: the buffer has the rows of one request; what was written earlier is the last request's."""

    def inputs(self, embeds: torch.Tensor, call: int) -> torch.Tensor:
        if call == 1:
            return embeds
        read = embeds[-1:].repeat(len(embeds), 1, 1)
        read[:, call] = embeds[:, call]
        return read


class _StaleRows(_PredictorCalls):
    """``stale_rows``: positions that are not predicted yet hold the frame before instead of zeros.

    The other half of the mistake is a mask that shows one position too many (:func:`_with_mask`).
    """

    def __init__(self, wrapper: type, body: type):
        super().__init__(wrapper, body)
        self._before: torch.Tensor | None = None

    def inputs(self, embeds: torch.Tensor, call: int) -> torch.Tensor:
        read = embeds.clone()
        if self._before is not None:
            rows = min(len(read), len(self._before))
            read[:rows, call + 1 :] = self._before[:rows, call + 1 :]
        if call == embeds.shape[1] - 2:  # the frame is whole
            self._before = embeds.clone()
        return read


class _Functional:
    """``torch.nn.functional`` with an attention of another mask, for one module."""

    def __init__(self, mask: Callable[[int], torch.Tensor | None]):
        self._mask = mask

    def __getattr__(self, name: str) -> Any:
        return getattr(functional, name)

    def scaled_dot_product_attention(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *, is_causal: bool, **options: Any
    ) -> torch.Tensor:
        mask = self._mask(query.shape[-2])
        return functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, **options)


def _with_mask(predictor: Any, mask: Callable[[int], torch.Tensor | None]) -> None:
    predictor.F = _Functional(mask)


def _shared_proj_buf() -> None:
    from vllm_omni.model_executor.models.common import qwen3_code_predictor as predictor

    _SharedBuffer(predictor.CodePredictorWrapper, predictor.CodePredictorBaseModel)


def _noncausal_mask() -> None:
    from vllm_omni.model_executor.models.common import qwen3_code_predictor as predictor

    _with_mask(predictor, lambda positions: None)


def _stale_rows() -> None:
    from vllm_omni.model_executor.models.common import qwen3_code_predictor as predictor

    _StaleRows(predictor.CodePredictorWrapper, predictor.CodePredictorBaseModel)
    _with_mask(predictor, lambda positions: torch.ones(positions, positions, dtype=torch.bool).tril(diagonal=1))


def _broadcast_add() -> None:
    """[B, H] + [B, 1, H] gives [B, B, H], and its first column is taken: each request's text, the first one's codes."""
    from vllm_omni.model_executor.models.qwen3_tts.qwen3_tts_talker import (
        Qwen3TTSTalkerForConditionalGeneration as Talker,
    )

    step = Talker.talker_mtp

    def talker_mtp(
        model: Any, input_ids: Any, input_embeds: Any, last_talker_hidden: Any, text_step: torch.Tensor, **options: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        embeds, codes = step(model, input_ids, input_embeds, last_talker_hidden, torch.zeros_like(text_step), **options)
        text = text_step.reshape(len(embeds), 1, -1).to(embeds.dtype)
        return (embeds + text)[:, 0], codes  # [i, j]: text of i, codes of j

    Talker.talker_mtp = talker_mtp


class _Code2WavFault:
    """Changes the chunks of a step after Code2Wav has decoded them.

    All chunks of a request but the first are of one size: the worker is not told which is the last, but it is smaller.
    """

    def __init__(self) -> None:
        from vllm_omni.model_executor.models.qwen3_tts.qwen3_tts_code2wav import Qwen3TTSCode2Wav

        decode = Qwen3TTSCode2Wav.forward

        def forward(model: Any, *args: Any, **options: Any) -> Any:
            self.before(model)
            output = decode(model, *args, **options)
            chunks = output.multimodal_outputs["model_outputs"]
            names = [str(one) for one in options.get("request_ids") or range(len(chunks))]
            output.multimodal_outputs["model_outputs"] = self.chunks(chunks, names)
            return output

        Qwen3TTSCode2Wav.forward = forward

    def before(self, model: Any) -> None:
        """Before a step is decoded."""

    def chunks(self, chunks: list[torch.Tensor], names: list[str]) -> list[torch.Tensor]:
        """What is sent in the place of ``chunks``, samples [N] of each request of a step."""
        return chunks


class _LostLeftContext(_Code2WavFault):
    """``lost_left_context``: every chunk is decoded as if nothing came before it."""

    def before(self, model: Any) -> None:
        for state in model._decoder_state_cache.values():
            state.clear()


class _PinnedAlias(_Code2WavFault):
    """``pinned_alias``: one host buffer takes the chunks of all requests of a step, and is read after the last."""

    def chunks(self, chunks: list[torch.Tensor], names: list[str]) -> list[torch.Tensor]:
        buffer = torch.zeros(max(map(len, chunks), default=0))
        for chunk in chunks:
            buffer[: len(chunk)] = chunk
        return [buffer[: len(chunk)] for chunk in chunks]


class _NeighbourSlot(_Code2WavFault):
    """``neighbour_slot``: chunks leave one step late, and those of a request that has ended go to another one."""

    def __init__(self) -> None:
        super().__init__()
        self._held: dict[str, torch.Tensor | None] = {}
        self._late: list[torch.Tensor] = []

    def chunks(self, chunks: list[torch.Tensor], names: list[str]) -> list[torch.Tensor]:
        sent = []
        for chunk, name in zip(chunks, names, strict=True):
            if not len(chunk) or name not in self._held:
                if len(chunk):
                    self._held[name] = None
                sent.append(chunk)
                continue
            held = self._held[name]
            if held is not None and len(chunk) < len(held):
                self._late += [held, chunk]
                del self._held[name]
                sent.append(chunk[:0])
                continue
            self._held[name] = chunk
            sent.append(torch.cat([*self._late, chunk[:0] if held is None else held]))
            self._late = []
        return sent


class _PaddingTail(_Code2WavFault):
    """``padding_tail``: a last chunk is sent at the size of the one before it, with that one's samples behind."""

    def __init__(self) -> None:
        super().__init__()
        self._before: dict[str, torch.Tensor] = {}

    def chunks(self, chunks: list[torch.Tensor], names: list[str]) -> list[torch.Tensor]:
        sent = []
        for chunk, name in zip(chunks, names, strict=True):
            before = self._before.pop(name, chunk[:0])
            if not len(chunk) or len(chunk) >= len(before):
                self._before[name] = chunk if len(chunk) else before
                sent.append(chunk)
            else:
                sent.append(torch.cat([chunk, before[len(chunk) :]]))
        return sent


FAULTS: dict[str, Callable[[], Any]] = {
    "shared_proj_buf": _shared_proj_buf,
    "broadcast_add": _broadcast_add,
    "noncausal_mask": _noncausal_mask,
    "stale_rows": _stale_rows,
    "lost_left_context": _LostLeftContext,
    "pinned_alias": _PinnedAlias,
    "neighbour_slot": _NeighbourSlot,
    "padding_tail": _PaddingTail,
}


def install() -> None:
    """Make the mistake that the environment names, if it names one (``vllm_omni.general_plugins``, in every worker)."""
    name = os.environ.get(VARIABLE)
    if not name:
        return
    if name not in FAULTS:
        raise ValueError(f"{VARIABLE}={name!r} is unknown; valid: {', '.join(FAULTS)}")
    FAULTS[name]()
    print(f"{VARIABLE}={name}: this server is broken on purpose", flush=True)
