"""The codec's encoder: 24 kHz samples in, 16 codes a frame out. Needed to clone a voice in context.

This is the encoder of Mimi (Défossez et al. 2024, arXiv 2410.00037): strided convolutions
(960×), a causal transformer, a last stride of 2, and a split residual quantiser. It runs in
float32, as it is stored.

The released configuration names a sliding window for the transformer. The official package
applies it only with flash attention and otherwise attends to everything before; so does this
code, which makes a difference for recordings longer than the window (10 s).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from reference_impl.model.config import CodecEncoderConfig
from reference_impl.model.layers import RotaryTable, rotate


class StridedConv(nn.Module):
    """Causal convolution that completes its last stride on the right. Output length ceil(T / stride)."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1, pad: str = "constant"):
        super().__init__()
        self.conv = nn.Conv1d(inputs, outputs, kernel, stride=stride, bias=pad == "constant")
        self._left, self._stride, self._pad = kernel - stride, stride, pad

    def forward(self, x: Tensor) -> Tensor:
        """[B, inputs, T] -> [B, outputs, ceil(T / stride)]."""
        return self.conv(F.pad(x, (self._left, -x.shape[-1] % self._stride), mode=self._pad))


class ResidualUnit(nn.Module):
    """x + conv2(elu(conv1(elu(x))))."""

    def __init__(self, channels: int, config: CodecEncoderConfig):
        super().__init__()
        inner = channels // config.compress
        self.conv1 = StridedConv(channels, inner, config.residual_kernel)
        self.conv2 = StridedConv(inner, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        """[B, channels, T], same shape out."""
        return x + self.conv2(F.elu(self.conv1(F.elu(x))))


class EncoderLayer(nn.Module):
    """A pre-norm transformer layer with LayerNorm, GELU and LayerScale."""

    def __init__(self, config: CodecEncoderConfig):
        super().__init__()
        self.heads, self.head_dim = config.num_heads, config.head_dim
        hidden, width = config.hidden_size, config.num_heads * config.head_dim
        self.input_layernorm = nn.LayerNorm(hidden, eps=config.norm_eps)
        self.qkv_proj = nn.Linear(hidden, 3 * width, bias=False)
        self.o_proj = nn.Linear(width, hidden, bias=False)
        self.attention_scale = nn.Parameter(torch.ones(hidden))
        self.post_attention_layernorm = nn.LayerNorm(hidden, eps=config.norm_eps)
        self.fc1 = nn.Linear(hidden, config.intermediate_size, bias=False)
        self.fc2 = nn.Linear(config.intermediate_size, hidden, bias=False)
        self.mlp_scale = nn.Parameter(torch.ones(hidden))

    def forward(self, x: Tensor, rope: tuple[Tensor, Tensor]) -> Tensor:
        """x [B, T, hidden]; rope [1, T, 1, head_dim]."""
        batch, length, _ = x.shape
        query, key, value = (
            self.qkv_proj(self.input_layernorm(x)).view(batch, length, 3, self.heads, self.head_dim).unbind(2)
        )
        query, key = rotate(query, *rope).transpose(1, 2), rotate(key, *rope).transpose(1, 2)
        out = F.scaled_dot_product_attention(query, key, value.transpose(1, 2), is_causal=True)
        x = x + self.attention_scale * self.o_proj(out.transpose(1, 2).reshape(batch, length, -1))
        return x + self.mlp_scale * self.fc2(F.gelu(self.fc1(self.post_attention_layernorm(x))))


class ResidualQuantizer(nn.Module):
    """A projection, then one codebook after the other, each for what the ones before left over."""

    def __init__(self, config: CodecEncoderConfig, books: int):
        super().__init__()
        self.input_proj = nn.Linear(config.hidden_size, config.codebook_dim, bias=False)
        self.codebooks = nn.Parameter(torch.zeros(books, config.codebook_size, config.codebook_dim))

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, hidden] -> codes [B, books, T]."""
        rest = self.input_proj(x)
        codes = []
        for book in self.codebooks:
            nearest = torch.cdist(rest, book[None]).argmin(dim=-1)
            rest = rest - book[nearest]
            codes.append(nearest)
        return torch.stack(codes, dim=1)


class CodecEncoder(nn.Module):
    """See the module docstring. ``max_samples`` bounds the rotary table."""

    def __init__(self, config: CodecEncoderConfig, max_samples: int):
        super().__init__()
        self.config = config
        widths = [config.num_filters << i for i in range(len(config.ratios) + 1)]
        self.input_conv = StridedConv(1, widths[0], config.kernel)
        self.units = nn.ModuleList(ResidualUnit(width, config) for width in widths[:-1])
        self.downs = nn.ModuleList(
            StridedConv(widths[i], widths[i + 1], 2 * ratio, ratio) for i, ratio in enumerate(config.ratios)
        )
        self.output_conv = StridedConv(widths[-1], config.hidden_size, config.last_kernel)
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.num_layers))
        stride = config.downsample_stride
        self.downsample = StridedConv(config.hidden_size, config.hidden_size, 2 * stride, stride, pad="replicate")
        self.semantic = ResidualQuantizer(config, config.num_semantic_books)
        self.acoustic = ResidualQuantizer(config, config.num_code_groups - config.num_semantic_books)
        hop = 1
        for ratio in config.ratios:
            hop *= ratio
        self.rotary = RotaryTable(config.head_dim, config.rope_theta, -(-max_samples // hop))

    def encode(self, samples: Tensor) -> Tensor:
        """Samples float32 [B, n] -> codes int64 [B, 16, ceil(n / 1920)]."""
        x = self.latents(samples)
        return torch.cat([self.semantic(x), self.acoustic(x)], dim=1)

    def latents(self, samples: Tensor) -> Tensor:
        """Samples float32 [B, n] -> what the quantiser sees [B, ceil(n / 1920), hidden]."""
        x = self.input_conv(samples[:, None])
        for unit, down in zip(self.units, self.downs, strict=True):
            x = down(F.elu(unit(x)))
        x = self.output_conv(F.elu(x)).transpose(1, 2)
        rope = self.rotary(torch.arange(x.shape[1], device=x.device)[None])
        for layer in self.layers:
            x = layer(x, rope)
        return self.downsample(x.transpose(1, 2)).transpose(1, 2)
