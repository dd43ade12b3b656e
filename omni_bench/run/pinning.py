"""CPU cores of a launched server's own: neither it nor the client runs on the other's."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence

from omni_bench.load.shares import STREAMS_PER_WORKER
from omni_bench.records.config import CLOSED_LOOP, OPEN_LOOP, RAY, RunConfig

CLIENT_CORES = 3
"""For one load worker: itself, what launched it and watches it, and the proxy of ``target.chaos`` or the kernel."""


class CorePinning:
    """Moves this process from core to core, and with it every process that it starts from then on.

    The server gets ``server_cores`` of the cores that this process may use (the last ones), the client and its proxy
    the others, without ``spare`` ones. Nothing is pinned for 0, where the client would be left without a core, or where
    the operating system cannot do it.
    """

    def __init__(self, server_cores: int, spare: Sequence[int] = ()):
        cores = _usable()
        self._cores = cores if 0 < server_cores < len(cores) else []
        self._server_cores = server_cores
        self._spare = frozenset(spare)

    def to_server(self) -> None:
        """What is started from now on is the server."""
        self._move(self._cores[-self._server_cores :])

    def to_client(self) -> None:
        """What is started from now on is the client."""
        self._move([core for core in self._cores[: -self._server_cores] if core not in self._spare])

    def end(self) -> None:
        """Every core again, as before."""
        self._move(self._cores)

    @staticmethod
    def _move(cores: list[int]) -> None:
        if cores:
            os.sched_setaffinity(0, cores)


@contextlib.contextmanager
def on_cores(cores: Sequence[int]) -> Iterator[None]:
    """What is started within runs on ``cores``; on all if there are none."""
    before = _usable()
    try:
        if cores:
            os.sched_setaffinity(0, cores)
        yield
    finally:
        if cores:
            os.sched_setaffinity(0, before)


def spare_cores(configs: Sequence[RunConfig]) -> tuple[int, ...]:
    """Cores that neither the servers nor the client of these runs need; none where that is not certain.

    Certain it is only where each server is launched here and keeps to cores of its own (``target.cores``), and where
    the number of load workers is known: the client then keeps what it needs to start as many
    (:func:`omni_bench.load.shares.workers_for` gives them half of its cores), and :data:`CLIENT_CORES` at least.
    """
    usable = _usable()
    needed = []
    for config in configs:
        own, workers = config.target.cores, _workers(config)
        if config.target.kind == "external" or not own or workers is None:
            return ()
        needed.append((own, max(2 * workers, workers + CLIENT_CORES - 1)))
    server, client = (max(column) for column in zip(*needed, strict=True))
    return tuple(usable[client : len(usable) - server])


def _workers(config: RunConfig) -> int | None:
    load = config.load
    if load.engine == RAY or load.kind not in (CLOSED_LOOP, OPEN_LOOP):
        return None
    if load.workers is not None:
        return load.workers
    streams = max(load.concurrency if load.kind == CLOSED_LOOP else [*load.rate_hz, *(load.ramp or ())], default=None)
    return None if streams is None else max(1, -(-int(streams) // STREAMS_PER_WORKER))


def _usable() -> list[int]:
    """The cores that this process may use; none where the operating system pins nothing."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
