"""Open files that a level needs: its connections are files of the client, whose shortage no server is to blame for."""

from __future__ import annotations

import resource

from omni_bench.errors import ConfigError
from omni_bench.records.level import Rate
from omni_bench.records.plan import LevelPlan

OWN_FILES = 64  # of the process itself: libraries, logs, the pipes of its children


def connections_of(plan: LevelPlan) -> int:
    """Connections that may be open at once in a level."""
    return plan.max_in_flight or 1 if isinstance(plan.concurrency, Rate) else plan.concurrency


def allow_files(connections: int) -> None:
    """Raise this process's soft limit of open files, which children inherit, as far as that needs.

    Raises ConfigError if the hard limit is too low.
    """
    needed = connections + OWN_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise ConfigError(
            f"{connections} requests in flight need {needed} open files, and this process may have {hard}: lower "
            "load.concurrency (in an open loop load.max_in_flight), or raise the limit (ulimit -n)"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
