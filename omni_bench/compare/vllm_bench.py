"""Reads results of ``vllm bench serve --save-result``, vllm-omni's audio fields included.

Field names are those of vllm-omni's ``benchmarks/metrics/metrics.py`` and of its results template
(``tests/dfx/perf/scripts/result_omni_template.json``): mean_, median_, std_ and pNN_ of ttft_ms, tpot_ms, itl_ms,
e2el_ms, audio_ttfp_ms, audio_rtf, audio_duration_s and audio_underrun_s; audio_throughput; request_throughput.
There a figure that was not measured keeps its default 0, so that 0 is read as missing; but no underrun is a
measurement where there is audio of the speech backend, the only one that measures it. That their underrun is
our prebuffer is tested in ``tests/benchmarks/test_interop.py``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from omni_bench.compare.views import VLLM_BENCH, LevelView, RunFacts, RunView
from omni_bench.errors import StoreError
from omni_bench.metrics.definitions import METRICS, summarised
from omni_bench.records.invalid_reason import Code, InvalidReason, invalid
from omni_bench.records.level import Level, Rate, is_open_loop, level_value, rate_of

DISTRIBUTIONS = {
    "ttfp_ms": "audio_ttfp_ms",
    "rtf": "audio_rtf",
    "e2el_ms": "e2el_ms",
    "audio_s": "audio_duration_s",
    "prebuffer_s": "audio_underrun_s",
    "ttft_ms": "ttft_ms",
    "tpot_ms": "tpot_ms",
    "itl_ms": "itl_ms",
}
"""Our name -> theirs, without the prefix."""

SPEECH_BACKEND = "openai-audio-speech"
RATES = {"audio_per_s": "audio_throughput", "requests_per_s": "request_throughput"}
_PRINTED = {"audio_per_s": "Audio throughput", "requests_per_s": "Request throughput"}
_FIGURES = {name: (name,) for name in ("mean", "std", "p50", "p90", "p95", "p99")} | {"p50": ("p50", "median")}
_KEYS = ("backend", "model_id", "tokenizer_id", "num_prompts", "request_rate", "burstiness")


def printed_name(metric: str) -> str | None:
    """What ``vllm bench serve`` calls a metric in its summary (AUDIO_TTFP, "Audio throughput"); None if it has none."""
    if metric in DISTRIBUTIONS:
        return DISTRIBUTIONS[metric].removesuffix("_ms").removesuffix("_s").upper()
    return _PRINTED.get(metric)


def read_result(data: Any, where: str) -> RunView:
    """One result as a run of one level, without per-request data. Raises StoreError if it is something else.

    ``where`` begins the message.
    """
    if not isinstance(data, Mapping) or not {"completed", "duration"} <= data.keys():
        raise StoreError(
            f"{where} is not a result of `vllm bench serve --save-result`: "
            "it has no completed and duration at its top level (nor is it the run.json of a run folder)"
        )
    completed = _count(data, "completed", where)
    failed = _count(data, "failed", where) if data.get("failed") is not None else None
    level = LevelView(
        concurrency=_level(data, where),
        requests=completed + (failed or 0),
        why=_why(completed, failed),
        metrics={metric.name: _metric(data, metric.name, completed) for metric in summarised()},
        accuracy=None,
    )
    model = data.get("model_id")
    backend = data.get("backend") or data.get("endpoint_type")
    keys = {"client.program": VLLM_BENCH} | {f"bench.{name}": data.get(name) for name in _KEYS}
    keys["bench.backend"] = backend
    return RunView(
        source=where,
        kind=VLLM_BENCH,
        started_utc=_text(data.get("date")),
        why=(),
        keys=keys,
        settings={"bench.label": data.get("label")},
        versions={},
        order={},
        levels=(level,),
        requests=None,
        facts=RunFacts(
            target=" ".join(str(word) for word in (backend, model) if word) or None,
            prompts=f"{data['num_prompts']} prompts" if data.get("num_prompts") else None,
        ),
    )


def group_results(results: Sequence[RunView]) -> list[tuple[RunView, ...]]:
    """Results, each of one level, by runs: the n-th result of every concurrency or rate makes up the n-th run.

    A sweep is one file a level. Raises StoreError if some levels have more results than others, or there are
    concurrencies and rates.
    """
    by_level: dict[Level, list[RunView]] = {}
    for view in results:
        by_level.setdefault(view.levels[0].concurrency, []).append(view)
    ordered = sorted(by_level, key=level_value)
    kinds = {isinstance(level, Rate): views[0].source for level, views in by_level.items()}
    if len(kinds) > 1:
        raise StoreError(
            f"the results make up no whole runs: {kinds[True]} is of a request rate without max_concurrency, "
            f"{kinds[False]} of a concurrency"
        )
    counts = {level: len(by_level[level]) for level in ordered}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{count} of {_named(level)}" for level, count in counts.items())
        raise StoreError(f"the results make up no whole runs: {listed}; each run needs one result a level")
    return list(zip(*(by_level[level] for level in ordered), strict=True))


def merged(parts: Sequence[RunView]) -> RunView:
    """One run out of results of several levels. ``num_prompts`` may differ between those, and rates do.

    Raises StoreError if they were made differently.
    """
    levels = [part.levels[0].concurrency for part in parts]
    of_levels = {"bench.num_prompts"}
    keys: dict[str, Any] = {"load.concurrency": levels}
    if is_open_loop(levels):
        of_levels.add("bench.request_rate")
        keys = {"load.rate_hz": [level_value(level) for level in levels]}
    for name in parts[0].keys:
        values = [part.keys[name] for part in parts]
        alike = all(value == values[0] for value in values)
        if not alike and name not in of_levels:
            listed = ", ".join(f"{part.source}: {value!r}" for part, value in zip(parts, values, strict=True))
            raise StoreError(f"results of one run differ in {name.removeprefix('bench.')}: {listed}")
        keys[name] = values[0] if alike else values
    return replace(
        parts[0],
        source=",".join(part.source for part in parts),
        keys=keys,
        levels=tuple(part.levels[0] for part in parts),
    )


def _level(data: Mapping[str, Any], where: str) -> Level:
    """``max_concurrency``; without a limit the ``request_rate``, or the number of prompts if all came at once."""
    value = data.get("max_concurrency")
    if value is None:
        rate_hz = data.get("request_rate")
        if _number(rate_hz) is not None:
            return rate_of(float(rate_hz))
        if rate_hz == "inf":
            value = data.get("num_prompts")
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise StoreError(
            f"{where}: max_concurrency is {value!r}; must be 1 or more (give --max-concurrency to vllm bench)"
        )
    return value


def _named(level: Level) -> str:
    return str(level) if isinstance(level, Rate) else f"max_concurrency {level}"


def _why(completed: int, failed: int | None) -> tuple[InvalidReason, ...]:
    if failed:
        return (invalid(Code.BENCH_FAILED, failed=failed, requests=completed + failed),)
    return () if completed else (invalid(Code.NONE_COMPLETED),)


def _metric(data: Mapping[str, Any], name: str, completed: int) -> dict[str, Any]:
    unit = {"unit": METRICS[name].unit, "better": METRICS[name].better}
    empty: dict[str, Any] = dict.fromkeys(_FIGURES)
    if name in RATES:
        figures = empty | {"mean": _number(data.get(RATES[name]))}
    elif name in DISTRIBUTIONS:
        theirs = DISTRIBUTIONS[name]
        zero = name == "prebuffer_s" and _measures_underrun(data)
        figures = {ours: _figure(data, prefixes, theirs, zero) for ours, prefixes in _FIGURES.items()}
    else:
        figures = empty
    measured = any(value is not None for value in figures.values())
    return unit | {"n": completed if measured else 0} | figures


def _measures_underrun(data: Mapping[str, Any]) -> bool:
    backend = data.get("backend") or data.get("endpoint_type")
    return backend == SPEECH_BACKEND and _number(data.get("total_audio_duration_s")) is not None


def _figure(data: Mapping[str, Any], prefixes: Sequence[str], theirs: str, zero: bool) -> float | None:
    for prefix in prefixes:
        value = _number(data.get(f"{prefix}_{theirs}"), zero)
        if value is not None:
            return value
    rows = data.get(f"percentiles_{theirs}")
    if not prefixes[0].startswith("p") or not isinstance(rows, list):
        return None
    wanted = float(prefixes[0][1:])
    return next(
        (_number(row[1], zero) for row in rows if isinstance(row, list) and len(row) == 2 and row[0] == wanted), None
    )


def _number(value: Any, zero: bool = False) -> float | None:
    """A positive finite number; None for anything else, as their 0 is "not measured" unless ``zero``."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return float(value) if value > 0 or (zero and value == 0) else None


def _count(data: Mapping[str, Any], name: str, where: str) -> int:
    value = data[name]
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise StoreError(f"{where}: {name} is {value!r}; must be a count")
    return value


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
