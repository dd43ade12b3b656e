"""Runs that are judged beside the next one, by a process with cores of its own and the lowest priority.

``python -m omni_bench.run.beside`` speaks JSON lines. In: ``folder`` and ``hardware`` of a run whose load has
ended. Out: ``folder`` and ``problem``, null if its run.json is written. It ends with its standard input, that
is, with the process that started it, once the run at hand is judged.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from omni_bench.errors import AccuracyError, OmniBenchError
from omni_bench.records.files import os_errors_as_store_errors
from omni_bench.run.pinning import on_cores
from omni_bench.run.provenance import hardware
from omni_bench.subprocesses import start_module

LOWEST_PRIORITY = 19
MODULE = "omni_bench.run.beside"


class JudgingBeside:
    """Judges runs one after another on ``cores`` (none: on all); its process is started for the first of them.

    ``log``: for what it prints.
    """

    def __init__(self, cores: Sequence[int], log: Path):
        self._cores, self._log = tuple(cores), log
        self._process: subprocess.Popen[bytes] | None = None
        self._replies: queue.SimpleQueue[dict[str, str | None] | None] = queue.SimpleQueue()
        self.asked: set[Path] = set()

    def judge(self, folder: Path) -> None:
        """Let the run be judged, after those before it. Raises AccuracyError, StoreError."""
        if self._process is None:
            self._start()
        assert self._process is not None and self._process.stdin is not None
        self.asked.add(folder)
        line = json.dumps({"folder": str(folder), "hardware": hardware()})
        try:
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()
        except OSError:  # it has died: ended() says so
            return

    def ended(self, *, wait: bool) -> list[Path]:
        """Runs that are judged since the last call, their run.json written; with ``wait``, at least one if any is left.

        Raises AccuracyError if one could not be judged.
        """
        found: list[Path] = []
        while self.asked:
            try:
                reply = self._replies.get(block=wait and not found)
            except queue.Empty:
                break
            if reply is None:
                raise AccuracyError(f"the process that judges runs beside later ones has died; its log: {self._log}")
            folder = Path(str(reply["folder"]))
            self.asked.discard(folder)
            if reply["problem"] is not None:
                raise AccuracyError(f"{folder} could not be judged: {reply['problem']}")
            found.append(folder)
        return found

    def close(self) -> None:
        """End the process; what it has not judged can be judged again."""
        self.asked.clear()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process = None

    def _start(self) -> None:
        with (
            os_errors_as_store_errors("start a judging process with the log", self._log),
            self._log.open("ab") as log,
            on_cores(self._cores),
        ):
            self._process = start_module(MODULE, stderr=log)
        self._replies = queue.SimpleQueue()
        threading.Thread(target=_read, args=(self._process.stdout, self._replies), daemon=True).start()


def _read(stream: IO[bytes], replies: queue.SimpleQueue[dict[str, str | None] | None]) -> None:
    with stream:
        for line in stream:
            replies.put(json.loads(line))
    replies.put(None)


def main() -> int:
    """Judge until standard input ends; returns 0."""
    os.nice(LOWEST_PRIORITY)
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints
    from omni_bench.run.orchestrate import judge_measured

    for line in sys.stdin:
        asked = json.loads(line)
        problem = None
        try:
            judge_measured(Path(asked["folder"]), asked["hardware"])
        except (OmniBenchError, OSError) as error:
            problem = str(error)
        replies.write(json.dumps({"folder": asked["folder"], "problem": problem}) + "\n")
        replies.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
