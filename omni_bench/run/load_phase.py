"""The load of a run: launch the server, drive every level and what comes after them, stop the server.

Or take what was kept of it from disk.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy

from omni_bench.errors import OmniBenchError, StoreError, TargetError
from omni_bench.load.events import LoadEvent
from omni_bench.load.open_plan import probe_schedule
from omni_bench.load.runner import LevelBroken, LevelInterrupted, run_level
from omni_bench.load.signals import HeldBackSignals
from omni_bench.records.api_key import key_of
from omni_bench.records.config import RAY, LoadConfig
from omni_bench.records.level import Rate, level_title
from omni_bench.records.plan import LevelPlan
from omni_bench.records.recording import LevelRecording
from omni_bench.run.calibration import with_bias
from omni_bench.run.journal import Earlier
from omni_bench.run.parity import WHILE_ALONE, ParityPhase, keep_codes, send_alone
from omni_bench.run.pinning import CorePinning
from omni_bench.run.prepare import Prepared
from omni_bench.run.probing import SETTLE_S
from omni_bench.run.profiling import profile_plan, profiled, take_profile
from omni_bench.run.rate_search import probe_plans
from omni_bench.run.server_facts import target_facts
from omni_bench.run.session import Session, note_begun
from omni_bench.targets.base import Target, TargetInfo
from omni_bench.targets.create import create_target
from omni_bench.targets.kept import KeptTarget


class LoadPhase:
    """Launch the server, run every level, stop the server: step by step, so that two can take turns.

    Between two steps this process is on the cores where it was. ``problem``: what went wrong first, None if nothing
    did; no step but :meth:`end` does anything after it.
    """

    def __init__(self, session: Session, signals: HeldBackSignals):
        config = session.config
        if config.output.profile:
            config = profiled(config, session.folder.path)
        self.session, self._signals = session, signals
        self._target = session.target or create_target(config, session.folder.server_log)
        self._pinning = CorePinning(session.config.target.cores, session.spare)
        self._plans: Iterator[LevelPlan] = iter(())
        self.problem: BaseException | None = None

    def begin(self) -> bool:
        """Start the target and look at it; whether that went well."""
        return self._step(self._begin)

    def next_level(self) -> bool:
        """Run the next level; False if there is none, or if it broke."""
        return self._step(self._one_level)

    def end(self) -> None:
        """What comes after the levels, if all is well; then stop the target."""
        self._step(self._after_levels)
        try:
            try:
                self.session.progress.end()
            finally:
                self._target.stop()
        except Exception as error:
            self.problem = self.problem or error

    def _step(self, do: Callable[[], bool]) -> bool:
        if self.problem is not None:
            return False
        session = self.session
        try:
            with self._signals.released():
                self._pinning.to_client()
                return do()
        except BaseException as error:
            if isinstance(error, OmniBenchError) and session.info is not None:  # all is stopped and written down first
                session.progress.say(f"the run ends here: {str(error).splitlines()[0].removesuffix(':')}")
            self.problem = error
            return False
        finally:
            self._pinning.end()

    def _begin(self) -> bool:
        session, target = self.session, self._target
        kind, url = session.config.target.kind, session.config.target.url
        kept = isinstance(target, KeptTarget)
        if not kept:
            session.progress.say(f"starting the target ({kind})" if url is None else f"connecting to {url}")
        self._pinning.to_server()
        session.info = target.start()
        self._pinning.to_client()
        if kept:
            session.progress.say(f"the server at {session.info.base_url} is alive and takes this run's load")
        else:
            session.progress.say(f"ready at {session.info.base_url} after {session.info.startup_s:.1f} s")
        session.server_facts.before(
            session.config, session.prepared.prompts, target, session.info, session.progress.say
        )
        facts = target_facts(session.config.target, session.info, session.server_facts)
        session.earlier.check_server(facts)
        session.journal.server(facts)
        note_begun(session)  # with what is known of the server now
        session.progress.begin_load(session.prepared.plans)
        session.parity = _parity_phase(session)
        self._plans = iter(_plans(session, session.recordings, session.progress.say))
        return True

    def _one_level(self) -> bool:
        plan = next(self._plans, None)
        if plan is not None:
            _run_one_level(self.session, plan, self._target)
        return plan is not None

    def _after_levels(self) -> bool:
        session = self.session
        assert session.info is not None
        session.server_facts.after(session.progress.say, resumed=session.earlier.run is not None)
        _run_alone(session, self._target)
        _profile(session, self._target, session.info)
        facts = target_facts(session.config.target, session.info, session.server_facts)
        session.journal.server(facts, load_ended=True)
        return True


def open_plans(prepared: Prepared, load: LoadConfig, earlier: Earlier) -> Iterable[LevelPlan]:
    """The levels of an open loop that had begun; of a rate search those that it came to."""
    if prepared.planner is None:
        return prepared.plans
    rates = {one.concurrency for one in earlier.timelines.values() if isinstance(one.concurrency, Rate)}
    planner = copy(prepared.planner)
    return [planner.plan(probe_schedule(load, rate.hz)) for rate in rates]


def take_stored_load(session: Session) -> bool:
    """Take the whole load phase from disk, if nothing of it is left to send; whether that is so.

    Raises StoreError for a load that has ended, but lacks requests.
    """
    earlier, parity, config = session.earlier, _parity_phase(session), session.config
    if earlier.server is None or (config.output.profile and not (earlier.load_ended or session.folder.read_profile())):
        return False
    levels, recordings = list[LevelPlan](), list[LevelRecording]()

    def take(plan: LevelPlan, kept: LevelRecording | None) -> LevelRecording | None:
        if kept is None and earlier.load_ended:
            raise StoreError(f"requests of {level_title(plan.concurrency)} are missing, though its load has ended")
        return kept

    for plan in _plans(session, recordings, lambda _: None):
        if (kept := take(plan, earlier.ended(plan) or earlier.answered(plan))) is None:
            return False
        levels.append(plan)
        recordings.append(kept)
    for level in parity.plan(levels, recordings) if parity is not None else ():
        if (kept := take(level.plan, earlier.answered(level.plan))) is None:
            return False
        parity.solos[level.concurrency] = kept
    session.levels_started, session.recordings, session.parity = levels, recordings, parity
    return True


def _parity_phase(session: Session) -> ParityPhase | None:
    requests = session.config.checks.parity_requests
    return ParityPhase(requests) if requests else None


def _plans(session: Session, recordings: Sequence[LevelRecording], say: Callable[[str], None]) -> Iterable[LevelPlan]:
    """The levels one after another; in a rate search each depends on the ``recordings`` of those before."""
    prepared = session.prepared
    if prepared.planner is None:
        return prepared.plans
    planner = copy(prepared.planner)  # it deals out the prompts from the first on, whoever asked before
    return probe_plans(planner, session.config.load, session.config.slo, recordings, say)


def _run_one_level(session: Session, plan: LevelPlan, target: Target) -> None:
    session.levels_started.append(plan)
    kept = session.earlier.ended(plan)
    if kept is not None:
        session.recordings.append(kept)
        return
    session.progress.begin_level(session.earlier.missing(plan))
    try:
        session.recordings.append(session.earlier.drive(plan, lambda left: _drive_level(session, left, target)))
    except (LevelInterrupted, LevelBroken) as error:
        session.recordings.append(error.recording)
        raise
    _check_target(session.recordings[-1], target, f"during {level_title(plan.concurrency)}")
    session.journal.level(session.recordings[-1])


def _drive_level(session: Session, plan: LevelPlan, target: Target) -> LevelRecording:
    recording = with_bias(_drive(session, plan, target, session.on_event), session.config.client.kind)
    if not recording.target_died and target.is_alive():
        session.server_facts.after_level(recording)
        if session.parity is not None:
            keep_codes(session.parity, target.base_url, recording)
    return recording


def _run_alone(session: Session, target: Target) -> None:
    """The parity check's requests, after all levels, so that the levels are measured as without it."""
    if session.parity is None:
        return
    send_alone(
        session.parity,
        session.levels_started,
        session.recordings,
        base_url=target.base_url,
        begin=session.progress.begin_alone,
        drive=lambda plan: session.earlier.drive(plan, lambda left: _drive(session, left, target, session.on_alone)),
        check_target=lambda recording: _check_target(recording, target, WHILE_ALONE),
    )


