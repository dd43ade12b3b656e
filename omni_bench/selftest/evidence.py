"""What one run of the self-test left on disk, as one list of answers: those of its levels and those spoken alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from omni_bench.accuracy.parity.codes import parse_codes
from omni_bench.accuracy.parity.compare import ParityAnswer, ParityComparison, compare_run_answers
from omni_bench.errors import ProtocolError, StoreError
from omni_bench.records.run_folder import RunFolder
from omni_bench.records.timeline_json import timeline_from_dict

ALONE = 1
"""The concurrency of a request that was sent alone."""


@dataclass(frozen=True)
class StoredAnswer:
    """One request and what came back.

    ``error``: kind and message of a failure, None if it ended cleanly; ``faults``: what is wrong
    with its audio; ``recording``: the file that was kept, None if there is none. Times as in
    requests.jsonl, None where they could not be measured.
    """

    request_id: str
    prompt_id: str
    seed: int | None
    concurrency: int
    text: str
    language: str
    error: tuple[str, str] | None
    faults: tuple[str, ...]
    recording: Path | None
    sample_rate_hz: int | None
    audio_s: float | None
    ttfp_ms: float | None
    stall_s: float | None

    @property
    def key(self) -> tuple[str, int | None]:
        """What was asked for: the same key in another run must give the same answer."""
        return self.prompt_id, self.seed

    @property
    def sound(self) -> bool:
        """True if it ended cleanly and there is something to hear."""
        return self.error is None and self.recording is not None


def read_evidence(path: Path) -> tuple[dict[str, Any] | None, list[StoredAnswer]]:
    """run.json (None if the run left none) and every answer of a run folder. Raises StoreError."""
    folder = RunFolder.open(path)
    run = folder.read_run() if folder.run_json.is_file() else None
    alone = (replace(answer, concurrency=ALONE) for answer in _answers(folder, folder.solo_jsonl))
    return run, [*_answers(folder, folder.requests_jsonl), *alone]


def _answers(folder: RunFolder, file: Path) -> list[StoredAnswer]:
    answers = []
    for number, record in enumerate(folder.read_lines(file), start=1):
        try:
            answers.append(_answer(record, recording_path(folder, record)))
        except StoreError as error:
            raise StoreError(f"{file}, line {number}: {error}") from None
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise StoreError(f"{file}, line {number}: not a finished request: {error!r}") from None
    return answers


def compare_with_clean(path: Path, clean: Path) -> list[ParityComparison]:
    """Every answer of a run against that of the clean run to the same request, by codes and samples.

    Those sent alone (concurrency 1) against those sent alone, the others level by level. Raises StoreError.
    """
    found = []
    now, then = RunFolder.open(path), RunFolder.open(clean)
    alone = compare_run_answers(read_parity_answers(now, alone=True), read_parity_answers(then, alone=True))
    found += [replace(one, concurrency=ALONE) for one in alone]
    before = read_parity_answers(then)
    answers = read_parity_answers(now)
    for concurrency in sorted({answer.timeline.concurrency for answer in answers}):
        mine, theirs = (
            [answer for answer in many if answer.timeline.concurrency == concurrency] for many in (answers, before)
        )
        found += compare_run_answers(mine, theirs)
    return found


def _answer(record: Mapping[str, Any], recording: Path | None) -> StoredAnswer:
    metrics, error = record.get("metrics") or {}, record.get("error")
    return StoredAnswer(
        request_id=record["request_id"],
        prompt_id=record["prompt_id"],
        seed=record["seed"],
        concurrency=int(record["concurrency"]),
        text=record["text"],
        language=record["language"],
        error=(error["kind"], error["message"]) if error else None,
        faults=tuple(record.get("faults") or ()),
        recording=recording,
        sample_rate_hz=record.get("sample_rate_hz"),
        audio_s=metrics.get("audio_s"),
        ttfp_ms=metrics.get("ttfp_ms"),
        stall_s=metrics.get("stall_s"),
    )


def read_parity_answers(folder: RunFolder, *, alone: bool = False) -> list[ParityAnswer]:
    """Every measured request of a run, or (``alone``) every request that it sent alone, as far as it was kept.

    Codes are those of codes.jsonl: of the first ``checks.parity_requests`` of each level, and of those sent alone.
    A recording that was kept but is gone counts as not kept. Raises StoreError for lines of another form.
    """
    file = folder.solo_jsonl if alone else folder.requests_jsonl
    codes = {}
    for number, record in enumerate(folder.read_lines(folder.codes_jsonl), start=1):
        name = record.get("request_id")
        if not isinstance(name, str):
            raise StoreError(f"{folder.codes_jsonl}, line {number}: request_id is {name!r}; must be a string")
        try:
            codes[name] = parse_codes(record, name)
        except ProtocolError as error:
            raise StoreError(f"{folder.codes_jsonl}, line {number}: {error}") from None
    answers = []
    for number, record in enumerate(folder.read_lines(file), start=1):
        try:
            timeline = timeline_from_dict(record)
            audio = recording_path(folder, record)
        except StoreError as error:
            raise StoreError(f"{file}, line {number}: {error}") from None
        answers.append(ParityAnswer(timeline, audio, codes.get(timeline.request_id)))
    return answers


def recording_path(folder: RunFolder, record: Mapping[str, Any]) -> Path | None:
    """The recording of a line, None if it was not kept or is gone. Raises StoreError for one outside the folder."""
    path = folder.recording(record.get("audio"))
    return path if path is not None and path.is_file() else None
