"""What GitHub Actions shows: annotations, and the step summary."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from omni_bench.foreign_text import annotation, bounded
from omni_bench.nightly.gate.advice import onset_line
from omni_bench.nightly.gate.junit import step_text
from omni_bench.nightly.gate.result import GateResult, Status
from omni_bench.records.files import os_errors_as_store_errors

SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"
MAX_STEP_BYTES = 1_000_000
"""Of the summary of a step, which several gates may share: GitHub shows nothing of one above 1 MiB."""
MAX_ANNOTATIONS = 50
"""Of one gate; GitHub shows ten of a kind and step, the log all."""
ACTIONS_VARIABLE = "GITHUB_ACTIONS"


def annotations(result: GateResult) -> list[str]:
    """Workflow commands: an error for each regression and failure, a warning for what needs a look."""
    lines = []
    for case in result.integrity:
        lines += [annotation("error", f"hard failure, {case.name}", str(reason)) for reason in case.failures]
        lines += [annotation("error", f"not measured, {case.name}", str(reason)) for reason in case.errors]
        lines += [annotation("warning", f"integrity, {case.name}", reason) for reason in case.warnings]
    for one in result.series:
        if one.status in (Status.REGRESSION, Status.UNCONFIRMED):
            where = [onset_line(change) for change in result.changes if one in change.series]
            title = f"{str(one.status).lower()}, {one.name}"
            lines.append(annotation("error", title, "\n".join([one.reason, *where])))
        elif one.status is not Status.PASS:
            lines.append(annotation("warning", f"{str(one.status).lower()}, {one.name}", one.reason))
    if result.next_steps:
        lines.append(annotation("notice", "gate, what to do", "\n".join(map(step_text, result.next_steps))))
    lines += [annotation("warning", "gate", note) for note in result.notes]
    more = len(lines) - MAX_ANNOTATIONS
    rest = [annotation("warning", "gate", f"{more + 1} more are in gate.md")] if more > 0 else []
    return [*lines[: MAX_ANNOTATIONS - len(rest)], *rest]


def repository_address(environment: Mapping[str, str]) -> str:
    """``https://github.com/OWNER/NAME`` of the workflow, "" outside of one."""
    server, name = environment.get("GITHUB_SERVER_URL", ""), environment.get("GITHUB_REPOSITORY", "")
    return f"{server}/{name}" if re.fullmatch(r"https://[\w.-]+\|[\w.-]+/[\w.-]+", f"{server}|{name}") else ""


def append_summary(text: str, environment: Mapping[str, str]) -> None:
    """Add a page to the step summary, if there is one, and as far as there is room in it. Raises StoreError."""
    name = environment.get(SUMMARY_VARIABLE)
    if name:
        path = Path(name)
        with os_errors_as_store_errors("write", path), path.open("a", encoding="utf-8", errors="replace") as file:
            room = (MAX_STEP_BYTES - file.tell()) // 4  # a character has up to 4 bytes
            if room > 200:
                file.write(bounded(text, room) + "\n")


def in_actions(environment: Mapping[str, str]) -> bool:
    """Whether annotations are read by anyone."""
    return environment.get(ACTIONS_VARIABLE) == "true"
