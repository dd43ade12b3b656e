"""A run as results of ``vllm bench serve --save-result``, one a level, for dashboards that read those.

Names of the fields and what they mean: :mod:`omni_bench.compare.vllm_bench`, which reads them. What a run does not
know (tokens of the prompt) has no field, as 0 would be a figure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from omni_bench.compare.vllm_bench import DISTRIBUTIONS, RATES, SPEECH_BACKEND
from omni_bench.errors import ConfigError
from omni_bench.metrics.definitions import METRICS
from omni_bench.records.files import json_bytes, write_atomically
from omni_bench.records.level import Level, Rate, level_name, level_of
from omni_bench.records.run_folder import RunFolder
from omni_bench.run.level_result import LevelResult
from omni_bench.run.stored_results import read_results

BACKENDS = {
    **dict.fromkeys(("openai_speech", "openai_speech_wav", "openai_speech_sse"), SPEECH_BACKEND),
    "openai_chat_audio": "openai-chat-omni",
}
"""Our wire form -> their backend, where they have one."""
_SAMPLES = {"ttft_ms": "ttft", "tpot_ms": "tpot", "itl_ms": "itl", "ttfp_ms": "audio_ttfp", "rtf": "audio_rtf"}
"""Metrics of which they count the samples."""


def write_results(folder: RunFolder, out: Path) -> tuple[list[Path], list[Level]]:
    """Write c16.json (r5.json in an open loop) for every valid level; the paths, and the levels that are invalid.

    Their format cannot say that a level makes no performance claim, so those get no file. Raises ConfigError if
    no level is valid, StoreError.
    """
    run = folder.read_run()
    results = read_results(folder, run) if folder.requests_jsonl.is_file() else [None] * len(run["levels"])
    paths, invalid = [], []
    for level, measured in zip(run["levels"], results, strict=True):
        name = level_of(level)
        if not level["valid"]:
            invalid.append(name)
            continue
        path = out / f"{level_name(name)}.json"
        data = json_bytes(result_of(run, level, measured), path.name, indent=2) + b"\n"
        write_atomically(path, lambda temporary, data=data: temporary.write_bytes(data))
        paths.append(path)
    if not paths:
        raise ConfigError(f"{folder.path}: no level of this run is valid, and results of vllm bench cannot say that")
    return paths, invalid


def result_of(run: Mapping[str, Any], level: Mapping[str, Any], measured: LevelResult | None) -> dict[str, Any]:
    """One valid level of a run.json as their result. ``measured``: None without per-request data."""
    client, load = (run["provenance"]["config"].get(group) or {} for group in ("client", "load"))
    name, backend = level_of(level), BACKENDS.get(client.get("kind"))
    open_loop = isinstance(name, Rate)
    poisson = open_loop and load.get("arrival") == "poisson"
    fields = {
        "date": datetime.fromisoformat(run["started_utc"]).strftime("%Y%m%d-%H%M%S"),
        "endpoint_type": backend,
        "backend": backend,
        "label": run["scenario"],
        "model_id": client.get("model"),
        "num_prompts": level["requests"],
        "request_rate": name.hz if open_loop else "inf",
        "burstiness": 1.0 if poisson else load.get("burstiness") if load.get("arrival") == "gamma" else None,
        "max_concurrency": None if open_loop else name,
        "duration": _duration_s(level, measured),
        "completed": level["completed"],
        "failed": level["failed"],
        "request_throughput": METRICS["requests_per_s"].value_in(level),
        **_audio(level, measured),
    }
    for ours, theirs in DISTRIBUTIONS.items():
        fields |= _distribution(level["metrics"].get(ours) or {}, theirs)
        if ours in _SAMPLES:
            fields[f"num_{_SAMPLES[ours]}_samples"] = (level["metrics"].get(ours) or {}).get("n") or None
    return {key: value for key, value in fields.items() if value is not None}


def _duration_s(level: Mapping[str, Any], measured: LevelResult | None) -> float | None:
    """First start to last end; without per-request data by the request rate, which is over the same time."""
    if measured is not None and measured.requests:
        timelines = [one.timeline for one in measured.requests]
        return (max(one.finished_ns for one in timelines) - min(one.started_ns for one in timelines)) / 1e9
    rate = METRICS["requests_per_s"].value_in(level)
    return (level["completed"] - level["faulty"]) / rate if rate else None


def _audio(level: Mapping[str, Any], measured: LevelResult | None) -> dict[str, Any]:
    length = level["metrics"].get("audio_s") or {}
    if not length.get("n"):
        return {}
    found = {RATES["audio_per_s"]: METRICS["audio_per_s"].value_in(level)}
    found["total_audio_duration_s"] = length["mean"] * length["n"]
    if measured is not None:
        good = [one for one in measured.requests if one.timeline.ok and not one.faults]
        rates = {one.timeline.sample_rate_hz for one in good}
        if len(rates) == 1:
            found["total_audio_frames"] = sum(sum(one.timeline.chunk_samples) for one in good)
    return found


def _distribution(figures: Mapping[str, Any], theirs: str) -> dict[str, Any]:
    """Their std is that of the values themselves, ours with n − 1."""
    n, std = figures.get("n") or 0, figures.get("std")
    found = {f"mean_{theirs}": figures.get("mean"), f"median_{theirs}": figures.get("p50")}
    found[f"std_{theirs}"] = None if std is None or not n else std * ((n - 1) / n) ** 0.5
    known = _percentiles(figures)
    found |= {f"p{percentile}_{theirs}": value for percentile, value in known}
    if known and theirs.startswith("audio_"):
        found[f"percentiles_{theirs}"] = [[float(percentile), value] for percentile, value in known]
    return found


def _percentiles(figures: Mapping[str, Any]) -> Sequence[tuple[int, float]]:
    return [(one, figures[f"p{one}"]) for one in (50, 90, 95, 99) if figures.get(f"p{one}") is not None]
