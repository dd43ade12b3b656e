"""One request from its start to its timeline, whatever carries it: deadlines, and what each failure is called."""

from __future__ import annotations

import asyncio
import errno
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import aiohttp

from omni_bench.load.clients.abort import AbortSwitch
from omni_bench.load.clients.decoder import (
    MAX_TEXT_CHARS,
    AudioPart,
    Part,
    ResponseFacts,
    TextPart,
    WireFailure,
    audio_limit_bytes,
    stated_id,
)
from omni_bench.load.clients.responses import one_line
from omni_bench.load.clients.session import WireOptions
from omni_bench.records.level import Level
from omni_bench.records.timeline import SAMPLE_WIDTH_BYTES, RequestError, Timeline

if TYPE_CHECKING:  # the load worker imports this module and must stay light
    from omni_bench.records.plan import PlannedRequest


SHORTAGES = ("EMFILE", "ENFILE", "ENOMEM", "ENOBUFS", "EADDRNOTAVAIL")
"""Errors of this machine that has no files, memory or ports left."""
MIN_PARTS, PARTS_PER_S = 65_536, 250
HEADERS_AND_BODY = 2
"""Headers are written with the first part of the body."""


@dataclass(frozen=True)
class RequestContext:
    """One request to make. ``payload``: the bytes to send, made before the load phase.

    ``id_prefix``: makes its id one that no other run or process uses.
    """

    session: aiohttp.ClientSession
    url: str
    planned: PlannedRequest
    payload: bytes
    concurrency: Level
    scheduled_ns: int
    options: WireOptions
    abort: AbortSwitch
    id_prefix: str = ""
    clock: Callable[[], int] = time.perf_counter_ns

    @property
    def wire_id(self) -> str:
        """What the request is called on the wire: some servers keep their state by it (vllm issue 27723)."""
        return self.id_prefix + self.planned.request_id

    @property
    def headers(self) -> dict[str, str]:
        """What every request says of itself."""
        return {"x-request-id": self.wire_id}


async def exchange(
    context: RequestContext, receive: Callable[[Record], Awaitable[None]]
) -> tuple[Timeline, list[bytes]]:
    """Send a request and read its answer by ``receive``; returns its timeline and the audio reads, in order.

    ``receive`` sends, notes what comes in the record, and returns at the clean end. Never raises for a
    failure of the request: the timeline carries the error.
    """
    error: RequestError | None = None
    silence = asyncio.timeout(None)  # begins with the first audio or text, and anew with each that follows
    lag_ns = getattr(asyncio.get_running_loop(), "lag_ns", lambda _: None)
    record = Record(context.options, silence, context.clock, context.wire_id, lag_ns, context.clock())
    try:
        async with context.abort.deadline(context.options.request_timeout_s), silence:
            await receive(record)
    except WireFailure as failure:
        error = failure.error
    except (aiohttp.ClientConnectorError, aiohttp.ServerTimeoutError) as cause:
        kind = "client_shortage" if _is_shortage(cause) else "connect"
        error = RequestError(kind, one_line(f"no connection: {cause}"))
    except MemoryError:
        error = RequestError("client_shortage", f"the client has no memory left, after {record.received()}")
    except TimeoutError:
        if record.ended_ns is not None:  # only the close of its connection was cut short
            error = None
        elif context.abort.reason is not None:
            error = context.abort.reason.in_flight
        elif silence.expired():
            pause = f"no audio or text for client.stall_timeout_s={context.options.stall_timeout_s:g} s"
            error = RequestError("timeout", f"{pause} after {record.what_came()}")
        else:
            limit = f"client.request_timeout_s={context.options.request_timeout_s:g} s"
            error = RequestError("timeout", f"not finished after {limit}; what came: {record.what_came()}")
    except (aiohttp.ClientError, OSError) as cause:
        error = _broken(cause, record)
    timeline = record.timeline(
        context.planned,
        concurrency=context.concurrency,
        scheduled_ns=context.scheduled_ns,
        error=error,
        failed_ns=None if error is None else record.failed_ns or context.clock(),
    )
    return timeline, record.audio


