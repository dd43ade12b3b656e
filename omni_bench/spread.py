"""One function over many tasks, on all cores: what is to be computed of thousands of answers once a load has ended."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Protocol, TypeVar

import psutil

MOST_PROCESSES = 16
PROCESS_BYTES = 512 << 20
"""Of memory that is free for each: NumPy, SciPy and a recording of a few minutes."""
AHEAD = 2
"""Tasks that wait for each process, so that neither they nor their results pile up."""

Task = TypeVar("Task")
Result = TypeVar("Result")


class Spread(Protocol):
    """Calls a function of a module with each task and gives the results in their order, as they come."""

    def __call__(self, work: Callable[[Task], Result], tasks: Iterable[Task], /) -> Iterable[Result]: ...


here: Spread = map
"""In this process, one after another."""


@contextlib.contextmanager
def on_all_cores() -> Iterator[Spread]:
    """On as many processes as there are cores and memory for; :data:`here` where that is one.

    They end with the context, and with this process however that ends; Ctrl-C reaches this process alone. If they are
    killed, as for want of memory, the rest is done here.
    """
    count = min(usable_cores(), _free_bytes() // PROCESS_BYTES, MOST_PROCESSES)
    if count < 2 or multiprocessing.current_process().daemon:  # those may have no children
        yield here
        return
    with ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), _end_with_parent) as executor:

        def spread(work: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
            waiting: deque[tuple[Task, Future[Result] | None]] = deque()
            for task in tasks:
                waiting.append((task, _submit(executor, work, task)))
                if len(waiting) > AHEAD * count:
                    yield _result(work, *waiting.popleft())
            while waiting:
                yield _result(work, *waiting.popleft())

        try:
            yield spread
        except BaseException:
            executor.shutdown(wait=False, cancel_futures=True)
            raise


def _submit(executor: ProcessPoolExecutor, work: Callable[[Task], Result], task: Task) -> Future[Result] | None:
    """None where no process is left. A process that this starts inherits that Ctrl-C is blocked."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        return executor.submit(work, task)
    except (BrokenProcessPool, OSError):
        return None
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _result(work: Callable[[Task], Result], task: Task, future: Future[Result] | None) -> Result:
    if future is not None:
        with contextlib.suppress(BrokenProcessPool):
            return future.result()
    return work(task)


def _end_with_parent() -> None:
    """In a process of the pool."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def usable_cores() -> int:
    """Cores that this process may run on, which in a container are fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _free_bytes() -> int:
    return int(psutil.virtual_memory().available)
