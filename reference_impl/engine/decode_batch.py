"""One decode step: a frame for every slot that is taken. The loop that calls it is ``Engine._run``.

Slots 0..n-1 are taken; a slot that is freed is
filled by the last one, so that a step works on a contiguous prefix of every tensor and needs
no gather. In deterministic mode a step always runs over all slots and the whole cache: the
shapes of its matrix products, and with them the rounding of a slot, do not depend on how many
requests are running.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from omni_bench.errors import EngineError
from reference_impl.loading.checkpoint import Model
from reference_impl.model.code_predictor import CodePredictor
from reference_impl.model.kv_cache import SlotCache
from reference_impl.model.predictor_strategies import STRATEGIES, FrameStrategy, KvCacheStrategy, expand, recorded_frame
from reference_impl.model.sampling import effective_sampling, penalise, predictor_draw, talker_draw
from reference_impl.model.spans import span, spanned
from reference_impl.model.transfers import to_device
from reference_impl.prompt.builder import Segment, TalkerPrompt
from reference_impl.settings import ServerSettings

# attended positions are rounded up to a multiple of this, so that the allocator sees few sizes
SPAN_STEP = 32

NewStrategy = Callable[[CodePredictor, ServerSettings, Callable[[], int]], FrameStrategy]
"""Makes the code predictor's strategy; the last argument returns how many slots are taken."""


def chosen_strategy(predictor: CodePredictor, settings: ServerSettings, active: Callable[[], int]) -> FrameStrategy:
    """The strategy that ``reference.predictor`` names."""
    return STRATEGIES[settings.predictor](predictor, settings.max_batch)