def _broken(cause: BaseException, record: Record) -> RequestError:
    """Of an exchange that a connection ended, or this machine."""
    what = f"{type(cause).__name__}: {cause}"
    if _is_shortage(cause):
        return RequestError("client_shortage", one_line(f"the client ran short after {record.received()}: {what}"))
    if record.headers_ns is None and record.reused:
        closed = "a reused connection was closed by the server before it answered"
        return RequestError("disconnected", one_line(f"{closed}: {what}"))
    if isinstance(cause, aiohttp.ServerDisconnectedError):
        return RequestError("disconnected", one_line(f"the server closed the connection without an answer: {cause}"))
    return RequestError("disconnected", one_line(f"no clean end of the stream: {what}"))


def _is_shortage(error: BaseException | None) -> bool:
    """Whether an error is of this machine, or came of one that is."""
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        seen.append(error)
        code = errno.errorcode.get(getattr(error, "errno", None) or 0)
        if isinstance(error, MemoryError) or code in SHORTAGES:
            return True
        inner = next((one for one in error.args if isinstance(one, BaseException)), None)
        error = error.__cause__ or error.__context__ or inner
    return False


# ---- Recording a timeline while parts arrive ----


@dataclass
class Record:
    """What is known of a request so far. ``silence`` is the deadline of a pause in its answer.

    ``started_ns``: when the network was first needed for it: to make its connection, or to write to the one it has.
    Of many requests that a client begins together the last is built some time after the first, which is
    no time of the server; in an open loop all of it counts, from ``scheduled_ns``.
    ``decoder``: of its answer, None as long as there is none to be decoded.
    """

    options: WireOptions
    silence: asyncio.Timeout
    clock: Callable[[], int]
    wire_id: str
    lag_ns: Callable[[int], int | None]
    started_ns: int
    headers_ns: int | None = None
    first_byte_ns: int | None = None
    ended_ns: int | None = None
    failed_ns: int | None = None  # where a failure was noticed some time before it reached the caller
    http_status: int | None = None
    header_id: str | None = None
    decoder: ResponseFacts | None = None
    arrived_ns: list[int] = field(default_factory=list)
    audio: list[bytes] = field(default_factory=list)
    chunk_ends: list[bool] = field(default_factory=list)
    text_arrived_ns: list[int] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    text_tokens: list[int | None] = field(default_factory=list)
    first_lag_ns: int | None = None
    reused: bool = False  # the connection, after an earlier request
    writes: int = 0
    audio_bytes: int = 0
    text_chars: int = 0

    @property
    def most_parts(self) -> int:
        """Pieces of an answer that are kept: one every 4 ms of the longest audio allowed, and never few."""
        return max(MIN_PARTS, int(self.options.max_audio_s * PARTS_PER_S))

    def connecting(self) -> None:
        """See :class:`omni_bench.load.clients.session.SendNotes`."""
        self.reused = False
        self.started_ns = self.clock()

    def reusing(self) -> None:
        """See :class:`omni_bench.load.clients.session.SendNotes`."""
        self.reused = True

    def writing(self) -> None:
        """See :class:`omni_bench.load.clients.session.SendNotes`."""
        if self.reused and self.writes < HEADERS_AND_BODY:
            self.started_ns = self.clock()
        self.writes += 1

    def headers(self, status: int, server_id: str | None) -> None:
        """The response's headers are complete."""
        self.headers_ns = self.clock()
        self.http_status = status
        self.header_id = stated_id(server_id)

    def byte(self) -> int:
        """Some of the body has come; returns when."""
        now_ns = self.clock()
        if self.first_byte_ns is None:
            self.first_byte_ns = now_ns
        return now_ns

    def take(self, parts: Iterable[Part], now_ns: int) -> None:
        """Note parts that arrived at ``now_ns``. Raises WireFailure beyond a bound, and what making them raises.

        The number of parts is bounded too: a part costs a hundred bytes and more, however little it holds.
        """
        for part in parts:
            if self.first_lag_ns is None:
                self.first_lag_ns = self.lag_ns(now_ns)
            if len(self.audio) + len(self.text) >= self.most_parts:
                raise WireFailure("too_large", f"more than {self.most_parts} pieces of audio or text")
            if isinstance(part, AudioPart):
                self._take_audio(part, now_ns)
            else:
                self._take_text(part, now_ns)

    def _take_audio(self, part: AudioPart, now_ns: int) -> None:
        if not part.pcm:
            return
        self.arrived_ns.append(now_ns)
        self.audio.append(part.pcm)
        self.chunk_ends.append(part.ends_chunk)
        self._heard()
        self.audio_bytes += len(part.pcm)
        if self.audio_bytes > audio_limit_bytes(self.options, self.decoder.sample_rate_hz if self.decoder else None):
            raise WireFailure("too_large", f"more than client.max_audio_s={self.options.max_audio_s:g} s of audio")

    def _take_text(self, part: TextPart, now_ns: int) -> None:
        if not part.text:
            return
        self.text_arrived_ns.append(now_ns)
        self.text.append(part.text)
        self.text_tokens.append(part.tokens)
        self._heard()
        self.text_chars += len(part.text)
        if self.text_chars > MAX_TEXT_CHARS:
            raise WireFailure("too_large", f"more than {MAX_TEXT_CHARS} characters of text")

    def _heard(self) -> None:
        self.silence.reschedule(asyncio.get_running_loop().time() + self.options.stall_timeout_s)

    def ended(self) -> None:
        """The answer has come to its clean end."""
        self.ended_ns = self.clock()
        self.silence.reschedule(None)

    def received(self) -> str:
        """How much has come, for a message."""
        return f"{self.audio_bytes} B of audio" + (f" and {self.text_chars} characters" if self.text_chars else "")

    def what_came(self) -> str:
        """Of an answer that is waited for no longer."""
        if self.headers_ns is None:
            return "no headers of an answer, or none that ended"
        kinds = self.decoder.unknown_events if self.decoder is not None else None
        return self.received() + (f"; of unknown kinds {kinds}" if kinds else "")

    def timeline(
        self,
        planned: PlannedRequest,
        *,
        concurrency: Level,
        scheduled_ns: int,
        error: RequestError | None,
        failed_ns: int | None,
    ) -> Timeline:
        """The finished timeline."""
        tokens = tuple(count for count in self.text_tokens if count is not None)
        facts = self.decoder
        echoes = self.header_id == self.wire_id
        names = (None if echoes else self.header_id, facts.server_id if facts else None, self.header_id)
        return Timeline(
            request_id=planned.request_id,
            prompt_id=planned.prompt_id,
            concurrency=concurrency,
            seed=planned.seed,
            scheduled_ns=scheduled_ns,
            started_ns=self.started_ns,
            headers_ns=self.headers_ns,
            first_byte_ns=self.first_byte_ns,
            first_audio_ns=self.arrived_ns[0] if self.arrived_ns else None,
            ended_ns=self.ended_ns if error is None else None,
            failed_ns=failed_ns,
            chunk_arrived_ns=tuple(self.arrived_ns),
            chunk_bytes=tuple(len(data) for data in self.audio),
            sample_rate_hz=facts.sample_rate_hz if facts else None,
            sample_width_bytes=SAMPLE_WIDTH_BYTES,
            http_status=self.http_status,
            error=error,
            warmup=planned.warmup,
            chunk_ends=() if all(self.chunk_ends) else tuple(self.chunk_ends),
            text_arrived_ns=tuple(self.text_arrived_ns),
            text_tokens=tokens if len(tokens) == len(self.text_tokens) else (),
            reply_text=_readable("".join(self.text)) if self.text else None,
            completion_tokens=facts.completion_tokens if facts else None,
            server_request_id=next((name for name in names if name), None),
            wire_id=self.wire_id,
            rate_stated=facts.states_rate if facts and facts.sample_rate_hz and self.audio else None,
            first_lag_ns=self.first_lag_ns,
            unknown_events=facts.unknown_events if facts else None,
        )


def _readable(text: str) -> str:
    """``text`` with the halves of surrogate pairs that came in two deltas joined, and lone ones replaced."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
