"""Train the codec: fit an encoder to a checkpoint's code space, then on teacher audio, then with the decoder.

Stages, each resumable: ``fit`` (encoder against known codes), ``encoder`` (encoder through the
frozen decoder, so that the codes are those that sound best), ``together`` (encoder and decoder,
with the imaging lines penalised). Codebooks and with them the meaning of the codes stay those
of the checkpoint.
"""

from __future__ import annotations

import math
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from omni_bench.errors import DatasetError
from reference_impl.loading.released_config import read_config
from reference_impl.training.audio_pool import AudioPool
from reference_impl.training.codec_model import compile_snake
from reference_impl.training.codec_trainer import Codec, CodecSettings, CodecTrainer, validate
from reference_impl.training.corpus import load_corpus
from reference_impl.training.pairs import speak_pairs
from reference_impl.training.released import load_code2wav
from reference_impl.training.state import Clock, Log, load_state, pick_device, save_state

STAGES = ("fit", "encoder", "together")
SAVE_EVERY_S = 60.0


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
    seed: int = 0,
) -> Path:
    """Run the stages that are not finished; returns the state file ``codec.pt``.

    ``budgets_s``: seconds of each stage, 0 leaves it out; ``deadline`` (``time.monotonic``) ends the run early
    with the state saved. Audio is read from ``state/audio`` as it appears.
    """
    settings, device, max_steps = settings or CodecSettings(), device or pick_device("auto"), max_steps or {}
    log = Log(state / "logs" / "codec.jsonl", "codec")
    config = read_config(base)
    torch.manual_seed(seed)
    codec = Codec(config).to(device)
    path = state / "codec.pt"
    saved = load_state(path, device)
    finished: list[str] = []
    if saved:
        codec.load_state_dict(saved["codec"])
        finished = saved["finished"]
    else:
        load_code2wav(codec.code2wav, base, config)
    log.write(message="start", device=str(device), finished=finished, snake=compile_snake(device))
    pairs = None
    pool = AudioPool(state / "audio", settings.pool_hours, device)
    for stage in STAGES:
        if stage in finished or budgets_s.get(stage) == 0 or time.monotonic() >= deadline:
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
