"""How a level is divided among load workers: slots and requests of a closed loop, arrivals of an open loop."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import BinaryIO

from omni_bench.load.events import LevelJob
from omni_bench.records.level import Rate
from omni_bench.records.plan import LevelPlan, PlannedRequest

STREAMS_PER_WORKER = 64
"""Requests in flight (or requests a second, in an open loop) that one event loop is given. By omni-bench calibrate on
two cores, server beside it, one process stamped first audio within 0.5 ms (p99) up to 128 streams, not at 256."""
TICKET_BYTES = 4


def workers_for(plan: LevelPlan, workers: int | None, cores: int) -> int:
    """How many workers drive ``plan``: ``workers``, but no more than it has slots (or requests).

    None: one for every :data:`STREAMS_PER_WORKER` requests in flight, in an open loop requests a second, and at most
    half the ``cores`` that the client may use, as the other half is the server's, or the rest of the program's.
    """
    is_open_loop = isinstance(plan.concurrency, Rate)
    streams = plan.concurrency.hz if isinstance(plan.concurrency, Rate) else plan.concurrency
    if workers is None:
        workers = min(-(-streams // STREAMS_PER_WORKER), max(cores // 2, 1))
    most = min(len(plan.measured), plan.max_in_flight or 1 if is_open_loop else streams)
    return max(1, min(int(workers), int(most)))


def share(
    plan: LevelPlan, index: int, workers: int, *, all_measured: bool, slots: int | None = None
) -> tuple[LevelPlan, int]:
    """What worker number ``index`` of ``workers`` is given of ``plan``, and its slots.

    ``slots`` of a closed loop (None: as many as its concurrency), the cap of an open loop and the requests are dealt in
    turn: slot s is worker s modulo ``workers``'s, and so is request s, s + ``slots``, and so on.
    ``all_measured``: all have the same measured requests, from which they draw (:func:`drawn`).
    """
    is_open_loop = isinstance(plan.concurrency, Rate)
    total = workers if isinstance(plan.concurrency, Rate) else plan.concurrency if slots is None else slots

    def mine(requests: tuple[PlannedRequest, ...]) -> tuple[PlannedRequest, ...]:
        return tuple(one for number, one in enumerate(requests) if number % total % workers == index)

    measured = plan.measured if all_measured else mine(plan.measured)
    cap = None if plan.max_in_flight is None else part(plan.max_in_flight, index, workers)
    own = 1 if is_open_loop else part(total, index, workers)
    return replace(plan, warmup=mine(plan.warmup), measured=measured, max_in_flight=cap), own


def split(job: LevelJob, count: int, stack: ExitStack) -> tuple[list[LevelJob], tuple[int, ...]]:
    """The jobs of ``count`` workers of one machine, and the file that they inherit, which ``stack`` closes."""
    descriptor = None
    if not isinstance(job.plan.concurrency, Rate):
        descriptor = stack.enter_context(tickets(len(job.plan.measured))).fileno()
    jobs = []
    for index in range(count):
        plan, slots = share(job.plan, index, count, all_measured=descriptor is not None, slots=job.slots)
        jobs.append(replace(job, plan=plan, slots=slots, tickets_fd=descriptor, gated=True))
    return jobs, () if descriptor is None else (descriptor,)


def part(total: int, index: int, workers: int) -> int:
    """How many of ``total``, dealt in turn, number ``index`` of ``workers`` gets."""
    return total // workers + (index < total % workers)


def tickets(requests: int) -> BinaryIO:
    """A file of ``requests`` numbers, from 0 on, for children that inherit it.

    They share its offset, which a read moves in one step (POSIX 2017, 2.9.7; the kernel's f_pos_lock): so each number
    is drawn once, in order, by whoever has a free slot first. That keeps the level's concurrency to its last request,
    where shares that were dealt out beforehand would leave slots of the faster worker empty.
    """
    file = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    file.write(b"".join(number.to_bytes(TICKET_BYTES, "big") for number in range(requests)))
    file.flush()
    os.lseek(file.fileno(), 0, os.SEEK_SET)
    return file


def drawn(requests: Sequence[PlannedRequest], file_descriptor: int) -> Iterator[PlannedRequest]:
    """The next of ``requests`` that no other worker has drawn, until there are no more."""
    while ticket := os.read(file_descriptor, TICKET_BYTES):
        yield requests[int.from_bytes(ticket, "big")]
