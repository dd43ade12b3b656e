"""What a run of a study is worth, from its run.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from omni_bench.compare.ab.order import RunRecord, RunState
from omni_bench.errors import StoreError
from omni_bench.records.run_folder import RunFolder


def assess(record: RunRecord, run: Mapping[str, Any]) -> RunRecord:
    """The record of a run that came to its end."""
    if run["valid"]:
        return replace(record, state=RunState.DONE, reasons=(), content=False)
    content = any(_is_the_servers(level) for level in run["levels"])
    return replace(record, state=RunState.INVALID, reasons=tuple(run["invalid_reasons"]), content=content)


def _is_the_servers(level: Mapping[str, Any]) -> bool:
    """Whether a level is invalid for more than the lag, or the lateness, of the client that measured it."""
    client, open_loop = level["client"], level.get("open_loop")
    of_client = int(client is None)
    if client is not None and client["lag_budget_ms"] is not None:
        late_ms = open_loop["late_p99_ms"] if open_loop else None
        times_ms = (client["lag_p99_ms"], late_ms)
        of_client = sum(time_ms is not None and time_ms > client["lag_budget_ms"] for time_ms in times_ms)
    return len(level["invalid_reasons"]) > of_client


def begun_before(folder: Path) -> Mapping[str, Any] | None:
    """The run.json of a run that was killed after it had ended, if it is there, sound and valid; else None.

    An invalid one may be so because it was cut short.
    """
    try:
        run = RunFolder.open(folder).read_run()
    except StoreError:
        return None
    return run if run["valid"] else None