class DecodeBatch:
    """State of up to ``max_batch`` requests. Not thread-safe: the engine's thread owns it.

    Per slot: ``hidden`` [H] and ``code0`` (the frame to come), ``length`` (positions in the
    cache), ``position`` (rotary position of the next input), ``frame`` (frames of the request
    so far, the counter of its random numbers), ``segment_frame`` (frames of this segment),
    ``min_frames`` (the end token is masked before), and where the checkpoint uses them
    ``seen`` [V] (codes of codebook 0 drawn in this segment) and ``trailing`` [max_seq_len + 1, H]
    (what is added to the inputs of the decode steps; ``pad`` is at ``trailing_length``).

    ``overlaps_steps``: a batch that launches a step before the results of the one before are looked at
    has ``launch_step`` and ``collect_step`` instead of :meth:`step`, and what such a step computes for a
    request that has ended meanwhile is dropped. ``batches_prefill``: prompts are best prefilled several at a time.
    ``max_length``: positions a slot may fill.
    """

    overlaps_steps: ClassVar[bool] = False
    batches_prefill: bool = False

    def __init__(
        self,
        model: Model,
        settings: ServerSettings,
        max_frames: int,
        pad: Tensor | None = None,
        new_strategy: NewStrategy = chosen_strategy,
    ):
        talker = model.config.talker.transformer
        slots, device = settings.max_batch, model.device
        self.model, self.settings = model, settings
        self.count = 0
        self.max_length = settings.max_seq_len
        self._longest = [0] * slots  # lengths again, on the host
        self._cache = SlotCache(
            talker.num_layers, slots, talker.num_kv_heads, settings.max_seq_len, talker.head_dim, device, model.dtype
        )
        sampling = effective_sampling(model.config.sampling, settings)
        self._draw_code0, self._draw_rest = talker_draw(sampling), predictor_draw(sampling)
        self._penalty = sampling.repetition_penalty
        self._strategy = new_strategy(model.predictor, settings, lambda: self.count)
        # only the plain strategy keeps nothing of its own between two frames
        plain = settings.recorded and device.type == "cpu" and type(self._strategy) is KvCacheStrategy
        self._recorded = recorded_frame(model.predictor, self._draw_rest) if plain else None
        self._hidden = torch.zeros(slots, talker.hidden_size, device=device, dtype=model.dtype)
        self._uniforms = torch.zeros(slots, max_frames + 1, model.config.predictor.num_code_groups, device=device)
        self._slots = torch.arange(slots, device=device)
        self._counters = torch.zeros(7, slots, dtype=torch.long, device=device)
        (
            self._code0, self._length, self._position, self._frame, self._segment_frame, self._min_frames,
            self._trailing_length,
        ) = self._counters  # fmt: skip
        vocabulary = model.config.talker.codec_vocab_size
        suppressed = torch.zeros(vocabulary, dtype=torch.bool)
        suppressed[list(model.config.talker.suppressed_ids)] = True
        self._suppressed = suppressed.to(device) if suppressed.any() else None
        self._seen = self._trailing = None
        if self._penalty != 1.0:
            self._seen = torch.zeros(slots, vocabulary, dtype=torch.bool, device=device)
        if pad is not None:
            self._pad = pad
            # no slot can have more decode steps than its cache has positions
            shape = (slots, settings.max_seq_len + 1, talker.hidden_size)
            self._trailing = torch.zeros(shape, device=device, dtype=model.dtype)
        tables = (self._counters.T, self._hidden, self._uniforms, self._seen, self._trailing)
        self._per_slot = tuple(table for table in tables if table is not None)

    @property
    def hidden(self) -> Tensor:
        """States [count, H] from which codebook 0 of the coming frames was drawn (a step overwrites it)."""
        return self._hidden[: self.count]

    @property
    def code0(self) -> Tensor:
        """Codebook 0 of the coming frames [count]."""
        return self._code0[: self.count]

    def allocate_slot(self, uniforms: np.ndarray) -> int:
        """A slot for a request whose random numbers are ``uniforms`` [frames, 16]. Prefill is separate."""
        slot = self._next_slot()
        self._uniforms[slot, : len(uniforms)] = to_device(uniforms, self._uniforms.device)
        self._frame[slot] = 0
        return slot

    def _next_slot(self) -> int:
        if self.count == self.settings.max_batch:
            raise EngineError(f"all {self.count} slots are taken")
        self.count += 1
        return self.count - 1

    def prefill(
        self,
        slot: int,
        prompt: TalkerPrompt,
        forced_frames: int | None = None,
        uniform: float | None = None,
        frame: int | None = None,
    ) -> None:
        """Prefill a segment's prompt in a slot and draw codebook 0 of its first frame.

        ``forced_frames``: the end token is masked until then. ``uniform``: the random number to
        draw with (None: the slot's own for this frame). ``frame``: how many the request has so
        far (None: as counted; a step that overlapped may have counted one too many).
        """
        if frame is not None:
            self._frame[slot] = frame
        hidden = self._prefill_talker(slot, prompt)
        self._hidden[slot] = hidden
        self._length[slot] = self._longest[slot] = len(prompt.embeds)
        self._position[slot] = prompt.next_position
        self._segment_frame[slot] = 0
        self._min_frames[slot] = self.model.config.talker.min_frames if forced_frames is None else forced_frames
        if self._seen is not None:
            self._seen[slot] = False
        if self._trailing is not None:
            self._trailing_length[slot] = self._set_trailing(slot, prompt.trailing)
        slots = slice(slot, slot + 1)
        number = None if uniform is None else self._uniforms.new_tensor([uniform])
        self._code0[slots] = self._draw(hidden[None], slots, number)

    def room(self, segment: Segment) -> int:
        """The most frames that a segment may take."""
        return min(segment.max_frames, self.max_length - segment.length)

    def step(self) -> np.ndarray:
        """One frame for every taken slot: int64 [count, 17], the frame's 16 codes and codebook 0 of the next frame."""
        model = self.model
        n, attended = self._shape()
        slots = slice(0, n)
        codes = self._complete(slots)
        with span("talker"):
            embeds = self._next_inputs(codes, slots)
            hidden = model.talker.decode(embeds, self._position[slots], self._cache, self._length[slots], attended)
        for counter in (self._length, self._position, self._frame, self._segment_frame):
            counter[slots] += 1
        self._hidden[slots] = hidden
        self._code0[slots] = self._draw(hidden, slots)
        with span("codes to the host"):
            result = torch.cat([codes, self._code0[slots, None]], dim=1)[: self.count].cpu().numpy()
        for slot in range(self.count):
            self._longest[slot] += 1
        self._clear(slice(self.count, n))
        return result

    def _shape(self) -> tuple[int, int]:
        """Slots and cache positions that a step works on: at least the taken ones."""
        settings = self.settings
        if settings.deterministic:
            return settings.max_batch, settings.max_seq_len
        longest = max(self._longest[: self.count]) + 1
        return self.count, min(-(-longest // SPAN_STEP) * SPAN_STEP, settings.max_seq_len)

    def _prefill_talker(self, slot: int, prompt: TalkerPrompt) -> Tensor:
        """A prompt into a slot's cache -> its last state [H]."""
        return self.model.talker.prefill(prompt.embeds, prompt.positions, self._cache, slot)

    @spanned("predictor")
    def _complete(self, slots: slice) -> Tensor:
        """The 16 codes of each slot's frame [B, 16], of which codebook 0 was drawn a step before."""
        uniforms = self._uniforms[self._slots[slots], self._frame[slots]]
        hidden, code0 = self._hidden[slots], self._code0[slots]
        if self._recorded is not None:
            return self._recorded(hidden, code0, uniforms)
        return expand(self.model.predictor, self._strategy, hidden, code0, uniforms, self._draw_rest)

    def _next_inputs(self, codes: Tensor, slots: slice) -> Tensor:
        """What the talker reads next [B, H]: the frame's codes [B, 16], and text that is still to come."""
        embeds = self.model.predictor.embed_frame(codes, self.model.talker.codec_embedding.weight)
        text = self._coming_text(slots)
        return embeds if text is None else embeds + text

    def _coming_text(self, slots: slice) -> Tensor | None:
        """What is added to the talker's input at this frame [B, H]; None where the checkpoint adds nothing."""
        if self._trailing is None:
            return None
        coming = torch.minimum(self._segment_frame[slots], self._trailing_length[slots])
        return self._trailing[self._slots[slots], coming]

    def free_slot(self, slot: int) -> int | None:
        """Free a slot. Returns the number of the slot whose request was moved into it, or None."""
        last = self.count - 1
        self.count = last
        moved = None
        if slot != last:
            self._cache.move(last, slot, self._longest[last])
            for tensor in self._per_slot:
                tensor[slot] = tensor[last]
            self._longest[slot] = self._longest[last]
            moved = last
        self._clear(slice(last, last + 1))
        return moved

    def free_slots(self, slots: list[int]) -> dict[int, int]:
        """Free several slots. Returns, for each that another request was moved into, where that was before."""
        origins: dict[int, int] = {}
        for slot in sorted(slots, reverse=True):  # what is freed as well need not move
            moved = self.free_slot(slot)
            if moved is not None:
                origins[slot] = origins.pop(moved, moved)
        return origins

    def _clear(self, slots: slice) -> None:
        """Idle slots stay at position 0, so that a full-shape step over them reads nothing old or out of range."""
        self._hidden[slots] = 0
        self._counters[:, slots] = 0

    def _set_trailing(self, slot: int, trailing: Tensor | None) -> int:
        """The text vectors still to come [T, H] into a slot's table, the pad after them; returns T."""
        table, count = self._trailing, 0
        if trailing is not None:
            count = min(len(trailing), table.shape[1] - 1)
            table[slot, :count] = trailing[:count]
        table[slot, count] = self._pad
        return count

    @spanned("sampling")
    def _draw(self, hidden: Tensor, slots: slice | Tensor, uniforms: Tensor | None = None) -> Tensor:
        """Codebook 0 of the next frame from hidden [B, H]; the end token is masked in a segment's first frames."""
        talker = self.model.talker
        logits = talker.codec_head(hidden).float()
        if self._seen is not None:
            logits = penalise(logits, self._seen[slots], self._penalty)
        too_early = self._segment_frame[slots] < self._min_frames[slots]
        logits[:, talker.config.codec_eos_id].masked_fill_(too_early, float("-inf"))
        if self._suppressed is not None:
            logits.masked_fill_(self._suppressed, float("-inf"))
        if uniforms is None:
            uniforms = self._uniforms[self._slots[slots], self._frame[slots], 0]
        code0 = self._draw_code0(logits, uniforms)
        if self._seen is not None:
            self._seen[self._slots[slots], code0] = True
        return code0
