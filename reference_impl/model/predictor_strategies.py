"""Three ways to run the code predictor over a frame, one result.

A frame grows by one position at each of 15 steps. The strategies differ in what they compute
again: ``kv_cache`` nothing, ``reprefill`` the whole frame so far, ``fixed_window`` always the
full window with zeros after the last position and the batch padded to a bucket, so that
every step has one of few shapes. All three are used by speech servers; with a causal mask
they are the same function, and the cost in transformer positions a frame is 16, 135 and 255.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from reference_impl.model.code_predictor import CodePredictor
from reference_impl.model.kv_cache import WholeView
from reference_impl.model.recording import Recording
from reference_impl.model.sampling import Draw
from reference_impl.model.spans import span


class FrameStrategy(Protocol):
    """Hidden states of a frame that grows position by position. One frame at a time, for B rows at once."""

    def start(self, inputs: Tensor) -> Tensor:
        """Begin a frame: inputs of positions 0 and 1 [B, 2, hidden] -> state at position 1 [B, hidden]."""

    def extend(self, new: Tensor, position: int) -> Tensor:
        """Add the input of the next ``position`` [B, hidden] -> the state there [B, hidden]."""


class KvCacheStrategy:
    """Every position is computed once; keys and values of earlier ones are kept for the frame."""

    def __init__(self, predictor: CodePredictor, rows: int):
        self._predictor, self._cache = predictor, predictor.new_cache(rows)

    def start(self, inputs: Tensor) -> Tensor:
        """See :class:`FrameStrategy`."""
        self._cache.start(0)
        return self._predictor.stack(inputs, self._predictor.positions[:, :2], self._cache)[:, -1]

    def extend(self, new: Tensor, position: int) -> Tensor:
        """See :class:`FrameStrategy`."""
        self._cache.start(position)
        positions = self._predictor.positions[:, position : position + 1]
        return self._predictor.stack(new[:, None], positions, self._cache)[:, -1]


class ReprefillStrategy:
    """The frame so far is computed again at every step: lengths 2 to 16."""

    def __init__(self, predictor: CodePredictor, rows: int):
        self._predictor = predictor
        self._inputs: Tensor | None = None

    def start(self, inputs: Tensor) -> Tensor:
        """See :class:`FrameStrategy`."""
        self._inputs = inputs
        return self._run(inputs)

    def extend(self, new: Tensor, position: int) -> Tensor:
        """See :class:`FrameStrategy`."""
        self._inputs = torch.cat([self._inputs, new[:, None]], dim=1)
        return self._run(self._inputs)

    def _run(self, inputs: Tensor) -> Tensor:
        return self._predictor.stack(inputs, self._predictor.positions[:, : inputs.shape[1]], WholeView())[:, -1]


class FixedWindowStrategy:
    """Always ``WINDOW`` positions and a power of two of rows; zeros where nothing is computed yet.

    The window is one longer than a frame, as in vllm-omni. It is made anew, zeroed, for every
    frame: a row left over from another frame is hidden by the causal mask, but a NaN in it
    would spread (0 × NaN).
    """

    def __init__(self, predictor: CodePredictor, rows: int):
        self._predictor = predictor
        self._window = predictor.config.num_code_groups + 1
        self._count = 0
        self._inputs: Tensor | None = None

    def start(self, inputs: Tensor) -> Tensor:
        """See :class:`FrameStrategy`."""
        self._count = inputs.shape[0]
        self._inputs = inputs.new_zeros(bucket(self._count), self._window, inputs.shape[2])
        self._inputs[: self._count, :2] = inputs
        return self._run(1)

    def extend(self, new: Tensor, position: int) -> Tensor:
        """See :class:`FrameStrategy`."""
        self._inputs[: self._count, position] = new
        return self._run(position)

    def _run(self, position: int) -> Tensor:
        states = self._predictor.stack(self._inputs, self._predictor.positions, WholeView())
        return states[: self._count, position]


STRATEGIES = {"kv_cache": KvCacheStrategy, "reprefill": ReprefillStrategy, "fixed_window": FixedWindowStrategy}


def recorded_frame(predictor: CodePredictor, draw: Draw) -> Recording:
    """:func:`expand` with ``kv_cache`` as a function of hidden, code0 and uniforms, recorded."""

    def frame(hidden: Tensor, code0: Tensor, uniforms: Tensor) -> Tensor:
        strategy = KvCacheStrategy(predictor, hidden.shape[0])  # with a cache of its own, which no frame shares
        return expand(predictor, strategy, hidden, code0, uniforms, draw)

    return Recording(frame)


def bucket(rows: int) -> int:
    """The number of rows a batch is padded to: 1, 2, 4, 8, 16, 32, ..."""
    return 1 << (rows - 1).bit_length()


def expand(
    predictor: CodePredictor, strategy: FrameStrategy, hidden: Tensor, code0: Tensor, uniforms: Tensor, draw: Draw
) -> Tensor:
    """hidden [B, talker_hidden], code0 [B], uniforms [B, 16] (column g draws code g) -> codes [B, 16]."""
    codes = [code0]
    state = strategy.start(predictor.first_inputs(hidden, code0))
    for group in range(1, predictor.config.num_code_groups):
        if group > 1:
            state = strategy.extend(predictor.input_of(codes[-1], group - 1), group)
        logits = predictor.logits(state, group)
        with span("sampling"):
            codes.append(draw(logits, uniforms[:, group]))
    return torch.stack(codes, dim=1)
