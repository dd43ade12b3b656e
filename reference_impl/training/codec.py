"""Train the codec: fit an encoder to a checkpoint's code space, then on teacher audio, then with the decoder.

    python -m reference_impl.training.codec --state STATE --corpus corpus.npz.xz --base CHECKPOINT [--budget-s 300]

Stages, each resumable: ``fit`` (encoder against known codes), ``encoder`` (encoder through the
frozen decoder, so that the codes are those that sound best), ``together`` (encoder and decoder,
with the imaging lines penalised). Codebooks and with them the meaning of the codes stay those
of the checkpoint. ``joint``, which learns the codebooks too, replaces the first two when there
is no checkpoint to start from.
"""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from omni_bench.errors import DatasetError
from reference_impl.code2wav import Code2Wav
from reference_impl.config import ModelConfig, config_from_json
from reference_impl.training.audio_pool import AudioPool
from reference_impl.training.codebooks import CodebookLearner
from reference_impl.training.codec_model import (
    Encoder,
    PhonemeHead,
    Quantiser,
    ReconstructionLoss,
    compile_snake,
    decode_latent,
    make_trainable,
    to_wave,
)
from reference_impl.training.corpus import load_corpus
from reference_impl.training.pairs import speak_pairs
from reference_impl.training.released import load_code2wav
from reference_impl.training.state import Clock, Log, cosine, generator, load_state, pick_device, save_state

STAGES = ("fit", "encoder", "together")
SCRATCH_STAGES = ("joint", "together")
SAVE_EVERY_S = 60.0
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
    keep_less: float = 0.35  # share of clips that use a random number of residual codebooks (joint stage)


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
        self.learner = CodebookLearner(codec.code2wav.quantizer.codebooks) if stage == "joint" else None
        codec.requires_grad_(False)
        trained: list[nn.Module] = [codec.encoder, codec.quantiser, codec.phonemes]
        if stage in ("together", "joint"):
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
            total, logged = self._reconstruct(pool, gen, clock.step)
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

    def _reconstruct(self, pool: AudioPool, gen: torch.Generator, step: int) -> tuple[Tensor, dict[str, Tensor]]:
        settings, codec = self.settings, self.codec
        samples, labels = pool.draw(settings.batch, settings.frames, gen)
        wave = to_wave(samples)
        kept = None
        if self.stage == "joint" and step > 300:
            count = codec.code2wav.config.num_code_groups - 1
            fewer = torch.rand(len(wave), device=self.device, generator=gen) < settings.keep_less
            kept = torch.randint(1, count, (len(wave),), device=self.device, generator=gen)
            kept = torch.where(fewer, kept, count)
        with autocast(self.device):
            quantised = codec.quantiser(codec.encoder(wave).float(), kept, self.learner, gen)
            mel, magnitude, lines = reconstruction(codec, wave, quantised.latent, settings, gen, self.loss)
        phoneme, accuracy = codec.phonemes.loss(quantised.semantic, labels)
        total = 10 * mel + 2 * magnitude + 0.5 * quantised.commitment + 0.5 * phoneme
        if self.stage != "encoder":  # a frozen decoder can do nothing about its lines
            total = total + LINES_WEIGHT * lines
        logged = {"mel": mel, "magnitude": magnitude, "lines": lines, "commitment": quantised.commitment}
        logged |= {"phoneme": phoneme, "phoneme_accuracy": accuracy}
        return total, logged


STAGE_NUMBER = {"fit": 1, "encoder": 2, "together": 3, "joint": 4}


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


def train_codec(
    state: Path,
    corpus: Path,
    base: Path,
    budgets_s: dict[str, float],
    deadline: float = math.inf,
    settings: CodecSettings | None = None,
    device: torch.device | None = None,
    max_steps: dict[str, int] | None = None,
    pairs_count: int = 1500,
    scratch: bool = False,
    seed: int = 0,
) -> Path:
    """Run the stages that are not finished; returns the state file ``codec.pt``.

    ``budgets_s``: seconds of each stage; ``deadline`` (``time.monotonic``) ends the run early
    with the state saved. Audio is read from ``state/audio`` as it appears.
    """
    settings, device, max_steps = settings or CodecSettings(), device or pick_device("auto"), max_steps or {}
    log = Log(state / "logs" / "codec.jsonl", "codec")
    config = config_from_json(base / "config.json")
    torch.manual_seed(seed)
    codec = Codec(config).to(device)
    path = state / "codec.pt"
    saved = load_state(path, device)
    finished: list[str] = []
    if saved:
        codec.load_state_dict(saved["codec"])
        finished = saved["finished"]
    elif not scratch:
        load_code2wav(codec.code2wav, base, config)
    log.write(message="start", device=str(device), finished=finished, snake=compile_snake(device))
    pairs = None
    pool = AudioPool(state / "audio", settings.pool_hours, device)
    for stage in SCRATCH_STAGES if scratch else STAGES:
        if stage in finished or time.monotonic() >= deadline:
            continue
        trainer = CodecTrainer(codec, stage, settings, device, seed)
        clock = Clock(budgets_s.get(stage, math.inf), max_steps.get(stage), deadline)
        if stage == "fit":
            pairs = _pairs(state, corpus, base, pairs_count, device, log)
        else:
            pool.wait(deadline)
        if saved and saved.get("stage") == stage:
            trainer.optimiser.load_state_dict(saved["optimiser"])
            clock.resume(saved["step"], saved["elapsed_s"])
            if trainer.learner:
                trainer.learner.load_state_dict(saved["learner"])
        else:
            clock.resume(0, 0.0)
        saved = None
        _run_stage(trainer, clock, pool, pairs, log, path, finished)
    log.close()
    return path


