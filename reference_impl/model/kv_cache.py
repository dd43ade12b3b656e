"""Key/value caches: a slotted one for the talker, a per-frame one for the code predictor.

A *view* is what one forward pass sees of a cache: it stores the new keys and values and
answers what to attend to. Every view has the same method, so that the transformer's code
does not know whether it prefills a prompt, decodes a batch, or predicts a frame.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
from torch import Tensor


class Attended(NamedTuple):
    """Keys and values [B, kv_heads, S, head_dim] to attend to; ``mask`` is boolean [B, 1, 1, S] or None.

    ``causal``: the new positions are the last ones of S and each sees itself and earlier ones.
    """

    keys: Tensor
    values: Tensor
    mask: Tensor | None
    causal: bool


class CacheView(Protocol):
    """One forward pass's access to a cache."""

    def append(self, layer: int, keys: Tensor, values: Tensor) -> Attended:
        """Store keys/values [B, kv_heads, T, head_dim] of the new positions."""


class SlotCache:
    """The talker's cache: ``slots`` sequences of at most ``max_len`` positions.

    Memory: 2 × layers × slots × kv_heads × max_len × head_dim elements, zeroed: a masked row
    that held NaN would still poison the weighted sum (0 × NaN). For the same reason a slot is zeroed
    after what a new sequence brings: a recording may have made the one before NaN.
    """

    def __init__(
        self,
        layers: int,
        slots: int,
        kv_heads: int,
        max_len: int,
        head_dim: int,
        device: torch.device,
        dtype: torch.dtype,
    ):
        shape = (layers, slots, kv_heads, max_len, head_dim)
        self.keys = torch.zeros(shape, device=device, dtype=dtype)
        self.values = torch.zeros(shape, device=device, dtype=dtype)
        self.max_len = max_len

    def move(self, source: int, target: int, length: int) -> None:
        """Copy the first ``length`` positions of one slot over another, zeros after them."""
        for kept in (self.keys, self.values):
            kept[:, target, :, :length] = kept[:, source, :, :length]
            kept[:, target, :, length:] = 0


class PrefillView:
    """A prompt written to one slot, zeros after it; it attends only to itself, causally."""

    def __init__(self, cache: SlotCache, slot: int):
        self._cache, self._slot = cache, slot

    def append(self, layer: int, keys: Tensor, values: Tensor) -> Attended:
        """keys/values [1, kv_heads, T, head_dim]."""
        length = keys.shape[2]
        for kept, new in ((self._cache.keys, keys), (self._cache.values, values)):
            kept[layer, self._slot, :, :length] = new[0]
            if layer == 0:  # of all layers at once
                kept[:, self._slot, :, length:] = 0
        return Attended(keys, values, None, causal=True)


class WholeView:
    """A whole sequence in one pass, nothing kept: causal attention over the new positions."""

    def append(self, layer: int, keys: Tensor, values: Tensor) -> Attended:
        """keys/values [B, kv_heads, T, head_dim]."""
        return Attended(keys, values, None, causal=True)


class DecodeView:
    """One new position for each row, after ``lengths`` [rows] earlier ones.

    ``keys``, ``values`` [layers, rows, kv_heads, span, head_dim]: the part of a :class:`SlotCache`
    that is read and written; the span is at least the longest length + 1. What is beyond a
    row's own length is masked.
    """

    def __init__(self, keys: Tensor, values: Tensor, lengths: Tensor):
        self._keys, self._values, self._lengths = keys, values, lengths
        self._rows = torch.arange(lengths.shape[0], device=lengths.device)
        span = torch.arange(keys.shape[3], device=lengths.device)
        self._mask = (span[None, :] <= lengths[:, None])[:, None, None, :]

    def append(self, layer: int, keys: Tensor, values: Tensor) -> Attended:
        """keys/values [rows, kv_heads, 1, head_dim]."""
        layer_keys, layer_values = self._keys[layer], self._values[layer]
        at = (self._rows, self._lengths)
        layer_keys.transpose(1, 2).index_put_(at, keys[:, :, 0])
        layer_values.transpose(1, 2).index_put_(at, values[:, :, 0])
        return Attended(layer_keys, layer_values, self._mask, causal=False)


class FrameCache:
    """The code predictor's cache: the positions of one frame, the same for every row.

    It is filled from position 0 again for every frame; :meth:`append` only ever returns
    positions written in this frame, so nothing of the frame before can be read.
    """

    def __init__(
        self,
        layers: int,
        rows: int,
        kv_heads: int,
        max_len: int,
        head_dim: int,
        device: torch.device,
        dtype: torch.dtype,
    ):
        shape = (layers, rows, kv_heads, max_len, head_dim)
        self._keys = torch.zeros(shape, device=device, dtype=dtype)
        self._values = torch.zeros(shape, device=device, dtype=dtype)
        self._position = 0

    def start(self, position: int) -> None:
        """Set the position of the next new key (0 at the beginning of a frame)."""
        self._position = position

    def append(self, layer: int, keys: Tensor, values: Tensor) -> Attended:
        """keys/values [B, kv_heads, T, head_dim] with B at most ``rows``."""
        count, length = keys.shape[0], keys.shape[2]
        end = self._position + length
        # not an assignment: a recording of it would hold for one number of rows only
        self._keys[layer, :count, :, self._position : end].copy_(keys)
        self._values[layer, :count, :, self._position : end].copy_(values)
        causal = bool(length > 1)
        return Attended(self._keys[layer, :count, :, :end], self._values[layer, :count, :, :end], None, causal)
