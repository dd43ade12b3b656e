"""The exception tree of both packages: every error a user can cause or meet is one of these.

Each message names the bad value, where it came from (file, line, field) and the valid
values. The command line prints the message without a traceback and exits with the class's
``exit_code``: 2 for a usage or configuration error, 3 for infrastructure (a server that
died, a missing judge, a full disk), as ``README.md`` documents.
"""

from __future__ import annotations


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
    """No judge is to be had, or its weights are not the ones expected."""


class StoreError(OmniBenchError):
    """A run folder cannot be written or read (no space, not a run, other schema version)."""


class ComparabilityError(OmniBenchError):
    """Two runs cannot be compared; the message lists the differing keys."""

    exit_code = 2


class CheckpointError(OmniBenchError):
    """A checkpoint of the reference implementation is missing, incomplete or misshapen."""


class EngineError(OmniBenchError):
    """The reference engine cannot take or finish a request."""
