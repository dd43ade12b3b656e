"""The speaker encoder of the Base checkpoints: a recording in, one vector of the talker's width out.

ECAPA-TDNN (Desplanques et al., Interspeech 2020, arXiv 2005.07143) without batch norm: a
log-mel spectrogram, time-delay layers, Res2Net blocks with squeeze-excitation, attentive
statistics pooling. Attribute names are those of the released tensors. It runs in float32.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from reference_impl.model.config import SpeakerEncoderConfig

POWER_FLOOR, LOG_FLOOR, VARIANCE_FLOOR = 1e-9, 1e-5, 1e-12


def mel_filters(bands: int, fft_size: int, sample_rate_hz: int) -> Tensor:
    """Triangular filters float32 [bands, fft_size / 2 + 1] from 0 Hz to half the sample rate.

    Slaney's Auditory Toolbox (1998): the scale is linear (3 mel per 200 Hz) up to 1 kHz and
    logarithmic above (27 mel per factor 6.4); every filter has the area of its band.
    """

    def to_hz(mel: Tensor) -> Tensor:
        return torch.where(mel < 15, mel * 200 / 3, 1000 * torch.exp((mel - 15) * math.log(6.4) / 27))

    nyquist = sample_rate_hz / 2
    top = 15 + math.log(nyquist / 1000) * 27 / math.log(6.4) if nyquist >= 1000 else nyquist * 3 / 200
    edges = to_hz(torch.linspace(0, top, bands + 2, dtype=torch.float64))
    bins = torch.linspace(0, nyquist, fft_size // 2 + 1, dtype=torch.float64)
    low, centre, high = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    triangle = torch.minimum((bins - low) / (centre - low), (high - bins) / (high - centre)).clamp(min=0)
    return (triangle * 2 / (high - low)).float()


class TimeDelayLayer(nn.Module):
    """relu(conv(x)), length kept by reflection at both ends."""

    def __init__(self, inputs: int, outputs: int, kernel: int = 1, dilation: int = 1):
        super().__init__()
        self.conv = nn.Conv1d(inputs, outputs, kernel, dilation=dilation, padding="same", padding_mode="reflect")

    def forward(self, x: Tensor) -> Tensor:
        """[B, inputs, T] -> [B, outputs, T]."""
        return F.relu(self.conv(x))


class Res2NetBlock(nn.Module):
    """Channel groups in a cascade: each also sees the output of the one before; the first passes through."""

    def __init__(self, channels: int, scale: int, kernel: int, dilation: int):
        super().__init__()
        width = channels // scale
        self.scale = scale
        self.blocks = nn.ModuleList(TimeDelayLayer(width, width, kernel, dilation) for _ in range(scale - 1))

    def forward(self, x: Tensor) -> Tensor:
        """[B, channels, T], same shape out."""
        first, *rest = x.chunk(self.scale, dim=1)
        outputs = [first]
        for index, (block, part) in enumerate(zip(self.blocks, rest, strict=True)):
            outputs.append(block(part if index == 0 else part + outputs[-1]))
        return torch.cat(outputs, dim=1)


class SqueezeExcitation(nn.Module):
    """Scales every channel by a gate computed from the means of all channels."""

    def __init__(self, channels: int, squeezed: int):
        super().__init__()
        self.conv1 = nn.Conv1d(channels, squeezed, 1)
        self.conv2 = nn.Conv1d(squeezed, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        """[B, channels, T], same shape out."""
        return x * torch.sigmoid(self.conv2(F.relu(self.conv1(x.mean(dim=2, keepdim=True)))))


class EcapaBlock(nn.Module):
    """x + gate(tdnn2(res2net(tdnn1(x))))."""

    def __init__(self, config: SpeakerEncoderConfig, index: int):
        super().__init__()
        inputs, channels = config.channels[index - 1], config.channels[index]
        self.tdnn1 = TimeDelayLayer(inputs, channels)
        self.res2net_block = Res2NetBlock(
            channels, config.res2net_scale, config.kernels[index], config.dilations[index]
        )
        self.tdnn2 = TimeDelayLayer(channels, channels)
        self.se_block = SqueezeExcitation(channels, config.squeeze_channels)

    def forward(self, x: Tensor) -> Tensor:
        """[B, channels, T], same shape out."""
        return x + self.se_block(self.tdnn2(self.res2net_block(self.tdnn1(x))))


class AttentivePooling(nn.Module):
    """Mean and standard deviation over time, weighted by attention, per channel."""

    def __init__(self, channels: int, attention_channels: int):
        super().__init__()
        self.tdnn = TimeDelayLayer(3 * channels, attention_channels)
        self.conv = nn.Conv1d(attention_channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        """[B, channels, T] -> [B, 2 × channels, 1]."""
        mean, deviation = _statistics(x, torch.full_like(x, 1 / x.shape[2]))
        context = torch.cat([x, mean.expand_as(x), deviation.expand_as(x)], dim=1)
        weights = self.conv(torch.tanh(self.tdnn(context))).softmax(dim=2)
        return torch.cat(_statistics(x, weights), dim=1)


def _statistics(x: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    mean = (weights * x).sum(dim=2, keepdim=True)
    variance = (weights * (x - mean).square()).sum(dim=2, keepdim=True)
    return mean, variance.clamp(min=VARIANCE_FLOOR).sqrt()


class SpeakerEncoder(nn.Module):
    """See the module docstring."""

    filters: Tensor
    window: Tensor

    def __init__(self, config: SpeakerEncoderConfig):
        super().__init__()
        self.config = config
        first = TimeDelayLayer(config.mel_bins, config.channels[0], config.kernels[0], config.dilations[0])
        self.blocks = nn.ModuleList([first, *(EcapaBlock(config, i) for i in range(1, len(config.channels) - 1))])
        joined = config.channels[-1]
        self.mfa = TimeDelayLayer(joined, joined, config.kernels[-1], config.dilations[-1])
        self.asp = AttentivePooling(joined, config.attention_channels)
        self.fc = nn.Conv1d(2 * joined, config.output_size, 1)
        bins = config.fft_size // 2 + 1
        self.register_buffer("filters", torch.empty(config.mel_bins, bins), persistent=False)
        self.register_buffer("window", torch.empty(config.fft_size), persistent=False)
        self.fill()

    def fill(self) -> None:
        """Compute the filters and the Hann window; needed again after ``to_empty``."""
        if not self.filters.is_meta:
            config = self.config
            self.filters.copy_(mel_filters(config.mel_bins, config.fft_size, config.sample_rate_hz))
            self.window.copy_(torch.hann_window(config.fft_size))

    def log_mel(self, samples: Tensor) -> Tensor:
        """Samples [B, n] -> log-mel spectrogram [B, mel_bins, T]."""
        config = self.config
        margin = (config.fft_size - config.hop) // 2
        padded = F.pad(samples[:, None], (margin, margin), mode="reflect")[:, 0]
        spectrum = torch.stft(
            padded, config.fft_size, config.hop, window=self.window, center=False, return_complex=True
        )
        magnitude = torch.view_as_real(spectrum).square().sum(-1).add(POWER_FLOOR).sqrt()
        return (self.filters @ magnitude).clamp(min=LOG_FLOOR).log()

    def embed(self, samples: Tensor) -> Tensor:
        """Samples float32 [B, n] in [-1, 1] -> vectors [B, output_size]."""
        return self(self.log_mel(samples))

    def forward(self, mel: Tensor) -> Tensor:
        """[B, mel_bins, T] -> [B, output_size]."""
        x, seen = mel, []
        for block in self.blocks:
            x = block(x)
            seen.append(x)
        return self.fc(self.asp(self.mfa(torch.cat(seen[1:], dim=1))))[:, :, 0]
