"""A decode batch whose step is one CUDA graph (``reference.graphs=full_step``).

Everything of a request stays on the device; a frame costs one graph launch and one copy of
its codes into pinned memory. Slots are allocated and freed between two steps as in
:class:`reference_impl.engine.decode_batch.DecodeBatch`.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from omni_bench.errors import ConfigError
from reference_impl.engine.cuda.drawing import FastDraw
from reference_impl.engine.cuda.prefill import MOST, PromptGraphs
from reference_impl.engine.cuda.step import FullStep, SlotState
from reference_impl.engine.decode_batch import DecodeBatch
from reference_impl.loading.checkpoint import Model
from reference_impl.model.spans import span, spanned
from reference_impl.model.transfers import to_device
from reference_impl.prompt.builder import TalkerPrompt
from reference_impl.settings import ServerSettings

MAX_SLOTS = 32  # the first pass through the code predictor has two positions a slot, and a product at most 64
PDL_SINCE = (9, 0)  # compute capability with programmatic dependent launches


@dataclass(frozen=True)
class PendingPrefill:
    """A prompt that waits to be prefilled with others; see :meth:`DecodeBatch.prefill`."""

    slot: int
    prompt: TalkerPrompt
    min_frames: int
    uniform: float | None
    frame: int


class FullStepBatch(DecodeBatch):
    """See the module docstring. At most two steps are under way.

    Raises ConfigError for a device or a kind of sampling that has no kernels.
    """

    overlaps_steps = True

    def __init__(self, model: Model, settings: ServerSettings, max_frames: int, pad: Tensor | None = None):
        if model.device.type != "cuda":
            raise ConfigError(f"reference.graphs=full_step needs CUDA, not {model.device}; valid there: off")
        if settings.max_batch > MAX_SLOTS:
            raise ConfigError(
                f"reference.max_batch={settings.max_batch}: graphs=full_step has kernels for at most {MAX_SLOTS} slots"
            )
        # a dropped step takes one more position and one more row of random numbers than the request has
        super().__init__(model, settings, max_frames + 1, pad)
        self.max_length = settings.max_seq_len - 1
        slots = settings.max_batch
        first = FastDraw.of(self._draw_code0, model.config.talker.codec_vocab_size)
        rest = FastDraw.of(self._draw_rest, model.config.predictor.codebook_size)
        if first is None or rest is None:
            raise ConfigError(
                "reference.graphs=full_step has no kernel for top_p below 1 nor for a checkpoint that draws from "
                f"exactly top_k ids ({model.config.name}); valid here: off"
            )
        self._active = torch.zeros(slots, dtype=torch.long, device=model.device)
        # the priority that its kernels are captured with, which is Code2Wav's as well (see ``audio.py``)
        self._stream = torch.cuda.Stream(model.device, priority=-1)
        state = SlotState(self._hidden, self._uniforms, self._counters, self._active, self._seen, self._trailing)
        pdl = torch.cuda.get_device_capability(model.device) >= PDL_SINCE
        with torch.inference_mode():
            self._full = FullStep(model, self._cache, state, first, rest, self._penalty, pdl)
            self._full.capture(self._stream)
            self._prompts = PromptGraphs(model, self._cache, self._hidden, self._stream)
            self._clear(slice(0, slots))
        shape = self._full.result.shape
        self._results = deque(
            (torch.zeros(shape, dtype=torch.long, pin_memory=True), torch.cuda.Event()) for _ in range(2)
        )
        # prefilled together, a prompt's rounding depends on the others
        self.batches_prefill = not settings.deterministic
        self._allocated: list[tuple[int, np.ndarray]] = []
        self._pending: list[PendingPrefill] = []
        self._launched: deque[tuple[int, Tensor, torch.cuda.Event]] = deque()
        torch.cuda.synchronize()

    def allocate_slot(self, uniforms: np.ndarray) -> int:
        """See :meth:`DecodeBatch.allocate_slot`. The numbers are collected, and go to the device with the prompt."""
        self._allocated.append((self._next_slot(), uniforms))
        return self.count - 1

    def _activate_slots(self) -> None:
        """The random numbers collected so far to their slots, which count from now on."""
        allocated, self._allocated = self._allocated, []
        if not allocated:
            return
        most = max(len(numbers) for _, numbers in allocated)
        table = np.zeros((len(allocated), most, self._uniforms.shape[2]), np.float32)
        for place, (_, numbers) in zip(table, allocated, strict=True):
            place[: len(numbers)] = numbers
        slots = to_device([slot for slot, _ in allocated], self._uniforms.device)
        self._uniforms[:, :most].index_copy_(0, slots, to_device(table, slots.device))
        self._frame.index_fill_(0, slots, 0)
        self._active.index_fill_(0, slots, 1)

    def free_slot(self, slot: int) -> int | None:
        """See :meth:`DecodeBatch.free_slot`."""
        return self.free_slots([slot]).get(slot)

    def free_slots(self, slots: list[int]) -> dict[int, int]:
        """See :meth:`DecodeBatch.free_slots`; the last ones move together."""
        self._prefill_pending()
        before, self.count = self.count, self.count - len(slots)
        free = sorted(slot for slot in slots if slot < self.count)
        movers = sorted(set(range(self.count, before)) - set(slots))
        if free:
            device, longest = self._counters.device, max(self._longest[slot] for slot in movers)
            source, target = to_device([movers, free], device)
            for cache in (self._cache.keys, self._cache.values):
                kept = cache[:, :, :, :longest]
                kept.index_copy_(1, target, kept.index_select(1, source))
            for tensor in self._per_slot:
                tensor.index_copy_(0, target, tensor.index_select(0, source))
            for slot, mover in zip(free, movers, strict=True):
                self._longest[slot] = self._longest[mover]
        self._clear(slice(self.count, before))
        self._active[self.count : before] = 0
        return dict(zip(free, movers, strict=True))

    def prefill(
        self,
        slot: int,
        prompt: TalkerPrompt,
        forced_frames: int | None = None,
        uniform: float | None = None,
        frame: int | None = None,
    ) -> None:
        """See :meth:`DecodeBatch.prefill`. Prompts are collected, and prefilled together before the next step."""
        if frame is None or len(prompt.embeds) > self._prompts.longest:
            self._activate_slots()
            super().prefill(slot, prompt, forced_frames, uniform, frame)
            return
        least = self.model.config.talker.min_frames if forced_frames is None else forced_frames
        self._pending.append(PendingPrefill(slot, prompt, least, uniform, frame))
        self._longest[slot] = len(prompt.embeds)
        if not self.batches_prefill or len(self._pending) == MOST:
            self._prefill_pending()

    @spanned("prefill")
    def _prefill_pending(self) -> None:
        """The prompts collected so far into their slots, each with codebook 0 of its first frame."""
        self._activate_slots()
        pending, self._pending = self._pending, []
        if not pending:
            return
        by_length: dict[int, list[PendingPrefill]] = {}
        for one in pending:  # a short prompt is not padded to a long one's length
            by_length.setdefault(self._prompts.padded(len(one.prompt.embeds)), []).append(one)
        for group in by_length.values():
            embeds = [one.prompt.embeds for one in group]
            begins = [one.prompt.next_position - len(one.prompt.embeds) for one in group]
            self._prompts.prefill(embeds, begins, [one.slot for one in group])
        trailing = [0] * len(pending)
        if self._trailing is not None:
            trailing = [self._set_trailing(one.slot, one.prompt.trailing) for one in pending]
        columns = [
            (0, len(e.prompt.embeds), e.prompt.next_position, e.frame, 0, e.min_frames, text)
            for e, text in zip(pending, trailing, strict=True)
        ]
        slots = to_device([one.slot for one in pending], self._counters.device)
        self._counters.index_copy_(1, slots, to_device(columns, slots.device).T.contiguous())
        if self._seen is not None:
            self._seen.index_fill_(0, slots, False)
        # nan: the slot's own number for this frame
        given = to_device([float("nan") if e.uniform is None else e.uniform for e in pending], slots.device)
        own = self._uniforms[slots, self._frame[slots], 0]
        self._code0[slots] = self._draw(
            self._hidden[slots], slots, torch.where(given.isnan(), own, given.to(own.dtype))
        )

    def launch_step(self) -> None:
        """Begin a frame for every taken slot, queued at once after what is under way."""
        self._prefill_pending()
        count = self.count
        with span("step graph"):
            self._full.replay(self.settings.max_batch if self.settings.deterministic else count)
        codes, copied = self._results[0]
        codes[:count].copy_(self._full.result[:count], non_blocking=True)
        copied.record()
        self._launched.append((count, codes, copied))
        self._results.rotate()
        for slot in range(count):
            self._longest[slot] += 1

    def collect_step(self) -> np.ndarray:
        """Wait for the oldest frame that was launched: int64 [slots taken then, 17], as :meth:`step` gives."""
        count, codes, copied = self._launched.popleft()
        with span("codes to the host"):
            copied.synchronize()
        # a copy: the launch after next writes to the same pinned memory
        return codes[:count].numpy().copy()

    def step(self) -> np.ndarray:
        """See :meth:`DecodeBatch.step`."""
        self.launch_step()
        return self.collect_step()
