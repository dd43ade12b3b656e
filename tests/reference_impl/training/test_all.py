"""The whole pipeline at toy scale: what it writes, what a second call goes on with, and how it fails."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch

from omni_bench.errors import DatasetError
from reference_impl.training import all as module
from reference_impl.training.all import TrainingPlan, run_all
from reference_impl.training.codec_trainer import CodecSettings
from reference_impl.training.lm import LmSettings
from reference_impl.training.released import load_base
from reference_impl.training.state import Clock, cosine, load_state

CODEC = CodecSettings(batch=3, frames=6, segment=4, fit_batch=3, pool_hours=0.01, warm_up=2)
LM = LmSettings(tokens=256, predicted=16, warm_up=2, validation_batch=4)


class Finished:
    """A synthesis process that has ended with ``code``."""

    def __init__(self, code: int):
        self.code = code

    def poll(self) -> int:
        return self.code

    def terminate(self) -> None:
        pass


def run(toy, out, monkeypatch, budget_s: float, code: int = 0) -> None:
    monkeypatch.setattr(module, "start_workers", lambda *args: [Finished(code)])
    frames = np.zeros((40, 1920), np.int16)
    np.savez(toy.state / "pairs.npz", samples=frames, codes=np.zeros((40, 4), np.int16))
    plan = TrainingPlan(fit_s=0.3, encoder_s=0.3, together_s=0.3)
    run_all(
        toy.state, toy.corpus, toy.base, out, budget_s, 0.0, plan, 1, torch.device("cpu"),
        codec_settings=CODEC, lm_settings=LM, export_s=0.5,
    )  # fmt: skip


def stop_language_model_at(step: int, monkeypatch) -> None:
    """As if the deadline came then; how far a busy machine gets within seconds says nothing."""
    real = Clock.running

    def running(clock: Clock) -> bool:
        codec = clock.budget_s < 1.0
        return real.fget(clock) and (codec or clock.step < step)

    monkeypatch.setattr(Clock, "running", property(running))


@pytest.mark.slow
def test_a_second_call_goes_on_and_both_write_a_checkpoint(toy, tmp_path, monkeypatch):
    states = []
    for folder, step in (("first", 3), ("second", 6)):
        with monkeypatch.context() as patch:
            stop_language_model_at(step, patch)
            run(toy, tmp_path / folder, patch, 120.0)
        states.append(load_state(toy.state / "lm.pt", torch.device("cpu")))
    first, second = states
    assert second["step"] > first["step"] > 0
    for folder in ("first", "second"):
        assert load_base(tmp_path / folder).config.text.max_chars == 180
    rows = [json.loads(line) for line in (toy.state / "logs" / "codec.jsonl").read_text().splitlines()]
    starts = [r["finished"] for r in rows if r.get("message") == "start"]
    assert starts == [[], ["fit", "encoder", "together"]]


def test_a_call_that_is_cut_short_still_writes_a_checkpoint(toy, tmp_path, monkeypatch):
    run(toy, tmp_path / "out", monkeypatch, 0.6)
    assert not (toy.state / "lm.pt").exists()
    load_base(tmp_path / "out")
    assert "n/a" in (tmp_path / "out" / "README.md").read_text()


def test_synthesis_that_dies_is_named(toy, tmp_path, monkeypatch):
    for path in (toy.state / "audio").iterdir():
        path.unlink()
    with pytest.raises(DatasetError, match=r"exit codes \[3\]"):
        run(toy, tmp_path / "out", monkeypatch, 30.0, code=3)


def test_the_clock_counts_earlier_runs_and_takes_what_is_further():
    clock = Clock(math.inf, max_steps=10)
    clock.resume(5, 100.0)
    assert clock.fraction == 0.5 and clock.running and clock.elapsed_s >= 100
    timed = Clock(200.0, max_steps=1000)
    timed.resume(5, 150.0)
    assert 0.75 <= timed.fraction < 0.8
    assert not Clock(100.0, deadline=0.0).running


def test_the_learning_rate_rises_then_falls_to_its_floor():
    assert cosine(0.0, 0, 10) == pytest.approx(0.1)
    assert cosine(0.0, 50, 10) == 1.0
    assert cosine(0.5, 50, 10) == pytest.approx(0.5)
    assert cosine(1.0, 50, 10, floor=0.03) == pytest.approx(0.03)
