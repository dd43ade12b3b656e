"""The end of a run that had none: its process was killed, and what it had written down by then is there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from omni_bench.errors import StoreError
from omni_bench.load.clients.wire_forms import RequestedModalities
from omni_bench.records.config import CLOSED_LOOP
from omni_bench.records.level import Level
from omni_bench.records.prompt import Prompt
from omni_bench.records.recording import LevelRecording
from omni_bench.records.run_folder import RunFolder
from omni_bench.records.stages import Tell, untold
from omni_bench.records.timeline import Timeline
from omni_bench.records.timeline_json import timeline_from_dict
from omni_bench.run.expected_pace import with_expected_pace
from omni_bench.run.measure import in_configured_order, measure_level, spread_for
from omni_bench.run.provenance import hardware
from omni_bench.run.rejudge import stored_config
from omni_bench.run.signal_checks import speaks
from omni_bench.run.stored_results import prompt_of
from omni_bench.run.write import EndedRun, write_run


def rebuild(path: Path, tell: Tell = untold) -> tuple[RunFolder, dict[str, Any]]:
    """Write run.json and the report of a killed run from begun.json, requests.jsonl and the audio in its spool.

    The run is invalid, as one that was interrupted; a request whose audio is not there is unchecked. ``tell`` hears how
    far it is. Raises StoreError, also for a run that still goes on.
    """
    with RunFolder.open(path) as folder:
        if not folder.claim():
            raise StoreError(f"the run in {folder.path} goes on; its report is written at its end")
        run = folder.read_begun()
        config, provenance = stored_config(run, folder), run["provenance"]
        prompts: dict[str, Prompt] = {}
        by_level: dict[Level, list[Timeline]] = {}
        for record in folder.read_lines(folder.requests_jsonl):
            timeline = timeline_from_dict(record)
            prompts[timeline.prompt_id] = prompt_of(record, timeline)
            by_level.setdefault(timeline.concurrency, []).append(timeline)
        recordings = [_recording(folder, level, timelines) for level, timelines in by_level.items()]
        requested, check_signal = RequestedModalities.of(config.client), speaks(config)
        with spread_for(recordings) as spread:
            levels = [
                measure_level(one, prompts, check_signal=check_signal, requested=requested, spread=spread, tell=tell)
                for one in recordings
            ]
        # how the warm-up went is not known
        levels = [replace(with_expected_pace(one, config, prompts), warmup=None) for one in levels]
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
            tell=tell,
        )
        document = write_run(outcome)
        folder.end(keep_spool=True)  # the run can still be gone on with
    return folder, document


def _recording(folder: RunFolder, level: Level, timelines: Sequence[Timeline]) -> LevelRecording:
    spooled = {one.request_id: folder.spooled(one.request_id, one.audio_bytes) for one in timelines}
    audio = {name: path for name, path in spooled.items() if path is not None}
    return LevelRecording(level, tuple(timelines), (), audio, None, interrupted=True, target_died=False)
