"""Settings of the reference server: the config group ``reference``, and the command line of the server. No PyTorch."""

from __future__ import annotations

import ctypes
import importlib.util
import json
import runpy
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Optional, Union, get_args, get_type_hints

from omni_bench.errors import ConfigError

PREDICTOR_STRATEGIES = ("kv_cache", "reprefill", "fixed_window")
GRAPHS = ("off", "compile", "cuda_graph", "full_step")
CODE2WAV_GRAPHS = ("cuda_graph", "full_step")
"""With these, Code2Wav runs in graphs as well, on a stream of its own."""

DTYPES = ("auto", "float32", "bfloat16")
BUNDLED = {"tiny": Path(__file__).parent / "checkpoints" / "tiny"}
"""Presets whose weights come with the package, and where they are."""

DEFAULT_CHAT_TOKEN_MS, MAX_CHAT_TOKEN_MS = 5.0, 10_000.0
"""Two hundred tokens a second: a sentence of twelve words is written in 60 ms."""

# settings that are 1 or more
SIZES = ("max_batch", "max_queue", "max_seq_len", "join_every_frames", "first_chunk_frames", "chunk_frames")


def check_engine_process(value: bool | str) -> None:
    """Raise ConfigError for an invalid value of ``reference.engine_process``."""
    if not isinstance(value, bool) and value != "auto":
        raise ConfigError(f"reference.engine_process={value!r}; valid: auto, true, false")


PROFILE_VARIABLE = "OMNI_BENCH_PROFILE_DIR"
"""Environment variable: a folder for traces. Without it a server has no /start_profile and /stop_profile."""
SPAN_PREFIX = "omni:"
"""Of the ranges in such a trace: omni:talker, omni:predictor, ..."""


def cuda_devices() -> int:
    """Devices that the CUDA driver shows to this process, 0 without one. Takes no PyTorch, which takes seconds."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int(0)
    failed = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
    return 0 if failed else count.value


def torch_version() -> dict[str, Any]:
    """What PyTorch was built for, without importing it: the names of its ``version.py``, such as cuda."""
    spec = importlib.util.find_spec("torch")
    assert spec is not None and spec.origin is not None
    return runpy.run_path(str(Path(spec.origin).with_name("version.py")))


def may_have_gpu() -> bool:
    """False if PyTorch, without being imported, is known to find no GPU: it was built for CPUs, or there is none."""
    built_for = torch_version()
    return bool((built_for["cuda"] and cuda_devices()) or built_for.get("hip"))


def _key(default: Any, explanation: str) -> Any:
    return field(default=default, metadata={"help": explanation})


@dataclass  # not frozen: Hydra fills it in, as the config group `reference`
class ServerSettings:
    """The bundled reference server."""

    preset: str = _key("tiny", "shapes of the model: tiny, qwen3_tts_0_6b or qwen3_tts_1_7b")
    checkpoint: str = _key("bundled", "weights: bundled, random, or the folder of a released checkpoint")
    device: str = _key("auto", "auto, cpu, cuda or cuda:N")
    dtype: str = _key("auto", "auto, float32 or bfloat16")
    max_batch: int = _key(32, "slots: requests decoded together; more wait")
    max_queue: int = _key(256, "waiting requests beyond which a new one is refused with 429")
    max_seq_len: int = _key(512, "positions of the talker's KV cache per slot")
    # fewer prefill calls, of several prompts each, against later first chunks (engine/scheduler.py)
    join_every_frames: int = _key(6, "full_step, more than half of the slots in use: prefill every N frames at most")
    # so that a request's codes cannot depend on how many neighbours it has; chunks then grow by doubling
    deterministic: bool = _key(False, "run every step at batch size max_batch, for bit-equal codes")
    first_chunk_frames: int = _key(1, "frames in the first chunk of audio")
    chunk_frames: int = _key(8, "frames in later chunks, maximum")
    predictor: str = _key("kv_cache", "code predictor: kv_cache, reprefill or fixed_window; the codes are the same")
    temperature: Optional[float] = _key(None, "talker; 0: greedy, null: the checkpoint's own, as for the next six")
    top_k: Optional[int] = _key(None, "talker; 0: no limit")
    top_p: Optional[float] = _key(None, "talker; 1: no limit")
    repetition_penalty: Optional[float] = _key(None, "talker; 1: none")
    predictor_temperature: Optional[float] = _key(None, "code predictor; 0: greedy")
    predictor_top_k: Optional[int] = _key(None, "code predictor; 0: no limit")
    predictor_top_p: Optional[float] = _key(None, "code predictor; 1: no limit")
    # inside one operation; Code2Wav runs beside the talker, each with as many
    threads: Optional[int] = _key(None, "PyTorch threads on a CPU; null: half of the cores, at most 4")
    recorded: bool = _key(True, "on a CPU: record the operations of a frame once and replay them without Python")
    fault: Optional[str] = _key(None, "break the server on purpose, by a fault of the catalogue (docs/selftest.md)")
    graphs: str = _key("off", "execution of a decode step: off, or on CUDA compile, cuda_graph or full_step")
    chat_token_ms: float = _key(
        DEFAULT_CHAT_TOKEN_MS, "pace of the chat's stand-in for a language model, per token; 0: at once"
    )
    engine_process: Union[bool, str] = _key("auto", "engine in a process of its own: auto (on CUDA), true or false")

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
