"""Settings of the reference server; the fields are those of the config group ``reference``."""

from __future__ import annotations

import ctypes
import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import get_args, get_type_hints

from omni_bench.errors import ConfigError

PREDICTOR_STRATEGIES = ("kv_cache", "reprefill", "fixed_window")
GRAPHS = ("off", "compile", "cuda_graph", "full_step")
CODE2WAV_GRAPHS = ("cuda_graph", "full_step")
"""With these, Code2Wav runs in graphs as well, on a stream of its own."""

BUFFERS = ("device", "host_roundtrip")
CHUNK_GROWTHS = ("buffered", "double")
DTYPES = ("auto", "float32", "bfloat16")
BUNDLED = {"tiny": Path(__file__).parent / "checkpoints" / "tiny"}
"""Presets whose weights come with the package, and where they are."""

DEFAULT_CHAT_TOKEN_MS, MAX_CHAT_TOKEN_MS = 5.0, 10_000.0
"""Two hundred tokens a second: a sentence of twelve words is written in 60 ms."""

LISTENING_ON = "listening on "
"""Goes before the server's own address in its log, which is how who launched it learns the port."""


# settings that are 1 or more
SIZES = ("max_batch", "max_queue", "max_seq_len", "join_every_frames", "first_chunk_frames", "chunk_frames")


def check_engine_process(value: bool | str) -> None:
    """Raise ConfigError for a value of ``reference.engine_process`` that is none."""
    if not isinstance(value, bool) and value != "auto":
        raise ConfigError(f"reference.engine_process={value!r}; valid: auto, true, false")


def cuda_devices() -> int:
    """Devices that the CUDA driver shows to this process, 0 without one. Takes no PyTorch, which takes seconds."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int(0)
    failed = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
    return 0 if failed else count.value


@dataclass(frozen=True)
class ServerSettings:
    """How the reference engine runs.

    ``preset``/``checkpoint``: which model and weights (``bundled`` is the tiny voice shipped
    with the package, ``random`` any preset with weights that speak noise, anything else a
    folder, whose own configuration then counts and not the preset's). ``max_batch``: requests
    decoded together; more wait. ``max_queue``:
    waiting requests beyond which a new one is refused (429). ``max_seq_len``: positions of
    the talker's KV cache a slot (text + frames of one segment). ``join_every_frames``: while more than half
    of the rows run, waiting prompts are read at most before every so many-th frame, several at a time, where
    the execution reads them together (``full_step``): fewer calls for prompts against later first chunks.
    ``deterministic``: every step runs at the fixed batch shape ``max_batch`` so that a request's codes
    cannot depend on how many neighbours it has. ``first_chunk_frames``: frames in the first audio chunk;
    later chunks grow up to ``chunk_frames`` as ``chunk_growth`` says (``chunking.py``), in
    deterministic mode by doubling. ``predictor``: one of PREDICTOR_STRATEGIES.
    The sampling fields are the checkpoint's own where they are None; temperature 0 takes the
    likeliest code. ``threads``: PyTorch threads inside one operation on a CPU (None: half the
    cores, at most 4; Code2Wav runs beside the talker). ``recorded``: in float32 on a CPU, the
    operations of a frame are recorded at the first one and replayed without Python
    (``recording.py``; the codes and samples are the same). ``fault``: a name of
    ``faults/catalogue.py``, which breaks this server on purpose (None: it works). ``graphs``:
    how a step is executed (``execution.py``); all but ``off`` need CUDA. ``buffers``: whether
    codes and states stay on the device between two steps of a frame, or go through the host.
    ``chat_token_ms``: the pace at which the chat form's stand-in for a text model writes its tokens
    (``chat_text.py``); 0 writes them as fast as it can. ``engine_process``: whether the engine gets
    a process of its own beside the one that serves HTTP (``remote_engine.py``), see :meth:`in_two_processes`.
    """

    preset: str = "tiny"
    checkpoint: str = "bundled"
    device: str = "auto"
    dtype: str = "auto"
    max_batch: int = 32
    max_queue: int = 256
    max_seq_len: int = 512
    join_every_frames: int = 6
    deterministic: bool = False
    first_chunk_frames: int = 1
    chunk_frames: int = 8
    chunk_growth: str = "buffered"
    predictor: str = "kv_cache"
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    repetition_penalty: float | None = None
    predictor_temperature: float | None = None
    predictor_top_k: int | None = None
    predictor_top_p: float | None = None
    threads: int | None = None
    recorded: bool = True
    fault: str | None = None
    graphs: str = "off"
    buffers: str = "device"
    chat_token_ms: float = DEFAULT_CHAT_TOKEN_MS
    engine_process: bool | str = "auto"

    def in_two_processes(self) -> bool:
        """Whether the engine gets a process of its own; ``auto``: where it runs on CUDA. Raises ConfigError."""
        check_engine_process(self.engine_process)
        if isinstance(self.engine_process, bool):
            return self.engine_process
        return self.device.startswith("cuda") or (self.device == "auto" and cuda_devices() > 0)

    def to_json(self) -> str:
        """The form passed to ``python -m reference_impl --settings``."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> ServerSettings:
        """Parse :meth:`to_json`. Raises ConfigError for bad JSON, unknown keys, wrong types, sizes below 1."""
        try:
            values = json.loads(text)
        except json.JSONDecodeError as error:
            raise ConfigError(f"--settings is not JSON: {error}") from None
        if not isinstance(values, dict):
            raise ConfigError(f"--settings must be a JSON object, not {type(values).__name__}")
        valid = [f.name for f in fields(cls)]
        unknown = sorted(set(values) - set(valid))
        if unknown:
            raise ConfigError(f"--settings: unknown key(s) {', '.join(unknown)}; valid: {', '.join(valid)}")
        types = get_type_hints(cls)
        for key, value in values.items():
            # JSON writes 1.0 as 1; a bool is an int to isinstance but never meant as one.
            accepted = types[key] | int if types[key] in (float, float | None) else types[key]
            takes_bool = bool in (types[key], *get_args(types[key]))
            if not isinstance(value, accepted) or (isinstance(value, bool) and not takes_bool):
                wanted = getattr(types[key], "__name__", str(types[key]))
                raise ConfigError(f"--settings: {key} must be of type {wanted}, not {type(value).__name__}: {value!r}")
            if key in SIZES and value < 1:
                raise ConfigError(f"--settings: {key}={value}: at least 1")
        return cls(**values)
