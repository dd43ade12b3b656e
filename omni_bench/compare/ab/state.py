"""What a study has come to, in ``ab.json``: written before and after every run, so that a killed one goes on."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from omni_bench.compare.ab.arms import StudyArm
from omni_bench.compare.ab.order import ARMS, RunRecord, RunState
from omni_bench.compare.ab.words import Judging, Restart
from omni_bench.compare.load import STUDY_NAME
from omni_bench.compare.stats.verdicts import StudyPlan
from omni_bench.errors import ConfigError, StoreError
from omni_bench.records.files import json_bytes, os_errors_as_store_errors, write_atomically
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
            "arms": {arm.name: arm.to_json() for arm in self.arms},
        }
        data = json_bytes(document, STATE_NAME, indent=2) + b"\n"
        write_atomically(folder / STATE_NAME, lambda path: path.write_bytes(data))

    @classmethod
    def read(cls, folder: Path) -> StudyState:
        """The study of ``folder``. Raises ConfigError if there is none, StoreError if it is damaged."""
        path = folder / STATE_NAME
        if not path.is_file():
            raise ConfigError(f"{folder} is not the folder of a study: it has no {STATE_NAME}")
        with os_errors_as_store_errors("read", path):
            data = path.read_bytes()
        try:
            document = json.loads(data)
            version = document["schema_version"]
            if version.partition(".")[0] != SCHEMA_VERSION.partition(".")[0]:
                raise StoreError(f"{path} has schema_version {version!r}; this omni-bench reads {SCHEMA_VERSION}")
            return cls(
                command=tuple(document["command"]),
                started_utc=document["started_utc"],
                harness=document["harness"],
                plan=StudyPlan(**{"early": False, **document["plan"]}),  # none in schema 1.1
                seed=document["seed"],
                start=document["start"],
                arms=tuple(StudyArm.from_json(document["arms"][name]) for name in ARMS),  # type: ignore[arg-type]
                records=tuple(_record(one) for one in document["records"]),
                resumed=tuple(document["resumed"]),
                extended_from=tuple(document.get("extended_from", ())),
                ending=Ending(**document["ending"]) if document["ending"] else None,
                restart=Restart(document.get("restart", Restart.RUN)),
                fallback=_fallback(document.get("fallback")),
                judging=Judging(document.get("judging", Judging.IN_PLACE)),
            )
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise StoreError(f"{path} is damaged: {type(error).__name__}: {error}") from error


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


def _fallback(data: Mapping[str, Any] | None) -> Fallback | None:
    return None if data is None else Fallback(**{**data, "code": RoomCode(data["code"])})


def _record(data: Mapping[str, Any]) -> RunRecord:
    return RunRecord(**{**data, "state": RunState(data["state"]), "reasons": tuple(data["reasons"])})


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """The folder is this process's alone within; a kill leaves no lock behind. Raises StoreError if it is taken."""
    with os_errors_as_store_errors("open", folder):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StoreError(f"{folder}: another process is at work on this study") from None
        except OSError:
            pass  # a network file system that cannot lock a folder
        yield
    finally:
        os.close(handle)
