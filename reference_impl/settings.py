"""Settings of the reference server; the fields are those of the config group ``reference``."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields

from omni_bench.errors import ConfigError


@dataclass(frozen=True)
class ServerSettings:
    """How the reference engine runs.

    ``preset``/``checkpoint``: which model and weights (``bundled`` is the tiny voice shipped
    with the package). ``max_batch``: requests decoded together; more wait. ``max_queue``:
    waiting requests beyond which a new one is refused (429). ``max_seq_len``: positions of
    the talker's KV cache a slot (text + frames of one segment). ``deterministic``: every
    step runs at the fixed batch shape ``max_batch`` so that a request's codes cannot depend
    on how many neighbours it has. ``first_chunk_frames``: frames in the first audio chunk;
    later chunks double up to ``chunk_frames``. ``threads``: PyTorch intra-op threads on CPU
    (None: all cores).
    """

    preset: str = "tiny"
    checkpoint: str = "bundled"
    device: str = "auto"
    dtype: str = "auto"
    max_batch: int = 32
    max_queue: int = 256
    max_seq_len: int = 512
    deterministic: bool = False
    first_chunk_frames: int = 1
    chunk_frames: int = 8
    temperature: float = 0.7
    top_k: int = 50
    predictor_temperature: float = 0.7
    predictor_top_k: int = 50
    threads: int | None = None

    def to_json(self) -> str:
        """The form passed to ``python -m reference_impl --settings``."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "ServerSettings":
        """Parse :meth:`to_json`. Raises ConfigError for unknown keys or bad JSON."""
        try:
            values = json.loads(text)
        except json.JSONDecodeError as error:
            raise ConfigError(f"--settings is not JSON: {error}") from None
        valid = [f.name for f in fields(cls)]
        unknown = sorted(set(values) - set(valid))
        if unknown:
            raise ConfigError(f"--settings: unknown key(s) {', '.join(unknown)}; valid: {', '.join(valid)}")
        return cls(**values)
