"""What the codec is trained on: distances of spectra, steady tones, phonemes."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from reference_impl.training.teacher import LABELS_PER_FRAME, PHONEMES, SAMPLE_RATE_HZ

MEL_FLOOR = 1e-4


def mel_filters(fft_size: int, bands: int) -> Tensor:
    """Triangular filters of unit sum, evenly spaced on the mel scale from 0 Hz to 12 kHz: [bands, fft_size / 2 + 1]."""
    edges_mel = torch.linspace(0, 2595 * math.log10(1 + SAMPLE_RATE_HZ / 2 / 700), bands + 2)
    edges = 700 * (10 ** (edges_mel / 2595) - 1)
    bins = torch.linspace(0, SAMPLE_RATE_HZ / 2, fft_size // 2 + 1)
    low, centre, high = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    weights = torch.minimum((bins - low) / (centre - low), (high - bins) / (high - centre)).clamp(min=0)
    return weights / weights.sum(1, keepdim=True).clamp(min=1e-8)


def spectrum(wave: Tensor, fft_size: int, hop: int, window: Tensor) -> Tensor:
    """Magnitudes of a centred Hann STFT: [B, samples] -> [B, bins, frames], float32, smooth at zero."""
    x = torch.stft(wave.float(), fft_size, hop, fft_size, window, return_complex=True)
    return (x.real.square() + x.imag.square() + 1e-9).sqrt()


class ReconstructionLoss(nn.Module):
    """Distances of log-mel spectra and of magnitudes at four resolutions, and of the imaging lines.

    Transposed convolutions leave steady tones at multiples of their input rates; 2 kHz is the
    rate before the last two. ``lines`` compares the time-averaged power in narrow bands there:
    only what exceeds the target counts.
    """

    SHAPES = ((256, 32), (512, 64), (1024, 100), (2048, 160))
    LINE_FFT, LINE_HZ, LINE_HALF_WIDTH_HZ = 2048, 2000, 36

    def __init__(self) -> None:
        super().__init__()
        for fft_size, bands in self.SHAPES:
            self.register_buffer(f"window_{fft_size}", torch.hann_window(fft_size), persistent=False)
            self.register_buffer(f"filters_{fft_size}", mel_filters(fft_size, bands), persistent=False)
        bins_hz = torch.arange(self.LINE_FFT // 2 + 1) * SAMPLE_RATE_HZ / self.LINE_FFT
        offset = (bins_hz % self.LINE_HZ + self.LINE_HZ / 2) % self.LINE_HZ - self.LINE_HZ / 2
        on_line = (offset.abs() < self.LINE_HALF_WIDTH_HZ) & (bins_hz > self.LINE_HZ / 2)
        self.register_buffer("line_bins", on_line.nonzero()[:, 0], persistent=False)

    def forward(self, made: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """[B, samples] each -> (log-mel L1, spectral convergence, excess of the lines in nepers)."""
        with torch.autocast(made.device.type, enabled=False):  # logarithms of bf16 products would be too coarse
            return self._compare(made.float(), wanted.float())

    def _compare(self, made: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mel = magnitude = lines = torch.zeros((), device=made.device)
        for fft_size, _ in self.SHAPES:
            window, filters = getattr(self, f"window_{fft_size}"), getattr(self, f"filters_{fft_size}")
            a, b = (spectrum(x, fft_size, fft_size // 4, window) for x in (made, wanted))
            floor = MEL_FLOOR
            log_a, log_b = ((filters @ x).clamp(min=floor).log() for x in (a, b))
            mel = mel + (log_a - log_b).abs().mean()
            norm = b.square().sum((1, 2)).sqrt()
            magnitude = magnitude + ((a - b).square().sum((1, 2)).sqrt() / (norm + 1e-3)).mean()
            if fft_size == self.LINE_FFT:
                # power over time, floored at that of a tone 84 dB below full scale
                power_a, power_b = (x[:, self.line_bins].square().mean(2) + 1e-3 for x in (a, b))
                lines = F.relu(0.5 * (power_a / power_b).log()).mean()
        return mel / len(self.SHAPES), magnitude / len(self.SHAPES), lines


class PhonemeHead(nn.Module):
    """Linear phoneme classifier on codebook 0's vector: it makes that code carry the sounds."""

    def __init__(self, inner: int):
        super().__init__()
        self.linear = nn.Linear(inner, LABELS_PER_FRAME * PHONEMES)

    def loss(self, semantic: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """semantic [B, T, inner], labels [B, T, 2] -> cross-entropy, accuracy."""
        logits = self.linear(semantic.float()).view(-1, PHONEMES)
        flat = labels.reshape(-1).long()
        return F.cross_entropy(logits, flat), (logits.argmax(-1) == flat).float().mean()
