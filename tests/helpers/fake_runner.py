"""In the place of real runs in a study: run folders made by hand."""

from __future__ import annotations

import json
from types import SimpleNamespace


class FakeRunner:
    """Makes the run that a server of some speed would have left.

    ``slower``: by arm, how much longer everything takes. ``wobble``: run effects in order of the runs, cycling.
    ``ends``: by the number of the call (from 1), an error to raise instead, "invalid", or a function to call first.
    """

    def __init__(self, make, *, slower=(1.0, 1.0), wobble=(0.004, -0.01, 0.007, -0.005, 0.009, -0.002), ends=None):
        self.make, self.wobble = make, wobble
        self.slower = dict(zip(("before", "after"), slower, strict=True))
        self.ends = ends or {}
        self.levels = (2, 4)
        self.calls = []

    def __call__(self, config, folder, command, part_of=None, target=None):
        arm = folder.name.split("-")[1]
        call = {"arm": arm, "folder": folder, "config": config, "command": tuple(command), "part_of": part_of}
        call["url"] = target.start().base_url if target is not None else None
        self.calls.append(SimpleNamespace(**call))
        number = len(self.calls)
        end = self.ends.get(number)
        if isinstance(end, BaseException):
            folder.mkdir(parents=True)
            (folder / "requests.jsonl").write_text("")
            raise end
        if callable(end):
            end(folder)
        effect = self.slower[arm] * (1 + self.wobble[number % len(self.wobble)])
        failures = 1 if end == "invalid" else 0
        name = folder.relative_to(self.make.tmp_path)
        self.make.folder(name, slower=effect, started=number, failures=failures, levels=self.levels, requests=6)
        return json.loads((folder / "run.json").read_text())
