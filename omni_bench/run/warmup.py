"""The warm-up's part of a run's results: it is not measured, but its words may be heard in what is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from omni_bench.records.convert import record_of, structure
from omni_bench.records.level import Level
from omni_bench.records.prompt import Prompt
from omni_bench.records.run_folder import RunFolder
from omni_bench.records.timeline import Timeline


@dataclass(frozen=True)
class WarmupRequest:
    """What was asked for in a warm-up request, and when it was in flight; a line of warmup.jsonl.

    ``ref_text``: what is said in the reference recording that was sent with it, None if none was.
    """

    request_id: str
    prompt_id: str
    concurrency: Level
    started_ns: int
    finished_ns: int
    text: str
    ref_text: str | None
    language: str


def warmup_requests(
    timelines: Iterable[Timeline], prompts: Mapping[str, Prompt], *, with_reference: bool
) -> tuple[WarmupRequest, ...]:
    """The warm-up of a level that just ended. ``prompts``: by prompt id."""
    requests = []
    for timeline in timelines:
        prompt = prompts[timeline.prompt_id]
        requests.append(
            WarmupRequest(
                request_id=timeline.request_id,
                prompt_id=timeline.prompt_id,
                concurrency=timeline.concurrency,
                started_ns=timeline.started_ns,
                finished_ns=timeline.finished_ns,
                text=timeline.reply_text or prompt.text,
                ref_text=prompt.ref_text if with_reference else None,
                language=prompt.language,
            )
        )
    return tuple(requests)


def write_warmup(folder: RunFolder, requests: Sequence[WarmupRequest]) -> None:
    """Write warmup.jsonl; nothing if there was no warm-up. Raises StoreError."""
    if requests:
        folder.write_lines(folder.warmup_jsonl, [record_of(request) for request in requests])


def read_warmup(folder: RunFolder) -> list[WarmupRequest]:
    """The lines of warmup.jsonl, [] of a run before schema 1.2. Raises StoreError."""
    lines = enumerate(folder.read_lines(folder.warmup_jsonl), start=1)
    return [structure(record, WarmupRequest, f"{folder.warmup_jsonl}, line {number}") for number, record in lines]
