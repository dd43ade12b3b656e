"""Mistakes in the step of the batch: what is added, drawn, masked, and how long it takes."""

from __future__ import annotations

import time

import numpy as np
import torch
from torch import Tensor

from reference_impl.engine.decode_batch import DecodeBatch
from reference_impl.loading.checkpoint import Model
from reference_impl.model.predictor_strategies import expand
from reference_impl.model.sampling import request_uniforms
from reference_impl.prompt.builder import Segment
from reference_impl.settings import ServerSettings


class BroadcastBatch(DecodeBatch):
    """``broadcast_add`` (vllm-omni PR 2012, root cause 2): one summand has a dimension of its own too many.

    [B, 1, H] + [B, H] gives [B, B, H] without an error, and the first column is taken for the batch: each
    slot gets its own codebook 0 and the rest, with the text that is still to come, of slot 0. With
    one slot, and in slot 0, the result is right.
    """

    def _next_inputs(self, codes: Tensor, slots: slice) -> Tensor:
        table = self.model.talker.codec_embedding.weight
        embeds = self.model.predictor.embed_frame(codes, table[:, None])[:, 0]
        text = self._coming_text(slots)
        return embeds if text is None else (embeds[:, None] + text)[:, 0]


class FrozenRandomBatch(DecodeBatch):
    """``graph_rng`` (vllm-omni PR 2012, review): the random numbers of a captured graph are constants.

    A graph replays what it captured, and the numbers of that moment with it: each step of a slot
    draws with the same ones, whatever the request and its seed. What a request says depends on
    the slot that it got. Wrong at every concurrency, though the words may survive it.
    """

    def __init__(self, model: Model, settings: ServerSettings, max_frames: int, pad: Tensor | None = None):
        super().__init__(model, settings, max_frames, pad)
        numbers = request_uniforms(0, settings.max_batch, model.config.predictor.num_code_groups)
        self._captured = torch.from_numpy(numbers).to(model.device)
        self._uniforms[:] = self._captured[:, None]

    def allocate_slot(self, uniforms: np.ndarray) -> int:
        """See :meth:`DecodeBatch.allocate_slot`; the request's numbers never reach the graph."""
        return super().allocate_slot(uniforms[:0])

    def free_slot(self, slot: int) -> int | None:
        """See :meth:`DecodeBatch.free_slot`; the graph's constants stay with their slot."""
        moved = super().free_slot(slot)
        self._uniforms[slot] = self._captured[slot]
        return moved


class EndlessBatch(DecodeBatch):
    """``stop_missed`` (vllm-omni issue 5889): the end token is among the suppressed control ids.

    Ids that are not sounds must not be drawn, and a range that is one too wide includes the end token: the
    talker babbles on after its text. The cap that would end a request is too high as well. Wrong at
    every concurrency.
    """

    CAP_FACTOR = 3

    def __init__(self, model: Model, settings: ServerSettings, max_frames: int, pad: Tensor | None = None):
        super().__init__(model, settings, max_frames, pad)
        talker = model.config.talker
        no_sound = torch.arange(talker.codec_vocab_size, device=model.device) >= model.config.code2wav.codebook_size
        self._suppressed = no_sound

    def room(self, segment: Segment) -> int:
        """See :meth:`DecodeBatch.room`."""
        return min(self.CAP_FACTOR * segment.max_frames, self.max_length - segment.length)


class SerialBatch(DecodeBatch):
    """``serial_predictor``: requests pass the code predictor one after another.

    The codes are the same (each request has its own random numbers); the time of a step grows
    with the number of requests.
    """

    def _complete(self, slots: slice) -> Tensor:
        uniforms = self._uniforms[self._slots[slots], self._frame[slots]]
        codes = torch.zeros_like(uniforms, dtype=torch.long)
        for slot in range(self.count):
            one = slice(slot, slot + 1)
            hidden, code0 = self._hidden[one], self._code0[one]
            codes[one] = expand(self.model.predictor, self._strategy, hidden, code0, uniforms[one], self._draw_rest)
        return codes


class SlowBatch(DecodeBatch):
    """``slow_5``, ``slow_8`` and any other ``slow_N``: a step takes a ``share`` longer than it would.

    The thread sleeps, so that Code2Wav loses nothing; what a sleep takes too long is taken off the
    next one, so that the mean is exact whatever the timer's resolution.
    """

    def __init__(
        self, model: Model, settings: ServerSettings, max_frames: int, pad: Tensor | None = None, *, share: float
    ):
        super().__init__(model, settings, max_frames, pad)
        self.share, self.owed_s = share, 0.0

    def step(self) -> np.ndarray:
        """See :meth:`DecodeBatch.step`."""
        started = time.perf_counter()
        frames = super().step()
        ended = time.perf_counter()
        self.owed_s += self.share * (ended - started)
        if self.owed_s > 0:
            time.sleep(self.owed_s)
            self.owed_s -= time.perf_counter() - ended
        return frames
