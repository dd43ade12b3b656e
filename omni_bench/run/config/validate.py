"""Checks of values that a type cannot express: ranges, choices, and keys that need each other."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from omni_bench.accuracy.asr.settings import judge_settings
from omni_bench.datasets.source import bad_locale
from omni_bench.errors import ConfigError, choice
from omni_bench.load.ray_cluster import check_address
from omni_bench.records.api_key import key_of
from omni_bench.records.config import (
    CLOSED_LOOP,
    DATASET_KINDS,
    LOCAL,
    OPEN_LOOP,
    RATE_SEARCH,
    RAY,
    AsrConfig,
    DatasetConfig,
    LoadConfig,
    OutputConfig,
    RunConfig,
)
from omni_bench.records.convert import plain
from omni_bench.run.config.validate_client import validate_client, validate_requested
from omni_bench.run.config.validate_load import validate_open_loop, validate_slo
from omni_bench.run.config.validate_target import validate_target
from reference_impl.faults.catalogue import FAULTS, MAX_SLOW_PERCENT, slow_percent
from reference_impl.model.presets import PRESETS
from reference_impl.settings import (
    BUNDLED,
    DTYPES,
    GRAPHS,
    MAX_CHAT_TOKEN_MS,
    PREDICTOR_STRATEGIES,
    SIZES,
    ServerSettings,
    check_engine_process,
)

LOAD_KINDS = (CLOSED_LOOP, OPEN_LOOP, RATE_SEARCH)
LOAD_ENGINES = (LOCAL, RAY)
ASR_KINDS = ("whisper", "faster_whisper", "none")
SAVE_AUDIO = ("worst", "all", "none")
MAX_CONCURRENCY = 4096
"""A client process with more open streams than this measures itself."""

MAX_WORKERS = 128

MAX_WORDS = 500
"""Of a random prompt: servers take 4096 characters, as in OpenAI's API."""

MIN_KEY_CHARS = 8
"""Of a key that cannot be some other word of a configuration, as the placeholders of local servers are (EMPTY, x)."""

MAX_REQUESTS_PER_LEVEL, MAX_PER_SLOT = 1_000_000, 1000
"""A plan is made before anything runs: more is a slip of the keyboard, and would fill the memory."""


def validate(config: RunConfig) -> None:
    """Raise ConfigError for the first value that cannot be run, naming key, value and valid values."""
    name = config.scenario.name
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise ConfigError(f"scenario.name={name!r}: names a folder; letters, digits, '.', '_' and '-' only")
    validate_target(config.target)
    _dataset(config.dataset)
    validate_client(config.client)
    _load(config.load)
    validate_slo(config.slo, config.load)
    _asr(config.asr)
    _at_least("checks.parity_requests", config.checks.parity_requests, 0)
    _reference(config.reference)
    if config.target.kind == "reference" and config.reference.checkpoint == "random" and config.asr.kind != "none":
        raise ConfigError(
            f"asr={config.asr.kind} with reference.checkpoint=random: random weights speak noise, there is nothing "
            "to transcribe and no WER; add asr=none"
        )
    if config.checks.speaker_similarity and config.asr.kind == "none":
        raise ConfigError(
            "checks.speaker_similarity=true with asr=none: voices are written down beside what the judge heard; "
            "valid: asr=whisper, asr=faster_whisper"
        )
    validate_requested(config)
    _typed_key(config)
    _output(config.output)


def _typed_key(config: RunConfig) -> None:
    """Refuse the key itself among the values, which are published with the run. The message does not repeat it."""
    variable, key = config.client.api_key_env, key_of(config.client)
    if key is None or len(key.text) < MIN_KEY_CHARS:
        return
    for place, text in _texts(plain(config), ""):
        if key.text in text:
            raise ConfigError(
                f"{place} holds the key that client.api_key_env={variable} names, and would be stored with the run; "
                f"leave it out: the key is sent as a header, and a launched server inherits {variable}"
            )


