"""The end of a run that had none: its process was killed, and what it had written down by then is there."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

from omni_bench.errors import StoreError
from omni_bench.load.clients.wire_forms import RequestedModalities
from omni_bench.records.config import CLOSED_LOOP
from omni_bench.records.level import Level
from omni_bench.records.prompt import Prompt
from omni_bench.records.run_folder import RunFolder
from omni_bench.records.timeline_json import timeline_from_dict
from omni_bench.run.expected_pace import with_expected_pace
from omni_bench.run.level_result import LevelResult, RequestResult
from omni_bench.run.measure import in_configured_order, measure_request
from omni_bench.run.provenance import hardware
from omni_bench.run.rejudge import stored_config
from omni_bench.run.signal_checks import speaks, with_signal_faults
from omni_bench.run.write import EndedRun, write_run


def rebuild(path: Path) -> tuple[RunFolder, dict[str, Any]]:
    """Write run.json and the report of a killed run from begun.json, requests.jsonl and the audio in its spool.

    The run is invalid, as one that was interrupted; a request whose audio is not there is unchecked. Raises StoreError,
    also for a run that still goes on.
    """
    with RunFolder.open(path) as folder:
        if not folder.claim():
            raise StoreError(f"the run in {folder.path} goes on; its report is written at its end")
        run = folder.read_begun()
        config, provenance = stored_config(run, folder), run["provenance"]
        requested, prompts = RequestedModalities.of(config.client), {}
        by_level: dict[Level, list[RequestResult]] = {}
        for record in folder.read_requests() if folder.requests_jsonl.is_file() else ():
            timeline = timeline_from_dict(record)
            text = record.get("prompt_text") or record["text"]
            prompt = Prompt(timeline.prompt_id, text, record.get("ref_text"), None, record["language"])
            prompts[prompt.id] = prompt
            audio = folder.spooled(timeline.request_id, timeline.audio_bytes)
            one = measure_request(timeline, prompt, audio, requested=requested)
            by_level.setdefault(timeline.concurrency, []).append(one)

        def level_of(level: Level, found: tuple[RequestResult, ...]) -> LevelResult:
            requests, together = with_signal_faults(found, prompts) if speaks(config) else (found, None)
            return with_expected_pace(LevelResult(level, requests, None, audio=together), config, prompts)

        levels = [level_of(level, tuple(found)) for level, found in by_level.items()]
        planned = tuple(config.load.concurrency) if config.load.kind == CLOSED_LOOP else ()
        here = hardware()
        outcome = EndedRun(
            config=config,
            folder=folder,
            levels=in_configured_order(levels, planned),
            verdicts=None,
            problem=KeyboardInterrupt(),
            started_utc=datetime.fromisoformat(run["started_utc"]),
            duration_s=None,
            provenance=provenance if here["cpu"] != provenance["hardware"]["cpu"] else {**provenance, "hardware": here},
            planned=planned,
        )
        document = write_run(outcome)
        folder.end(keep_spool=True)  # the run can still be gone on with
    return folder, document
