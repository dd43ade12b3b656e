"""Causal building blocks of Code2Wav, each able to run a whole sequence or to continue from a state.

A block that looks back owns named tensors in a :class:`StreamState`. Without a state it
starts from zeros, which is what a whole-sequence call does; with one it starts where the
stream stopped and leaves its new history there. Both run the same lines, so a streamed
sample differs from a whole-sequence one by rounding only.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from reference_impl.model.config import Code2WavConfig
from reference_impl.model.layers import RMSNorm, RotaryTable, counts_operations, rotate


class StreamState:
    """Histories of ``slots`` concurrent streams: ``tensors[name]`` [slots, ...], ``frames`` [slots].

    ``rows`` selects the streams of the current call: a slice (views, no copy) or an index
    tensor (gathered and scattered). ``frames`` counts the codec frames already decoded.
    ``short``: the call is one of few frames on a CPU, for which PyTorch's convolutions are slow.
    """

    def __init__(self, tensors: dict[str, Tensor], frames: Tensor, rows: slice | Tensor = slice(None)):
        self.tensors, self.frames, self.rows = tensors, frames, rows
        self.short = False

    def read(self, name: str) -> Tensor:
        """The selected streams' history."""
        return self.tensors[name][self.rows]

    def write(self, name: str, value: Tensor) -> None:
        """Replace the selected streams' history."""
        if isinstance(self.rows, slice):
            self.tensors[name][self.rows] = value
        else:
            self.tensors[name].index_copy_(0, self.rows, value)

    def reset(self, slot: int) -> None:
        """Forget everything of one stream."""
        for tensor in self.tensors.values():
            tensor[slot].zero_()
        self.frames[slot] = 0


class CausalConv(nn.Module):
    """Conv1d that sees (kernel - 1) × dilation earlier inputs and none later."""

    name: str = ""

    def __init__(self, inputs: int, outputs: int, kernel: int, dilation: int = 1, groups: int = 1):
        super().__init__()
        self.conv = nn.Conv1d(inputs, outputs, kernel, dilation=dilation, groups=groups)
        self.history = (kernel - 1) * dilation
        self.taps: Tensor | None = None

    def prepare(self) -> None:
        """Lay out the kernel by position [kernel, outputs, inputs] where :meth:`_by_taps` is used."""
        weight = self.conv.weight.detach()
        self.taps = weight.permute(2, 0, 1).contiguous() if counts_operations(weight) else None

    def state_shape(self) -> tuple[int, ...]:
        """Shape of one stream's history."""
        return (self.conv.in_channels, self.history)

    def forward(self, x: Tensor, state: StreamState | None) -> Tensor:
        """[B, inputs, T] -> [B, outputs, T]."""
        if self.history == 0:
            return self.conv(x) if self.taps is None else self._by_taps(x)
        if state is None:
            return self.conv(F.pad(x, (self.history, 0)))
        x = torch.cat([state.read(self.name), x], dim=-1)
        state.write(self.name, x[..., x.shape[-1] - self.history :])
        return self._by_taps(x) if state.short else self.conv(x)

    def _by_taps(self, x: Tensor) -> Tensor:
        """The convolution as a sum over the kernel's positions: half the time of PyTorch's for few frames."""
        conv, length = self.conv, x.shape[-1] - self.history
        (dilation,) = conv.dilation
        shifted = [x[..., start : start + length] for start in range(0, self.history + 1, dilation)]
        if conv.groups > 1:  # one channel each
            return (torch.stack(shifted, dim=-1) * conv.weight).sum(-1) + conv.bias[:, None]
        y = conv.bias[:, None]
        for tap, part in zip(self.taps.unbind(), shifted, strict=True):
            y = torch.baddbmm(y, tap.expand(len(x), -1, -1), part)
        return y


