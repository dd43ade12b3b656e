"""Prompts through the talker in CUDA graphs of a few fixed lengths.

A prompt is padded on the right up to the next length. What comes after its end cannot be
seen by it (attention is causal), and the keys and values it leaves in the cache are
overwritten by the frames that follow before anything may look at them.

The products are PyTorch's; a layer has nine kernels, so that a short prompt is not a long
chain of small ones.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor

from reference_impl.engine.cuda.gating import gate
from reference_impl.loading.checkpoint import Model
from reference_impl.model.kv_cache import SlotCache
from reference_impl.model.transfers import to_device

LENGTHS = (32, 64, 128, 256)
COUNTS = (1, 2, 4, 8)
MOST = max(COUNTS)


@triton.jit
def prompt_heads_kernel(
    qkv, q_gain, k_gain, table, keys, values, slots, begin, length, most, slot_stride, head_stride, eps,
    HEADS: tl.constexpr, KV_HEADS: tl.constexpr, ALL_HEADS: tl.constexpr, DIM: tl.constexpr,
):  # fmt: skip
    """See :func:`prompt_heads`. Program (position, prompt)."""
    position, prompt = tl.program_id(0), tl.program_id(1)
    head = tl.arange(0, ALL_HEADS)[:, None]
    lane = tl.arange(0, DIM // 2)[None, :]
    is_query, is_value = head < HEADS, head >= HEADS + KV_HEADS
    inside = head < HEADS + 2 * KV_HEADS
    at = qkv + (prompt * length + position).to(tl.int64) * ((HEADS + 2 * KV_HEADS) * DIM) + head * DIM + lane
    raw1 = tl.load(at, mask=inside, other=0.0)
    raw2 = tl.load(at + DIM // 2, mask=inside, other=0.0)
    first, second = raw1.to(tl.float32), raw2.to(tl.float32)
    scale = tl.rsqrt((tl.sum(first * first, 1) + tl.sum(second * second, 1)) / DIM + eps)[:, None]
    gain1 = tl.where(is_query, tl.load(q_gain + lane), tl.load(k_gain + lane)).to(tl.float32)
    gain2 = tl.where(is_query, tl.load(q_gain + DIM // 2 + lane), tl.load(k_gain + DIM // 2 + lane)).to(tl.float32)
    turn = table + tl.minimum(tl.load(begin + prompt) + position, most - 1) * (2 * DIM) + lane
    # the second half of the table repeats the first; the sine of the first half has a minus
    cos = tl.load(turn).to(raw1.dtype).to(tl.float32)
    sin = -tl.load(turn + DIM).to(raw1.dtype).to(tl.float32)
    first = first * scale * gain1
    second = second * scale * gain2
    turned1 = (first * cos - second * sin).to(raw1.dtype)
    turned2 = (second * cos + first * sin).to(raw1.dtype)
    tl.store(at, turned1, mask=inside & (is_value == 0))
    tl.store(at + DIM // 2, turned2, mask=inside & (is_value == 0))
    slot = tl.load(slots + prompt) * slot_stride + position * DIM + lane
    key_at = keys + slot + (head - HEADS) * head_stride
    is_key = (is_query == 0) & (is_value == 0)
    tl.store(key_at, turned1, mask=is_key)
    tl.store(key_at + DIM // 2, turned2, mask=is_key)
    value_at = values + slot + (head - HEADS - KV_HEADS) * head_stride
    tl.store(value_at, raw1, mask=is_value & inside)
    tl.store(value_at + DIM // 2, raw2, mask=is_value & inside)


def prompt_heads(
    qkv: Tensor, norms: tuple[Tensor, Tensor], table: Tensor, keys: Tensor, values: Tensor, slots: Tensor,
    begin: Tensor, eps: float,
) -> None:  # fmt: skip
    """Norm and rotary embedding of the queries and keys in ``qkv``, in place; keys and values into the cache.

    qkv [prompts, length, (heads + 2 kv_heads) × D]; norms: gains of query and key [D]; table
    [positions, 2, D] float32 as of :class:`reference_impl.model.layers.RotaryTable`; keys/values [all slots,
    kv_heads, max_len, D]; slots [prompts]: where each goes; begin [prompts]: the first rotary position.
    """
    count, length, width = qkv.shape
    _, kv_heads, _, dim = keys.shape
    heads = width // dim - 2 * kv_heads
    prompt_heads_kernel[(length, count)](
        qkv, *norms, table, keys, values, slots, begin, length, len(table), keys.stride(0), keys.stride(1), eps,
        HEADS=heads, KV_HEADS=kv_heads, ALL_HEADS=triton.next_power_of_2(heads + 2 * kv_heads), DIM=dim,
    )  # fmt: skip


class PromptGraphs:
    """One graph for each of COUNTS prompts of each of LENGTHS that fits into ``cache``."""

    def __init__(self, model: Model, cache: SlotCache, hidden: Tensor, stream: torch.cuda.Stream):
        self._talker, self._cache, self._hidden = model.talker, cache, hidden
        self.longest = max((length for length in LENGTHS if length <= cache.max_len), default=0)
        self._embeds = hidden.new_zeros(MOST * self.longest, hidden.shape[1])
        # of each prompt: its slot, the index of its last position, and that position's rotary number
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

    def padded(self, length: int) -> int:
        """The positions that a prompt of ``length`` takes; at most ``longest``."""
        return min(size for size in LENGTHS if size >= length)

    def prefill(self, prompts: list[Tensor], positions: list[int], slots: list[int]) -> None:
        """Up to MOST prompts [S, H], S at most ``longest``, whose positions begin at ``positions``.

        Their keys and values go to ``slots``, their last states to these rows of ``hidden``.
        """
        count = min(size for size in COUNTS if size >= len(prompts))
        length = self.padded(max(map(len, prompts)))
        # what is missing to a size of COUNTS is the last prompt again: the same values to the same places
        repeats = [*range(len(prompts)), *[len(prompts) - 1] * (count - len(prompts))]
        embeds = self._embeds[: count * length].view(count, length, -1)
        embeds.zero_()
        for place, index in enumerate(repeats):
            embeds[place, : len(prompts[index])] = prompts[index]
        where = [[slots[i] for i in repeats], [len(prompts[i]) - 1 for i in repeats], [positions[i] for i in repeats]]
        self._where[:, :count] = to_device(where, self._where.device)
        self._graphs[count, length].replay()

    def _run(self, count: int, length: int) -> None:
        stack, cache = self._talker.stack, self._cache
        slots, last, begin = self._where[:, :count]
        table, eps = stack.rotary.table, stack.config.rms_norm_eps
        x = self._embeds[: count * length].clone()
        for index, layer in enumerate(stack.layers):
            qkv = layer.qkv_proj(F.rms_norm(x, x.shape[1:], layer.input_layernorm.weight, eps))
            qkv = qkv.view(count, length, -1)
            norms = (layer.q_norm.weight, layer.k_norm.weight)
            prompt_heads(qkv, norms, table, cache.keys[index], cache.values[index], slots, begin, eps)
            split = qkv.view(count, length, -1, layer.head_dim).transpose(1, 2)
            query, key, value = split.split([layer.heads, layer.kv_heads, layer.kv_heads], dim=1)
            out = F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
            x.addmm_(out.transpose(1, 2).reshape(count * length, -1), layer.o_proj.weight.T)
            both = layer.gate_up_proj(F.rms_norm(x, x.shape[1:], layer.post_attention_layernorm.weight, eps))
            x.addmm_(gate(both), layer.down_proj.weight.T)
        ends = x.view(count, length, -1)[torch.arange(count, device=x.device), last]
        self._hidden.index_copy_(0, slots, stack.norm(ends))