def _texts(value: Any, place: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, dict):
        for name, one in value.items():
            yield from _texts(one, f"{place}.{name}" if place else str(name))
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from _texts(one, place)


def _dataset(dataset: DatasetConfig) -> None:
    choice("dataset.kind", dataset.kind, DATASET_KINDS)
    if dataset.kind == "seed_tts" and not dataset.root:
        raise ConfigError(
            "dataset.root is needed for dataset=seed_tts: the folder that holds <locale>/meta.lst, or a list file"
        )
    if dataset.kind == "huggingface" and not dataset.hf_id:
        raise ConfigError("dataset.hf_id is needed for dataset=huggingface: a hub id, or a local arrow or parquet path")
    if (problem := bad_locale(dataset.locale)) is not None:
        raise ConfigError(problem)
    if dataset.language is not None and not re.fullmatch(r"[A-Za-z0-9_-]+", dataset.language):
        raise ConfigError(f"dataset.language={dataset.language!r}: the name or code of a language, such as en or zh-TW")
    if dataset.design and dataset.kind not in ("seed_tts", "bundled"):
        raise ConfigError(f"dataset.design=true is for the kinds seed_tts and bundled, not for {dataset.kind}")
    if not 1 <= dataset.min_words <= dataset.max_words <= MAX_WORDS:
        raise ConfigError(
            f"dataset.min_words={dataset.min_words}, dataset.max_words={dataset.max_words}: 1 to {MAX_WORDS}, the "
            "first not above the second"
        )
    if dataset.subset is not None:
        _at_least("dataset.subset", dataset.subset, 1)


def _load(load: LoadConfig) -> None:
    choice("load.kind", load.kind, LOAD_KINDS)
    if load.workers is not None and not 1 <= load.workers <= MAX_WORKERS:
        raise ConfigError(f"load.workers={load.workers}: 1 to {MAX_WORKERS} processes, or null to let the load decide")
    choice("load.engine", load.engine, LOAD_ENGINES)
    check_address(load.ray_address)
    if load.kind != CLOSED_LOOP:
        validate_open_loop(load)
        return
    if load.rate_hz or load.ramp or load.trace:
        raise ConfigError("load.rate_hz, load.ramp and load.trace are of an open loop: add load=open_loop")
    if not load.concurrency:
        raise ConfigError("load.concurrency=[]: at least one level, such as [16]")
    for level in load.concurrency:
        if not 1 <= level <= MAX_CONCURRENCY:
            raise ConfigError(f"load.concurrency={load.concurrency}: {level} is not within 1 to {MAX_CONCURRENCY}")
    repeated = sorted({level for level in load.concurrency if load.concurrency.count(level) > 1})
    if repeated:
        raise ConfigError(f"load.concurrency={load.concurrency}: {repeated[0]} is there twice; a level is run once")
    if not 1 <= load.requests_per_level <= MAX_REQUESTS_PER_LEVEL:
        raise ConfigError(
            f"load.requests_per_level={load.requests_per_level}: at least 1, at most {MAX_REQUESTS_PER_LEVEL}"
        )
    if not 0 <= load.requests_per_slot <= MAX_PER_SLOT:
        raise ConfigError(
            f"load.requests_per_slot={load.requests_per_slot}: 0 (no minimum) or more, at most {MAX_PER_SLOT}"
        )
    if not 0 <= load.warmup_per_slot <= MAX_PER_SLOT:
        raise ConfigError(f"load.warmup_per_slot={load.warmup_per_slot}: 0 or more, at most {MAX_PER_SLOT}")
    levels = len(load.concurrency)
    if not 0 <= load.rotate_levels < levels:
        raise ConfigError(f"load.rotate_levels={load.rotate_levels}: 0 to {levels - 1} for {levels} levels")
    _positive("load.lag_budget_ms", load.lag_budget_ms)


