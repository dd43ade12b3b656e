"""The Qwen3-style decoder stack shared by the talker and the code predictor.

Pre-norm residual layers: grouped-query attention with RMSNorm on each head's query and key
before the rotary embedding, then a SwiGLU feed-forward. No biases. The released tensors
``q_proj, k_proj, v_proj`` are stored here as one ``qkv_proj`` (rows in this order) and
``gate_proj, up_proj`` as one ``gate_up_proj``: one matrix product instead of three or two.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from reference_impl.config import TransformerConfig
from reference_impl.kv_cache import Attended, CacheView


class RMSNorm(nn.Module):
    """x / rms(x) × weight over the last dimension; the mean is taken in float32 or wider."""

    def __init__(self, size: int, eps: float):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Same shape as ``x``."""
        if x.dtype == torch.float32:
            return F.rms_norm(x, (x.shape[-1],), self.weight, self.eps)
        wide = x.float()
        wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)
        return wide.to(x.dtype) * self.weight


class RotaryTable(nn.Module):
    """cos and sin of every position up to ``max_positions`` [max_positions, head_dim].

    Frequencies theta^(-2i/head_dim); the table repeats them for the two halves of a head, as
    the rotate-half layout wants. Computed in float32.
    """

    cos: Tensor
    sin: Tensor

    def __init__(self, head_dim: int, theta: float, max_positions: int):
        super().__init__()
        self._head_dim, self._theta = head_dim, theta
        for name in ("cos", "sin"):
            self.register_buffer(name, torch.empty(max_positions, head_dim), persistent=False)
        self.fill()

    def fill(self) -> None:
        """Compute the table, on the CPU whatever the module's device; needed again after ``to_empty``."""
        if self.cos.is_meta:
            return
        exponent = torch.arange(0, self._head_dim, 2, dtype=torch.float32) / self._head_dim
        angle = torch.arange(len(self.cos), dtype=torch.float32)[:, None] * self._theta**-exponent
        angle = torch.cat([angle, angle], dim=-1)
        self.cos.copy_(angle.cos())
        self.sin.copy_(angle.sin())

    def forward(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """positions [..., T] -> cos, sin [..., T, 1, head_dim] (broadcast over heads)."""
        return self.cos[positions].unsqueeze(-2), self.sin[positions].unsqueeze(-2)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding of x [..., T, heads, head_dim], halves swapped with a sign."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], dim=-1) * sin


def attend(query: Tensor, seen: Attended) -> Tensor:
    """Softmax attention. query [B, T, heads, D] -> [B, T, heads × D].

    For one new position (T = 1) the query heads that share a key head become the rows of one
    small matrix, so that grouped-query attention needs neither copies nor a special kernel.
    """
    batch, length, heads, dim = query.shape
    kv_heads = seen.keys.shape[1]
    if length == 1:
        grouped = query.view(batch, kv_heads, heads // kv_heads, dim)
        out = F.scaled_dot_product_attention(grouped, seen.keys, seen.values, attn_mask=seen.mask)
        return out.reshape(batch, 1, heads * dim)
    out = F.scaled_dot_product_attention(
        query.transpose(1, 2), seen.keys, seen.values, attn_mask=seen.mask, is_causal=seen.causal, enable_gqa=True
    )
    return out.transpose(1, 2).reshape(batch, length, heads * dim)


class DecoderLayer(nn.Module):
    """x += o(attention(norm(x))); x += down(silu(gate(norm(x))) × up(norm(x)))."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = config.num_heads, config.num_kv_heads, config.head_dim
        hidden, eps = config.hidden_size, config.rms_norm_eps
        qkv_size = (config.num_heads + 2 * config.num_kv_heads) * config.head_dim
        self.input_layernorm = RMSNorm(hidden, eps)
        self.qkv_proj = nn.Linear(hidden, qkv_size, bias=False)
        self.q_norm = RMSNorm(config.head_dim, eps)
        self.k_norm = RMSNorm(config.head_dim, eps)
        self.o_proj = nn.Linear(config.num_heads * config.head_dim, hidden, bias=False)
        self.post_attention_layernorm = RMSNorm(hidden, eps)
        self.gate_up_proj = nn.Linear(hidden, 2 * config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, hidden, bias=False)

    def forward(self, x: Tensor, rope: tuple[Tensor, Tensor], view: CacheView, layer: int) -> Tensor:
        """x [B, T, hidden]; rope cos/sin [B or 1, T, 1, head_dim]."""
        batch, length, _ = x.shape
        qkv = self.qkv_proj(self.input_layernorm(x)).view(batch, length, -1, self.head_dim)
        query, key, value = qkv.split([self.heads, self.kv_heads, self.kv_heads], dim=2)
        query = rotate(self.q_norm(query), *rope)
        key = rotate(self.k_norm(key), *rope)
        seen = view.append(layer, key.transpose(1, 2), value.transpose(1, 2))
        x = x + self.o_proj(attend(query, seen))
        gate, up = self.gate_up_proj(self.post_attention_layernorm(x)).chunk(2, dim=-1)
        return x + self.down_proj(F.silu(gate) * up)


class TransformerStack(nn.Module):
    """The layers and the final norm."""

    def __init__(self, config: TransformerConfig, max_positions: int):
        super().__init__()
        self.config = config
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.num_layers))
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.rotary = RotaryTable(config.head_dim, config.rope_theta, max_positions)

    def forward(self, x: Tensor, positions: Tensor, view: CacheView) -> Tensor:
        """x [B, T, hidden], positions [B or 1, T] -> hidden states after the final norm [B, T, hidden]."""
        cos, sin = self.rotary(positions)
        rope = (cos.to(x.dtype), sin.to(x.dtype))
        for index, layer in enumerate(self.layers):
            x = layer(x, rope, view, index)
        return self.norm(x)
