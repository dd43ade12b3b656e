"""A run folder that a user names on the command line."""

from __future__ import annotations

from omni_bench.errors import ConfigError, StoreError
from omni_bench.store.run_folder import RunFolder


def named_run(path: str) -> RunFolder:
    """The run folder at ``path``. Raises ConfigError if there is none: the argument is wrong, and not the disk."""
    try:
        return RunFolder.open(path)
    except StoreError as error:
        raise ConfigError(str(error)) from None
