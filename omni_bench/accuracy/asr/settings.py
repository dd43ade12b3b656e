"""Settings of the judge that both its processes and their parent need."""

from __future__ import annotations

from dataclasses import dataclass

from omni_bench.errors import ConfigError
from omni_bench.records.config import AsrConfig

BATCH_CPU, BATCH_CUDA = 8, 16
THREADS_PER_WORKER = 1  # on a CPU: more processes gain more than more threads
MAX_SILENCE_MS = 5000  # before as after: more would eat into Whisper's 30 s window


@dataclass(frozen=True)
class JudgeSettings:
    """How clips are heard; see ``config.schema.AsrConfig``. Raises ConfigError for values out of range."""

    batch_size: int
    lead_silence_ms: int
    tail_silence_ms: int

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise ConfigError(f"asr.batch_size={self.batch_size}: at least 1")
        for name in ("lead_silence_ms", "tail_silence_ms"):
            if not 0 <= getattr(self, name) <= MAX_SILENCE_MS:
                raise ConfigError(f"asr.{name}={getattr(self, name)}: 0 to {MAX_SILENCE_MS}")

    @property
    def silence_s(self) -> float:
        """Seconds of silence that every clip is given."""
        return (self.lead_silence_ms + self.tail_silence_ms) / 1000.0


def judge_settings(asr: AsrConfig, device: str) -> JudgeSettings:
    """The settings in ``asr`` for a judge on ``device``. Raises ConfigError for values out of range."""
    batch_size = asr.batch_size if asr.batch_size is not None else BATCH_CUDA if on_cuda(device) else BATCH_CPU
    return JudgeSettings(batch_size, asr.lead_silence_ms, asr.tail_silence_ms)


def on_cuda(device: str) -> bool:
    """True for ``cuda`` and ``cuda:N``."""
    return device.startswith("cuda")
