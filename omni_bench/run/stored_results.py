"""Measured requests as lines of requests.jsonl, and back: the form of a run on disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from types import NoneType
from typing import Any

from omni_bench.accuracy.signal.shared_audio import SharedAudio
from omni_bench.errors import StoreError, shorten
from omni_bench.metrics.definitions import METRICS
from omni_bench.metrics.level import Warmup
from omni_bench.metrics.request import request_metrics
from omni_bench.records.files import to_json, write_atomically
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


def request_record(timeline: Timeline, prompt: Prompt) -> dict[str, Any]:
    """The line of requests.jsonl while the run goes on: what the client saw, and the text that is to be heard."""
    return {
        **timeline_to_dict(timeline),
        "text": spoken_text(timeline, prompt),
        "prompt_text": other_prompt_text(timeline, prompt),
        "language": prompt.language,
    }


def result_record(result: RequestResult, kept_audio: str | None) -> dict[str, Any]:
    """The line of requests.jsonl once the run is over: the above with metrics, faults and the kept recording."""
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
    }


def write_results(folder: RunFolder, levels: Sequence[LevelResult], kept: Mapping[str, str]) -> None:
    """Write requests.jsonl anew, with the derived facts, chunks.parquet and warmup.jsonl.

    ``kept``: request id -> recording. Lines of requests that no level knows (a level that was cut off
    before it was recorded, or could not be measured) stay as they are, but for their recording. Raises StoreError.
    """
    folder.close()
    results = [request for level in levels for request in level.requests]
    records = [result_record(request, kept.get(request.request_id)) for request in results]
    known = {request.request_id for request in results}
    if folder.requests_jsonl.is_file():
        for record in folder.read_requests():
            name = record.get("request_id")
            if name not in known:
                records.append({**record, "audio": kept[name]} if name in kept else record)
    if not records:
        return
    data = b"".join(to_json(record, "a line of requests.jsonl") + b"\n" for record in records)
    write_atomically(folder.requests_jsonl, lambda path: path.write_bytes(data))
    folder.write_chunks(request.timeline for request in results)
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
        before = tuple(request for request in warmup if request.concurrency == key)
        levels.append(LevelResult(key, tuple(requests), *_client_from(level), before))
    return levels


def read_solos(folder: RunFolder) -> LevelResult | None:
    """The requests that were sent alone, of all levels together, as :func:`read_results` reads the others.

    None if there are none. Raises StoreError.
    """
    lines = enumerate(folder.read_lines(folder.solo_jsonl), start=1)
    requests = tuple(_result_from(record, folder, folder.solo_jsonl, number) for number, record in lines)
    return LevelResult(1, requests, None) if requests else None


def _result_from(record: Mapping[str, Any], folder: RunFolder, file: Path, number: int) -> RequestResult:
    try:
        timeline = timeline_from_dict(record)
        check_values(record, timeline)
        audio = record["audio"]
        path = None if audio is None else (folder.path / audio).resolve()
        if path is not None and not path.is_relative_to(folder.path.resolve()):
            raise StoreError(f"its recording {audio!r} is outside the run folder")
        return RequestResult(
            timeline=timeline,
            text=record["text"],
            language=record["language"],
            metrics=_metrics_from(timeline, record["metrics"]),
            faults=tuple(record["faults"]),
            shared=shared_from(record),
            audio=path,
            ref_text=record.get("ref_text"),
            prompt_text=record.get("prompt_text"),
        )
    except (KeyError, TypeError) as error:
        raise StoreError(f"{file}, line {number}: not a finished request: {error!r}") from None
    except StoreError as error:
        raise StoreError(f"{file}, line {number}: {error}") from None


def _metrics_from(timeline: Timeline, stored: Mapping[str, Any]) -> RequestMetrics:
    """The metrics, derived anew but for those that need the samples."""
    metrics = request_metrics(timeline, None)
    kept = {name: stored.get(name) for name in metrics.values if METRICS[name].needs_samples}
    return replace(metrics, values={**metrics.values, **kept})


def _client_from(level: Mapping[str, Any]) -> tuple[LoopLag | None, Warmup | None]:
    client, warmup = level["client"], level.get("warmup")
    lag = None
    if client is not None:
        lag = LoopLag(client["lag_p50_ms"], client["lag_p99_ms"], client["lag_max_ms"], client["lag_samples"])
    return lag, None if warmup is None else Warmup(warmup["completed"], warmup["failed"], dict(warmup["errors"]))


_TIMES = ("at_s", "source_at_s", "duration_s")


SHARED_FORM = "a list of {source, at_s, source_at_s, duration_s}"


def shared_records(request: RequestResult) -> list[dict[str, Any]]:
    """``shared_audio`` of a line of requests.jsonl: [{source, at_s, source_at_s, duration_s}], [] for none."""
    return [{name: value for name, value in asdict(one).items() if name != "victim"} for one in request.shared]


def shared_from(record: Mapping[str, Any]) -> tuple[SharedAudio, ...]:
    """The inverse of :func:`shared_records`; empty for lines of older versions, which have no such field."""
    return tuple(SharedAudio(victim=record["request_id"], **one) for one in record.get("shared_audio", ()))


def is_shared_form(value: object) -> bool:
    """Whether a stored ``shared_audio`` has the form :data:`SHARED_FORM`."""
    return isinstance(value, list) and all(
        isinstance(one, dict)
        and one.keys() == {"source", *_TIMES}
        and isinstance(one["source"], str)
        and all(isinstance(one[name], (int, float)) and not isinstance(one[name], bool) for name in _TIMES)
        for one in value
    )


def check_values(record: Mapping[str, Any], timeline: Timeline) -> None:
    """Raise StoreError with the first value of ``record`` that is none; ``timeline``: the request as read from it.

    A field that is missing altogether, or no mapping where one is due, is a KeyError or TypeError.
    """
    shared = record.get("shared_audio", [])  # runs of older versions have none
    faults, ref_text = record["faults"], record.get("ref_text")
    prompt_text = record.get("prompt_text")
    checks = [(name, record[name], isinstance(record[name], str), "a string") for name in ("text", "language")]
    checks += [
        (f"metrics.{name}", value, type(value) in (int, float, NoneType), "a number or null")
        for name, value in record["metrics"].items()
        if name in METRICS and METRICS[name].needs_samples
    ]
    checks += [
        ("audio", record["audio"], record["audio"] is None or isinstance(record["audio"], str), "a string or null"),
        ("ref_text", ref_text, ref_text is None or isinstance(ref_text, str), "a string or null"),
        ("prompt_text", prompt_text, prompt_text is None or isinstance(prompt_text, str), "a string or null"),
        (
            "faults",
            faults,
            isinstance(faults, list) and all(isinstance(fault, str) for fault in faults),
            "a list of strings",
        ),
        ("shared_audio", shared, is_shared_form(shared), SHARED_FORM),
        (
            "sample_rate_hz",
            timeline.sample_rate_hz,
            timeline.sample_rate_hz is None or timeline.sample_rate_hz >= 1,
            "at least 1, or null",
        ),
        ("chunk_bytes", timeline.chunk_bytes, all(size >= 0 for size in timeline.chunk_bytes), "0 or more each"),
        (
            "ended_ns" if timeline.ended_ns is not None else "failed_ns",
            timeline.finished_ns,
            timeline.finished_ns >= timeline.started_ns,
            f"at least started_ns={timeline.started_ns}",
        ),
    ]
    for name, value, holds, what in checks:
        if not holds:
            raise StoreError(f"request {timeline.request_id!r}: {name} is {shorten(repr(value), 80)}; must be {what}")
