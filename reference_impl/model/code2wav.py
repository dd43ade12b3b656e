"""Code2Wav: 16 codes a frame in, 1920 samples a frame out, strictly causal.

Stages: split RVQ dequantisation -> causal conv -> sliding-window transformer -> two
upsampling stages (12.5 -> 50 Hz) -> SnakeBeta convolutional decoder (50 Hz -> 24 kHz).
:meth:`Code2Wav.decode` takes a whole sequence; :meth:`Code2Wav.push` continues streams.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from reference_impl.model.code2wav_layers import (
    CausalConv,
    CausalTransposedConv,
    ConvNeXtBlock,
    SnakeBeta,
    StreamState,
    WindowLayer,
    WindowTransformer,
)
from reference_impl.model.config import Code2WavConfig
from reference_impl.model.layers import counts_operations
from reference_impl.model.recording import Recording

SHORT_FRAMES = 3
"""Up to this many frames a call counts as short; see :class:`StreamState`."""


class SplitQuantizer(nn.Module):
    """Codes to vectors: codebook 0 and the sum of codebooks 1..15, each through its own projection.

    ``codebooks`` [16, size, dim / 2]; the released form (embedding sum and cluster usage) is
    divided out when a checkpoint is loaded.
    """

    def __init__(self, config: Code2WavConfig):
        super().__init__()
        inner = config.codebook_dim // 2
        self.codebooks = nn.Parameter(torch.zeros(config.num_code_groups, config.codebook_size, inner))
        self.first_proj = nn.Linear(inner, config.codebook_dim, bias=False)
        self.rest_proj = nn.Linear(inner, config.codebook_dim, bias=False)

    def forward(self, codes: Tensor) -> Tensor:
        """codes [B, 16, T] -> [B, T, codebook_dim]."""
        batch, groups, length = codes.shape
        size = self.codebooks.shape[1]
        offsets = torch.arange(groups - 1, device=codes.device) * size
        flat = (codes[:, 1:].transpose(1, 2) + offsets).reshape(batch * length, groups - 1)
        rest = nn.functional.embedding_bag(flat, self.codebooks[1:].flatten(0, 1), mode="sum")
        return self.first_proj(self.codebooks[0][codes[:, 0]]) + self.rest_proj(rest).view(batch, length, -1)


class UpsampleStage(nn.Module):
    """Transposed convolution by ``ratio``, then a ConvNeXt block."""

    def __init__(self, channels: int, ratio: int):
        super().__init__()
        self.transposed = CausalTransposedConv(channels, channels, kernel=ratio, stride=ratio)
        self.block = ConvNeXtBlock(channels)

    def forward(self, x: Tensor, state: StreamState | None) -> Tensor:
        """[B, channels, T] -> [B, channels, ratio × T]."""
        return self.block(self.transposed(x, state), state)


class ResidualUnit(nn.Module):
    """x + conv1(snake(conv7(snake(x))))."""

    def __init__(self, channels: int, dilation: int):
        super().__init__()
        self.act1 = SnakeBeta(channels)
        self.conv1 = CausalConv(channels, channels, kernel=7, dilation=dilation)
        self.act2 = SnakeBeta(channels)
        self.conv2 = CausalConv(channels, channels, kernel=1)

    def forward(self, x: Tensor, state: StreamState | None) -> Tensor:
        """[B, channels, T], same shape out."""
        return x + self.conv2(self.act2(self.conv1(self.act1(x), state)), state)


class DecoderBlock(nn.Module):
    """SnakeBeta, transposed convolution by ``rate``, three residual units of dilation 1, 3, 9."""

    def __init__(self, inputs: int, outputs: int, rate: int):
        super().__init__()
        self.act = SnakeBeta(inputs)
        self.transposed = CausalTransposedConv(inputs, outputs, kernel=2 * rate, stride=rate)
        self.units = nn.ModuleList(ResidualUnit(outputs, dilation) for dilation in (1, 3, 9))

    def forward(self, x: Tensor, state: StreamState | None) -> Tensor:
        """[B, inputs, T] -> [B, outputs, rate × T]."""
        x = self.transposed(self.act(x), state)
        for unit in self.units:
            x = unit(x, state)
        return x


class Code2Wav(nn.Module):
    """See the module docstring. ``max_frames`` bounds a stream's length (rotary table)."""

    def __init__(self, config: Code2WavConfig, max_frames: int):
        super().__init__()
        self.config = config
        self.quantizer = SplitQuantizer(config)
        self.pre_conv = CausalConv(config.codebook_dim, config.latent_dim, kernel=3)
        self.transformer = WindowTransformer(config, max_frames)
        self.upsample = nn.ModuleList(UpsampleStage(config.latent_dim, r) for r in config.upsampling_ratios)
        self.input_conv = CausalConv(config.latent_dim, config.decoder_dim, kernel=7)
        widths = [config.decoder_dim >> i for i in range(len(config.upsample_rates) + 1)]
        self.blocks = nn.ModuleList(
            DecoderBlock(widths[i], widths[i + 1], rate) for i, rate in enumerate(config.upsample_rates)
        )
        self.output_act = SnakeBeta(widths[-1])
        self.output_conv = CausalConv(widths[-1], 1, kernel=7)
        for name, module in self.named_modules():
            if isinstance(module, CausalConv | CausalTransposedConv | WindowLayer):
                module.name = name
        self._recordings: dict[bool, Recording] = {}

    def prepare(self) -> None:
        """Compute what is derived from the weights; call after they are loaded."""
        for module in self.modules():
            if isinstance(module, SnakeBeta | CausalConv):
                module.prepare()

    def new_state(self, slots: int) -> StreamState:
        """Zeroed histories for ``slots`` streams."""
        like = self.pre_conv.conv.weight
        tensors = {
            module.name: torch.zeros((slots, *module.state_shape()), device=like.device, dtype=like.dtype)
            for module in self.modules()
            if isinstance(module, CausalConv | CausalTransposedConv | WindowLayer) and 0 not in module.state_shape()
        }
        return StreamState(tensors, torch.zeros(slots, dtype=torch.long, device=like.device))

    def decode(self, codes: Tensor) -> Tensor:
        """A whole sequence: codes [B, 16, T] -> waveform [B, 1920 × T] in [-1, 1]."""
        return self._forward(codes, None)

    def push(self, codes: Tensor, state: StreamState, rows: slice | Tensor) -> Tensor:
        """The next frames of the streams ``rows``: codes [B, 16, T] -> waveform [B, 1920 × T]."""
        state.rows = rows
        state.short = counts_operations(self.pre_conv.conv.weight) and codes.shape[-1] <= SHORT_FRAMES
        if self._recordings:
            if isinstance(rows, slice):
                rows = torch.arange(rows.start, rows.stop)
            wave = self._recordings[state.short](codes, rows, state.frames, *state.tensors.values())
        else:
            wave = self._forward(codes, state)
        state.frames[rows] += codes.shape[-1]
        return wave

    def record(self) -> None:
        """Replay :meth:`push` from now on instead of running it; see :class:`Recording`."""
        names = tuple(self.new_state(0).tensors)

        def recorded(short: bool) -> Recording:
            def push(codes: Tensor, rows: Tensor, frames: Tensor, *tensors: Tensor) -> Tensor:
                state = StreamState(dict(zip(names, tensors, strict=True)), frames, rows)
                state.short = short
                return self._forward(codes, state)

            return Recording(push)

        self._recordings = {short: recorded(short) for short in (True, False)}

    def _forward(self, codes: Tensor, state: StreamState | None) -> Tensor:
        x = self.quantizer(codes).transpose(1, 2)
        x = self.pre_conv(x, state).transpose(1, 2)
        x = self.transformer(x, state).transpose(1, 2)
        for stage in self.upsample:
            x = stage(x, state)
        x = self.input_conv(x, state)
        for block in self.blocks:
            x = block(x, state)
        return self.output_conv(self.output_act(x), state)[:, 0].clamp(-1, 1)
