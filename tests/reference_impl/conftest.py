"""Fixtures of the reference model: loading takes under a second, but one load serves all tests."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from reference_impl.checkpoint import Model, load_model
from reference_impl.config import ModelConfig, TransformerConfig
from reference_impl.presets import QWEN3_TTS_1_7B
from reference_impl.random_weights import random_model
from reference_impl.settings import BUNDLED


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """Threads inside an operation wait for each other: on two busy cores one is many times faster than two."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tiny() -> Model:
    """The bundled voice in float32 on the CPU."""
    return load_model(BUNDLED["tiny"], torch.device("cpu"), torch.float32, max_positions=512, max_frames=2049)


@pytest.fixture(scope="session")
def fake():
    """The module ``fake_engine.py`` beside this file: an engine for the server's tests."""
    path = Path(__file__).with_name("fake_engine.py")
    spec = importlib.util.spec_from_file_location("fake_engine", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def shrink(config: TransformerConfig, hidden_size: int, num_layers: int) -> TransformerConfig:
    """The same kind of stack, small; heads × head_dim differs from the width, as in the 0.6B model."""
    sizes = {"num_heads": 4, "num_kv_heads": 2, "head_dim": 32, "intermediate_size": 3 * hidden_size // 2}
    return replace(config, hidden_size=hidden_size, num_layers=num_layers, **sizes)


@pytest.fixture(scope="session")
def small_config() -> ModelConfig:
    """The released 1.7B configuration shrunk until a CPU decodes it at once; ids and tables as released."""
    full = QWEN3_TTS_1_7B
    code2wav = replace(
        full.code2wav,
        codebook_dim=32,
        latent_dim=48,
        hidden_size=32,
        num_heads=2,
        head_dim=16,
        intermediate_size=48,
        num_layers=2,
        decoder_dim=64,
    )
    talker = replace(
        full.talker,
        transformer=shrink(full.talker.transformer, 64, 3),
        text_vocab_size=1000,
        text_hidden_size=96,
    )
    predictor = replace(full.predictor, transformer=shrink(full.predictor.transformer, 48, 2))
    text = replace(full.text, tts_pad_id=671, tts_bos_id=672, tts_eos_id=673)
    return replace(full, name="small", talker=talker, predictor=predictor, code2wav=code2wav, text=text)


@pytest.fixture(scope="session")
def small(small_config) -> Model:
    """That configuration with random weights, float32, on the CPU."""
    return random_model(small_config, torch.device("cpu"), torch.float32, max_positions=256, max_frames=512)
