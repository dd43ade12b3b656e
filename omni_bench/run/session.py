"""What a run has come to so far, and how that is told: to a killed run's report, and to who stopped it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from omni_bench.load.events import LoadEvent, RequestFinished
from omni_bench.records.config import RunConfig
from omni_bench.records.invalid_reason import Code, invalid
from omni_bench.records.plan import LevelPlan
from omni_bench.records.recording import LevelRecording
from omni_bench.records.run_folder import RunFolder
from omni_bench.run.document import build_run
from omni_bench.run.journal import Earlier, Journal
from omni_bench.run.parity import ParityPhase
from omni_bench.run.prepare import Prepared
from omni_bench.run.progress import RunProgress
from omni_bench.run.provenance import provenance
from omni_bench.run.server_facts import ServerFacts, target_facts
from omni_bench.run.stored_results import request_record
from omni_bench.targets.base import Target, TargetInfo


@dataclass
class Session:
    """What a run has come to so far.

    ``started``: None for one that is made in parts. ``stored``: its whole load is on disk. ``spare``: cores that the
    client leaves free. ``hardware``: of the machine that measured it; None: what this process sees.
    """

    config: RunConfig
    command: tuple[str, ...]
    folder: RunFolder
    prepared: Prepared
    progress: RunProgress
    started_utc: datetime
    started: float | None
    journal: Journal
    attempt: Path
    earlier: Earlier = field(default_factory=Earlier)
    target: Target | None = None
    info: TargetInfo | None = None
    levels_started: list[LevelPlan] = field(default_factory=list)
    recordings: list[LevelRecording] = field(default_factory=list)
    finished: int = 0
    stored: bool = False
    parity: ParityPhase | None = None
    server_facts: ServerFacts = field(default_factory=ServerFacts)
    spare: tuple[int, ...] = ()
    hardware: Mapping[str, Any] | None = None

    def on_event(self, event: LoadEvent) -> None:
        """Write a measured request down the moment it has finished, then show it."""
        if isinstance(event, RequestFinished) and not event.timeline.warmup:
            timeline = event.timeline
            self.folder.append_request(request_record(timeline, self.prepared.prompts[timeline.prompt_id]))
            self.finished += timeline.ok
        self.progress.on_event(event)

    def on_alone(self, event: LoadEvent) -> None:
        """The same for a request that is sent alone, for the parity check."""
        if isinstance(event, RequestFinished):
            timeline = event.timeline
            self.folder.append_solo(request_record(timeline, self.prepared.prompts[timeline.prompt_id]))
        self.progress.on_event(event)


def note_begun(session: Session) -> None:
    """Write down what a report needs if this process is killed: all but the requests, which follow one by one."""
    session.folder.write_begun(
        build_run(
            scenario=session.config.scenario.name,
            description=session.config.scenario.description,
            started_utc=session.started_utc,
            duration_s=None,
            levels=[],
            provenance=provenance(
                session.config,
                command=session.command,
                target=known_target_facts(session),
                prompts=session.prepared.prompts_facts,
                judge=None,
                with_gpus=False,
                here=session.hardware,
            ),
            reasons=[invalid(Code.INTERRUPTED)],
        )
    )


def known_target_facts(session: Session) -> dict[str, Any]:
    """What is known of the server by now; of one that is not needed any more, what is on disk."""
    if session.info is None and session.earlier.server is not None:
        return dict(session.earlier.server)
    return target_facts(session.config.target, session.info, session.server_facts)


def resume_command(session: Session) -> str:
    """What a user types to go on with it."""
    return f"omni-bench run --resume {shlex.quote(str(session.folder.path))}"


def with_place(problem: BaseException, session: Session, *, resumable: bool = False) -> BaseException:
    """The problem as it should reach the user: an interrupt says what it left behind."""
    if isinstance(problem, KeyboardInterrupt):
        place = session.folder.path
        how = f"; go on with: {resume_command(session)}" if resumable else ""
        return KeyboardInterrupt(f"{session.finished} finished requests are in {place}{how}")
    return problem
