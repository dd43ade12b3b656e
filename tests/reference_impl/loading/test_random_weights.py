"""Random weights: finite, audible, and as long as the text says."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch

from omni_bench.accuracy.signal.audio_faults import audio_faults
from reference_impl.build import build_engine
from reference_impl.engine_api import AudioChunk, SpeechRequest
from reference_impl.loading.checkpoint import empty_stages
from reference_impl.loading.random_weights import random_model
from reference_impl.model.presets import PRESETS, QWEN3_TTS_0_6B, QWEN3_TTS_1_7B
from reference_impl.prompt.builder import forced_frames
from reference_impl.settings import ServerSettings

TEXTS = ("The train to the coast leaves at nine.", "Yes.", "Could you turn it down?")


def speak(engine, *requests):
    """The events of each request, all in flight together."""
    heard = [[] for _ in requests]
    done = [threading.Event() for _ in requests]

    def sink(index):
        def on_event(event):
            heard[index].append(event)
            if not isinstance(event, AudioChunk):
                done[index].set()

        return on_event

    for index, request in enumerate(requests):
        engine.submit(request, sink(index))
    assert all(event.wait(timeout=120) for event in done)
    return heard


@pytest.fixture(scope="module")
def engine(small_config):
    PRESETS["small"] = small_config
    try:
        settings = ServerSettings(preset="small", checkpoint="random", max_batch=4, max_seq_len=128, device="cpu")
        built = build_engine(settings)
    finally:
        del PRESETS["small"]
    yield built
    built.stop()


def test_every_request_ends_with_the_length_its_text_forces(engine):
    requests = [SpeechRequest(f"r{i}", text, engine.voices[i], seed=i) for i, text in enumerate(TEXTS)]
    for request, events in zip(requests, speak(engine, *requests), strict=True):
        *chunks, end = events
        assert end.reason == "stop"
        assert end.frames == max(2, round(12.5 * len(request.text) / 14)) == len(end.codes)
        assert end.codes.min() >= 0 and end.codes.max() < 2048  # neither control ids nor the end token
        pcm = b"".join(chunk.pcm for chunk in chunks)
        assert audio_faults(pcm, 24000, request.text, "en") == ()
    again = speak(engine, SpeechRequest("r9", TEXTS[0], engine.voices[1], seed=77))[0]
    assert again[-1].frames == forced_frames(TEXTS[0], engine.model.config)


def test_a_client_may_still_cap_the_length(engine):
    end = speak(engine, SpeechRequest("r", TEXTS[0], "ryan", seed=0, max_new_tokens=3))[0][-1]
    assert (end.reason, end.frames) == ("length", 3)


def test_the_engine_says_that_its_weights_are_random(engine):
    described = engine.describe()
    assert described["checkpoint_sha256"] is None
    assert "random weights" in described["weights"] and "no WER" in described["weights"]


def test_the_same_seed_gives_the_same_weights_and_another_one_others(small, small_config):
    def first(seed):
        return random_model(small_config, torch.device("cpu"), torch.float32, 16, 16, seed=seed).talker

    assert torch.equal(first(0).codec_head.weight, small.talker.codec_head.weight)
    assert not torch.equal(first(1).codec_head.weight, small.talker.codec_head.weight)


def test_bfloat16_stays_finite_through_every_stage(small_config):
    model = random_model(small_config, torch.device("cpu"), torch.bfloat16, 16, 64)
    parameters = [p for stage in (model.talker, model.predictor, model.code2wav) for p in stage.parameters()]
    assert all(p.dtype == torch.bfloat16 and torch.isfinite(p).all() for p in parameters)
    codes = torch.randint(0, 2048, (2, 16, 12), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        wave = model.code2wav.decode(codes).float()
    assert torch.isfinite(wave).all()
    assert 0.02 < wave.std() < 0.3
    assert wave.abs().max() < 1


@pytest.mark.parametrize(
    ("config", "talker", "predictor"),
    [(QWEN3_TTS_0_6B, 764_218_368, 141_570_304), (QWEN3_TTS_1_7B, 1_741_550_592, 175_125_760)],
    ids=["0.6B", "1.7B"],
)
def test_presets_have_the_released_number_of_parameters(config, talker, predictor):
    """As counted on the official classes; 0.6B with its speaker encoder (8 854 336) has the published 914 643 008."""
    stages = empty_stages(config, torch.device("meta"), torch.bfloat16, 16, 16)
    found = [sum(p.numel() for p in stage.parameters()) for stage in stages]
    assert found[:2] == [talker, predictor]
    assert np.isclose(found[2], 114_323_137, rtol=0.1)
