"""The codec's training stages at toy scale: they run, they learn, and a resumed run equals an uninterrupted one."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch

from reference_impl.model.code2wav import Code2Wav
from reference_impl.model.code2wav_layers import SnakeBeta
from reference_impl.training.codec import train_codec
from reference_impl.training.codec_loss import ReconstructionLoss
from reference_impl.training.codec_model import Quantiser, TrainableSnake, decode_latent, make_trainable, to_wave
from reference_impl.training.codec_trainer import CodecSettings
from reference_impl.training.encode import codes_path, encode_new, load_codec
from reference_impl.training.released import load_base, load_code2wav
from reference_impl.training.synthesise import read_audio, read_info

CPU = torch.device("cpu")
SMALL = CodecSettings(batch=3, frames=6, segment=4, fit_batch=3, pool_hours=0.01, warm_up=2)


def write_pairs(toy) -> None:
    """Known codes with the sound that the base checkpoint makes of them."""
    codes = torch.randint(0, 16, (1, 4, 40), generator=torch.Generator().manual_seed(1))
    wave = load_base(toy.base).code2wav.decode(codes)[0]
    samples = (wave.clamp(-1, 1) * 32767).to(torch.int16).view(-1, 1920).numpy()
    np.savez(toy.state / "pairs.npz", samples=samples, codes=codes[0].T.to(torch.int16).numpy())


def train(toy, steps: dict[str, int]) -> dict:
    path = train_codec(toy.state, toy.corpus, toy.base, {}, settings=SMALL, device=CPU, max_steps=steps)
    return torch.load(path, weights_only=True)


def test_decoding_a_latent_is_the_engine_s_decoding(toy):
    base = load_base(toy.base).code2wav
    code2wav = make_trainable(Code2Wav(toy.config.code2wav, 257))
    load_code2wav(code2wav, toy.base, toy.config)
    codes = torch.randint(0, 16, (2, 4, 7))
    with torch.no_grad():
        made = decode_latent(code2wav, code2wav.quantizer(codes)).clamp(-1, 1)
        assert torch.allclose(made, base.decode(codes), atol=1e-6)


def test_a_segment_of_a_latent_has_the_right_place(toy):
    code2wav = make_trainable(Code2Wav(toy.config.code2wav, 257))
    load_code2wav(code2wav, toy.base, toy.config)
    with torch.no_grad():
        latent = code2wav.quantizer(torch.randint(0, 16, (2, 4, 20)))
        whole = decode_latent(code2wav, latent)
        part = decode_latent(code2wav, latent, torch.tensor([4, 0]), 16)
    # past the receptive field of the convolutions (10.3 frames) the missing history does not matter
    assert torch.allclose(part[0, 11 * 1920 :], whole[0, 15 * 1920 :], atol=1e-5)
    assert torch.allclose(part[1], whole[1, : 16 * 1920], atol=1e-5)


def test_the_trainable_activation_is_the_released_one_and_has_gradients():
    source = SnakeBeta(3)
    torch.nn.init.normal_(source.alpha)
    torch.nn.init.normal_(source.beta)
    source.prepare()
    ours, x = TrainableSnake(source), torch.randn(2, 3, 11)
    y = ours(x)
    assert torch.allclose(y, source(x), atol=1e-6)
    y.sum().backward()
    assert ours.alpha.grad.abs().sum() > 0 and ours.beta.grad.abs().sum() > 0


def test_quantised_latents_are_what_the_codes_decode_to(toy):
    code2wav = Code2Wav(toy.config.code2wav, 257)
    load_code2wav(make_trainable(code2wav), toy.base, toy.config)
    quantiser = Quantiser(code2wav)
    latent = torch.randn(2, 5, 16, requires_grad=True)
    quantised = quantiser(latent)
    assert torch.allclose(quantised.latent, code2wav.quantizer(quantised.codes), atol=1e-5)
    quantised.latent.sum().backward()
    assert latent.grad.abs().sum() > 0


def test_codes_far_from_zero_are_found_again(toy):
    code2wav = Code2Wav(toy.config.code2wav, 257)
    load_code2wav(make_trainable(code2wav), toy.base, toy.config)
    quantiser = Quantiser(code2wav)
    book = code2wav.quantizer.codebooks[0]
    with torch.no_grad():
        quantiser.first_input.weight.copy_(torch.eye(16)[:8])
        latent = torch.cat([book, torch.zeros(16, 8)], dim=1)[None]
        assert torch.equal(quantiser(latent).codes[0, 0], torch.arange(16))


def test_the_code_space_stays_that_of_the_base(toy):
    write_pairs(toy)
    trained = train(toy, {"fit": 2, "encoder": 2, "together": 3})
    assert trained["finished"] == ["fit", "encoder", "together"]
    rows = [json.loads(line) for line in (toy.state / "logs" / "codec.jsonl").read_text().splitlines()]
    validations = [r for r in rows if r.get("message") == "validation"]
    assert validations and all(np.isfinite(r["val_mel"]) for r in validations)
    state = trained["codec"]
    base = load_base(toy.base).code2wav
    for name in ("codebooks", "first_proj.weight", "rest_proj.weight"):
        assert torch.equal(state[f"code2wav.quantizer.{name}"], base.state_dict()[f"quantizer.{name}"])
    moved = state["code2wav.output_conv.conv.weight"] - base.output_conv.conv.weight
    assert moved.abs().max() > 0


@pytest.mark.slow
def test_fitting_finds_the_codes_better(toy):
    write_pairs(toy)
    train(toy, {"fit": 200, "encoder": 1, "together": 1})
    rows = [json.loads(line) for line in (toy.state / "logs" / "codec.jsonl").read_text().splitlines()]
    fits = [r for r in rows if r.get("what") == "fit" and "first" in r]
    assert fits[-1]["step"] == 200 and fits[-1]["first"] < 0.8 * fits[0]["first"]


@pytest.mark.slow
def test_a_resumed_run_equals_an_uninterrupted_one(toy, monkeypatch):
    write_pairs(toy)
    steps = {"fit": 2, "encoder": 4, "together": 2}
    whole = train(toy, steps)
    shutil.rmtree(toy.state / "logs")
    (toy.state / "codec.pt").unlink()
    # the first run is told to stop after two steps of the stage that counts: as at a deadline
    from reference_impl.training import codec as module

    real = module.Clock.running

    def interrupted(clock):
        return real.fget(clock) and not (clock.max_steps == steps["encoder"] and clock.step >= 2)

    monkeypatch.setattr(module.Clock, "running", property(interrupted))
    monkeypatch.setattr(module, "STAGES", ("fit", "encoder"))
    assert train(toy, steps)["stage"] == "encoder"
    monkeypatch.undo()
    resumed = train(toy, steps)
    assert resumed["finished"] == whole["finished"]
    for name, value in whole["codec"].items():
        assert torch.equal(value, resumed["codec"][name]), name


def test_encoding_gives_each_utterance_its_own_codes(toy):
    write_pairs(toy)
    train(toy, {"fit": 2, "encoder": 1, "together": 1})
    codec = load_codec(toy.state, toy.base, CPU)
    audio = toy.state / "audio"
    assert encode_new(codec, audio, CPU) == 3
    assert encode_new(codec, audio, CPU) == 0
    codes = np.load(codes_path(audio, "c0001").open("rb"))
    frames = read_info(audio, "c0001").frames
    assert codes.shape == (frames.sum(), 4) and codes.min() >= 0 and codes.max() < 16
    # the longest utterance has no padding beside it: alone it gives the same codes
    longest = int(frames.argmax())
    start = int(frames[:longest].sum())
    samples = torch.from_numpy(np.array(read_audio(audio, "c0001")[start : start + frames[longest]]))
    with torch.no_grad():
        alone = codec.encode(to_wave(samples[None]))[0].T.numpy()
    assert (alone == codes[start : start + frames[longest]]).mean() > 0.95


def test_the_line_loss_hears_a_tone_at_8_khz_and_nothing_else():
    loss = ReconstructionLoss()
    gen = torch.Generator().manual_seed(0)
    noise = 0.02 * torch.randn(1, 24_000, generator=gen)
    time = torch.arange(24_000) / 24_000
    assert loss(noise, noise)[2] == 0
    assert loss(noise + 0.01 * torch.sin(2 * torch.pi * 8000 * time), noise)[2] > 0.1
    assert loss(noise + 0.01 * torch.sin(2 * torch.pi * 7000 * time), noise)[2] < 0.02
    assert loss(0.5 * noise, noise)[2] < 0.02
