"""The training side of the codec: an encoder, residual vector quantisation, and Code2Wav with gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from reference_impl.model.code2wav import Code2Wav
from reference_impl.model.code2wav_layers import SnakeBeta, WindowLayer
from reference_impl.model.config import Code2WavConfig
from reference_impl.model.layers import RMSNorm, RotaryTable
from reference_impl.training.codec_loss import MEL_FLOOR, mel_filters, spectrum

MEL_FFT, MEL_HOP, MEL_BANDS = 1024, 240, 100
WIDTH, HEADS, FEED_FORWARD, LAYERS, WINDOW = 256, 4, 640, 3, 8


class SymmetricConvNeXt(nn.Module):
    """Depthwise conv of 7 looking both ways, LayerNorm, two linear layers with GELU, residual."""

    def __init__(self, channels: int):
        super().__init__()
        self.dwconv = nn.Conv1d(channels, channels, 7, padding=3, groups=channels)
        self.norm = nn.LayerNorm(channels, eps=1e-6)
        self.pwconv1 = nn.Linear(channels, 3 * channels)
        self.pwconv2 = nn.Linear(3 * channels, channels)
        self.gamma = nn.Parameter(torch.full((channels,), 0.1))

    def forward(self, x: Tensor) -> Tensor:
        """[B, channels, T], same shape out."""
        y = self.pwconv2(F.gelu(self.pwconv1(self.norm(self.dwconv(x).transpose(1, 2)))))
        return x + (self.gamma * y).transpose(1, 2)


class Encoder(nn.Module):
    """Log-mel spectrogram at 100 Hz -> ConvNeXt with strides 2, 2, 2 -> windowed attention -> latent at 12.5 Hz.

    Training only; it looks eight frames both ways.
    """

    filters: Tensor
    window: Tensor

    def __init__(self, config: Code2WavConfig, max_frames: int = 256):
        super().__init__()
        self.register_buffer("filters", mel_filters(MEL_FFT, MEL_BANDS), persistent=False)
        self.register_buffer("window", torch.hann_window(MEL_FFT), persistent=False)
        self.input_conv = nn.Conv1d(MEL_BANDS, WIDTH, 5, padding=2)
        stages: list[nn.Module] = []
        for _ in range(3):
            down = nn.Conv1d(WIDTH, WIDTH, 4, stride=2, padding=1)
            stages += [SymmetricConvNeXt(WIDTH), down, SymmetricConvNeXt(WIDTH)]
        self.stages = nn.ModuleList(stages)
        shape = replace(config, hidden_size=WIDTH, num_heads=HEADS, intermediate_size=FEED_FORWARD)
        self.layers = nn.ModuleList(WindowLayer(shape) for _ in range(LAYERS))
        for layer in self.layers:
            nn.init.constant_(layer.attention_scale, 0.1)
            nn.init.constant_(layer.mlp_scale, 0.1)
        self.norm = RMSNorm(WIDTH, config.rms_norm_eps)
        self.rotary = RotaryTable(config.head_dim, config.rope_theta, max_frames)
        self.output = nn.Linear(WIDTH, config.codebook_dim)

    def log_mel(self, wave: Tensor) -> Tensor:
        """[B, 1920 × T] -> [B, 100, 8 × T]."""
        with torch.autocast(wave.device.type, enabled=False):
            magnitude = spectrum(wave, MEL_FFT, MEL_HOP, self.window)[..., :-1]
            return (self.filters @ magnitude).clamp(min=MEL_FLOOR).log() / 3 + 1

    def forward(self, wave: Tensor) -> Tensor:
        """[B, 1920 × T] in [-1, 1] -> [B, T, codebook_dim]."""
        x = self.input_conv(self.log_mel(wave))
        for stage in self.stages:
            x = stage(x)
        x = x.transpose(1, 2)
        steps = torch.arange(x.shape[1], device=x.device)
        mask = ((steps[:, None] - steps[None]).abs() < WINDOW)[None, None]
        rope = self.rotary(steps[None])
        for layer in self.layers:
            x = layer(x, rope, mask, None)
        return self.output(self.norm(x))


class Quantised:
    """What :meth:`Quantiser.forward` returns.

    ``latent`` [B, T, codebook_dim] (gradients pass straight through), ``codes`` [B, 16, T],
    ``semantic`` [B, T, inner] (codebook 0's vector, straight through), ``commitment``: how far
    the encoder is from what was chosen.
    """

    def __init__(self, latent: Tensor, codes: Tensor, semantic: Tensor, commitment: Tensor):
        self.latent, self.codes, self.semantic, self.commitment = latent, codes, semantic, commitment


class Quantiser(nn.Module):
    """Split residual quantisation with the codebooks and output projections of a Code2Wav.

    Codebook 0 quantises the latent; codebooks 1..15 quantise, one after the other, what is
    left of it. Only the two input projections are parameters of this module.
    """

    def __init__(self, code2wav: Code2Wav):
        super().__init__()
        inner, outer = code2wav.config.codebook_dim // 2, code2wav.config.codebook_dim
        self.first_input = nn.Linear(outer, inner, bias=False)
        self.rest_input = nn.Linear(outer, inner, bias=False)
        self._side = [code2wav.quantizer]  # in a list: its parameters belong to Code2Wav

    def project(self, latent: Tensor, first_codes: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """latent [B, T, D] -> vector for codebook 0, its code [B, T], vector for codebooks 1..15.

        ``first_codes``: use these instead of the nearest ones.
        """
        side = self._side[0]
        first = self.first_input(latent)
        codes = nearest(first, side.codebooks[0]) if first_codes is None else first_codes
        chosen = side.first_proj(side.codebooks[0][codes]).detach()
        return first, codes, self.rest_input(latent - chosen)

    def forward(self, latent: Tensor) -> Quantised:
        """latent [B, T, codebook_dim]."""
        side = self._side[0]
        with torch.autocast(latent.device.type, enabled=False):
            latent = latent.float()
            first, code0, rest = self.project(latent)
            semantic = side.codebooks[0][code0]
            residual = rest.detach()
            total = torch.zeros_like(residual)
            codes = [code0]
            for group in range(1, side.codebooks.shape[0]):
                book = side.codebooks[group]
                code = nearest(residual, book)
                vector = book[code].detach()
                residual = residual - vector
                total = total + vector
                codes.append(code)
            through = first + (semantic - first).detach()
            rest_through = rest + (total - rest).detach()
            out = side.first_proj(through) + side.rest_proj(rest_through)
            commitment = (first - semantic.detach()).square().mean() + (rest - total).square().mean()
        return Quantised(out, torch.stack(codes, 1), through, commitment)


def nearest(x: Tensor, book: Tensor) -> Tensor:
    """Index of the nearest row of ``book`` [V, D] for every vector of x [..., D]."""
    with torch.no_grad():
        return (x @ (2 * book.T) - book.square().sum(1)).argmax(-1)


def _snake(x: Tensor, frequency: Tensor, gain: Tensor) -> Tensor:
    return x + gain * torch.sin(x * frequency).square()


class TrainableSnake(nn.Module):
    """:class:`SnakeBeta` with gradients for α and β, computed in the input's type; the same parameters."""

    curve: Callable[[Tensor, Tensor, Tensor], Tensor] = staticmethod(_snake)

    def __init__(self, source: SnakeBeta):
        super().__init__()
        self.alpha, self.beta = source.alpha, source.beta

    def forward(self, x: Tensor) -> Tensor:
        """[B, channels, T], same shape out."""
        frequency = self.alpha.exp()[:, None].to(x.dtype)
        gain = (1 / (self.beta.exp() + 1e-9))[:, None].to(x.dtype)
        return TrainableSnake.curve(x, frequency, gain)


def compile_snake(device: torch.device) -> str:
    """Fuse the activation into one kernel on CUDA; returns what happened. Training goes on without it."""
    if device.type != "cuda":
        return "eager"
    try:
        # frozen and trained decoders, training and validation: more variants than the default allows
        torch._dynamo.config.recompile_limit = 32
        fused = torch.compile(_snake, dynamic=True)
        x = torch.randn(2, 16, 64, device=device, dtype=torch.bfloat16, requires_grad=True)
        ones = torch.ones(16, 1, device=device, dtype=torch.bfloat16, requires_grad=True)
        for length in (64, 128):
            fused(x[..., :length], ones, ones).sum().backward()
    except Exception as error:  # any compiler failure is harmless here
        return f"eager: {type(error).__name__}: {str(error)[:200]}"
    TrainableSnake.curve = staticmethod(fused)
    return "compiled"


def make_trainable(code2wav: Code2Wav) -> Code2Wav:
    """Replace the activations by trainable ones (in place; parameter names stay)."""
    for parent in list(code2wav.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, SnakeBeta):
                setattr(parent, name, TrainableSnake(child))
    return code2wav


def decode_latent(code2wav: Code2Wav, latent: Tensor, starts: Tensor | None = None, frames: int = 0) -> Tensor:
    """Dequantised latent [B, T, D] -> waveform [B, samples], not clamped.

    With ``starts`` [B] only ``frames`` frames from there on go through the convolutional decoder.
    """
    x = code2wav.pre_conv(latent.transpose(1, 2), None).transpose(1, 2)
    x = code2wav.transformer(x, None).transpose(1, 2)
    for stage in code2wav.upsample:
        x = stage(x, None)
    if starts is not None:
        rate = math.prod(code2wav.config.upsampling_ratios)
        index = starts[:, None] * rate + torch.arange(frames * rate, device=x.device)
        x = x.gather(2, index[:, None].expand(-1, x.shape[1], -1))
    x = code2wav.input_conv(x, None)
    for block in code2wav.blocks:
        x = block(x, None)
    return code2wav.output_conv(code2wav.output_act(x), None)[:, 0]


def to_wave(samples: Tensor) -> Tensor:
    """int16 [B, T, 1920] -> float [B, 1920 × T] in [-1, 1]."""
    return samples.reshape(samples.shape[0], -1).float() / 32768