def _profile(session: Session, target: Target, info: TargetInfo) -> None:
    """Last of all, so that nothing that is measured is traced."""
    if not session.config.output.profile:
        return
    session.progress.say("profile: a few requests once more, while the server takes a trace")
    plan, url = (
        profile_plan(session.levels_started, session.prepared.prompts),
        info.chaos["upstream"] if info.chaos is not None else info.base_url,
    )
    profile = take_profile(
        plan,
        url,
        session.folder.path,
        lambda plan: _drive(session, plan, target, lambda event: None),
        key_of(session.config.client),
    )
    session.folder.write_profile(profile)
    if profile.problem is not None:
        session.progress.say(f"warning: profile: {profile.problem}")


def _drive(session: Session, plan: LevelPlan, target: Target, on_event: Callable[[LoadEvent], None]) -> LevelRecording:
    config = session.config
    return run_level(
        plan,
        base_url=target.base_url,
        client=config.client,
        spool_dir=session.attempt,
        on_event=on_event,
        is_target_alive=target.is_alive,
        health_path=config.target.health_path,
        workers=config.load.workers,
        ray_address=config.load.ray_address if config.load.engine == RAY else None,
        reuse=session.server_facts.keeps_connections,
    )


def _check_target(recording: LevelRecording, target: Target, when: str) -> None:
    if any(one.error is not None and one.error.kind in ("connect", "disconnected") for one in recording.timelines):
        time.sleep(SETTLE_S)
    if recording.target_died or not target.is_alive():
        raise TargetError(f"the server died {when}: {target.failure()}")
