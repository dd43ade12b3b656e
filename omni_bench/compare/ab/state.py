"""What a study has come to, in ``ab.json``: written before and after every run, so that a killed one goes on."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from omni_bench.compare.ab.arms import StudyArm
from omni_bench.compare.ab.order import ARMS, RunRecord
from omni_bench.compare.ab.words import Judging, Restart
from omni_bench.compare.load import STUDY_NAME
from omni_bench.compare.stats.verdicts import StudyPlan
from omni_bench.errors import ConfigError, StoreError
from omni_bench.foreign_text import safe_name
from omni_bench.records.convert import expect, structure
from omni_bench.records.files import lock_folder, os_errors_as_store_errors, write_json
from omni_bench.targets.room import RoomCode

STATE_NAME, RUNS, SERVERS, JUDGING_LOG = STUDY_NAME, "runs", "servers", "judging.log"
SCHEMA_VERSION = "1.3"


@dataclass(frozen=True)
class Ending:
    """How a study ended. ``outcome``: of its comparison, None if there is none; ``why``: what cut it short."""

    outcome: str | None
    exit_code: int
    why: str | None = None


@dataclass(frozen=True)
class Fallback:
    """Why servers that were to be kept alive side by side are not, from run number ``run`` on.

    ``code``: a :class:`omni_bench.targets.room.RoomCode`, which decides; ``text``: for people.
    """

    code: RoomCode
    text: str
    run: int


@dataclass(frozen=True)
class StudyState:
    """The whole of ab.json.

    ``start``: the arm that begins, drawn by ``seed``. ``harness``: version and commit of omni-bench. ``resumed``:
    numbers of the runs before which the study was resumed. ``extended_from``: how many pairs it had each time when
    somebody asked for more. ``restart``: when servers are to be started anew; ``fallback``: why each run has a server
    of its own instead, None if it does not. ``judging``: where runs are judged. ``ending``: None until it has ended.
    """

    command: tuple[str, ...]
    started_utc: str
    harness: Mapping[str, Any]
    plan: StudyPlan
    seed: int
    start: str
    arms: tuple[StudyArm, StudyArm]
    records: tuple[RunRecord, ...] = ()
    resumed: tuple[int, ...] = ()
    extended_from: tuple[int, ...] = ()
    ending: Ending | None = None
    restart: Restart = Restart.RUN
    fallback: Fallback | None = None
    judging: Judging = Judging.BESIDE

    @property
    def kept(self) -> bool:
        """Whether the servers are kept alive side by side, and the levels of a pair alternate."""
        return self.restart is not Restart.RUN and self.fallback is None

    def arm(self, name: str) -> StudyArm:
        """The arm of this name."""
        return self.arms[ARMS.index(name)]

    def with_record(self, record: RunRecord) -> StudyState:
        """The same with ``record`` added, or in the place of the one of its number."""
        others = [one for one in self.records if one.number != record.number]
        return replace(self, records=tuple(sorted((*others, record), key=lambda one: one.number)))

    def write(self, folder: Path) -> None:
        """Write ab.json. Raises StoreError."""
        document = {
            "schema_version": SCHEMA_VERSION,
            **asdict(replace(self, arms=())),
            "arms": {arm.name: asdict(arm) for arm in self.arms},
        }
        write_json(folder / STATE_NAME, document)

    @classmethod
    def read(cls, folder: Path) -> StudyState:
        """The study of ``folder``. Raises ConfigError if there is none, StoreError if it is damaged."""
        path = folder / STATE_NAME
        if not path.is_file():
            missing = f"it has no {STATE_NAME}" if folder.is_dir() else "there is no such folder"
            raise ConfigError(f"{folder} is not the folder of a study: {missing}")
        with os_errors_as_store_errors("read", path):
            data = path.read_bytes()
        try:
            document = json.loads(data)
            version = document["schema_version"]
            if version.partition(".")[0] != SCHEMA_VERSION.partition(".")[0]:
                raise StoreError(f"{path} has schema_version {version!r}; this omni-bench reads {SCHEMA_VERSION}")
            arms = tuple(StudyArm.from_json(document["arms"][name]) for name in ARMS)
            plan = {"early": False, **document["plan"]}  # none in schema 1.1
            known = {"judging": Judging.IN_PLACE, **document, "arms": arms, "plan": plan}
            state = structure(known, cls, str(path))
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise StoreError(f"{path} is damaged: {type(error).__name__}: {error}") from error
        expect(str(path), "start", state.start, state.start in ARMS, f"one of {', '.join(ARMS)}")
        for one in state.records:
            what = f"{path}: run {one.number}"
            expect(what, "arm", one.arm, one.arm in ARMS, f"one of {', '.join(ARMS)}")
            expect(what, "folder", one.folder, safe_name(one.folder) == one.folder, "a name within runs/")
        return state


def check_restart(state: StudyState) -> None:
    """Raise ConfigError if the servers of both arms cannot be alive at once, or none of them is started here."""
    if state.restart is Restart.RUN:
        return
    word = f"restart={state.restart}"
    configs = [arm.config for arm in state.arms if arm.fresh]
    if not configs:
        raise ConfigError(f"{word}: both arms are servers that run already, and none is started here; leave it out")
    ports = [config.target.port for config in configs if config.target.port]
    if len(ports) > len(set(ports)):
        raise ConfigError(
            f"{word} keeps both servers alive, and target.port={ports[0]} is that of both; leave it out, or give the "
            "arms two (before.target.port=, after.target.port=)"
        )
    if any(config.output.profile for config in configs):
        raise ConfigError(f"{word}: output.profile=true needs a server of its own for each run (restart=run)")


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """The folder is this process's alone within; a kill leaves no lock behind. Raises StoreError if it is taken."""
    handle = lock_folder(folder)
    if handle is None:
        raise StoreError(f"{folder}: another process is at work on this study")
    try:
        yield
    finally:
        os.close(handle)
