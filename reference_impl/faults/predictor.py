"""Mistakes in the code predictor's loop: strategies that compute with the wrong memory, mask or cost.

Each is made as :func:`reference_impl.engine.decode_batch.chosen_strategy` makes one; ``active`` returns how many of the
rows it is given are requests. A batch of this engine passes the predictor in one call, so a mistake that in other
servers needs interleaved calls is rebuilt as what such calls would have read. All are built on the re-prefill
strategies, which those servers use; codes differ from ``kv_cache`` by rounding only.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from reference_impl.engine.decode_batch import chosen_strategy
from reference_impl.model.code_predictor import CodePredictor
from reference_impl.model.kv_cache import Attended, WholeView
from reference_impl.model.predictor_strategies import FixedWindowStrategy, KvCacheStrategy, bucket
from reference_impl.settings import ServerSettings

Active = Callable[[], int]


class SharedProjectionBuffer:
    """``shared_proj_buf`` (vllm-omni PR 2012, root cause 1): one buffer of embeddings, kept across calls.

    It has the rows of one request, which is right as long as there is one. With more, each
    writes its newest position there and then reads the earlier ones, which by then are those of
    the request that came last. Alone (c = 1) and as the last of a batch a request is clean.
    """

    def __init__(self, predictor: CodePredictor, settings: ServerSettings, active: Active):
        self._predictor, self._active = predictor, active
        like = predictor.heads
        shape = (predictor.config.num_code_groups, predictor.config.transformer.hidden_size)
        self._buffer = torch.zeros(shape, device=like.device, dtype=like.dtype)

    def start(self, inputs: Tensor) -> Tensor:
        """See :class:`FrameStrategy`."""
        return self._run(inputs, 0)

    def extend(self, new: Tensor, position: int) -> Tensor:
        """See :class:`FrameStrategy`."""
        return self._run(new[:, None], position)

    def _run(self, new: Tensor, position: int) -> Tensor:
        end = position + new.shape[1]
        earlier = self._buffer[:position].expand(len(new), -1, -1)
        inputs = torch.cat([earlier, new], dim=1)
        states = self._predictor.stack(inputs, self._predictor.positions[:, :end], WholeView())[:, -1]
        for row in range(self._active()):
            self._buffer[position:end] = new[row]
        return states


class UnmaskedView:
    """Every position attends to every other one, also to later ones."""

    def append(self, layer: int, keys: Tensor, values: Tensor) -> Attended:
        """keys/values [B, kv_heads, T, head_dim]."""
        return Attended(keys, values, None, causal=False)


class NonCausalWindow(FixedWindowStrategy):
    """``noncausal_mask`` (vllm-omni PR 2012, review): the padded window is computed without a causal mask.

    The zeros where nothing is predicted yet take their share of the attention: wrong
    at every concurrency, also alone.
    """

    def __init__(self, predictor: CodePredictor, settings: ServerSettings, active: Active):
        super().__init__(predictor, settings.max_batch)

    def _run(self, position: int) -> Tensor:
        states = self._predictor.stack(self._inputs, self._predictor.positions, UnmaskedView())
        return states[: self._count, position]


class OffByOneView:
    """Position p attends to 0..p+1 instead of 0..p."""

    def __init__(self, window: int, device: torch.device):
        self._mask = torch.ones(window, window, dtype=torch.bool, device=device).tril(diagonal=1)[None, None]

    def append(self, layer: int, keys: Tensor, values: Tensor) -> Attended:
        """keys/values [B, kv_heads, window, head_dim]."""
        return Attended(keys, values, self._mask, causal=False)


class StaleRows(FixedWindowStrategy):
    """``stale_rows`` (vllm-omni PR 1913, review): a window that is never zeroed, and a mask off by one.

    Either mistake alone is harmless or small. Together, each position sees what the row held at
    the next one: a code of the frame before, or of the request that had the row before. Wrong at every
    concurrency once the buffer has been used; what is heard depends on earlier requests.
    """

    def __init__(self, predictor: CodePredictor, settings: ServerSettings, active: Active):
        super().__init__(predictor, rows := settings.max_batch)
        like = predictor.heads
        shape = (bucket(rows), self._window, predictor.config.transformer.hidden_size)
        self._buffer = torch.zeros(shape, device=like.device, dtype=like.dtype)
        self._view = OffByOneView(self._window, like.device)

    def start(self, inputs: Tensor) -> Tensor:
        """See :class:`FrameStrategy`."""
        self._count = inputs.shape[0]
        self._inputs = self._buffer[: bucket(self._count)]
        self._inputs[: self._count, :2] = inputs
        return self._run(1)

    def _run(self, position: int) -> Tensor:
        states = self._predictor.stack(self._inputs, self._predictor.positions, self._view)
        return states[: self._count, position]


class SharedGraphPool(KvCacheStrategy):
    """``graph_pool`` (vllm-omni PR 2059): two captured graphs write their output to the same memory.

    The batch is replayed as two graphs of half the rows. Their pool was laid out while only one
    graph had work, so both begin at its start; the outputs are read after both have replayed, and
    the first half reads the second half's. With one request there is one replay: clean at c = 1.
    """

    def __init__(self, predictor: CodePredictor, settings: ServerSettings, active: Active):
        super().__init__(predictor, rows := settings.max_batch)
        self._active = active
        like = predictor.heads
        self._pool = torch.zeros(rows, predictor.config.transformer.hidden_size, device=like.device, dtype=like.dtype)

    def start(self, inputs: Tensor) -> Tensor:
        """See :class:`FrameStrategy`."""
        return self._replay(super().start(inputs))

    def extend(self, new: Tensor, position: int) -> Tensor:
        """See :class:`FrameStrategy`."""
        return self._replay(super().extend(new, position))

    def _replay(self, states: Tensor) -> Tensor:
        count = self._active()
        half = -(-count // 2)
        first, second = self._pool[:half], self._pool[: count - half]
        first.copy_(states[:half])
        second.copy_(states[half:count])
        return torch.cat([first, second, states[count:]])


class HostRoundTrip:
    """``host_roundtrip`` (vllm-omni PR 1985): what passes between two steps goes by way of the host.

    As lists of Python numbers, which on a GPU also waits for all that is queued there, 16 times a
    frame. The values come back bit by bit: the speech does not change.
    """

    def __init__(self, predictor: CodePredictor, settings: ServerSettings, active: Active):
        self._inner = chosen_strategy(predictor, settings, active)
        self.trips = 0

    def start(self, inputs: Tensor) -> Tensor:
        """See :class:`FrameStrategy`."""
        return self._there_and_back(self._inner.start(self._there_and_back(inputs)))

    def extend(self, new: Tensor, position: int) -> Tensor:
        """See :class:`FrameStrategy`."""
        return self._there_and_back(self._inner.extend(self._there_and_back(new), position))

    def _there_and_back(self, tensor: Tensor) -> Tensor:
        self.trips += 1
        return torch.tensor(tensor.float().tolist(), device=tensor.device, dtype=tensor.dtype)


class SlowAttribute:
    """``slow_attribute`` (vllm-omni PR 1982): what looks like an attribute is a search through the model.

    ``dtype`` and ``device`` are read at every step, and each reading lists every parameter by name.
    """

    def __init__(self, predictor: CodePredictor, settings: ServerSettings, active: Active):
        self._inner, self._predictor = chosen_strategy(predictor, settings, active), predictor
        self.searches = 0

    @property
    def weight(self) -> Tensor:
        """The parameter whose device and type are used: the last one, found by its name."""
        self.searches += 1
        return dict(self._predictor.named_parameters())["stack.norm.weight"]

    @property
    def dtype(self) -> torch.dtype:
        """Type of the parameters."""
        return self.weight.dtype

    @property
    def device(self) -> torch.device:
        """Device of the parameters."""
        return self.weight.device

    def start(self, inputs: Tensor) -> Tensor:
        """See :class:`FrameStrategy`."""
        return self._inner.start(inputs.to(device=self.device, dtype=self.dtype))

    def extend(self, new: Tensor, position: int) -> Tensor:
        """See :class:`FrameStrategy`."""
        return self._inner.extend(new.to(device=self.device, dtype=self.dtype), position)
