"""An event loop whose clock jumps to the next timer, so that hours of schedule take no time and are exact."""

import asyncio
import selectors
from dataclasses import replace

from timelines import make_timeline


class _Selector(selectors.DefaultSelector):
    def __init__(self):
        super().__init__()
        self.now_s = 0.0

    def select(self, timeout=None):
        events = super().select(0)
        if not events and timeout is not None and timeout > 0:
            self.now_s += timeout
        return events


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    def __init__(self):
        self._virtual = _Selector()
        super().__init__(self._virtual)
        self._clock_resolution = 1e-9

    def time(self):
        return self._virtual.now_s


def run_in_virtual_time(make):
    """Run the coroutine that ``make(clock)`` returns; ``clock()`` is in ns."""
    loop = VirtualTimeLoop()
    try:
        return loop.run_until_complete(make(lambda: round(loop.time() * 1e9)))
    finally:
        loop.close()


def answered(request, scheduled_ns, started_ns, ended_ns):
    """A request that was answered at once at its end."""
    at = {"scheduled_ns": scheduled_ns, "started_ns": started_ns, "first_audio_ns": ended_ns, "ended_ns": ended_ns}
    return replace(make_timeline(request.request_id), prompt_id=request.prompt_id, **at)
