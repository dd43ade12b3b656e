"""A decode batch whose step is one CUDA graph (``reference.graphs=full_step``).

Everything of a request stays on the device; a frame costs one graph launch and one copy of
its codes into pinned memory. Requests join and leave between two steps as in
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
from reference_impl.engine.cuda.step import FullStep, RowState
from reference_impl.engine.decode_batch import DecodeBatch
from reference_impl.loading.checkpoint import Model
from reference_impl.model.transfers import to_device
from reference_impl.prompt.builder import Prompt
from reference_impl.settings import ServerSettings

MOST_ROWS = 32  # the first pass through the code predictor has two positions a row, and a product at most 64
PDL_SINCE = (9, 0)  # compute capability with programmatic dependent launches


@dataclass(frozen=True)
class Entering:
    """A prompt on its way into a row; see :meth:`DecodeBatch.enter`."""

    row: int
    prompt: Prompt
    min_frames: int
    uniform: float | None
    frame: int


class FullStepBatch(DecodeBatch):
    """See the module docstring. At most two steps are under way.

    Raises ConfigError for a device or a kind of sampling that has no kernels.
    """

    ahead = True

    def __init__(self, model: Model, settings: ServerSettings, max_frames: int, pad: Tensor | None = None):
        if model.device.type != "cuda":
            raise ConfigError(f"reference.graphs=full_step needs CUDA, not {model.device}; valid there: off")
        if settings.max_batch > MOST_ROWS:
            raise ConfigError(
                f"reference.max_batch={settings.max_batch}: graphs=full_step has kernels for at most {MOST_ROWS} rows"
            )
        # a step in vain takes one more position and one more row of random numbers than the request has
        super().__init__(model, settings, max_frames + 1, pad)
        self.max_length = settings.max_seq_len - 1
        rows = settings.max_batch
        first = FastDraw.of(self._draw_code0, model.config.talker.codec_vocab_size)
        rest = FastDraw.of(self._draw_rest, model.config.predictor.codebook_size)
        if first is None or rest is None:
            raise ConfigError(
                "reference.graphs=full_step has no kernel for top_p below 1 nor for a checkpoint that draws from "
                f"exactly top_k ids ({model.config.name}); valid here: off"
            )
        self._active = torch.zeros(rows, dtype=torch.long, device=model.device)
        # the priority that its kernels are captured with, which is Code2Wav's as well (see ``audio.py``)
        self._stream = torch.cuda.Stream(model.device, priority=-1)
        state = RowState(self._hidden, self._uniforms, self._counters, self._active, self._seen, self._trailing)
        pdl = torch.cuda.get_device_capability(model.device) >= PDL_SINCE
        with torch.inference_mode():
            self._full = FullStep(model, self._cache, state, first, rest, self._penalty, pdl)
            self._full.capture(self._stream)
            self._prompts = PromptGraphs(model, self._cache, self._hidden, self._stream)
            self._clear(slice(0, rows))
        shape = self._full.result.shape
        self._landing = deque(
            (torch.zeros(shape, dtype=torch.long, pin_memory=True), torch.cuda.Event()) for _ in range(2)
        )
        # read together, a prompt's rounding depends on the others
        self.gathers = not settings.deterministic
        self._joining: list[tuple[int, np.ndarray]] = []
        self._entering: list[Entering] = []
        self._under_way: deque[tuple[int, Tensor, torch.cuda.Event]] = deque()
        torch.cuda.synchronize()

    def join(self, uniforms: np.ndarray) -> int:
        """See :meth:`DecodeBatch.join`. The numbers are gathered, and go to the device with the prompt."""
        self._joining.append((self._next_row(), uniforms))
        return self.count - 1

    def _take_rows(self) -> None:
        """The random numbers gathered so far to their rows, which count from now on."""
        joining, self._joining = self._joining, []
        if not joining:
            return
        most = max(len(numbers) for _, numbers in joining)
        table = np.zeros((len(joining), most, self._uniforms.shape[2]), np.float32)
        for place, (_, numbers) in zip(table, joining, strict=True):
            place[: len(numbers)] = numbers
        rows = to_device([row for row, _ in joining], self._uniforms.device)
        self._uniforms[:, :most].index_copy_(0, rows, to_device(table, rows.device))
        self._frame.index_fill_(0, rows, 0)
        self._active.index_fill_(0, rows, 1)

    def leave(self, row: int) -> int | None:
        """See :meth:`DecodeBatch.leave`."""
        return self.leave_all([row]).get(row)

    def leave_all(self, rows: list[int]) -> dict[int, int]:
        """See :meth:`DecodeBatch.leave_all`; the last ones move together."""
        self._read_prompts()
        before, self.count = self.count, self.count - len(rows)
        free = sorted(row for row in rows if row < self.count)
        movers = sorted(set(range(self.count, before)) - set(rows))
        if free:
            device, longest = self._counters.device, max(self._longest[row] for row in movers)
            source, target = to_device([movers, free], device)
            for cache in (self._cache.keys, self._cache.values):
                kept = cache[:, :, :, :longest]
                kept.index_copy_(1, target, kept.index_select(1, source))
            for tensor in self._per_row:
                tensor.index_copy_(0, target, tensor.index_select(0, source))
            for row, mover in zip(free, movers, strict=True):
                self._longest[row] = self._longest[mover]
        self._clear(slice(self.count, before))
        self._active[self.count : before] = 0
        return dict(zip(free, movers, strict=True))

    def enter(
        self,
        row: int,
        prompt: Prompt,
        forced_frames: int | None = None,
        uniform: float | None = None,
        frame: int | None = None,
    ) -> None:
        """See :meth:`DecodeBatch.enter`. Prompts are gathered, and read together before the next step."""
        # the tiny voice's positions begin again at the end of its prompt; those of a graph count up
        counts_up = prompt.next_position >= len(prompt.embeds)
        if frame is None or len(prompt.embeds) > self._prompts.longest or not counts_up:
            self._take_rows()
            super().enter(row, prompt, forced_frames, uniform, frame)
            return
        least = self.model.config.talker.min_frames if forced_frames is None else forced_frames
        self._entering.append(Entering(row, prompt, least, uniform, frame))
        self._longest[row] = len(prompt.embeds)
        if not self.gathers or len(self._entering) == MOST:
            self._read_prompts()

    def _read_prompts(self) -> None:
        """The prompts gathered so far into their rows, each with codebook 0 of its first frame."""
        self._take_rows()
        entering, self._entering = self._entering, []
        if not entering:
            return
        by_length: dict[int, list[Entering]] = {}
        for one in entering:  # a short prompt is not padded to a long one's length
            by_length.setdefault(self._prompts.padded(len(one.prompt.embeds)), []).append(one)
        for group in by_length.values():
            embeds = [one.prompt.embeds for one in group]
            begins = [one.prompt.next_position - len(one.prompt.embeds) for one in group]
            self._prompts.prefill(embeds, begins, [one.row for one in group])
        trailing = [0] * len(entering)
        if self._trailing is not None:
            trailing = [self._set_trailing(one.row, one.prompt.trailing) for one in entering]
        columns = [
            (0, len(e.prompt.embeds), e.prompt.next_position, e.frame, 0, e.min_frames, text)
            for e, text in zip(entering, trailing, strict=True)
        ]
        rows = to_device([one.row for one in entering], self._counters.device)
        self._counters.index_copy_(1, rows, to_device(columns, rows.device).T.contiguous())
        if self._seen is not None:
            self._seen.index_fill_(0, rows, False)
        # nan: the row's own number for this frame
        given = to_device([float("nan") if e.uniform is None else e.uniform for e in entering], rows.device)
        own = self._uniforms[rows, self._frame[rows], 0]
        self._code0[rows] = self._draw(self._hidden[rows], rows, torch.where(given.isnan(), own, given.to(own.dtype)))

    def launch(self) -> None:
        """Begin a frame for every occupied row, at once behind what is under way."""
        self._read_prompts()
        count = self.count
        self._full.replay(self.settings.max_batch if self.settings.deterministic else count)
        codes, copied = self._landing[0]
        codes[:count].copy_(self._full.result[:count], non_blocking=True)
        copied.record()
        self._under_way.append((count, codes, copied))
        self._landing.rotate()
        for row in range(count):
            self._longest[row] += 1

    def collect(self) -> np.ndarray:
        """Wait for the oldest frame that was launched: int64 [rows occupied then, 17], as :meth:`step` gives."""
        count, codes, copied = self._under_way.popleft()
        copied.synchronize()
        # a copy: the launch after next writes to the same pinned memory
        return codes[:count].numpy().copy()

    def step(self) -> np.ndarray:
        """See :meth:`DecodeBatch.step`."""
        self.launch()
        return self.collect()
