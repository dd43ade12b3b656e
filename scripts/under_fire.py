"""Kill processes of runs at random moments, then go on with each run: nothing that finished may be lost, nothing left.

    python scripts/under_fire.py --kills 100 --seed 0 --out reports/under_fire.md

Each kill is of one process in one phase of the smallest run that has both. Before it, the finished requests are read
from requests.jsonl and solo.jsonl; after it no process of the run may be left, and ``omni-bench run --resume`` must
end with every request measured, those that had finished as they were. No message may be a traceback. "server" is a
server without a model behind the guardian, "reference" the bundled one with the small voice.

Two runs are under fire at once. Each kill is written beside ``--out`` (under_fire.jsonl) as soon as it is judged, and
the report is made of all that is there: the same command goes on where it was stopped, another seed adds to it.
Exits with 1 if anything failed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[1]
SPEECH = ROOT / "tests" / "helpers" / "fake_speech_server.py"
MARK = "OMNI_BENCH_UNDER_FIRE"
END_S, LEFT_S, POLL_S = 120.0, 15.0, 0.05
RUNS = 2  # at once
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
OWN_TRACEBACK = re.compile("^Traceback", re.MULTILINE)
"""Not one that is quoted: the end of a dead server's log is shown with four spaces before each line."""
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
    """What came of it. ``hit``: the process was there; ``finished``: requests before it.

    Of these ``lost`` are gone, and ``again`` were sent again; ``left``: processes that stayed; ``problems``: all that
    must not be, in words.
    """

    kill: Kill
    hit: bool
    finished: int
    lost: int
    again: int
    left: int
    problems: tuple[str, ...]
    took_s: float = 0.0


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
        begun = time.monotonic()
        try:
            return replace(self._shoot(), took_s=round(time.monotonic() - begun, 1))
        except BaseException:
            self._end_all()
            raise

    def _shoot(self) -> Result:
        process = self._start(*self._begin())
        hit = self._wait_and_kill(process)
        finished = self._finished()
        problems = self._ended(process, "the run")
        left = self._left()
        lost = [name for name in finished if name not in self._finished()]
        if (self.folder / ".spool").is_dir():
            process = self._start("--resume", str(self.folder))
            problems += self._ended(process, "--resume")
            left += self._left()
        elif not (self.folder / "run.json").is_file() and finished:
            problems.append("cannot be gone on with")
        again = self._sent_again(finished)
        problems += [f"{left} processes left"] * bool(left) + [f"lost {name}" for name in lost]
        problems += [f"{name} was sent again" for name in again]
        problems += self._whole(finished)
        return Result(self.kill, hit, len(finished), len(lost), len(again), left, tuple(problems))

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
        said = self._said()
        problems = ["a traceback"] if OWN_TRACEBACK.search(said) or "internal error" in said else []
        if process.returncode == 2 or (what == "--resume" and process.returncode not in (0, 1)):
            problems.append(f"{what} ended with exit code {process.returncode}")
        return problems

    def _left(self) -> int:
        """How many processes of the run are still there :data:`LEFT_S` later."""
        deadline = time.monotonic() + LEFT_S
        while (found := self._pids("")) and time.monotonic() < deadline:
            time.sleep(POLL_S)
        self._end_all()
        return len(found)

    def _end_all(self) -> None:
        for pid in self._pids(""):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _whole(self, finished: dict[str, int]) -> list[str]:
        """After all, every planned request is there once."""
        if not (self.folder / "requests.jsonl").is_file():
            return [] if not finished else ["no requests.jsonl"]
        names = [json.loads(line)["request_id"] for line in _lines(self.folder / "requests.jsonl")]
        problems = [f"{name} twice" for name, count in Counter(names).items() if count > 1]
        if (self.folder / "run.json").is_file() and len(names) != REQUESTS * len(LEVELS):
            problems.append(f"{len(names)} of {REQUESTS * len(LEVELS)} requests in the end")
        return problems

    def _sent_again(self, finished: dict[str, int]) -> list[str]:
        """Requests that had finished and are not as they were."""
        if self.kill.process == WORKER:  # its audio is lost with it, and an answer without audio is asked for again
            return []
        after = self._finished()
        return [name for name, ended in finished.items() if after.get(name) != ended]

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


Row = dict[str, Any]
"""A kill as the file has it: of :class:`Kill` and :class:`Result`, with ``seed`` and ``commit``."""


def row_of(result: Result, seed: int, commit: str) -> Row:
    kill = {**asdict(result.kill), "signal": result.kill.signal.name}
    return {
        "seed": seed,
        **kill,
        **{key: value for key, value in asdict(result).items() if key != "kill"},
        "commit": commit,
    }


