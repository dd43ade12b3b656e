"""A virtual environment for a git ref or a wheel: made once, found again by what is in it."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import json
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from omni_bench.compare.ab.sources import Source
from omni_bench.errors import ConfigError, TargetError
from omni_bench.records.files import os_errors_as_store_errors, write_json
from omni_bench.targets.interpreter import interpreter_env

MARKER, LOG = "environment.json", "install.log"
CHECKOUT, VENV = "source", "venv"
CONSTRAINTS = "constraints.txt"
SHARED = "packages_of_omni_bench.pth"
LOG_TAIL_LINES = 12

Tool = Callable[[Sequence[str], Path], None]
"""Runs a command, its output appended to a log file. Raises TargetError."""


@dataclass(frozen=True)
class Recipe:
    """How environments are made.

    ``root``: the folder for all of them. ``constraints``: pip's file for both arms; None: the ``constraints.txt`` of
    each ref, if it has one. ``share_packages``: only the server itself is installed; all else is seen in the
    environment that omni-bench runs in.
    """

    root: Path
    constraints: Path | None = None
    share_packages: bool = False


def build_environment(source: Source, recipe: Recipe, say: Callable[[str], None], tool: Tool | None = None) -> Path:
    """The interpreter of the environment of ``source``; made now unless it is there already.

    Raises ConfigError for constraints that are not there, TargetError (with the end of the log) if a step fails,
    StoreError.
    """
    if recipe.constraints is not None and not recipe.constraints.is_file():
        raise ConfigError(f"--constraints {recipe.constraints}: there is no such file")
    folder = (recipe.root / _key(source, recipe)).absolute()
    python = folder / VENV / "bin/python"
    with os_errors_as_store_errors("make an environment in", folder), _alone(folder):
        if (folder / MARKER).is_file() and python.exists():
            say(f"{source.title}: the environment is there already ({folder})")
            return python
        say(f"{source.title}: making its environment, which may take minutes (log: {folder / LOG})")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        _install(source, recipe, folder, python, tool or run_tool)
        write_json(folder / MARKER, {"source": asdict(source), "share_packages": recipe.share_packages})
    return python


def _install(source: Source, recipe: Recipe, folder: Path, python: Path, tool: Tool) -> None:
    log = folder / LOG
    what = Path(source.place)
    if source.kind == "git":
        what = folder / CHECKOUT
        # Not a worktree: the repository would go on knowing of it after its folder is gone.
        tool(["git", "clone", "--quiet", "--shared", "--no-checkout", "--", source.place, str(what)], log)
        tool(["git", "-C", str(what), "checkout", "--quiet", "--detach", source.revision], log)
    tool([sys.executable, "-m", "venv", str(folder / VENV)], log)
    options = ["--no-input", "--disable-pip-version-check"]
    if recipe.share_packages:
        _share_packages(folder / VENV)
        options += ["--no-deps", *(["--no-build-isolation"] if _has_build_backend(what) else [])]
    constraints = recipe.constraints or (what / CONSTRAINTS if source.kind == "git" else None)
    if constraints is not None and constraints.is_file():
        options += ["--constraint", str(constraints.absolute())]
    tool([str(python), "-m", "pip", "install", *options, str(what)], log)


def _share_packages(venv: Path) -> None:
    """Let the environment see this one's packages, after its own."""
    here = dict.fromkeys(sysconfig.get_path(name) for name in ("purelib", "platlib"))
    for folder in venv.glob("lib*/python*/site-packages"):
        (folder / SHARED).write_text("".join(f"{path}\n" for path in here), encoding="utf-8")


def _has_build_backend(project: Path) -> bool:
    """Whether this environment has what builds ``project``, so that pip need not fetch it."""
    try:
        system = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]
        name = str(system["build-backend"]).partition(":")[0].partition(".")[0]
        return "backend-path" not in system and importlib.util.find_spec(name) is not None
    except (OSError, ValueError, LookupError, TypeError, ImportError):
        return False


def _key(source: Source, recipe: Recipe) -> str:
    """A folder name that differs when anything that goes into the environment does."""
    parts = [
        source.revision,
        sys.version,
        sys.prefix if recipe.share_packages else "",
        recipe.constraints.read_text(encoding="utf-8", errors="replace") if recipe.constraints is not None else "",
    ]
    digest = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
    return f"{source.kind}-{source.revision[:12]}-{digest[:8]}"


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One process at a time makes this environment; another waits and finds it made."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f".{folder.name}.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def run_tool(command: Sequence[str], log: Path) -> None:
    """Run ``command`` to its end, its output appended to ``log``. Raises TargetError with the end of the log."""
    env = interpreter_env(sys.executable, {})
    with log.open("ab") as file:
        file.write(f"$ {' '.join(command)}\n".encode(errors="backslashreplace"))
        file.flush()
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, env=env, check=False
            )
        except OSError as error:
            raise TargetError(f"cannot execute {command[0]}: {error.strerror}") from None
    if done.returncode != 0:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_TAIL_LINES:]
        tail = "\n".join(f"    {line}" for line in lines)
        raise TargetError(
            f"an environment could not be made: `{' '.join(command[:5])} ...` ended with {done.returncode}; "
            f"the end of {log}:\n{tail}"
        )
