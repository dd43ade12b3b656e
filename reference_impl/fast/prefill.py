"""Prompts through the talker in CUDA graphs of a few fixed lengths.

A prompt is padded on the right up to the next length. What stands behind its end cannot be
seen by it (attention is causal), and the keys and values it leaves in the cache are
overwritten by the frames that follow before anything may look at them.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from reference_impl.checkpoint import Model
from reference_impl.kv_cache import SlotCache
from reference_impl.layers import rotate
from reference_impl.transfers import to_device

LENGTHS = (32, 64, 128, 256)
COUNTS = (1, 2, 4, 8)
MOST = max(COUNTS)


class PromptGraphs:
    """One graph for each of COUNTS prompts of each of LENGTHS that fits into ``cache``."""

    def __init__(self, model: Model, cache: SlotCache, hidden: Tensor, stream: torch.cuda.Stream):
        self._talker, self._cache, self._hidden = model.talker, cache, hidden
        self.longest = max((length for length in LENGTHS if length <= cache.max_len), default=0)
        self._embeds = hidden.new_zeros(MOST * self.longest, hidden.shape[1])
        # of each prompt: its row, the index of its last position, and that position's rotary number
        self._where = torch.zeros(3, MOST, dtype=torch.long, device=hidden.device)
        self._graphs: dict[tuple[int, int], torch.cuda.CUDAGraph] = {}
        pool = None
        for length in sorted((length for length in LENGTHS if length <= self.longest), reverse=True):
            for count in reversed(COUNTS):
                self._run(count, length)
                torch.cuda.synchronize()
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, pool=pool, stream=stream):
                    self._run(count, length)
                pool = graph.pool()
                self._graphs[count, length] = graph

    def prefill(self, prompts: list[Tensor], positions: list[int], rows: list[int]) -> None:
        """Up to MOST prompts [S, H], S at most ``longest``, whose positions begin at ``positions``.

        Their keys and values go to the slots ``rows``, their last states to these rows of ``hidden``.
        """
        count = min(size for size in COUNTS if size >= len(prompts))
        length = min(size for size in LENGTHS if size >= max(map(len, prompts)))
        # what is missing to a size of COUNTS is the last prompt again: the same values to the same places
        repeats = [*range(len(prompts)), *[len(prompts) - 1] * (count - len(prompts))]
        embeds = self._embeds[: count * length].view(count, length, -1)
        embeds.zero_()
        for place, index in enumerate(repeats):
            embeds[place, : len(prompts[index])] = prompts[index]
        where = [[rows[i] for i in repeats], [len(prompts[i]) - 1 for i in repeats], [positions[i] for i in repeats]]
        self._where[:, :count] = to_device(where, self._where.device)
        self._graphs[count, length].replay()

    def _run(self, count: int, length: int) -> None:
        stack, cache = self._talker.stack, self._cache
        rows, last, begin = self._where[:, :count]
        x = self._embeds[: count * length].view(count, length, -1)
        positions = begin[:, None] + torch.arange(length, device=x.device)
        cos, sin = stack.rotary(positions.clamp(max=cache.max_len - 1))
        rope = (cos.to(x.dtype), sin.to(x.dtype))
        for index, layer in enumerate(stack.layers):
            qkv = layer.qkv_proj(layer.input_layernorm(x)).view(count, length, -1, layer.head_dim)
            query, key, value = qkv.split([layer.heads, layer.kv_heads, layer.kv_heads], dim=2)
            query = rotate(layer.q_norm(query), *rope).transpose(1, 2)
            key = rotate(layer.k_norm(key), *rope).transpose(1, 2)
            value = value.transpose(1, 2)
            cache.keys[index, :, :, :length].index_copy_(0, rows, key)
            cache.values[index, :, :, :length].index_copy_(0, rows, value)
            out = F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
            x = x + layer.o_proj(out.transpose(1, 2).reshape(count, length, -1))
            gate, up = layer.gate_up_proj(layer.post_attention_layernorm(x)).chunk(2, dim=-1)
            x = x + layer.down_proj(F.silu(gate) * up)
        ends = x[torch.arange(count, device=x.device), last]
        self._hidden.index_copy_(0, rows, stack.norm(ends))