def table(rows: Sequence[Row]) -> str:
    """One line for each process and phase, with and without the judge."""
    heads = ("process", "phase", "judge", "kills", "of a living process", "finished before", "lost", "sent again")
    heads += ("processes left", "kills with a problem")
    lines = [f"| {' | '.join(heads)} |", "|---|---|---|" + "--:|" * (len(heads) - 3)]
    for place in WHERE:
        of = [one for one in rows if (one["process"], one["phase"], one["judge"]) == place]
        if of:
            sums = [sum(one[name] for one in of) for name in ("hit", "finished", "lost", "again", "left")]
            cells = (*place[:2], "yes" if place[2] else "no", len(of), *sums, sum(bool(one["problems"]) for one in of))
            lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def summary(rows: Sequence[Row]) -> str:
    """All kills in a sentence."""
    failed, lost, left = (sum(map(bool, (one[name] for one in rows))) for name in ("problems", "lost", "left"))
    seeds = ", ".join(map(str, sorted({one["seed"] for one in rows})))
    return (
        f"{len(rows)} kills (seed {seeds}), {sum(one['hit'] for one in rows)} of a living process; "
        f"{sum(one['finished'] for one in rows)} requests had finished before them, "
        f"{sum(one['lost'] for one in rows)} of these were lost ({lost} kills); "
        f"{left} kills left processes; {failed} kills with a problem."
    )


def page(rows: Sequence[Row], command: str) -> str:
    """The report."""
    said = " ".join((__doc__ or "").split("\n\n")[2].split()).replace("``", "`")
    commits = ", ".join(sorted({one["commit"] for one in rows}))
    took_s = sorted(one["took_s"] for one in rows)
    problems = [
        f"- seed {one['seed']}, kill {one['number']}: {'; '.join(one['problems'])}" for one in rows if one["problems"]
    ]
    parts = [
        f"# Under fire\n\n`{command}`",
        f"Commit {commits}; {os.cpu_count()} CPU cores, {RUNS} runs at once, {took_s[len(took_s) // 2]:.0f} s a kill "
        f"(median; {took_s[-1]:.0f} at most).",
        said,
        table(rows),
        summary(rows),
        *(["\n".join(problems)] if problems else []),
    ]
    return "\n\n".join(parts) + "\n"


def _commit() -> str:
    """Of this tree, with a + if it was changed since."""
    words = ["git", "-C", str(ROOT), "describe", "--always", "--dirty=+", "--abbrev=10", "--exclude=*"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def _show(result: Result, folder: Path) -> None:
    kill = result.kill
    what = f"{kill.number:3d} {kill.signal.name} {kill.process}, {kill.phase}{', judge' * kill.judge}"
    verdict = "; ".join(result.problems) or ("ok" if result.hit else "ok (it was gone before)")
    print(f"{what}: {result.finished} finished before, {result.took_s:.0f} s: {verdict}", flush=True)
    if result.problems:
        said = _text(folder / f"kill-{kill.number:03d}.log")
        print("\n".join(f"    {line}" for line in said.splitlines()))


def shoot_all(kills: Sequence[Kill], done: Callable[[Result, Path], None], until_s: float) -> None:
    """:data:`RUNS` at once, none begun after ``until_s`` (monotonic). Ctrl-C ends it after those that are on."""
    with tempfile.TemporaryDirectory(prefix="under-fire-") as name, ThreadPoolExecutor(RUNS) as pool:
        folder = Path(name)
        waiting = iter(kills)

        def next_one() -> Result | None:
            kill = next(waiting, None) if time.monotonic() < until_s else None
            return None if kill is None else Run(kill, folder / f"kill-{kill.number:03d}").shoot()

        on = {pool.submit(next_one) for _ in range(RUNS)}
        while on:
            ended = next(as_completed(on))
            on.discard(ended)
            result = ended.result()
            if result is not None:
                done(result, folder)
                on.add(pool.submit(next_one))


def main(arguments: Sequence[str] | None = None) -> int:
    """Shoot, print a table, and say what failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0], allow_abbrev=False)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, action="append", metavar="N", help="this kill of them alone (repeatable)")
    parser.add_argument("--minutes", type=float, help="begin no kill after these: the same command goes on")
    parser.add_argument("--out", type=Path, help="the report; what is beside it as .jsonl is gone on with")
    parsed = parser.parse_args(arguments)
    file = parsed.out.with_suffix(".jsonl") if parsed.out is not None else None
    rows: list[Row] = [json.loads(line) for line in _lines(file)] if file is not None else []
    there = {(one["seed"], one["number"]) for one in rows}
    kills = [one for one in planned(parsed.kills, parsed.seed) if (parsed.seed, one.number) not in there]
    kills = [one for one in kills if parsed.only is None or one.number in parsed.only]
    commit, failed = _commit(), 0

    def done(result: Result, folder: Path) -> None:
        nonlocal failed
        failed += bool(result.problems)
        rows.append(row_of(result, parsed.seed, commit))
        _show(result, folder)
        if file is not None:
            with file.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(rows[-1]) + "\n")
            parsed.out.write_text(
                page(sorted(rows, key=lambda one: (one["seed"], one["number"])), command), encoding="utf-8"
            )

    words = f"--kills {parsed.kills} --seed {parsed.seed}" + (f" --out {parsed.out}" if parsed.out is not None else "")
    command = f"python scripts/under_fire.py {words}"
    until_s = float("inf") if parsed.minutes is None else time.monotonic() + 60 * parsed.minutes
    with contextlib.suppress(KeyboardInterrupt):  # what was seen so far is shown
        shoot_all(kills, done, until_s)
    if rows:
        print(f"\n{table(rows)}\n\n{summary(rows)}")
    left = len(kills) - sum(one["seed"] == parsed.seed and (parsed.seed, one["number"]) not in there for one in rows)
    if left:
        print(f"{left} kills of seed {parsed.seed} are still to be made: the same command goes on")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