def _asr(asr: AsrConfig) -> None:
    choice("asr.kind", asr.kind, ASR_KINDS)
    if not asr.model:
        raise ConfigError("asr.model='': a Whisper name, auto, or a path (a .pt file; a folder for faster_whisper)")
    device("asr.device", asr.device)
    if asr.workers is not None:
        _at_least("asr.workers", asr.workers, 1)
    judge_settings(asr, asr.device)
    if not 0 <= asr.wer_limit <= 1:
        raise ConfigError(f"asr.wer_limit={asr.wer_limit}: a share from 0 to 1 (0.15 is 15 %)")


def _reference(reference: ServerSettings) -> None:
    device("reference.device", reference.device)
    choice("reference.preset", reference.preset, tuple(PRESETS))
    choice("reference.dtype", reference.dtype, DTYPES)
    if not reference.checkpoint:
        raise ConfigError("reference.checkpoint='': bundled, random, or the folder of a checkpoint")
    if reference.checkpoint == "bundled" and reference.preset not in BUNDLED:
        raise ConfigError(
            f"reference.checkpoint=bundled: no weights of reference.preset={reference.preset} come with this package, "
            f"only of {', '.join(BUNDLED)}; give the folder of a released checkpoint, or random"
        )
    for key in SIZES:
        _at_least(f"reference.{key}", getattr(reference, key), 1)
    if reference.first_chunk_frames > reference.chunk_frames:
        raise ConfigError(
            f"reference.first_chunk_frames={reference.first_chunk_frames}: "
            f"at most reference.chunk_frames={reference.chunk_frames}"
        )
    for key in ("temperature", "predictor_temperature"):
        value = getattr(reference, key)
        if value is not None and not (math.isfinite(value) and value >= 0):
            raise ConfigError(f"reference.{key}={value}: 0 (greedy) or more")
    for key in ("top_k", "predictor_top_k"):
        value = getattr(reference, key)
        if value is not None:
            _at_least(f"reference.{key}", value, 0)
    for key in ("top_p", "predictor_top_p"):
        value = getattr(reference, key)
        if value is not None and not 0 < value <= 1:
            raise ConfigError(f"reference.{key}={value}: above 0, at most 1 (1: no limit)")
    if reference.repetition_penalty is not None:
        _positive("reference.repetition_penalty", reference.repetition_penalty)
    choice("reference.predictor", reference.predictor, PREDICTOR_STRATEGIES)
    choice("reference.graphs", reference.graphs, GRAPHS)
    check_engine_process(reference.engine_process)
    if not (math.isfinite(reference.chat_token_ms) and 0 <= reference.chat_token_ms <= MAX_CHAT_TOKEN_MS):
        raise ConfigError(f"reference.chat_token_ms={reference.chat_token_ms}: 0 to {MAX_CHAT_TOKEN_MS:g} ms a token")
    if reference.fault is not None and slow_percent(reference.fault) is None:
        if re.fullmatch(r"slow_[-+]?[\d.]*", reference.fault):
            raise ConfigError(
                f"reference.fault={reference.fault!r}: of slow_N, N is the slowdown of a step in percent, a whole "
                f"number from 1 to {MAX_SLOW_PERCENT}"
            )
        choice("reference.fault", reference.fault, tuple(FAULTS))
    if reference.threads is not None:
        _at_least("reference.threads", reference.threads, 1)


def _output(output: OutputConfig) -> None:
    choice("output.save_audio", output.save_audio, SAVE_AUDIO)
    if not output.root:
        raise ConfigError("output.root='': the folder for run folders, such as reports/runs")
    if not (math.isfinite(output.kept_audio_mb) and output.kept_audio_mb >= 0):
        raise ConfigError(f"output.kept_audio_mb={output.kept_audio_mb}: a finite number of at least 0")


def device(key: str, value: str) -> None:
    """Raise ConfigError unless ``value`` names a device: auto, cpu, cuda or cuda:N."""
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", value):
        raise ConfigError(f"{key}={value!r}; valid: auto, cpu, cuda, cuda:N")


def _positive(key: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise ConfigError(f"{key}={value}: a finite number above 0")


def _at_least(key: str, value: int, least: int) -> None:
    if value < least:
        raise ConfigError(f"{key}={value}: at least {least}")
