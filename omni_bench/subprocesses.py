"""How this package starts a Python module as a child process: the load worker, the judge, the server."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

PROCESS_POLL_S = 1.0
LISTENING_ON = "listening on "
"""Precedes a server's own address in its log, from which the process that launched it reads the port."""

_PACKAGES_FOLDER = Path(__file__).resolve().parents[1]


def module_command(module: str, *arguments: str) -> list[str]:
    """``python -P -m module arguments``: no file of the current folder can stand in for a module."""
    return [sys.executable, "-P", "-m", module, *arguments]


def child_env(**extra: str) -> dict[str, str]:
    """The environment of a child: this process's and ``extra``, so that the child runs this very code.

    The folder that holds this package goes first on PYTHONPATH, unless the package is installed.
    """
    env = {**os.environ, **extra}
    installed = {Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib")}
    if _PACKAGES_FOLDER not in installed:
        # PYTHONPATH goes before the standard library: a site-packages folder has no business there.
        env["PYTHONPATH"] = os.pathsep.join(filter(None, (str(_PACKAGES_FOLDER), env.get("PYTHONPATH"))))
    return env


def start_module(
    module: str,
    *arguments: str,
    stderr: int | IO[bytes] | None = None,
    env: Mapping[str, str] | None = None,
    pass_fds: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start ``module`` with pipes for stdin and stdout; ``env`` None is :func:`child_env`. Raises OSError.

    ``pass_fds``: open files that it inherits.
    """
    return start(module_command(module, *arguments), stderr=stderr, env=env, pass_fds=pass_fds)


def start(
    command: list[str],
    *,
    stderr: int | IO[bytes] | None = None,
    env: Mapping[str, str] | None = None,
    pass_fds: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start ``command`` as :func:`start_module` does.

    The child has a session of its own: Ctrl-C in the terminal reaches this process alone, which
    then ends the child in order. Raises OSError.
    """
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        env=child_env() if env is None else env,
        start_new_session=True,
        pass_fds=pass_fds,
    )


async def wait_for_end(pid: int) -> None:
    """Wait until process ``pid`` is gone, even if its number is in use again."""
    import psutil  # lazily: most who start a process do not watch one

    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
            await asyncio.sleep(PROCESS_POLL_S)


# ---- Values on the command lines of servers ----


def port(text: str) -> int:
    """A port, 0 for any free one. Raises argparse.ArgumentTypeError."""
    if text.isascii() and text.isdigit() and int(text) <= 65535:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a port; valid: 0 to 65535")


def process_id(text: str) -> int:
    """The id of a process. Raises argparse.ArgumentTypeError."""
    if text.isascii() and text.isdigit() and 0 < int(text) < 2**31:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a process id; valid: 1 and up")
