"""What every training loop shares: its clock, its log, its saved state, its random numbers."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from typing import Any, TextIO

import torch
from torch import Tensor

from omni_bench.errors import CheckpointError


class Clock:
    """How far a stage is: by time, by steps, or by whichever is further.

    ``budget_s`` counts over resumed runs (``elapsed_s`` is what earlier ones used); ``deadline``
    (``time.monotonic``) ends the current run even if the stage is not finished.
    """

    def __init__(self, budget_s: float, max_steps: int | None = None, deadline: float = math.inf):
        self.budget_s, self.max_steps, self.deadline = budget_s, max_steps, deadline
        self.step = 0
        self._before_s, self._started = 0.0, time.monotonic()

    def resume(self, step: int, elapsed_s: float) -> None:
        """Go on from a saved state."""
        self.step, self._before_s, self._started = step, elapsed_s, time.monotonic()

    @property
    def elapsed_s(self) -> float:
        """Seconds spent in this stage, earlier runs included."""
        return self._before_s + time.monotonic() - self._started

    @property
    def fraction(self) -> float:
        """0 at the start, 1 when the stage is finished."""
        by_steps = self.step / self.max_steps if self.max_steps else 0.0
        by_time = self.elapsed_s / self.budget_s if self.budget_s < math.inf else 0.0
        return min(1.0, max(by_steps, by_time))

    @property
    def running(self) -> bool:
        """Whether another step may start."""
        return self.fraction < 1.0 and time.monotonic() < self.deadline


def cosine(fraction: float, step: int, warm_up: int, floor: float = 0.0) -> float:
    """Learning-rate factor: linear over ``warm_up`` steps, then half a cosine from 1 to ``floor``."""
    return min(1.0, (step + 1) / warm_up) * (floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * fraction)))


def generator(device: torch.device, *key: int) -> torch.Generator:
    """A generator that depends on ``key`` only: a step draws the same numbers after a resume."""
    seed = 0
    for part in key:
        seed = (seed * 1_000_003 + part + 1) % (1 << 62)
    return torch.Generator(device).manual_seed(seed)


class Log:
    """JSON lines, appended to a file and printed; numbers are shortened to four significant decimals."""

    def __init__(self, path: Path, stage: str):
        path.parent.mkdir(parents=True, exist_ok=True)
        self._handle: TextIO = path.open("a", encoding="utf-8")
        self._stage, self._started = stage, time.monotonic()

    def write(self, **values: Any) -> None:
        """One line."""
        row = {"stage": self._stage, "t_s": time.monotonic() - self._started, **values}
        line = json.dumps({k: _short(v) for k, v in row.items()})
        print(line, flush=True)
        self._handle.write(line + "\n")
        self._handle.flush()

    def close(self) -> None:
        """Close the file."""
        self._handle.close()


def _short(value: Any) -> Any:
    if isinstance(value, Tensor):
        value = value.tolist()
    if isinstance(value, float):
        return round(value, 5) if math.isfinite(value) else str(value)
    if isinstance(value, list):
        return [_short(v) for v in value]
    return value


def save_state(path: Path, state: dict[str, Any]) -> None:
    """Write a training state so that a crash leaves the old one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    torch.save(state, partial)
    partial.replace(path)


def load_state(path: Path, device: torch.device) -> dict[str, Any] | None:
    """Read a training state, or None if there is none. Raises CheckpointError if it is broken."""
    if not path.exists():
        return None
    try:
        return torch.load(path, map_location=device, weights_only=True)
    except (RuntimeError, EOFError, ValueError) as error:
        raise CheckpointError(f"{path}: not a training state: {error}") from None


def pick_device(name: str) -> torch.device:
    """``auto``: CUDA where there is one. TF32 is allowed: training does not need more."""
    device = torch.device("cuda" if name == "auto" and torch.cuda.is_available() else "cpu" if name == "auto" else name)
    if device.type == "cuda":
        torch.backends.cuda.matmul.allow_tf32 = True
        torch.backends.cudnn.allow_tf32 = True
    return device
