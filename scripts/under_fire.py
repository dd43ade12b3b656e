"""Kill processes of runs at random moments, then go on with each run: nothing that finished may be lost, nothing left.

python scripts/under_fire.py --kills 100 --seed 0 --out reports/under_fire.md

Each kill is of one process in one phase of the smallest run that has both. Before it, the finished requests are read
from requests.jsonl and solo.jsonl; after it no process of the run may be left, and ``omni-bench run --resume`` must
end with every request measured, those that had finished as they were. No message may be a traceback.
Exits with 1 if anything of that failed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[1]
SPEECH = ROOT / "tests" / "helpers" / "fake_speech_server.py"
MARK = "OMNI_BENCH_UNDER_FIRE"
END_S, LEFT_S, POLL_S = 120.0, 15.0, 0.02
LEVELS, REQUESTS, SOLOS = (1, 2), 4, 2

MAIN, WORKER, SERVER, REFERENCE, GUARDIAN, JUDGE = "main", "load worker", "server", "reference", "guardian", "judge"
START, PROBE, WARMUP, LEVEL, ALONE, JUDGING, REPORT = (
    "start", "probe", "warm-up", "levels", "parity", "judging", "report",
)  # fmt: skip
IN_COMMAND = {
    WORKER: "omni_bench.load.worker",
    SERVER: SPEECH.name,
    REFERENCE: "reference_impl",
    GUARDIAN: "guardian.py",
    JUDGE: "omni_bench.accuracy.asr.worker",
}
WHERE = (
    *((MAIN, phase, False) for phase in (START, PROBE, WARMUP, LEVEL, ALONE, REPORT)),
    *((MAIN, phase, True) for phase in (JUDGING, REPORT)),
    *((WORKER, phase, False) for phase in (WARMUP, LEVEL, ALONE)),
    *((REFERENCE, phase, False) for phase in (START, PROBE, WARMUP, LEVEL, ALONE)),
    *((SERVER, phase, False) for phase in (LEVEL, ALONE)),
    *((GUARDIAN, phase, False) for phase in (START, LEVEL, ALONE)),
    (JUDGE, JUDGING, True),
)


@dataclass(frozen=True)
class Kill:
    """One kill: of which process, in which phase, with the judge or not, by which signal, and a random number."""

    number: int
    process: str
    phase: str
    judge: bool
    signal: signal.Signals
    moment: float


@dataclass(frozen=True)
class Result:
    """What came of it. ``hit``: the process was there; ``problems``: what must not be, in words."""

    kill: Kill
    hit: bool
    finished: int
    problems: tuple[str, ...]


def planned(kills: int, seed: int) -> list[Kill]:
    """Every place once before any is taken again, in a random order."""
    draw = random.Random(seed)
    places: list[tuple[str, str, bool]] = []
    while len(places) < kills:
        places += draw.sample(WHERE, len(WHERE))
    kind = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
    return [
        Kill(number, *place, draw.choice(kind) if place[0] == MAIN else signal.SIGKILL, draw.random())
        for number, place in enumerate(places[:kills])
    ]


class Run:
    """One run in ``folder`` that is shot at."""

    def __init__(self, kill: Kill, folder: Path):
        self.kill, self.folder = kill, folder
        self._environment = {**os.environ, MARK: folder.name}
        self._log = folder.with_suffix(".log")

    def shoot(self) -> Result:
        """Begin the run, kill, look, go on with it, look again."""
        try:
            return self._shoot()
        except BaseException:
            self._end_all()
            raise

    def _shoot(self) -> Result:
        process = self._start(*self._begin())
        hit = self._wait_and_kill(process)
        finished = self._finished()
        problems = [*self._ended(process, "the run"), *self._left()]
        problems += [f"lost {name}" for name in finished if name not in self._finished()]
        if (self.folder / ".spool").is_dir():
            process = self._start("--resume", str(self.folder))
            problems += [*self._ended(process, "--resume"), *self._left()]
        elif not (self.folder / "run.json").is_file() and finished:
            problems.append("cannot be gone on with")
        problems += self._whole(finished)
        return Result(self.kill, hit, len(finished), tuple(problems))

    def _begin(self) -> list[str]:
        words = [
            "scenario=smoke", f"load.concurrency={list(LEVELS)}".replace(" ", ""), f"hydra.run.dir={self.folder}",
            f"load.requests_per_level={REQUESTS}", "load.requests_per_slot=1", "load.warmup_per_slot=1",
            "load.lag_budget_ms=10000", "dataset=random", "dataset.min_words=1", "dataset.max_words=2",
            "output.plots=false",
        ]  # fmt: skip
        words += [] if self.kill.judge else ["asr=none"]
        words += [f"checks.parity_requests={SOLOS}"] if self.kill.phase == ALONE else []
        if self.kill.process != REFERENCE:
            command = f"{shlex.quote(sys.executable)} {shlex.quote(str(SPEECH))} {{port}} 0.1"
            words += ["target=command", f"target.command='{command}'", "client.model=tone"]
        return words

    def _start(self, *words: str) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "omni_bench", "run", *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment,
                start_new_session=True,
            )

    def _wait_and_kill(self, process: subprocess.Popen[bytes]) -> bool:
        reached, extra_s = self._moment()
        deadline = time.monotonic() + END_S
        while process.poll() is None and time.monotonic() < deadline:
            if reached():
                time.sleep(extra_s)
                break
            time.sleep(POLL_S)
        while process.poll() is None and time.monotonic() < deadline:
            victims = [process.pid] if self.kill.process == MAIN else self._pids(IN_COMMAND[self.kill.process])
            if victims:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(victims[0], self.kill.signal)
                    return True
            if self.kill.phase not in (START, JUDGING, WARMUP):
                return False
            time.sleep(POLL_S)
        return False

    def _moment(self) -> tuple[Callable[[], bool], float]:
        """What begins the phase, and how long after it the kill comes."""
        folder, moment = self.folder, self.kill.moment
        requests, alone = folder / "requests.jsonl", folder / "solo.jsonl"
        journal = folder / ".spool" / "journal.jsonl"
        after = 1 + int(moment * (REQUESTS * len(LEVELS) - 1))
        return {
            START: (lambda: self.kill.process == MAIN or bool(self._pids(IN_COMMAND[self.kill.process])), 2.5 * moment),
            PROBE: (lambda: "ready at" in self._said(), 0.4 * moment),
            WARMUP: (lambda: (folder / ".spool" / "1").is_dir(), 0.3 * moment),
            LEVEL: (lambda: _count(requests) >= after, 0.1 * moment),
            ALONE: (lambda: _count(alone) >= 1 + int(moment * SOLOS), 0.05 * moment),
            JUDGING: (lambda: bool(self._pids(IN_COMMAND[JUDGE])), 4 * moment),
            REPORT: (
                lambda: (folder / "utterances.jsonl").exists() if self.kill.judge else "load_ended" in _text(journal),
                0.4 * moment,
            ),
        }[self.kill.phase]

    def _ended(self, process: subprocess.Popen[bytes], what: str) -> list[str]:
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return [f"{what} did not end within {END_S:g} s"]
        problems = ["a traceback"] if "Traceback" in self._said() or "internal error" in self._said() else []
        if process.returncode == 2 or (what == "--resume" and process.returncode not in (0, 1)):
            problems.append(f"{what} ended with exit code {process.returncode}")
        return problems

    def _left(self) -> list[str]:
        """Processes of the run that are still there :data:`LEFT_S` later."""
        deadline = time.monotonic() + LEFT_S
        while (found := self._pids("")) and time.monotonic() < deadline:
            time.sleep(POLL_S)
        self._end_all()
        return [f"{len(found)} processes left"] if found else []

    def _end_all(self) -> None:
        for pid in self._pids(""):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _whole(self, finished: dict[str, int]) -> list[str]:
        """After all, every planned request is there once, and those that had finished are as they were."""
        if not (self.folder / "requests.jsonl").is_file():
            return [] if not finished else ["no requests.jsonl"]
        names = [json.loads(line)["request_id"] for line in _lines(self.folder / "requests.jsonl")]
        problems = [f"{name} twice" for name, count in Counter(names).items() if count > 1]
        if (self.folder / "run.json").is_file() and len(names) != REQUESTS * len(LEVELS):
            problems.append(f"{len(names)} of {REQUESTS * len(LEVELS)} requests in the end")
        after = self._finished()
        if self.kill.process != WORKER:  # its audio is lost with it, and an answer without audio is asked for again
            problems += [f"{name} was sent again" for name, ended in finished.items() if after.get(name) != ended]
        return problems

    def _finished(self) -> dict[str, int]:
        """The answered requests on disk: when each ended, by id."""
        files = (self.folder / "requests.jsonl", self.folder / "solo.jsonl")
        records = [json.loads(line) for file in files for line in _lines(file)]
        return {one["request_id"]: one["ended_ns"] for one in records if one["ended_ns"] is not None}

    def _pids(self, piece: str) -> list[int]:
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if (
                    process.environ().get(MARK) == self.folder.name
                    and process.status() != psutil.STATUS_ZOMBIE
                    and piece in (command := " ".join(process.cmdline()))
                    and (piece == IN_COMMAND[GUARDIAN] or not piece or IN_COMMAND[GUARDIAN] not in command)
                    and (not piece or "omni_bench run" not in command)
                ):
                    found.append(process.pid)
        return found

    def _said(self) -> str:
        return _text(self._log)


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def _lines(path: Path) -> list[str]:
    """Whole lines; the last may have been cut."""
    return [line for line in _text(path).split("\n")[:-1] if line]


def _count(path: Path) -> int:
    return len(_lines(path))


def table(results: Sequence[Result]) -> str:
    """One row for each process and phase."""
    rows = ["| process | phase | judge | kills | hit | finished before | problems |", "|---|---|---|--:|--:|--:|--:|"]
    for process, phase, judge in WHERE:
        of = [one for one in results if (one.kill.process, one.kill.phase, one.kill.judge) == (process, phase, judge)]
        if of:
            counts = (len(of), sum(one.hit for one in of), sum(one.finished for one in of))
            problems = sum(bool(one.problems) for one in of)
            cells = (process, phase, "yes" if judge else "no", *counts, problems)
            rows.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(rows)


def _show(result: Result, folder: Path) -> None:
    kill = result.kill
    what = f"{kill.number:3d} {kill.signal.name} {kill.process}, {kill.phase}{', judge' * kill.judge}"
    verdict = "; ".join(result.problems) or ("ok" if result.hit else "ok (it was gone before)")
    print(f"{what}: {result.finished} finished before: {verdict}", flush=True)
    if result.problems:
        said = _text(folder / f"kill-{kill.number:03d}.log")
        print("\n".join(f"    {line}" for line in said.splitlines()))


def main(arguments: Sequence[str] | None = None) -> int:
    """Shoot, print a table, and say what failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0], allow_abbrev=False)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, action="append", metavar="N", help="this kill of them alone (repeatable)")
    parser.add_argument("--out", type=Path, help="write the table there too")
    parsed = parser.parse_args(arguments)
    kills = [one for one in planned(parsed.kills, parsed.seed) if parsed.only is None or one.number in parsed.only]
    results = []
    started = time.monotonic()
    # Ctrl-C: what was seen so far is shown
    with tempfile.TemporaryDirectory(prefix="under-fire-") as folder, contextlib.suppress(KeyboardInterrupt):
        for kill in kills:
            results.append(Run(kill, Path(folder) / f"kill-{kill.number:03d}").shoot())
            _show(results[-1], Path(folder))
    failed = [one for one in results if one.problems]
    took = f"{len(results)} kills, {sum(one.hit for one in results)} of a living process, {len(failed)} with a problem"
    text = f"{table(results)}\n\n{took}; {time.monotonic() - started:.0f} s.\n"
    print(f"\n{text}", end="")
    if parsed.out is not None:
        command = f"python scripts/under_fire.py --kills {parsed.kills} --seed {parsed.seed} --out {parsed.out}"
        said = (__doc__ or "").split("\n\n")[2].replace("\n", " ").strip()
        parsed.out.write_text(f"# Under fire\n\n`{command}`\n\n{said}\n\n{text}", encoding="utf-8")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
