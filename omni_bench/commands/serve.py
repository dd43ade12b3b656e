"""``omni-bench serve``: the reference server in the foreground."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from omni_bench.errors import ConfigError
from omni_bench.run.config.compose import compose
from omni_bench.targets.probe import check_port_free, url_of
from omni_bench.targets.reference import check_checkpoint, server_command, server_env
from omni_bench.terminal import say_aside
from reference_impl.settings import ServerSettings


def serve_command(host: str, port: int, overrides: Sequence[str]) -> int:
    """Become the server: it gets the terminal, its signals and its exit code.

    Raises ConfigError for a bad override or a checkpoint that is not there, TargetError if the port is taken.
    """
    reference = reference_settings(overrides)
    check_checkpoint(reference)
    check_port_free(host, port)
    command = server_command(host, port, reference)
    where = f"at {url_of(host, port)}" if port else f"on a free port of {host}, which the log names,"
    say_aside(f"serving {where} once the log says ready; Ctrl-C ends it")
    if sys.stdout is not None:
        sys.stdout.flush()
    os.execve(command[0], command, server_env())


def reference_settings(overrides: Sequence[str], command: str = "serve") -> ServerSettings:
    """The config group ``reference`` with ``overrides`` of ``command``. Raises ConfigError for keys of other groups."""
    for override in overrides:
        key = override.partition("=")[0].lstrip("+~")
        if "=" not in override or key.split(".")[0] != "reference":
            hint = f"; did you mean --{key}?" if command == "serve" and key in ("host", "port") else ""
            raise ConfigError(f"{override!r}: {command} takes reference=OPTION and reference.KEY=VALUE only{hint}")
    return compose([*overrides, "asr=none"]).reference  # nothing is judged here
