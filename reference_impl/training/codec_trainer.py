"""One step of the codec's training, whatever the stage, and its validation."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from reference_impl.model.code2wav import Code2Wav
from reference_impl.model.config import ModelConfig
from reference_impl.training.audio_pool import AudioPool
from reference_impl.training.codec_loss import PhonemeHead, ReconstructionLoss
from reference_impl.training.codec_model import Encoder, Quantiser, decode_latent, make_trainable, to_wave
from reference_impl.training.state import Clock, cosine, generator

LINES_WEIGHT = 2.0


@dataclass(frozen=True)
class CodecSettings:
    """Sizes of the training steps. ``segment`` of ``frames`` frames go through the convolutional decoder."""

    batch: int = 64
    frames: int = 24
    segment: int = 12
    context: int = 1  # decoded frames at a segment's start that do not count: they lack history
    learning_rate: float = 8e-4
    together_learning_rate: float = 4e-4
    warm_up: int = 100
    fit_batch: int = 128
    pool_hours: float = 24.0
    poll_every: int = 50


class Codec(nn.Module):
    """Encoder, quantiser, Code2Wav and the phoneme head, together for saving and loading."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.code2wav = make_trainable(Code2Wav(config.code2wav, max_frames=256))
        self.encoder = Encoder(config.code2wav)
        self.quantiser = Quantiser(self.code2wav)
        self.phonemes = PhonemeHead(config.code2wav.codebook_dim // 2)

    def encode(self, wave: Tensor) -> Tensor:
        """[B, 1920 × T] -> codes [B, 16, T]."""
        return self.quantiser(self.encoder(wave).float()).codes


def autocast(device: torch.device) -> torch.autocast:
    """bf16 on CUDA, nothing on a CPU."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=device.type == "cuda")


def reconstruction(
    codec: Codec, wave: Tensor, latent: Tensor, settings: CodecSettings, gen: torch.Generator, loss: nn.Module
):
    """Decode a random segment of every clip and compare: (log-mel, magnitude, lines)."""
    frames = latent.shape[1]
    segment = min(settings.segment, frames)
    hop = codec.code2wav.config.samples_per_frame
    starts = torch.randint(0, frames - segment + 1, (len(latent),), device=latent.device, generator=gen)
    made = decode_latent(codec.code2wav, latent, starts, segment).float()
    index = starts[:, None] + torch.arange(segment, device=latent.device)
    wanted = wave.view(len(wave), frames, hop).gather(1, index[..., None].expand(-1, -1, hop)).flatten(1)
    skip = min(settings.context, segment - 1) * hop
    return loss(made[:, skip:], wanted[:, skip:])


class CodecTrainer:
    """Runs one stage; see :func:`train_codec`."""

    def __init__(self, codec: Codec, stage: str, settings: CodecSettings, device: torch.device, seed: int):
        self.codec, self.stage, self.settings, self.device, self.seed = codec, stage, settings, device, seed
        self.loss = ReconstructionLoss().to(device)
        codec.requires_grad_(False)
        trained: list[nn.Module] = [codec.encoder, codec.quantiser, codec.phonemes]
        if stage == "together":
            trained.append(codec.code2wav)
        for module in trained:
            module.requires_grad_(True)
        codec.code2wav.quantizer.codebooks.requires_grad_(False)
        if stage == "together":  # the meaning of the codes is settled
            codec.code2wav.quantizer.requires_grad_(False)
        parameters = [p for p in codec.parameters() if p.requires_grad]
        rate = settings.together_learning_rate if stage == "together" else settings.learning_rate
        self.base_rate = rate
        self.parameters = parameters
        self.optimiser = torch.optim.AdamW(
            [
                {"params": [p for p in parameters if p.ndim > 1], "weight_decay": 0.01},
                {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
            ],
            lr=rate,
            betas=(0.8, 0.98),
            fused=device.type == "cuda",
        )

    def step(self, clock: Clock, pool: AudioPool | None, pairs: tuple[Tensor, Tensor] | None) -> dict[str, Tensor]:
        """One optimiser step; returns the losses as tensors."""
        gen = generator(self.device, self.seed, STAGE_NUMBER[self.stage], clock.step)
        if self.stage == "fit":
            total, logged = self._fit(pairs, gen)
        else:
            total, logged = self._reconstruct(pool, gen)
        for group in self.optimiser.param_groups:
            group["lr"] = self.base_rate * cosine(clock.fraction, clock.step, self.settings.warm_up, floor=0.03)
        self.optimiser.zero_grad(set_to_none=True)
        total.backward()
        logged["grad"] = nn.utils.clip_grad_norm_(self.parameters, 3.0)
        self.optimiser.step()
        clock.step += 1
        return logged

    def _fit(self, pairs: tuple[Tensor, Tensor], gen: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        samples, codes = pairs
        frames = min(self.settings.frames, len(samples) - 1)
        starts = torch.randint(0, len(samples) - frames, (self.settings.fit_batch,), device=self.device, generator=gen)
        index = starts[:, None] + torch.arange(frames, device=self.device)
        target = codes[index].long()
        wave = to_wave(samples[index])
        with autocast(self.device):
            latent = self.codec.encoder(wave).float()
        first, _, rest = self.codec.quantiser.project(latent, first_codes=target[..., 0])
        books = self.codec.code2wav.quantizer.codebooks
        want_rest = sum(books[g][target[..., g]] for g in range(1, len(books)))
        scale_first, scale_rest = books[0].var(), want_rest.var()
        fit_first = (first - books[0][target[..., 0]]).square().mean() / scale_first
        fit_rest = (rest - want_rest).square().mean() / scale_rest
        logits = first @ (2 * books[0].T) - books[0].square().sum(1)
        code0 = F.cross_entropy(logits.flatten(0, 1) / (4 * scale_first), target[..., 0].flatten())
        accuracy = (logits.argmax(-1) == target[..., 0]).float().mean()
        total = fit_first + fit_rest + 0.2 * code0
        return total, {"first": fit_first, "rest": fit_rest, "code0": code0, "accuracy0": accuracy}

    def _reconstruct(self, pool: AudioPool, gen: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        settings, codec = self.settings, self.codec
        samples, labels = pool.draw(settings.batch, settings.frames, gen)
        wave = to_wave(samples)
        with autocast(self.device):
            quantised = codec.quantiser(codec.encoder(wave).float())
            mel, magnitude, lines = reconstruction(codec, wave, quantised.latent, settings, gen, self.loss)
        phoneme, accuracy = codec.phonemes.loss(quantised.semantic, labels)
        total = 10 * mel + 2 * magnitude + 0.5 * quantised.commitment + 0.5 * phoneme
        if self.stage != "encoder":  # a frozen decoder can do nothing about its lines
            total = total + LINES_WEIGHT * lines
        logged = {"mel": mel, "magnitude": magnitude, "lines": lines, "commitment": quantised.commitment}
        logged |= {"phoneme": phoneme, "phoneme_accuracy": accuracy}
        return total, logged


STAGE_NUMBER = {"fit": 1, "encoder": 2, "together": 3}


@torch.no_grad()
def validate(codec: Codec, pool: AudioPool, loss: nn.Module, device: torch.device) -> dict[str, object]:
    """Whole-clip reconstruction of the validation chunk: losses, phoneme accuracy, codebook entropies in bits."""
    samples, labels = pool.validation
    frames = min(40, len(samples))
    clips = min(48, len(samples) // frames)
    wave = to_wave(samples[: clips * frames].view(clips, frames, -1))
    rows: list[tuple[Tensor, ...]] = []
    codes: list[Tensor] = []
    for i in range(0, clips, 16):
        with autocast(device):
            quantised = codec.quantiser(codec.encoder(wave[i : i + 16]).float())
            made = decode_latent(codec.code2wav, quantised.latent).float()
        part = labels[i * frames : i * frames + made.shape[0] * frames].view(made.shape[0], frames, -1)
        phoneme, accuracy = codec.phonemes.loss(quantised.semantic, part)
        rows.append((*loss(made, wave[i : i + 16]), phoneme, accuracy))
        codes.append(quantised.codes.transpose(1, 2).flatten(0, 1))
    mean = [float(torch.stack([r[i] for r in rows]).mean()) for i in range(5)]
    used = torch.cat(codes)
    entropy = []
    for group in range(used.shape[1]):
        share = torch.bincount(used[:, group]).float() / len(used)
        entropy.append(round(float(-(share * (share + 1e-9).log2()).sum()), 2))
    names = ("val_mel", "val_magnitude", "val_lines", "val_phoneme", "val_phoneme_accuracy")
    return {**dict(zip(names, mean, strict=True)), "entropy_bits": entropy}
