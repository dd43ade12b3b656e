"""Fixtures of the reference model: loading takes under a second, but one load serves all tests."""

from __future__ import annotations

from dataclasses import replace

import fake_engine
import pytest
import torch

from reference_impl.loading.checkpoint import Model, load_model
from reference_impl.loading.random_weights import random_model
from reference_impl.model.codec_encoder import CodecEncoder
from reference_impl.model.config import CodecEncoderConfig, ModelConfig, SpeakerEncoderConfig, TransformerConfig
from reference_impl.model.presets import QWEN3_TTS_1_7B
from reference_impl.model.speaker_encoder import SpeakerEncoder
from reference_impl.settings import BUNDLED


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """Threads inside an operation wait for each other: on two busy cores one is many times faster than two."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tiny() -> Model:
    """The bundled voice in float32 on the CPU."""
    return load_model(BUNDLED["tiny"], torch.device("cpu"), torch.float32, max_positions=512, max_frames=2049)


@pytest.fixture
async def start_app():
    """``await start_app()`` starts a server and returns (client, engine): a fake one of ``options`` unless given.

    ``chat_token_ms`` goes to the application, 0 unless given.
    """
    from aiohttp.test_utils import TestClient, TestServer

    from reference_impl.http.app import create_app

    started = []

    async def start(engine=None, chat_token_ms=0.0, **options):
        engine = engine or fake_engine.FakeEngine(**options)
        client = TestClient(TestServer(create_app(engine, chat_token_ms=chat_token_ms)))
        await client.start_server()
        started.append((client, engine))
        return client, engine

    yield start
    for client, engine in started:
        engine.stop()
        await client.close()


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
        full.talker, transformer=shrink(full.talker.transformer, 64, 3), text_vocab_size=1000, text_hidden_size=96
    )
    predictor = replace(full.predictor, transformer=shrink(full.predictor.transformer, 48, 2))
    text = replace(full.text, tts_pad_id=671, tts_bos_id=672, tts_eos_id=673)
    return replace(full, name="small", talker=talker, predictor=predictor, code2wav=code2wav, text=text)


@pytest.fixture(scope="session")
def small(small_config) -> Model:
    """That configuration with random weights, float32, on the CPU."""
    return random_model(small_config, torch.device("cpu"), torch.float32, max_positions=256, max_frames=512)


@pytest.fixture(scope="session")
def small_base(small_config) -> Model:
    """A small model of the Base kind: with the encoders that clone a voice, seeded random weights."""
    speaker = SpeakerEncoderConfig(output_size=small_config.talker.transformer.hidden_size)
    codec = CodecEncoderConfig(
        num_filters=4,
        hidden_size=32,
        num_layers=2,
        num_heads=4,
        head_dim=8,
        intermediate_size=48,
        codebook_dim=16,
        num_books=18,
    )
    text = replace(small_config.text, task="base", instructions=False)
    config = replace(small_config, text=text, speaker_encoder=speaker, codec_encoder=codec)
    model = random_model(config, torch.device("cpu"), torch.float32, max_positions=512, max_frames=512)
    encoders = (SpeakerEncoder(speaker), CodecEncoder(codec, max_samples=60 * 24000))
    generator = torch.Generator().manual_seed(4)
    for encoder in encoders:
        encoder.requires_grad_(False).eval()
        for parameter in encoder.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.copy_(noise / parameter[0].numel() ** 0.5 if parameter.dim() > 1 else 0.1 * noise)
    return replace(model, speaker_encoder=encoders[0], codec_encoder=encoders[1])
