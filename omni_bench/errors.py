"""The exception tree of both packages: every error a user can cause or meet is one of these.

Each message names the bad value, where it came from (file, line, field) and the valid
values. The command line prints the message without a traceback and exits with the class's
``exit_code``: 2 for a usage or configuration error, 3 for infrastructure (a server that
died, a missing judge, a full disk), as ``docs/start.md`` documents.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

from omni_bench.foreign_text import shorten as shorten


class OmniBenchError(Exception):
    """Root of the tree. ``exit_code`` is what the process exits with."""

    exit_code = 3


class ConfigError(OmniBenchError):
    """A scenario, key or value of the configuration is wrong."""

    exit_code = 2


class DatasetError(OmniBenchError):
    """A data set is missing, malformed, or too small for what was asked of it."""

    exit_code = 2


class TargetError(OmniBenchError):
    """A server could not be started, reached, or kept alive."""


class ProtocolError(OmniBenchError):
    """A server answered in a way its wire protocol does not allow."""


class AccuracyError(OmniBenchError):
    """No judge is available, or its weights are not the expected ones."""


class StoreError(OmniBenchError):
    """A run folder cannot be written or read (no space, not a run, other schema version)."""


class ComparabilityError(OmniBenchError):
    """Two runs cannot be compared; the message lists the differing keys."""

    exit_code = 2


class CheckpointError(OmniBenchError):
    """A checkpoint of the reference implementation is missing, incomplete or misshapen."""


class EngineError(OmniBenchError):
    """The reference engine cannot take or finish a request."""


EXIT_OK = 0
EXIT_INVALID = 1
EXIT_USAGE = 2
EXIT_INFRASTRUCTURE = 3
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141
"""As of any program that the shell sees end by SIGPIPE (128 + 13): the reader has left, which is no fault."""


def alternatives(wrong: str, valid: Iterable[str], label: str = "valid") -> str:
    """The end of a message: ``"; did you mean 'x'? Valid: x, y"``, without the question if nothing is near."""
    names = sorted(valid, key=natural)
    close = difflib.get_close_matches(wrong, names, n=1, cutoff=0.6)
    listed = f"{label}: {', '.join(names)}"
    return f"; did you mean '{close[0]}'? {listed[0].upper()}{listed[1:]}" if close else f"; {listed}"


def natural(name: str) -> list[tuple[int, str]]:
    """A sort key that puts c4 before c16."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", name)]


def choice(key: str, value: str, valid: Sequence[str]) -> None:
    """Raise ConfigError unless ``value`` is one of ``valid``."""
    if value not in valid:
        raise ConfigError(f"{key}={value!r}{alternatives(value, valid)}")
