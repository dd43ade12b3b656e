"""A model of a few thousand weights in the released form, for tests of the kernels."""

from __future__ import annotations

import dataclasses
import os

import numpy as np
import pytest
import torch

from reference_impl.engine.decode_batch import DecodeBatch
from reference_impl.loading.checkpoint import Model
from reference_impl.loading.random_weights import random_model
from reference_impl.model.config import ModelConfig, PredictorConfig, TalkerConfig, TransformerConfig
from reference_impl.model.presets import QWEN3_TTS_1_7B, TINY
from reference_impl.model.sampling import request_uniforms
from reference_impl.prompt.builder import TalkerPrompt
from reference_impl.settings import ServerSettings

MAX_SEQ_LEN = 160
FRAMES = 24

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
"""Triton's kernels run on the CPU, line by line; Gluon's cannot."""
DEVICE = "cpu" if INTERPRETED else "cuda"

needs_kernels = [
    pytest.mark.cuda,
    pytest.mark.skipif(
        not (INTERPRETED or torch.cuda.is_available()), reason="needs a CUDA device or TRITON_INTERPRET=1"
    ),
]
needs_cuda = [pytest.mark.cuda, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


def small_config(hidden_size: int = 96) -> ModelConfig:
    """Two stacks of the released form; with ``hidden_size`` 64 the input projection is the identity."""

    def stack(size: int, layers: int) -> TransformerConfig:
        return TransformerConfig(
            size, layers, num_heads=4, num_kv_heads=2, head_dim=32, intermediate_size=96, rope_theta=1e4
        )

    return dataclasses.replace(
        QWEN3_TTS_1_7B,
        talker=TalkerConfig(
            stack(hidden_size, 3), text_vocab_size=50, codec_vocab_size=150, codec_eos_id=130, first_suppressed_id=128
        ),
        predictor=PredictorConfig(stack(64, 2), codebook_size=128),
        code2wav=TINY.code2wav,
        text=TINY.text,
    )


def small_model(hidden_size: int = 96, dtype: torch.dtype = torch.float32, seed: int = 1) -> Model:
    """Random weights, norm gains and biases that are not 1 and 0."""
    model = random_model(small_config(hidden_size), torch.device("cuda"), dtype, MAX_SEQ_LEN, 256, seed=seed)
    generator = torch.Generator("cuda").manual_seed(seed + 2)
    for stage in (model.talker, model.predictor):
        for name, parameter in stage.named_parameters():
            if "norm" in name:
                parameter.data.normal_(1.0, 0.3, generator=generator)
            elif name.endswith("bias"):
                parameter.data.normal_(0.0, 0.3, generator=generator)
    model.predictor.prepare(model.talker.codec_embedding.weight)
    return model


def settings(rows: int, **more: object) -> ServerSettings:
    """Settings of a batch of that model."""
    return ServerSettings(device="cuda", max_batch=rows, max_seq_len=MAX_SEQ_LEN, **more)


def pad_vector(model: Model) -> torch.Tensor:
    """What stands behind trailing text."""
    size = model.config.talker.transformer.hidden_size
    return torch.randn(size, generator=torch.Generator().manual_seed(9)).mul(0.1).to(model.device, model.dtype)


def enter(batch: DecodeBatch, seed: int, forced_frames: int = 1000) -> int:
    """A request, made of its seed, into the batch; its row."""
    model = batch.model
    generator = torch.Generator().manual_seed(seed)
    size, length = model.config.talker.transformer.hidden_size, 5 + 3 * (seed % 9)

    def vectors(count: int) -> torch.Tensor:
        return torch.randn(count, size, generator=generator).to(model.device, model.dtype)

    prompt = TalkerPrompt(vectors(length), torch.arange(length, device=model.device), length, vectors(seed % 4))
    row = batch.allocate_slot(request_uniforms(seed, FRAMES + 1, 16))
    batch.prefill(row, prompt, forced_frames, frame=0)
    return row


def steps(batch: DecodeBatch, count: int) -> np.ndarray:
    """The next frames of every row: int64 [count, rows, 17]."""
    with torch.inference_mode():
        return np.stack([batch.step() for _ in range(count)])
