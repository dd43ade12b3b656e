"""Measured requests as lines of requests.jsonl, and back: the form of a run on disk."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar

from omni_bench.accuracy.signal.level_audio import LevelAudio
from omni_bench.accuracy.signal.shared_audio import SharedAudio
from omni_bench.errors import StoreError
from omni_bench.metrics.definitions import METRICS
from omni_bench.metrics.level import Warmup
from omni_bench.metrics.pace import ExpectedPace
from omni_bench.metrics.request import request_metrics
from omni_bench.records.convert import expect, structure
from omni_bench.records.invalid_reason import measured_before
from omni_bench.records.level import Level, level_of, level_or_none, level_title
from omni_bench.records.prompt import Prompt
from omni_bench.records.recording import LoopLag
from omni_bench.records.request_metrics import RequestMetrics
from omni_bench.records.run_folder import RunFolder
from omni_bench.records.timeline import Timeline
from omni_bench.records.timeline_json import timeline_from_dict, timeline_to_dict
from omni_bench.run.level_result import LevelResult, RequestResult
from omni_bench.run.measure import other_prompt_text, spoken_text
from omni_bench.run.warmup import read_warmup, write_warmup

T = TypeVar("T")


def request_record(timeline: Timeline, prompt: Prompt) -> dict[str, Any]:
    """The line of requests.jsonl while the run goes on: what the client saw, and the text that is to be heard."""
    return {
        **timeline_to_dict(timeline),
        "text": spoken_text(timeline, prompt),
        "prompt_text": other_prompt_text(timeline, prompt),
        "language": prompt.language,
    }


def result_record(result: RequestResult, kept_audio: str | None, reference: str | None = None) -> dict[str, Any]:
    """The line of requests.jsonl once the run is over: the above with metrics, faults and the kept recordings.

    ``reference``: the recording that was sent.
    """
    return {
        **timeline_to_dict(result.timeline),
        "text": result.text,
        "prompt_text": result.prompt_text,
        "language": result.language,
        "metrics": dict(result.metrics.values),
        "faults": list(result.faults),
        "shared_audio": shared_records(result),
        "audio": kept_audio,
        "ref_text": result.ref_text,
        "ref_audio": reference,
    }


def write_results(
    folder: RunFolder, levels: Sequence[LevelResult], kept: Mapping[str, str], references: Mapping[str, str] = {}
) -> None:
    """Write requests.jsonl anew, with the derived facts, and warmup.jsonl.

    ``kept``: request id -> recording; ``references``: request id -> the reference recording that was sent. Lines of
    requests that no level knows (a level that was cut off
    before it was recorded, or could not be measured) stay as they are, but for their recording. Raises StoreError.
    """
    folder.close()
    results = [request for level in levels for request in level.requests]
    records = [result_record(one, kept.get(one.request_id), references.get(one.request_id)) for one in results]
    known = {request.request_id for request in results}
    for record in folder.read_lines(folder.requests_jsonl):
        name = record.get("request_id")
        if name not in known:
            records.append({**record, "audio": kept[name]} if name in kept else record)
    if not records:
        return
    folder.write_lines(folder.requests_jsonl, records)
    write_warmup(folder, [request for level in levels for request in level.warmup_requests])


def read_results(folder: RunFolder, run: Mapping[str, Any]) -> list[LevelResult]:
    """The levels of a run on disk, in the order of ``run`` (its run.json); metrics are derived anew.

    What needs the samples (time to first audio, faults) is taken from the stored lines, as most
    audio is not kept. Raises StoreError for lines that are missing or have another form, and for a run that
    ended before any request.
    """
    if not run["levels"] and not folder.requests_jsonl.exists():
        raise StoreError(
            f"no request was finished in the run {folder.path}, so that there is nothing to report or judge"
        )
    by_level: dict[Level, list[RequestResult]] = {}
    measured = {level_of(level) for level in run["levels"]}
    seen: dict[str, int] = {}
    for number, record in enumerate(folder.read_requests(), start=1):
        if level_or_none(record) not in measured:
            continue  # of a level that was cut off
        result = _result_from(record, folder, folder.requests_jsonl, number)
        first = seen.setdefault(result.request_id, number)
        if first != number:
            raise StoreError(
                f"{folder.requests_jsonl}, line {number}: request {result.request_id!r} is on line {first} already"
            )
        by_level.setdefault(result.timeline.concurrency, []).append(result)
    warmup = read_warmup(folder)
    levels = []
    for level in run["levels"]:
        key = level_of(level)
        requests = by_level.get(key, [])
        if len(requests) != level["requests"]:
            raise StoreError(
                f"{folder.requests_jsonl} has {len(requests)} requests of {level_title(key)}, "
                f"run.json says {level['requests']}"
            )
        what = f"{folder.run_json}: {level_title(key)}"
        levels.append(
            LevelResult(
                concurrency=key,
                requests=tuple(requests),
                lag=_lag_from(level["client"], what),
                warmup=_part(level, "warmup", Warmup, what),
                warmup_requests=tuple(request for request in warmup if request.concurrency == key),
                expected_pace=_part(level.get("pace") or {}, "expected", ExpectedPace, what),
                measured_before=measured_before(level),
                audio=_part(level, "audio", LevelAudio, what),
            )
        )
    return levels


def read_solos(folder: RunFolder) -> LevelResult | None:
    """The requests that were sent alone, of all levels together, as :func:`read_results` reads the others.

    None if there are none. Raises StoreError.
    """
    lines = enumerate(folder.read_lines(folder.solo_jsonl), start=1)
    requests = tuple(_result_from(record, folder, folder.solo_jsonl, number) for number, record in lines)
    return LevelResult(1, requests, None) if requests else None


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """What a line of requests.jsonl holds of what was asked for, from the moment that the request has finished."""

    text: str
    language: str
    ref_text: str | None = None  # runs of older versions lack it, and what follows
    prompt_text: str | None = None


@dataclass(frozen=True, kw_only=True)
class _StoredRequest(_Asked):
    """What it holds beside its timeline once the run is over, and cannot be derived from it without the samples."""

    metrics: dict[str, Any]
    faults: tuple[str, ...]
    audio: str | None
    shared_audio: tuple[dict[str, Any], ...] = ()


def prompt_of(record: Mapping[str, Any], timeline: Timeline) -> Prompt:
    """What was asked for, without its recording, by a line of a run that may have been killed. Raises StoreError."""
    asked = structure(record, _Asked, f"request {timeline.request_id!r}")
    return Prompt(timeline.prompt_id, asked.prompt_text or asked.text, asked.ref_text, None, asked.language)


def _result_from(record: Mapping[str, Any], folder: RunFolder, file: Path, number: int) -> RequestResult:
    try:
        timeline = timeline_from_dict(record)
        stored = read_stored(record, timeline)
        shared = shared_from(stored.shared_audio, timeline.request_id)
        path = folder.recording(stored.audio)
    except StoreError as error:
        raise StoreError(f"{file}, line {number}: {error}") from None
    return RequestResult(
        timeline=timeline,
        text=stored.text,
        language=stored.language,
        metrics=_metrics_from(timeline, stored.metrics),
        faults=stored.faults,
        shared=shared,
        audio=path,
        ref_text=stored.ref_text,
        prompt_text=stored.prompt_text,
    )


def read_stored(record: Mapping[str, Any], timeline: Timeline) -> _StoredRequest:
    """``record`` without its ``timeline``. Raises StoreError for the first value that no run can have written."""
    what = f"request {timeline.request_id!r}"
    stored = structure(record, _StoredRequest, what)
    for name, value in stored.metrics.items():
        derived = name not in METRICS or not METRICS[name].needs_samples
        expect(what, f"metrics.{name}", value, derived or type(value) in (int, float, NoneType), "a number or null")
    finished = "ended_ns" if timeline.ended_ns is not None else "failed_ns"
    in_order = timeline.finished_ns >= timeline.started_ns
    expect(what, finished, timeline.finished_ns, in_order, f"at least started_ns={timeline.started_ns}")
    return stored


def _metrics_from(timeline: Timeline, stored: Mapping[str, Any]) -> RequestMetrics:
    """The metrics, derived anew but for those that need the samples."""
    metrics = request_metrics(timeline, None)
    kept = {name: stored.get(name) for name in metrics.values if METRICS[name].needs_samples}
    return replace(metrics, values={**metrics.values, **kept})


def _part(record: Mapping[str, Any], name: str, kind: type[T], what: str) -> T | None:
    """A part of run.json, None where it is null or not there. Raises StoreError, which begins with ``what``."""
    value = record.get(name)
    return None if value is None else structure(value, kind, f"{what}: {name}")


def _lag_from(client: Mapping[str, Any] | None, what: str) -> LoopLag | None:
    if client is None or client["lag_p99_ms"] is None:
        return None
    figures = {name: client[f"lag_{name}"] for name in ("p50_ms", "p99_ms", "max_ms", "samples")}
    parts = {"cpu": client.get("cpu_wait"), "bias": client.get("ttfp_bias"), "nodes": client.get("nodes", ())}
    return structure({**figures, **parts, "workers": client.get("workers", 1)}, LoopLag, f"{what}: client")


def shared_records(request: RequestResult) -> list[dict[str, Any]]:
    """``shared_audio`` of a line of requests.jsonl: [{source, at_s, source_at_s, duration_s}], [] for none."""
    return [{name: value for name, value in asdict(one).items() if name != "victim"} for one in request.shared]


def shared_from(records: Iterable[Mapping[str, Any]], request_id: str) -> tuple[SharedAudio, ...]:
    """The inverse of :func:`shared_records`. Raises StoreError."""
    what = f"request {request_id!r}: shared_audio"
    return tuple(structure({**one, "victim": request_id}, SharedAudio, what) for one in records)
