"""Signals that end a run, held back while something must not be left half done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class HeldBackSignals:
    """Whether a signal came. The first is only noted; the second goes to the handler that was there before."""

    def __init__(self) -> None:
        self.received = False
        self.previous: dict[int, Callable[[int, Any], Any]] = {}
        self._open = False

    def handle(self, signal_number: int, frame: Any) -> None:
        """The signal handler."""
        if self._open or self.received:
            self.previous[signal_number](signal_number, frame)
        self.received = True

    @contextmanager
    def released(self) -> Iterator[None]:
        """Inside, signals take their usual effect at once; one that was noted before raises KeyboardInterrupt."""
        self._open = True
        try:
            if self.received:
                self.received = False
                raise KeyboardInterrupt
            yield
        finally:
            self._open = False


@contextmanager
def held_back_signals() -> Iterator[HeldBackSignals]:
    """Hold back SIGINT, SIGTERM and SIGHUP where a Python handler is in place; a no-op outside the main thread."""
    signals = HeldBackSignals()
    if threading.current_thread() is not threading.main_thread():
        yield signals
        return
    for signal_number in STOP_SIGNALS:
        previous = signal.getsignal(signal_number)
        if callable(previous):  # not SIG_DFL, SIG_IGN, or a handler of C code
            signals.previous[signal_number] = previous
            signal.signal(signal_number, signals.handle)
    try:
        yield signals
    finally:
        for signal_number, previous in signals.previous.items():
            signal.signal(signal_number, previous)
