"""The interpreter of another environment, in which a server is launched instead of in this one."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omni_bench.errors import TargetError

ASK_TIMEOUT_S = 120.0
_FOREIGN = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PYTHONSTARTUP", "__PYVENV_LAUNCHER__")
_QUESTION = """
import dataclasses, importlib.metadata, json, platform
try:
    from reference_impl.settings import ServerSettings
    settings = [field.name for field in dataclasses.fields(ServerSettings)]
except ImportError:
    settings = None
packages = {one.metadata["Name"]: one.version for one in importlib.metadata.distributions() if one.metadata["Name"]}
print(json.dumps({"python": platform.python_version(), "packages": packages, "settings": settings}))
"""


@dataclass(frozen=True)
class Interpreter:
    """What an interpreter says of its environment.

    ``packages``: name -> version of everything installed; ``settings``: the fields that the reference server there
    knows, None if there is no reference server.
    """

    python: str
    version: str
    packages: Mapping[str, str]
    settings: tuple[str, ...] | None

    def as_environment(self) -> dict[str, Any]:
        """Plain types, for the provenance of a run."""
        return {"python": self.version, "packages": dict(sorted(self.packages.items()))}


def interpreter_env(python: str, extra: Mapping[str, str]) -> dict[str, str]:
    """The environment variables of a process in the environment of ``python``: nothing of this one's packages.

    The folder of the interpreter goes first on PATH, so that its programs are found.
    """
    env = {name: value for name, value in os.environ.items() if name not in _FOREIGN}
    folder = Path(python).parent
    if (folder.parent / "pyvenv.cfg").is_file():
        env["VIRTUAL_ENV"] = str(folder.parent)
    env["PATH"] = os.pathsep.join(filter(None, (str(folder), env.get("PATH"))))
    return env | {"PYTHONUNBUFFERED": "1"} | dict(extra)


def ask_interpreter(python: str) -> Interpreter:
    """Ask ``python`` (a path) for its version, packages and reference settings. Raises TargetError."""
    try:
        done = subprocess.run(
            [python, "-P", "-c", _QUESTION],
            env=interpreter_env(python, {}),
            capture_output=True,
            text=True,
            timeout=ASK_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise TargetError(f"target.python={python}: no answer within {ASK_TIMEOUT_S:g} s") from None
    except OSError as error:
        raise TargetError(f"target.python={python}: cannot be executed: {error.strerror}") from None
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["it says nothing"])[-1]
        raise TargetError(f"target.python={python}: exit code {done.returncode} when asked for its packages: {last}")
    try:
        answer = json.loads(done.stdout.splitlines()[-1])
        settings = answer["settings"]
        return Interpreter(python, answer["python"], answer["packages"], None if settings is None else tuple(settings))
    except (ValueError, LookupError, TypeError):
        raise TargetError(f"target.python={python}: no answer that can be read: {done.stdout[:200]!r}") from None
