"""Whether a run of the self-test stands for anything: a check that did not run must not look like one that passed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from omni_bench.errors import StoreError
from omni_bench.records.config import RunConfig
from omni_bench.records.invalid_reason import own_reasons
from omni_bench.records.run_folder import RunFolder
from omni_bench.run.validity import was_interrupted
from omni_bench.selftest.cases import SelftestCase
from omni_bench.selftest.evidence import ALONE, StoredAnswer
from omni_bench.selftest.plan import SelftestPlan

COMPARED_SETTINGS = ("load", "client", "checks", "dataset", "reference")


def came_to_its_end(path: Path) -> bool:
    """Whether ``path`` holds a run that was not interrupted: an interrupted one has a run.json too.

    Nor may it have been gone on with by itself: it has no duration then.
    """
    folder = RunFolder(path)
    if not folder.run_json.is_file():
        return False
    try:
        run = folder.read_run()
    except StoreError:
        return False
    return not was_interrupted(run) and run["duration_s"] is not None


def other_settings(path: Path, config: RunConfig) -> list[str]:
    """The groups of settings in which a stored run differs from ``config``; [] if it is the same. Raises StoreError."""
    stored = RunFolder(path).read_run()["provenance"]["config"]
    wanted = asdict(config)
    changed = [name for name in COMPARED_SETTINGS if stored.get(name) != wanted[name]]
    if (stored.get("target") or {}).get("chaos") != config.target.chaos:
        changed.append("target.chaos")
    return changed


def own_problem(run: Mapping[str, Any]) -> str | None:
    """The first reason in run.json that is the run's own and not one of its levels'; None if there is none."""
    return next(map(str, own_reasons(run)), None)


def other_fault(run: Mapping[str, Any], case: SelftestCase) -> str | None:
    """What the server and the proxy said was broken, if that is not the fault of ``case``; None if it is.

    Nothing may count as caught that was not there.
    """
    described = run["provenance"]["target"]["description"]
    health, chaos = described.get("health"), described.get("chaos")
    inside = health.get("fault") if isinstance(health, Mapping) else None
    outside = chaos.get("name") if isinstance(chaos, Mapping) else None
    wanted = (case.name if case.kind in ("model", "speed") else None, case.name if case.kind == "wire" else None)
    if (inside, outside) == wanted:
        return None
    return f"the server said fault={inside}, the proxy {outside}: not the fault that was asked for"


def unproven(run: Mapping[str, Any] | None, answers: Sequence[StoredAnswer], plan: SelftestPlan) -> str | None:
    """Why a run of the clean server proves nothing although no detector alarmed; None if every check did its work."""
    if run is None:
        return "it left no run.json"
    measured = {level["concurrency"]: level for level in run["levels"]}
    for concurrency in plan.concurrency:
        if concurrency not in measured:
            return f"concurrency {concurrency} was not measured"
        level = measured[concurrency]
        count = sum(answer.concurrency == concurrency for answer in answers)
        if count < plan.requests_per_level:
            return f"concurrency {concurrency}: {count} of {plan.requests_per_level} requests"
        if (level["accuracy"] or {}).get("wer") is None:
            return f"concurrency {concurrency}: nothing was heard by the judge"
        if level["cross_talk"] is None:
            return f"concurrency {concurrency}: cross-talk was not checked"
        if level["parity"] is None or not level["parity"]["compared"]:
            return f"concurrency {concurrency}: parity was not checked"
    alone = sum(answer.concurrency == ALONE for answer in answers)
    if alone < plan.solo * len(plan.concurrency):
        return f"{alone} of {plan.solo * len(plan.concurrency)} requests were sent alone"
    return None
