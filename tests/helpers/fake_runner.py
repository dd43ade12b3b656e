"""In the place of real runs in a study: run folders made by hand."""

from __future__ import annotations

import json
from types import SimpleNamespace

from omni_bench.errors import OmniBenchError
from omni_bench.run.turns import Measured


class FakeRunner:
    """Makes the run that a server of some speed would have left.

    ``slower``: by arm, how much longer everything takes. ``wobble``: run effects in order of the runs, cycling.
    ``ends``: by the number of the call (from 1), an error to raise instead, "invalid", or a function to call first.
    Parts with spare cores are left to be judged, by :class:`FakeJudging`; ``log``: what was done, in order.
    """

    def __init__(self, make, *, slower=(1.0, 1.0), wobble=(0.004, -0.01, 0.007, -0.005, 0.009, -0.002), ends=None):
        self.make, self.wobble = make, wobble
        self.slower = dict(zip(("before", "after"), slower, strict=True))
        self.ends = ends or {}
        self.levels = (2, 4)
        self.calls = []
        self.turns = []
        self.log = []

    def __call__(self, parts, turns):
        """Each part as if it were alone; once one has ended in an error, the others are stopped."""
        self.turns.append([[parts[index].folder.name for index in turns(turn)] for turn in range(len(self.levels))])
        ended = []
        for part in parts:
            ended.append(None if any(map(_is_error, ended)) else self._run(part))
        return [one if _is_error(one) else None for one in ended] if any(map(_is_error, ended)) else ended

    def _run(self, part):
        folder = part.folder
        arm = folder.name.split("-")[1]
        call = {"arm": arm, "folder": folder, "config": part.config, "command": part.command, "part_of": part.part_of}
        call["url"] = part.target.start().base_url if part.target is not None else None
        self.calls.append(SimpleNamespace(**call))
        self.log.append(folder.name)
        number = len(self.calls)
        end = self.ends.get(number)
        if isinstance(end, BaseException):
            folder.mkdir(parents=True)
            (folder / "requests.jsonl").write_text("")
            if isinstance(end, OmniBenchError):
                return end
            raise end
        if callable(end):
            end(folder)
        effect = self.slower[arm] * (1 + self.wobble[number % len(self.wobble)])
        failures = 1 if end == "invalid" else 0
        name = folder.relative_to(self.make.tmp_path)
        self.make.folder(name, slower=effect, started=number, failures=failures, levels=self.levels, requests=6)
        if part.spare:
            (folder / ".spool").mkdir()
            (folder / "run.json").rename(folder / ".spool" / "journal.jsonl")
            return Measured(folder)
        return json.loads((folder / "run.json").read_text())


def _is_error(ended):
    return isinstance(ended, OmniBenchError)


class FakeJudging:
    """In the place of :class:`omni_bench.run.beside.JudgingBeside`: judges when it is waited for.

    ``error``: raised instead, once.
    """

    def __init__(self, log, error=None):
        self.log, self.error = log, error
        self.asked = []

    def judge(self, folder):
        self.asked.append(folder)

    def ended(self, *, wait):
        if not wait or not self.asked:
            return []
        if self.error is not None:
            self.error, error = None, self.error
            raise error
        folder = self.asked.pop(0)
        (folder / ".spool" / "journal.jsonl").rename(folder / "run.json")
        (folder / ".spool").rmdir()
        self.log.append(f"{folder.name} judged")
        return [folder]

    def close(self):
        self.asked.clear()
