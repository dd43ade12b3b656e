"""The encoders of the Base checkpoints. Their values are compared with the official ones by ``make parity``."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from reference_impl.model.config import CodecEncoderConfig, SpeakerEncoderConfig
from reference_impl.model.speaker_encoder import SpeakerEncoder, mel_filters


def test_mel_filters_are_those_of_librosa():
    """First bin and weights of some filters of librosa 0.11 for 24 kHz, 1024 points, 128 bands, 0 to 12 kHz."""
    filters = mel_filters(128, 1024, 24000)
    expected = {
        0: (1, [0.033550426, 0.0085690832]),
        20: (23, [0.014960454, 0.027159058]),
        45: (52, [0.0026885646, 0.023176089, 0.015448131]),
        46: (54, [0.01354131, 0.024323689, 0.0054447972]),
        80: (135, [0.0010470471, 0.0040869019, 0.0071267565]),
        127: (485, [3.8516027e-05, 0.00027299943, 0.00050748291]),
    }
    assert filters.shape == (128, 513)
    for band, (first, weights) in expected.items():
        assert torch.nonzero(filters[band])[0].item() == first
        found = filters[band, first : first + len(weights)].numpy()
        assert np.allclose(found, weights, rtol=1e-5)


def test_a_louder_recording_of_a_tone_is_louder_in_its_band_only():
    encoder = SpeakerEncoder(SpeakerEncoderConfig(output_size=8))
    tone = torch.sin(2 * torch.pi * 1000 * torch.arange(24000) / 24000)[None]
    quiet, loud = encoder.log_mel(0.1 * tone), encoder.log_mel(0.2 * tone)
    assert quiet.shape == (1, 128, 93)  # (24000 + 2 × 384 - 1024) / 256 + 1
    band = quiet.mean(dim=2).argmax().item()
    edges = torch.nonzero(mel_filters(128, 1024, 24000)[band])[:, 0] * 24000 / 1024
    assert edges[0] - 24 <= 1000 <= edges[-1] + 24
    assert (loud - quiet)[0, band].mean().item() == pytest.approx(np.log(2), abs=1e-3)


def test_the_speaker_vector_does_not_depend_on_neighbours(small_base):
    audio = torch.randn(3, 20000, generator=torch.Generator().manual_seed(0)) * 0.1
    with torch.inference_mode():
        together = small_base.speaker_encoder.embed(audio)
        alone = small_base.speaker_encoder.embed(audio[1:2])
    assert together.shape == (3, 64)
    assert torch.allclose(together[1:2], alone, atol=1e-5)
    assert not torch.allclose(together[0], together[1], atol=1e-3)


@pytest.mark.parametrize("samples", [12000, 1920 * 7, 1920 * 7 + 1, 1920 * 8 - 1])
def test_codes_cover_every_sample(small_base, samples):
    audio = torch.randn(1, samples, generator=torch.Generator().manual_seed(1)) * 0.1
    with torch.inference_mode():
        codes = small_base.codec_encoder.encode(audio)
    assert codes.shape == (1, 16, -(-samples // 1920))
    assert codes.min() >= 0 and codes.max() < CodecEncoderConfig().codebook_size


def test_the_codec_encoder_is_causal(small_base):
    audio = torch.randn(1, 1920 * 10, generator=torch.Generator().manual_seed(2)) * 0.1
    changed = audio.clone()
    changed[:, 1920 * 6 :] = 0
    with torch.inference_mode():
        before, after = (small_base.codec_encoder.encode(x)[..., :6] for x in (audio, changed))
        whole = small_base.codec_encoder.encode(changed)
    assert torch.equal(before, after)
    assert not torch.equal(whole[..., 6:], small_base.codec_encoder.encode(audio)[..., 6:])


def test_each_codebook_takes_the_nearest_vector_to_what_is_left(small_base):
    quantizer = small_base.codec_encoder.acoustic
    x = torch.randn(1, 5, 32, generator=torch.Generator().manual_seed(3))
    with torch.inference_mode():
        codes = quantizer(x)[0]
        rest = quantizer.input_proj(x)[0]
        for book, found in zip(quantizer.codebooks, codes, strict=True):
            distances = (rest[:, None] - book[None]).square().sum(-1)
            assert torch.allclose(distances.gather(1, found[:, None])[:, 0], distances.min(dim=1).values, rtol=1e-4)
            rest = rest - book[found]
