"""The answers of a run on disk, to be compared with those of another run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from omni_bench.accuracy.parity.codes import parse_codes
from omni_bench.accuracy.parity.compare import ParityAnswer
from omni_bench.errors import ProtocolError, StoreError
from omni_bench.records.run_folder import RunFolder
from omni_bench.records.timeline_json import timeline_from_dict


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
            audio = recording_path(folder.path.resolve(), record.get("audio"))
        except StoreError as error:
            raise StoreError(f"{file}, line {number}: {error}") from None
        answers.append(ParityAnswer(timeline, audio, codes.get(timeline.request_id)))
    return answers


def recording_path(root: Path, relative: Any) -> Path | None:
    """The recording ``relative`` of a line, None if it was not kept or is gone. ``root``: the run folder, resolved.

    Raises StoreError for what is no path in that folder.
    """
    if relative is None:
        return None
    if not isinstance(relative, str):
        raise StoreError(f"audio is {relative!r}; must be a string or null")
    path = (root / relative).resolve()
    if not path.is_relative_to(root):
        raise StoreError(f"its recording {relative!r} is outside the run folder")
    return path if path.is_file() else None
