"""From raw facts to results: what is known of each request and level, and how it is written down.

The same functions serve a run that just ended (audio in the spool folder) and an old one
that is read back (``omni-bench report``, ``omni-bench judge``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from omni_bench.clients.forms import Asked
from omni_bench.clients.timeline import Timeline
from omni_bench.clients.timeline_json import timeline_from_dict, timeline_to_dict
from omni_bench.datasets.prompt import Prompt
from omni_bench.errors import StoreError
from omni_bench.levels import Level, Rate, level_of, level_or_none, level_title
from omni_bench.load.lag import LoopLag
from omni_bench.load.recording import LevelRecording
from omni_bench.metrics.level import LevelSummary, Slo, Warmup, summarise_level
from omni_bench.metrics.open_loop import peak_in_flight
from omni_bench.metrics.request import RequestMetrics, request_metrics
from omni_bench.metrics.shared_audio import SharedAudio
from omni_bench.run.answers import SPEECH, answer_faults, other_prompt_text, spoken_text
from omni_bench.run.record_checks import check_values
from omni_bench.run.signal_checks import shared_from, shared_records, with_signal_faults
from omni_bench.run.warmup import WarmupRequest, read_warmup, warmup_requests, write_warmup
from omni_bench.store.files import os_errors_as_store_errors, to_json, write_atomically
from omni_bench.store.run_folder import RunFolder

UNHEARABLE = ("empty", "silent", "no_text")
"""Faults with which there is nothing to transcribe, or to compare: the utterance counts as wholly wrong."""


@dataclass(frozen=True)
class RequestResult:
    """One measured request. ``audio``: the file that holds its samples (.pcm or .wav), None if there is none.

    ``text``: what is to be heard: of a chat the text of its reply, else that of the prompt.
    ``prompt_text``: what was asked for, None where that is ``text``.
    ``ref_text``: what is said in the reference recording that was sent with it, None if none was.
    ``shared``: which stretches of it are samples of other requests (fault ``shared_audio``).
    """

    timeline: Timeline
    text: str
    language: str
    metrics: RequestMetrics
    faults: tuple[str, ...]
    audio: Path | None
    ref_text: str | None = None
    shared: tuple[SharedAudio, ...] = ()
    prompt_text: str | None = None

    @property
    def request_id(self) -> str:
        """Unique within a run."""
        return self.timeline.request_id

    @property
    def forced(self) -> str | None:
        """Why no transcript can save this utterance (failed, empty, silent), else None."""
        if not self.timeline.ok:
            return "failed"
        return next((fault for fault in UNHEARABLE if fault in self.faults), None)


@dataclass(frozen=True)
class LevelResult:
    """One level: its requests in plan order, the lag of the client (None if it never measured), how the warm-up went.

    ``warmup`` is None in runs of schema 1.0, which did not store it; ``warmup_requests`` is empty before 1.2.
    """

    concurrency: Level
    requests: tuple[RequestResult, ...]
    lag: LoopLag | None
    warmup: Warmup | None = None
    warmup_requests: tuple[WarmupRequest, ...] = ()

    @property
    def slots(self) -> int:
        """Requests that were to be in flight at once, or that were so at most in an open loop."""
        if not isinstance(self.concurrency, Rate):
            return self.concurrency
        return max(peak_in_flight([request.timeline for request in self.requests]), 1)

    def summary(
        self,
        lag_budget_ms: float,
        arrival: str = "closed_loop",
        *,
        max_in_flight: int | None = None,
        slo: Slo | None = None,
    ) -> LevelSummary:
        """Distributions, rates and validity of the level; arguments as of :func:`summarise_level`."""
        return summarise_level(
            self.concurrency,
            [request.timeline for request in self.requests],
            [request.metrics for request in self.requests],
            {request.request_id: request.faults for request in self.requests},
            lag=self.lag,
            lag_budget_ms=lag_budget_ms,
            warmup=self.warmup,
            slo=slo,
            arrival=arrival,
            max_in_flight=max_in_flight,
        )


def measure_level(
    recording: LevelRecording,
    prompts: Mapping[str, Prompt],
    *,
    with_reference: bool = False,
    check_signal: bool = False,
    asked: Asked = SPEECH,
) -> LevelResult:
    """Derive everything about the requests of a level that just ended. ``prompts``: by prompt id.

    ``with_reference``: their reference recordings were sent. ``check_signal``: look for clicks, dropouts,
    noise and copied audio too, which makes sense for speech only. Raises StoreError if spooled audio cannot be read.
    """
    requests = tuple(
        measure_request(
            timeline,
            prompts[timeline.prompt_id],
            recording.audio.get(timeline.request_id),
            with_reference=with_reference,
            asked=asked,
        )
        for timeline in recording.timelines
    )
    if check_signal:
        requests = with_signal_faults(requests)
    warmup = warmup_requests(recording.warmup, prompts, with_reference=with_reference)
    return LevelResult(recording.concurrency, requests, recording.lag, Warmup.of(recording.warmup), warmup)


def measure_request(
    timeline: Timeline, prompt: Prompt, audio: Path | None, *, with_reference: bool = False, asked: Asked = SPEECH
) -> RequestResult:
    """Metrics and audio faults of one request; ``audio``: its payload as received. Raises StoreError."""
    pcm = None
    if audio is not None:
        with os_errors_as_store_errors("read", audio):
            pcm = audio.read_bytes()
    return RequestResult(
        timeline=timeline,
        text=spoken_text(timeline, prompt),
        language=prompt.language,
        metrics=request_metrics(timeline, pcm),
        faults=answer_faults(timeline, prompt, pcm, asked),
        audio=audio if pcm else None,
        ref_text=prompt.ref_text if with_reference else None,
        prompt_text=other_prompt_text(timeline, prompt),
    )


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
        "metrics": {name: value for name, value in asdict(result.metrics).items() if name != "request_id"},
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
            metrics=replace(request_metrics(timeline, None), ttfa_ms=record["metrics"]["ttfa_ms"]),
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


def _client_from(level: Mapping[str, Any]) -> tuple[LoopLag | None, Warmup | None]:
    client, warmup = level["client"], level.get("warmup")
    lag = None
    if client is not None:
        lag = LoopLag(client["lag_p50_ms"], client["lag_p99_ms"], client["lag_max_ms"], client["lag_samples"])
    return lag, None if warmup is None else Warmup(warmup["completed"], warmup["failed"], dict(warmup["errors"]))
