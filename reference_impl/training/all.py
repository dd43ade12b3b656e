"""The whole training within a time budget: synthesis on the CPU cores beside codec and language model on the GPU.

    python -m reference_impl.training.all --state STATE --corpus corpus.npz.xz --base CHECKPOINT --out FOLDER
        --budget-s 1100 [--more-s 0]

Ends within ``--budget-s`` and always writes ``--out`` from the latest states. The same command
goes on where the last one stopped; ``--more-s`` says how many seconds such later calls will
have, so that the learning rate falls over all of them.
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from omni_bench.errors import DatasetError
from reference_impl.training.codec import train_codec
from reference_impl.training.codec_trainer import CodecSettings
from reference_impl.training.encode import encode_new, load_codec
from reference_impl.training.export import export
from reference_impl.training.lm import LmSettings, train_lm
from reference_impl.training.state import Log, pick_device
from reference_impl.training.synthesise import finished_chunks, hours, start_workers

EXPORT_S = 15.0  # kept back for validation, the last state and the checkpoint


@dataclass(frozen=True)
class TrainingPlan:
    """Seconds of the codec's stages; the language model gets what is left."""

    fit_s: float = 40.0
    encoder_s: float = 100.0
    together_s: float = 110.0

    def budgets(self) -> dict[str, float]:
        """By stage name."""
        return {"fit": self.fit_s, "encoder": self.encoder_s, "together": self.together_s}


def run_all(
    state: Path,
    corpus: Path,
    base: Path,
    out: Path,
    budget_s: float,
    more_s: float = 0.0,
    plan: TrainingPlan | None = None,
    workers: int = 14,
    device: torch.device | None = None,
    seed: int = 0,
    pairs: int = 1500,
    chunks: int = 1 << 30,
    codec_settings: CodecSettings | None = None,
    lm_settings: LmSettings | None = None,
    export_s: float = EXPORT_S,
) -> None:
    """See the module docstring. ``chunks``: synthesise only so many; the rest as in the single stages."""
    started = time.monotonic()
    deadline = started + budget_s - export_s
    plan, device = plan or TrainingPlan(), device or pick_device("auto")
    audio = state / "audio"
    log = Log(state / "logs" / "all.jsonl", "all")
    processes = start_workers(corpus.absolute(), audio.absolute(), workers, budget_s - export_s - 5, chunks)
    log.write(
        message="start", budget_s=budget_s, more_s=more_s, device=str(device), workers=workers, audio=hours(audio)
    )
    try:
        while not finished_chunks(audio):
            codes = [p.poll() for p in processes]
            failed = [c for c in codes if c]
            if failed or time.monotonic() >= deadline or None not in codes:
                raise DatasetError(f"no audio after {time.monotonic() - started:.0f} s; synthesis exit codes {failed}")
            time.sleep(0.2)
        train_codec(
            state, corpus, base, plan.budgets(), deadline, codec_settings, device,
            pairs_count=pairs, seed=seed,
        )  # fmt: skip
        log.write(message="codec", audio=hours(audio))
        if time.monotonic() < deadline:
            codec = load_codec(state, base, device)

            def refresh() -> None:
                before = time.monotonic()
                count = encode_new(codec, audio, device, deadline)
                log.write(message="encoded", chunks=count, seconds=time.monotonic() - before, audio=hours(audio))

            train_lm(
                state, corpus, base, float("inf"), deadline, lm_settings, device,
                remaining_s=deadline - time.monotonic() + more_s, refresh=refresh, seed=seed,
            )  # fmt: skip
    finally:
        exported = time.monotonic()
        export(state, base, out)
        codes = [p.poll() for p in processes]
        log.write(
            message="exported", seconds=time.monotonic() - exported, synthesis_exit_codes=codes, audio=hours(audio)
        )
        log.close()
        for process in processes:
            process.terminate()


def main() -> None:
    """Command line; see the module docstring."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("--state", "--corpus", "--base", "--out"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--budget-s", type=float, required=True)
    parser.add_argument("--more-s", type=float, default=0.0)
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 2))
    parser.add_argument("--chunks", type=int, default=1 << 30, help="synthesise only the first so many chunks")
    parser.add_argument("--pairs", type=int, default=1500, help="sentences spoken by the base checkpoint")
    parser.add_argument("--fit-s", type=float, default=TrainingPlan.fit_s)
    parser.add_argument("--encoder-s", type=float, default=TrainingPlan.encoder_s)
    parser.add_argument("--together-s", type=float, default=TrainingPlan.together_s)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    run_all(
        args.state,
        args.corpus,
        args.base,
        args.out,
        args.budget_s,
        args.more_s,
        TrainingPlan(args.fit_s, args.encoder_s, args.together_s),
        args.workers,
        pick_device(args.device),
        args.seed,
        args.pairs,
        args.chunks,
    )


if __name__ == "__main__":
    main()
