"""What a run of a study is worth, from its run.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from omni_bench.compare.ab.order import RunRecord, RunState
from omni_bench.errors import StoreError
from omni_bench.records.invalid_reason import Blame, reasons_of
from omni_bench.records.run_folder import RunFolder


def assess(record: RunRecord, run: Mapping[str, Any]) -> RunRecord:
    """The record of a run that came to its end."""
    if run["valid"]:
        return replace(record, state=RunState.DONE, reasons=(), content=False)
    content = any(reason.blame != Blame.CLIENT for level in run["levels"] for reason in reasons_of(level))
    return replace(record, state=RunState.INVALID, reasons=tuple(map(str, reasons_of(run))), content=content)


def finished_before(folder: Path) -> Mapping[str, Any] | None:
    """The run.json of a run that was killed after it had ended, if it is there, sound and valid; else None.

    An invalid one may be so because it was cut short.
    """
    try:
        run = RunFolder.open(folder).read_run()
    except StoreError:
        return None
    return run if run["valid"] else None
