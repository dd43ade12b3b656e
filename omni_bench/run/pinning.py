"""CPU cores of a launched server's own: neither it nor the client runs on the other's."""

from __future__ import annotations

import os


class CorePinning:
    """Moves this process from core to core, and with it every process that it starts from then on.

    The server gets ``server_cores`` of the cores that this process may use (the last ones), the client and its proxy
    the others. Nothing is pinned for 0, where the client would be left without a core, or where the operating system
    cannot do it.
    """

    def __init__(self, server_cores: int):
        cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
        self._cores = cores if 0 < server_cores < len(cores) else []
        self._server_cores = server_cores

    def to_server(self) -> None:
        """What is started from now on is the server."""
        self._move(self._cores[-self._server_cores :])

    def to_client(self) -> None:
        """What is started from now on is the client."""
        self._move(self._cores[: -self._server_cores])

    def end(self) -> None:
        """Every core again, as before."""
        self._move(self._cores)

    @staticmethod
    def _move(cores: list[int]) -> None:
        if cores:
            os.sched_setaffinity(0, cores)