class CausalTransposedConv(nn.Module):
    """Transposed convolution, stride s, whose last kernel - s output samples belong to the next input.

    A whole-sequence call drops them; a stream keeps them (before the bias) and adds them to
    the beginning of its next output. Output length is s × input length.
    """

    name: str = ""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int):
        super().__init__()
        self.conv = nn.ConvTranspose1d(inputs, outputs, kernel, stride=stride)
        self.overlap = kernel - stride

    def state_shape(self) -> tuple[int, ...]:
        """Shape of one stream's pending overlap."""
        return (self.conv.out_channels, self.overlap)

    def forward(self, x: Tensor, state: StreamState | None) -> Tensor:
        """[B, inputs, T] -> [B, outputs, stride × T]."""
        length = x.shape[-1] * self.conv.stride[0]
        if state is None or self.overlap == 0:
            return self.conv(x)[..., :length]
        y = self._by_taps(x) if state.short else F.conv_transpose1d(x, self.conv.weight, None, stride=self.conv.stride)
        y[..., : self.overlap] += state.read(self.name)
        state.write(self.name, y[..., length:])
        return y[..., :length] + self.conv.bias[:, None]

    def _by_taps(self, x: Tensor) -> Tensor:
        """[B, inputs, T] -> [B, outputs, kernel + stride × (T - 1)]: every input's contribution, then their sum."""
        (batch, _, length), (inputs, outputs, kernel), stride = x.shape, self.conv.weight.shape, self.conv.stride[0]
        parts = (x.transpose(1, 2) @ self.conv.weight.view(inputs, outputs * kernel)).view(batch, length, outputs, -1)
        y = parts.new_zeros(batch, outputs, length + kernel // stride - 1, stride)
        for start in range(kernel // stride):
            y[:, :, start : start + length] += parts[..., start * stride : (start + 1) * stride].transpose(1, 2)
        return y.flatten(2)


class SnakeBeta(nn.Module):
    """y = x + sin²(x · exp(α)) / (exp(β) + 1e-9), α and β per channel."""

    frequency: Tensor
    gain: Tensor

    def __init__(self, channels: int):
        super().__init__()
        self.alpha = nn.Parameter(torch.zeros(channels))
        self.beta = nn.Parameter(torch.zeros(channels))

    def prepare(self) -> None:
        """Fold exp(α) and 1 / (exp(β) + 1e-9) into buffers; call after the weights are loaded."""
        self.register_buffer("frequency", self.alpha.detach().exp()[:, None], persistent=False)
        self.register_buffer("gain", (1.0 / (self.beta.detach().exp() + 1e-9))[:, None], persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """[B, channels, T], same shape out."""
        wave = (x * self.frequency).sin_()
        return torch.addcmul(x, wave.square_(), self.gain)


class ConvNeXtBlock(nn.Module):
    """Depthwise causal conv, LayerNorm, two linear layers with GELU, a gain per channel, residual."""

    def __init__(self, channels: int):
        super().__init__()
        self.dwconv = CausalConv(channels, channels, kernel=7, groups=channels)
        self.norm = nn.LayerNorm(channels, eps=1e-6)
        self.pwconv1 = nn.Linear(channels, 4 * channels)
        self.pwconv2 = nn.Linear(4 * channels, channels)
        self.gamma = nn.Parameter(torch.ones(channels))

    def forward(self, x: Tensor, state: StreamState | None) -> Tensor:
        """[B, channels, T], same shape out."""
        y = self.norm(self.dwconv(x, state).transpose(1, 2))
        y = self.gamma * self.pwconv2(F.gelu(self.pwconv1(y)))
        return x + y.transpose(1, 2)


class WindowLayer(nn.Module):
    """A transformer layer with LayerScale whose positions see themselves and ``window`` - 1 earlier ones."""

    name: str = ""

    def __init__(self, config: Code2WavConfig):
        super().__init__()
        self.heads, self.head_dim, self.window = config.num_heads, config.head_dim, config.sliding_window
        hidden, width = config.hidden_size, config.num_heads * config.head_dim
        self.input_layernorm = RMSNorm(hidden, config.rms_norm_eps)
        self.qkv_proj = nn.Linear(hidden, 3 * width, bias=False)
        self.o_proj = nn.Linear(width, hidden, bias=False)
        self.attention_scale = nn.Parameter(torch.ones(hidden))
        self.post_attention_layernorm = RMSNorm(hidden, config.rms_norm_eps)
        self.gate_up_proj = nn.Linear(hidden, 2 * config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, hidden, bias=False)
        self.mlp_scale = nn.Parameter(torch.ones(hidden))

    def state_shape(self) -> tuple[int, ...]:
        """Shape of one stream's keys and values."""
        return (2, self.heads, self.window - 1, self.head_dim)

    def forward(self, x: Tensor, rope: tuple[Tensor, Tensor], mask: Tensor, state: StreamState | None) -> Tensor:
        """x [B, T, hidden]; rope [B or 1, T, 1, head_dim]; mask boolean [B or 1, 1, T, S].

        S is T, and window - 1 more with a state.
        """
        batch, length, _ = x.shape
        qkv = self.qkv_proj(self.input_layernorm(x)).view(batch, length, 3, self.heads, self.head_dim)
        query, key = rotate(qkv[:, :, 0], *rope), rotate(qkv[:, :, 1], *rope)
        pair = torch.stack([key, qkv[:, :, 2]], dim=1).transpose(2, 3)  # [B, 2, heads, T, head_dim]
        if state is not None:
            pair = torch.cat([state.read(self.name), pair], dim=3)
            state.write(self.name, pair[:, :, :, pair.shape[3] - (self.window - 1) :])
        out = F.scaled_dot_product_attention(query.transpose(1, 2), pair[:, 0], pair[:, 1], attn_mask=mask)
        x = x + self.attention_scale * self.o_proj(out.transpose(1, 2).reshape(batch, length, -1))
        gate, up = self.gate_up_proj(self.post_attention_layernorm(x)).chunk(2, dim=-1)
        return x + self.mlp_scale * self.down_proj(F.silu(gate) * up)


class WindowTransformer(nn.Module):
    """Projection in, sliding-window layers, norm, projection out (no residual around the stack)."""

    def __init__(self, config: Code2WavConfig, max_frames: int):
        super().__init__()
        self.window = config.sliding_window
        self.input_proj = nn.Linear(config.latent_dim, config.hidden_size)
        self.layers = nn.ModuleList(WindowLayer(config) for _ in range(config.num_layers))
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.output_proj = nn.Linear(config.hidden_size, config.latent_dim)
        self.rotary = RotaryTable(config.head_dim, config.rope_theta, max_frames)

    def forward(self, x: Tensor, state: StreamState | None) -> Tensor:
        """[B, T, latent] -> [B, T, latent]. Queries at absolute frames; a key counts if 0 <= distance < window."""
        length = x.shape[1]
        steps = torch.arange(length, device=x.device)
        if state is None:
            queries, keys = steps[None], steps[None]
        else:
            queries = state.frames[state.rows][:, None] + steps
            past = torch.arange(1 - self.window, length, device=x.device)
            keys = state.frames[state.rows][:, None] + past
        distance = queries[:, :, None] - keys[:, None, :]
        mask = ((distance >= 0) & (distance < self.window) & (keys >= 0)[:, None, :])[:, None]
        cos, sin = self.rotary(queries)
        rope = (cos.to(x.dtype), sin.to(x.dtype))
        x = self.input_proj(x)
        for layer in self.layers:
            x = layer(x, rope, mask, state)
        return self.output_proj(self.norm(x))
