"""The interpreter of another environment, in which a server is launched instead of in this one."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

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
packages, origins = {}, {}
for one in importlib.metadata.distributions():
    name = one.metadata["Name"]
    if name and name not in packages:
        packages[name] = one.version
        try:
            origin = json.loads(one.read_text("direct_url.json") or "null")
        except ValueError:
            origin = None
        if isinstance(origin, dict):
            origins[name] = origin
answer = {"python": platform.python_version(), "packages": packages, "settings": settings, "origins": origins}
print(json.dumps(answer))
"""
_SCM_COMMIT = re.compile(r"\+(?:.*\.)?g([0-9a-f]{7,40})\b")
GIT_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class Interpreter:
    """What an interpreter says of its environment.

    ``packages``: name -> version of everything installed; ``settings``: the fields that the reference server there
    knows, None if there is no reference server. ``origins``: name -> direct_url.json (PEP 610) of packages that came
    from elsewhere than an index.
    """

    python: str
    version: str
    packages: Mapping[str, str]
    settings: tuple[str, ...] | None
    origins: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def as_environment(self) -> dict[str, Any]:
        """Plain types, for the provenance of a run."""
        return {"python": self.version, "packages": dict(sorted(self.packages.items()))}

    def package_version(self, package: str) -> str | None:
        """The version of ``package``, None if it is not installed."""
        wanted = _normal(package)
        return next((version for name, version in self.packages.items() if _normal(name) == wanted), None)

    def package_commit(self, package: str) -> str | None:
        """The git commit ``package`` was built from, as far as its installation tells; None where it does not.

        Told by direct_url.json of an installation from git, by the checkout itself if it is an editable one (with
        ``-dirty`` if it has changes), or by a version of setuptools-scm (``1.0.dev3+g0123abc``).
        """
        wanted = _normal(package)
        origin = next((one for name, one in self.origins.items() if _normal(name) == wanted), {})
        vcs, folder = origin.get("vcs_info"), origin.get("dir_info")
        if isinstance(vcs, Mapping) and isinstance(vcs.get("commit_id"), str):
            return vcs["commit_id"]
        url = origin.get("url")
        if isinstance(folder, Mapping) and folder.get("editable") and isinstance(url, str):
            return _commit_of_checkout(url)
        found = _SCM_COMMIT.search(self.package_version(package) or "")
        return found[1] if found else None


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
        return Interpreter(
            python,
            answer["python"],
            answer["packages"],
            None if settings is None else tuple(settings),
            answer.get("origins", {}),
        )
    except (ValueError, LookupError, TypeError):
        raise TargetError(f"target.python={python}: no answer that can be read: {done.stdout[:200]!r}") from None


def _normal(package: str) -> str:
    """The name of a package as PEP 503 compares names."""
    return re.sub(r"[-_.]+", "-", package).lower()


def _commit_of_checkout(url: str) -> str | None:
    """HEAD of the checkout at a ``file:`` URL, None if it is no checkout."""
    parts = urlsplit(url)
    if parts.scheme != "file" or shutil.which("git") is None:
        return None
    answers = []
    for arguments in (("rev-parse", "HEAD"), ("status", "--porcelain", "--untracked-files=no")):
        command = ["git", "-C", unquote(parts.path), *arguments]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=GIT_TIMEOUT_S, check=False)
        except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
            return None
        if done.returncode != 0:
            return None
        answers.append(done.stdout.strip())
    commit, changes = answers
    return f"{commit}-dirty" if changes else commit