def _run_stage(
    trainer: CodecTrainer, clock: Clock, pool: AudioPool, pairs, log: Log, path: Path, finished: list[str]
) -> None:
    stage, last_save, last_log, last_step = trainer.stage, time.monotonic(), time.monotonic(), clock.step

    def snapshot(done: bool) -> None:
        if done:
            finished.append(stage)
        state = {
            "codec": trainer.codec.state_dict(),
            "finished": finished,
            "stage": None if done else stage,
            "optimiser": None if done else trainer.optimiser.state_dict(),
            "learner": trainer.learner.state_dict() if trainer.learner and not done else None,
            "step": clock.step,
            "elapsed_s": clock.elapsed_s,
        }
        save_state(path, state)

    while clock.running:
        logged = trainer.step(clock, pool, pairs)
        step = clock.step
        if step in (1, 10) or step % 100 == 0:
            now = time.monotonic()
            ms = 1000 * (now - last_log) / max(1, step - last_step)
            values = {k: float(v.detach()) for k, v in logged.items()}
            log.write(what=stage, step=step, ms=ms, hours=pool.hours, fraction=clock.fraction, **values)
            last_log, last_step = now, step
            if not math.isfinite(values["grad"]):
                log.write(message="gradient is not finite", what=stage, step=step)
        if stage != "fit" and step % trainer.settings.poll_every == 0:
            pool.poll(2)
        if time.monotonic() - last_save > SAVE_EVERY_S:
            snapshot(done=False)
            last_save = time.monotonic()
    if pool.validation is not None:
        log.write(
            what=stage,
            step=clock.step,
            message="validation",
            **validate(trainer.codec, pool, trainer.loss, trainer.device),
        )
    snapshot(done=clock.fraction >= 1.0)


def _pairs(state: Path, corpus: Path, base: Path, count: int, device: torch.device, log: Log) -> tuple[Tensor, Tensor]:
    """Speech with known codes, from a file or spoken now."""
    path = state / "pairs.npz"
    if not path.exists():
        started = time.monotonic()
        rows = 192 if device.type == "cuda" else 16
        samples, codes = speak_pairs(
            base, load_corpus(corpus), count, str(device), rows, timeout_s=90.0 if device.type == "cuda" else 3600.0
        )
        pick_device(str(device))  # the engine has switched TF32 off
        partial = path.with_suffix(".partial")
        with partial.open("wb") as handle:
            np.savez(handle, samples=samples, codes=codes)
        partial.replace(path)
        log.write(message="pairs", hours=len(codes) / 12.5 / 3600, seconds=time.monotonic() - started)
    with np.load(path, allow_pickle=False) as z:
        if len(z["samples"]) != len(z["codes"]):
            raise DatasetError(f"{path}: {len(z['samples'])} frames of samples but {len(z['codes'])} of codes")
        return torch.from_numpy(z["samples"]).to(device), torch.from_numpy(z["codes"]).to(device)


def main() -> None:
    """Command line; see the module docstring."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--base", type=Path, required=True, help="checkpoint whose code space is kept")
    parser.add_argument("--fit-s", type=float, default=50)
    parser.add_argument("--encoder-s", type=float, default=120)
    parser.add_argument("--together-s", type=float, default=130)
    parser.add_argument("--joint-s", type=float, default=600)
    parser.add_argument("--scratch", action="store_true", help="train everything anew; --base gives the shapes only")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    budgets = {"fit": args.fit_s, "encoder": args.encoder_s, "together": args.together_s, "joint": args.joint_s}
    device = pick_device(args.device)
    train_codec(args.state, args.corpus, args.base, budgets, device=device, scratch=args.scratch, seed=args.seed)


if __name__ == "__main__":
    main()
