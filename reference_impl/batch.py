"""The hot loop: requests in rows, one frame for every row at each step.

This file is all there is between two frames. Rows 0..n-1 are occupied; a row that leaves is
filled by the last one, so that a step works on a contiguous prefix of every tensor and needs
no gather. In deterministic mode a step always runs over all rows and the whole cache: the
shapes of its matrix products, and with them the rounding of a row, do not depend on how many
requests are running.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from omni_bench.errors import EngineError
from reference_impl.checkpoint import Model
from reference_impl.kv_cache import SlotCache
from reference_impl.sampling import sample
from reference_impl.settings import ServerSettings
from reference_impl.tokenizer import PromptIds

# attended positions are rounded up to a multiple of this, so that the allocator sees few sizes
SPAN_STEP = 32


class DecodeBatch:
    """State of up to ``max_batch`` requests. Not thread-safe: the engine's thread owns it.

    Per row: ``hidden`` [H] and ``code0`` (the frame to come), ``length`` (positions in the
    cache), ``position`` (rotary position of the next input), ``frame`` (frames of the request
    so far, the counter of its random numbers), ``segment_frame`` (frames of this segment).
    """

    def __init__(self, model: Model, settings: ServerSettings, max_frames: int):
        talker = model.config.talker.transformer
        rows, device = settings.max_batch, model.device
        self.model, self.settings = model, settings
        self.count = 0
        self._longest = [0] * rows  # lengths again, on the host
        self._cache = SlotCache(
            talker.num_layers, rows, talker.num_kv_heads, settings.max_seq_len, talker.head_dim, device, model.dtype
        )
        self._frame_cache = model.predictor.new_cache(rows)
        self._hidden = torch.zeros(rows, talker.hidden_size, device=device, dtype=model.dtype)
        self._uniforms = torch.zeros(rows, max_frames + 1, model.config.predictor.num_code_groups, device=device)
        self._rows = torch.arange(rows, device=device)
        self._code0, self._length, self._position, self._frame, self._segment_frame = torch.zeros(
            5, rows, dtype=torch.long, device=device
        ).unbind()
        self._per_row = (
            self._hidden, self._uniforms, self._code0, self._length, self._position, self._frame, self._segment_frame,
        )  # fmt: skip

    def join(self, uniforms: np.ndarray) -> int:
        """Take a row for a request whose random numbers are ``uniforms`` [frames, 16]. Prefill is separate."""
        if self.count == self.settings.max_batch:
            raise EngineError(f"all {self.count} rows are taken")
        row = self.count
        self.count += 1
        self._uniforms[row, : len(uniforms)] = torch.from_numpy(uniforms)
        self._frame[row] = 0
        return row

    def prefill(self, row: int, prompt: PromptIds) -> int:
        """Read a segment's prompt into a row and draw codebook 0 of its first frame.

        Returns that code. Frames already spoken by earlier segments keep counting.
        """
        model, device = self.model, self.model.device
        ids = torch.tensor(prompt.ids, device=device)
        positions = torch.tensor(prompt.positions, device=device)
        hidden = model.talker.prefill(model.talker.embed_text(ids), positions, self._cache, row)
        self._hidden[row] = hidden
        self._length[row] = self._longest[row] = len(prompt.ids)
        self._position[row] = prompt.positions[-1] + 1
        self._segment_frame[row] = 0
        rows = slice(row, row + 1)
        self._code0[rows] = self._draw(hidden[None], rows)
        return int(self._code0[row])

    def step(self) -> np.ndarray:
        """One frame for every row: int64 [count, 17], the frame's 16 codes and codebook 0 of the next frame."""
        model, settings, n = self.model, self.settings, self.count
        if settings.deterministic:
            n, span = settings.max_batch, settings.max_seq_len
        else:
            longest = max(self._longest[:n]) + 1
            span = min(-(-longest // SPAN_STEP) * SPAN_STEP, settings.max_seq_len)
        rows = slice(0, n)
        uniforms = self._uniforms[self._rows[rows], self._frame[rows]]
        codes = model.predictor.expand(
            self._hidden[rows],
            self._code0[rows],
            uniforms,
            self._frame_cache,
            settings.predictor_temperature,
            settings.predictor_top_k,
        )
        embeds = model.predictor.embed_frame(codes, model.talker.codec_embedding.weight)
        hidden = model.talker.decode(embeds, self._position[rows], self._cache, self._length[rows], span)
        for counter in (self._length, self._position, self._frame, self._segment_frame):
            counter[rows] += 1
        self._hidden[rows] = hidden
        self._code0[rows] = self._draw(hidden, rows)
        result = torch.cat([codes, self._code0[rows, None]], dim=1)[: self.count].cpu().numpy()
        for row in range(self.count):
            self._longest[row] += 1
        if settings.deterministic:
            self._clear(slice(self.count, n))
        return result

    def leave(self, row: int) -> int | None:
        """Free a row. Returns the number of the row that was moved into its place, or None."""
        last = self.count - 1
        self.count = last
        moved = None
        if row != last:
            self._cache.move(last, row, self._longest[last])
            for tensor in self._per_row:
                tensor[row] = tensor[last]
            self._longest[row] = self._longest[last]
            moved = last
        self._clear(slice(last, last + 1))
        return moved

    def _clear(self, rows: slice) -> None:
        """Idle rows stay at position 0, so that a full-shape step over them reads nothing old or out of range."""
        for tensor in (self._hidden, self._code0, self._length, self._position, self._frame, self._segment_frame):
            tensor[rows] = 0

    def _draw(self, hidden: Tensor, rows: slice) -> Tensor:
        """Codebook 0 of the next frame from hidden [B, H]; the end token is masked in a segment's first frames."""
        talker, settings = self.model.talker, self.settings
        logits = talker.codec_head(hidden)
        too_early = self._segment_frame[rows] < talker.config.min_frames
        logits[:, talker.config.codec_eos_id].masked_fill_(too_early, float("-inf"))
        uniforms = self._uniforms[self._rows[rows], self._frame[rows], 0]
        return sample(logits, settings.temperature, settings.top_k, uniforms)
