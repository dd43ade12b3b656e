"""How fast a frame could be at best: bytes that must be moved and operations that must be done, stage by stage.

A floor, not a forecast: weights are read once a pass, every stage overlaps its memory and its
arithmetic perfectly, nothing else costs anything. The chain talker → 15 predictor steps →
talker is serial, so the stages add up.

    stage time = max(bytes / bandwidth, operations / rate)
    frame time = talker + predictor + Code2Wav
    RTF floor  = frame time × frames a second;  audio ceiling = batch / RTF floor

Weights and Code2Wav's operations and activations are counted on the real modules (on PyTorch's
meta device, where nothing is computed), so the model and its cost cannot drift apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from reference_impl.loading.checkpoint import empty_stages
from reference_impl.model.code2wav import Code2Wav
from reference_impl.model.config import ModelConfig, TransformerConfig
from reference_impl.model.layers import RotaryTable

PROBE_FRAMES = 32


@dataclass(frozen=True)
class Limits:
    """What a device can do: ``bytes_per_s`` of memory copy traffic, ``flop_per_s`` of matrix products."""

    bytes_per_s: float
    flop_per_s: float


@dataclass(frozen=True)
class StageCost:
    """Of one frame for the whole batch: memory traffic in bytes, and floating-point operations."""

    bytes: float
    flop: float

    def seconds(self, limits: Limits) -> float:
        """The larger of the two times."""
        return max(self.bytes / limits.bytes_per_s, self.flop / limits.flop_per_s)


@dataclass(frozen=True)
class FrameCost:
    """One frame of ``batch`` requests."""

    batch: int
    frame_rate_hz: float
    talker: StageCost
    predictor: StageCost
    code2wav: StageCost

    def floor_s(self, limits: Limits) -> float:
        """Shortest possible time of a frame."""
        return sum(stage.seconds(limits) for stage in (self.talker, self.predictor, self.code2wav))

    def rtf_floor(self, limits: Limits) -> float:
        """Smallest possible real-time factor of each request."""
        return self.floor_s(limits) * self.frame_rate_hz

    def audio_per_s_ceiling(self, limits: Limits) -> float:
        """Most seconds of audio a second, all requests together."""
        return self.batch / self.rtf_floor(limits)


@dataclass(frozen=True)
class Weights:
    """What a configuration has to read: parameter counts, and Code2Wav's work a frame.

    ``head``: one output head of the predictor. ``code2wav_flop`` and ``code2wav_values``:
    operations, and values read and written by its modules, a frame of one request.
    """

    talker: int
    predictor_body: int
    predictor_head: int
    code2wav: int
    code2wav_flop: float
    code2wav_values: float


def count_weights(config: ModelConfig) -> Weights:
    """Count on the real modules, without memory for them."""
    talker, predictor, code2wav = empty_stages(config, torch.device("meta"), torch.float32, 8, PROBE_FRAMES)
    flop, values = _code2wav_work(code2wav)
    return Weights(
        talker=_size(talker.stack) + _size(talker.codec_head),
        predictor_body=_size(predictor.stack),
        predictor_head=predictor.heads[0].numel(),
        code2wav=_size(code2wav),
        code2wav_flop=flop,
        code2wav_values=values,
    )


def frame_cost(
    config: ModelConfig, weights: Weights, *, batch: int, context: int, chunk_frames: int, element_bytes: int
) -> FrameCost:
    """The cost of one frame for ``batch`` requests with ``context`` earlier positions each.

    The predictor keeps its keys and values within a frame (a strategy that computes positions
    again does more), and Code2Wav its state; ``chunk_frames``: frames that one reading of
    Code2Wav's weights serves.
    """
    talker, predictor = config.talker.transformer, config.predictor.transformer
    steps = config.predictor.num_code_groups - 1
    # the first pass has two positions and the others one: cache lengths 2, 3, ... 16
    cached = sum(range(2, steps + 2))
    predictor_weights = steps * (weights.predictor_body + weights.predictor_head)
    return FrameCost(
        batch=batch,
        frame_rate_hz=config.frame_rate_hz,
        talker=StageCost(
            bytes=element_bytes * (weights.talker + batch * context * _cache_values(talker)),
            flop=batch * (2.0 * weights.talker + context * _attention_flop(talker)),
        ),
        predictor=StageCost(
            bytes=element_bytes * (predictor_weights + batch * cached * _cache_values(predictor)),
            flop=batch
            * (
                2.0 * weights.predictor_body * (steps + 1)
                + 2.0 * weights.predictor_head * steps
                + (1 + cached) * _attention_flop(predictor)  # the very first position attends to itself
            ),
        ),
        code2wav=StageCost(
            bytes=element_bytes * (weights.code2wav / chunk_frames + batch * weights.code2wav_values),
            flop=batch * weights.code2wav_flop,
        ),
    )


def _cache_values(config: TransformerConfig) -> int:
    """Key and value elements of one position."""
    return 2 * config.num_layers * config.num_kv_heads * config.head_dim


def _attention_flop(config: TransformerConfig) -> float:
    """Operations for one query over one attended position: products with its key and with its value."""
    return 4.0 * config.num_layers * config.num_heads * config.head_dim


def _size(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def _code2wav_work(code2wav: Code2Wav) -> tuple[float, float]:
    """(operations, values read and written by the modules that compute) a frame of one stream."""
    values = 0
    leaves = [m for m in code2wav.modules() if not list(m.children()) and not isinstance(m, RotaryTable)]

    def count(_: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        nonlocal values
        values += inputs[0].numel() + output.numel()

    hooks = [leaf.register_forward_hook(count) for leaf in leaves]
    code2wav.prepare()
    codes = torch.zeros(1, code2wav.config.num_code_groups, PROBE_FRAMES, dtype=torch.long, device="meta")
    counter = FlopCounterMode(display=False)
    try:
        with counter, torch.no_grad():
            code2wav.decode(codes)
    finally:
        for hook in hooks:
            hook.remove()
    return counter.get_total_flops() / PROBE_FRAMES, values / PROBE_FRAMES
