"""The floor of a frame: against figures worked out by hand from the released shapes."""

from __future__ import annotations

import pytest
import torch

from reference_impl.model.presets import QWEN3_TTS_0_6B, QWEN3_TTS_1_7B, TINY
from reference_impl.roofline.cost_model import FrameCost, Limits, StageCost, count_weights, frame_cost
from reference_impl.roofline.device_limits import measure_limits

H100 = Limits(bytes_per_s=3.0e12, flop_per_s=780e12)


@pytest.fixture(scope="module")
def large():
    return count_weights(QWEN3_TTS_1_7B)


def cost(weights, config=QWEN3_TTS_1_7B, batch=1, context=256):
    return frame_cost(config, weights, batch=batch, context=context, chunk_frames=4, element_bytes=2)


def test_parameters_of_the_released_shapes(large):
    # by hand: 28 layers of (2048·4096 qkv, 2048·2048 out, 3·2048·6144 feed-forward, 4352 of norms), a norm, the head
    layer = 2048 * 4096 + 2048 * 2048 + 3 * 2048 * 6144 + 2 * 2048 + 2 * 128
    assert large.talker == 28 * layer + 2048 + 3072 * 2048
    assert large.predictor_head == 2048 * 1024
    assert large.code2wav == pytest.approx(114e6, rel=0.01)
    assert large.code2wav_flop == pytest.approx(4.96e9, rel=0.01)


def test_traffic_of_one_request(large):
    one = cost(large)
    # keys and values of a position: 2 · 28 layers · 8 heads · 128 · 2 bytes
    assert one.talker.bytes == 2 * large.talker + 256 * 114_688
    assert one.predictor.bytes == 2 * 15 * (large.predictor_body + large.predictor_head) + 135 * 20_480
    attention = 4 * 16 * 128 * 5 * 136
    assert one.predictor.flop == 2 * 16 * large.predictor_body + 2 * 15 * large.predictor_head + attention
    assert one.talker.flop == pytest.approx(2.89e9, rel=0.01)


@pytest.mark.parametrize(("batch", "floor_ms"), [(1, 1.81), (4, 1.87), (8, 1.96), (16, 2.12), (32, 2.45)])
def test_the_floor_is_near_the_published_estimate(large, batch, floor_ms):
    # that estimate takes 29 MB of Code2Wav activations a frame; the modules have 22 MB
    assert 1e3 * cost(large, batch=batch).floor_s(H100) == pytest.approx(floor_ms, rel=0.05)


def test_rates_follow_from_the_frame_time():
    frame = FrameCost(32, 12.5, StageCost(3e9, 0), StageCost(0, 780e9), StageCost(0, 0))
    assert frame.floor_s(H100) == pytest.approx(2e-3)
    assert frame.rtf_floor(H100) == pytest.approx(0.025)
    assert frame.audio_per_s_ceiling(H100) == pytest.approx(1280)


def test_a_smaller_model_and_a_shorter_context_cost_less(large):
    small = count_weights(QWEN3_TTS_0_6B)
    assert cost(small, QWEN3_TTS_0_6B).floor_s(H100) < cost(large).floor_s(H100)
    assert cost(large, context=64).talker.bytes < cost(large).talker.bytes
    tiny = count_weights(TINY)
    assert cost(tiny, TINY).floor_s(H100) < cost(small, QWEN3_TTS_0_6B).floor_s(H100) / 10


def test_limits_are_measured():
    limits = measure_limits(torch.device("cpu"), torch.float32)
    assert limits.bytes_per_s > 1e8 and limits.flop_per_s > 1e8


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_limits_of_a_card():
    limits = measure_limits(torch.device("cuda"), torch.bfloat16)
    assert limits.bytes_per_s > 1e11 and limits.flop_per_s > 1e13
