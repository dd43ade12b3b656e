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

from reference_impl.model.config import TransformerConfig
from reference_impl.model.kv_cache import Attended, CacheView


class FewOpsNorm:
    """RMSNorm in four operations: x / √(|x|² + size × eps) × (gain × √size).

    PyTorch's own takes a dozen on a CPU (2.13), where each costs more than its arithmetic.
    """

    def __init__(self, gain: Tensor, eps: float):
        size = gain.shape[-1]
        self._gain = gain * size**0.5
        self._floor = gain.new_tensor((size * eps) ** 0.5)

    def __call__(self, x: Tensor) -> Tensor:
        """Same shape as ``x``; the last dimension is ``size``."""
        return x / torch.hypot(torch.linalg.vector_norm(x, dim=-1, keepdim=True), self._floor) * self._gain


class RMSNorm(nn.Module):
    """x / rms(x) × weight over the last dimension; the mean is taken in float32 or wider."""

    def __init__(self, size: int, eps: float):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps
        self._few_ops: FewOpsNorm | None = None

    def prepare(self) -> None:
        """Choose how to compute; call after the weights are loaded and whenever they change or move."""
        few = counts_operations(self.weight)
        self._few_ops = FewOpsNorm(self.weight.detach(), self.eps) if few else None

    def forward(self, x: Tensor) -> Tensor:
        """Same shape as ``x``."""
        if self._few_ops is not None:
            return self._few_ops(x)
        if x.dtype == torch.float32:
            return F.rms_norm(x, (x.shape[-1],), self.weight, self.eps)
        wide = x.float()
        wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)
        return wide.to(x.dtype) * self.weight


def counts_operations(weight: Tensor) -> bool:
    """Whether the number of operations, not the device, sets the pace: in float32 on a CPU."""
    return weight.device.type == "cpu" and weight.dtype == torch.float32


class RotaryTable(nn.Module):
    """cos and sin of every position up to ``max_positions`` [max_positions, head_dim].

    Frequencies theta^(-2i/head_dim); the table repeats them for the two halves of a head, as
    the rotate-half layout wants. Computed in float32. ``table`` [max_positions, 2, head_dim] holds
    cos, and sin with the sign that its half of a head takes: one look-up a step.
    """

    table: Tensor

    def __init__(self, head_dim: int, theta: float, max_positions: int):
        super().__init__()
        self._head_dim, self._theta = head_dim, theta
        self.register_buffer("table", torch.empty(max_positions, 2, head_dim), persistent=False)
        self.fill()

    @property
    def cos(self) -> Tensor:
        """[max_positions, head_dim], contiguous: kernels index it."""
        return self.table[:, 0].contiguous()

    @property
    def sin(self) -> Tensor:
        """[max_positions, head_dim], without the sign."""
        half = self._head_dim // 2
        return torch.cat([-self.table[:, 1, :half], self.table[:, 1, half:]], dim=-1)

    def fill(self) -> None:
        """Compute the table, on the CPU whatever the module's device; needed again after ``to_empty``."""
        if self.table.is_meta:
            return
        exponent = torch.arange(0, self._head_dim, 2, dtype=torch.float32) / self._head_dim
        angle = torch.arange(len(self.table), dtype=torch.float32)[:, None] * self._theta**-exponent
        cos, sin = angle.cos(), angle.sin()
        self.table.copy_(torch.stack([torch.cat([cos, cos], dim=-1), torch.cat([-sin, sin], dim=-1)], dim=1))

    def forward(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """positions [..., T] -> cos, signed sin [..., T, 1, head_dim] (broadcast over heads)."""
        return self.table[positions].unsqueeze(-3).unbind(-2)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding of x [..., T, heads, head_dim]: the halves of a head are swapped; ``sin`` has their sign."""
    return torch.addcmul(x * cos, x.roll(x.shape[-1] // 2, dims=-1), sin)


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
        self._few_ops: FewOpsNorm | None = None

    def prepare(self) -> None:
        """Join the norms of query and key where that saves operations; call after the weights are loaded."""
        query, key = self.q_norm.weight.detach(), self.k_norm.weight.detach()
        self._few_ops = None
        if counts_operations(query):
            gains = torch.cat([query.expand(self.heads, -1), key.expand(self.kv_heads, -1)])
            self._few_ops = FewOpsNorm(gains, self.q_norm.eps)

    def _normalised(self, heads: Tensor) -> Tensor:
        """Queries and keys [B, T, heads + kv_heads, head_dim], each with its norm."""
        if self._few_ops is not None:
            return self._few_ops(heads)
        query, key = heads.split([self.heads, self.kv_heads], dim=2)
        return torch.cat([self.q_norm(query), self.k_norm(key)], dim=2)

    def forward(self, x: Tensor, rope: tuple[Tensor, Tensor], view: CacheView, layer: int) -> Tensor:
        """x [B, T, hidden]; rope cos/sin [B or 1, T, 1, head_dim]."""
        batch, length, _ = x.shape
        qkv = self.qkv_proj(self.input_layernorm(x)).view(batch, length, -1, self.head_dim)
        heads, value = qkv.split([self.heads + self.kv_heads, self.kv_heads], dim=2)
        query, key = rotate(self._normalised(heads), *rope).split([self.heads, self.kv_heads], dim=2)
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


def prepare_layers(module: nn.Module) -> None:
    """Choose for every layer in ``module`` how to compute; call after the weights are loaded."""
    for part in module.modules():
        if isinstance(part, RMSNorm | DecoderLayer):
            part.prepare()
        elif isinstance(part, nn.Linear) and counts_operations(part.weight):
            part.weight.data = by_columns(part.weight.data)


def by_columns(matrices: Tensor) -> Tensor:
    """The same matrices [..., out, in], each column in one piece of memory: a CPU takes one row 2.2 × as fast."""
    return matrices.transpose(-2, -1).contiguous().transpose(-2, -1)
