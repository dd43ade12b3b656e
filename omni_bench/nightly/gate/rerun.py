"""Runs a night's run again, on a fresh server, to see whether what was found is found again."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from omni_bench.errors import ConfigError, StoreError
from omni_bench.nightly.history.load import load_record
from omni_bench.nightly.history.records import Role, StoredRun
from omni_bench.records.config import REMOVED_KEYS
from omni_bench.terminal import say_aside

OUT = "{out}"


def rerun_command(stored: Sequence[str], out: Path, custom: str | None) -> list[str]:
    """The command that makes the second run in ``out``.

    ``custom``: the user's own, in which ``{out}`` stands for the folder; None: ``omni-bench run`` with the overrides of
    the ``stored`` command line, which launches its server anew. Raises ConfigError if neither can be.
    """
    if custom is not None:
        try:
            words = shlex.split(custom)
        except ValueError as error:
            raise ConfigError(f"--rerun {custom!r} cannot be read as a command line: {error}") from None
        if not any(OUT in word for word in words):
            raise ConfigError(f"--rerun {custom!r} does not say {OUT}, the folder in which it is to leave the run")
        return [word.replace(OUT, str(out)) for word in words]
    if list(stored[:2]) != ["omni-bench", "run"]:
        raise ConfigError(f"the run was made by {shlex.join(stored) or 'an unknown command'}; give --rerun a COMMAND")
    kept = repeatable_words(stored)
    if kept is None:
        raise ConfigError(
            "the run was one of a multirun, whose command line is not that of one run; give --rerun a COMMAND"
        )
    return [sys.executable, "-m", "omni_bench", "run", *kept, f"hydra.run.dir={out}"]


def repeatable_words(stored: Sequence[str]) -> list[str] | None:
    """The overrides of an ``omni-bench run`` that make such a run again, without its folder; None of any other."""
    removed = {f"{name}={'null' if default is None else default}" for name, default in REMOVED_KEYS.items()}
    folders = ("hydra.run.dir=", "hydra.sweep")
    if list(stored[:2]) != ["omni-bench", "run"] or {"-m", "--multirun"} & set(stored):
        return None
    return [word for word in stored[2:] if word not in removed and not word.startswith(folders)]


def run_again(stored: Sequence[str], out: Path, custom: str | None) -> StoredRun:
    """Make the second run and read it; its server's output goes to the terminal's stderr.

    ``out`` must not hold a run. Raises ConfigError, and StoreError if the command leaves no finished run.
    """
    command = rerun_command(stored, out, custom)
    if (out / "run.json").exists():
        raise ConfigError(f"{out} holds a run already; remove it, or give it with --reproduced-by")
    if shutil.which(command[0]) is None:
        raise ConfigError(f"--rerun: there is no program {command[0]!r}")
    say_aside(f"running again: {shlex.join(command)}")
    code = subprocess.run(command, stdout=sys.stderr, check=False).returncode
    if not (out / "run.json").is_file():
        raise StoreError(f"the second run left no run.json in {out} (exit code {code}): {shlex.join(command)}")
    return load_record(str(out), Role.RERUN)
