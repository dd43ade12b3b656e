"""One request from its start to its timeline, whatever carries it: deadlines, and what each failure is called."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import aiohttp

from omni_bench.clients.abort import AbortSwitch
from omni_bench.clients.decoding import WireFailure
from omni_bench.clients.pool import WireOptions
from omni_bench.clients.record import Record
from omni_bench.clients.server_error import one_line
from omni_bench.clients.timeline import RequestError, Timeline
from omni_bench.levels import Level

if TYPE_CHECKING:  # the load worker imports this module and must stay light
    from omni_bench.load.plan import PlannedRequest


@dataclass(frozen=True)
class Call:
    """One request to make. ``payload``: the bytes to send, made before the load phase."""

    session: aiohttp.ClientSession
    url: str
    planned: PlannedRequest
    payload: bytes
    concurrency: Level
    scheduled_ns: int
    options: WireOptions
    abort: AbortSwitch
    clock: Callable[[], int] = time.perf_counter_ns

    @property
    def headers(self) -> dict[str, str]:
        """What every request says of itself."""
        return {"x-request-id": self.planned.request_id}


async def exchange(call: Call, receive: Callable[[Record], Awaitable[None]]) -> tuple[Timeline, list[bytes]]:
    """Send a request and read its answer by ``receive``; returns its timeline and the audio reads, in order.

    ``receive`` sends, notes what comes in the record, and returns at the clean end. Never raises for a
    failure of the request: the timeline carries the error.
    """
    error: RequestError | None = None
    silence = asyncio.timeout(None)  # begins with the first audio or text, and anew with each that follows
    record = Record(call.options, silence, call.clock)
    started_ns = call.clock()
    try:
        async with call.abort.deadline(call.options.request_timeout_s), silence:
            await receive(record)
    except WireFailure as failure:
        error = failure.error
    except (aiohttp.ClientConnectorError, aiohttp.ServerTimeoutError) as cause:
        error = RequestError("connect", one_line(f"no connection: {cause}"))
    except TimeoutError:
        if record.ended_ns is not None:  # only the close of its connection was cut short
            error = None
        elif call.abort.reason is not None:
            error = call.abort.reason.in_flight
        elif silence.expired():
            pause = f"no audio or text for client.stall_timeout_s={call.options.stall_timeout_s:g} s"
            error = RequestError("timeout", f"{pause} after {record.received()}")
        else:
            error = RequestError("timeout", f"not finished after {call.options.request_timeout_s:g} s")
    except (aiohttp.ClientError, OSError) as cause:
        error = RequestError("disconnected", one_line(f"no clean end of the stream: {type(cause).__name__}: {cause}"))
    timeline = record.timeline(
        call.planned,
        concurrency=call.concurrency,
        scheduled_ns=call.scheduled_ns,
        started_ns=started_ns,
        error=error,
        failed_ns=None if error is None else record.failed_ns or call.clock(),
    )
    return timeline, record.audio
