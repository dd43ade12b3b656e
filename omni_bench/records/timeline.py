"""Raw facts of one request, as the client saw them: monotonic nanoseconds and byte counts.

Nothing here is derived: every metric is computed from these by :mod:`omni_bench.metrics`,
so that a metric can be recomputed from an old run. All ``_ns`` values are
``time.perf_counter_ns()`` of the client process. On Linux that is CLOCK_MONOTONIC, one clock
for the whole machine, so that the few stamps which the parent of the load worker makes
(requests given up when the worker said nothing more about them) are on the same scale.
"""

from __future__ import annotations

from dataclasses import dataclass

from omni_bench.records.level import Level


@dataclass(frozen=True)
class RequestError:
    """Why a request failed. ``kind`` is one of :data:`ERROR_KINDS`."""

    kind: str
    message: str


ERROR_KINDS = (
    "connect",  # no connection could be made
    "client_shortage",  # by the client's machine: no open files, ports or memory were left
    "http_status",  # status other than 200
    "content_type",  # 200 with content the client did not ask for, or that breaks the rules of its wire form
    "in_band_error",  # 200, then an error object in the stream
    "disconnected",  # the connection ended without a clean end of stream
    "timeout",  # the client's own deadline passed, of the whole request or of a pause in its audio
    "too_large",  # more audio or text than the bound
    "cancelled",  # the run was interrupted
)


@dataclass(frozen=True)
class Timeline:
    """One request from plan to end.

    ``concurrency``: the level it belongs to, a Rate in an open loop. ``scheduled_ns``: when the
    load plan wanted it to start. ``started_ns``: when the client began
    to send it: to connect, or to write on a connection that was open.
    ``headers_ns``: response headers complete. ``first_byte_ns``: first byte of the body.
    ``first_audio_ns``: first byte of audio payload (headers of the
    container do not count). ``ended_ns``: last byte of a clean end of stream, None if it
    failed. ``failed_ns``: when the failure was noticed, None if it succeeded.
    ``chunk_arrived_ns[i]`` and ``chunk_bytes[i]``: arrival and payload bytes of the i-th
    audio read (a read returns what has arrived, but never goes beyond the end of an HTTP
    chunk). ``chunk_ends[i]``: whether the i-th read ended an HTTP chunk; empty if every read
    did, which is how a body without chunks is recorded, and every body by schema 1.0. Where audio
    comes in events (server-sent events, WebSocket messages), an event's audio is one read that is a
    chunk: it arrives with the event's last byte, as half of an event cannot be played.

    Of chat: ``text_arrived_ns[i]``: arrival of the i-th text delta that is not empty;
    ``text_tokens[i]``: of how many tokens it is, empty unless the server says so of every delta.
    ``reply_text``: all deltas together, None where no text was to come. ``completion_tokens``: text
    tokens by the server's own count. ``server_request_id``: what the server calls the request, in a
    header or in the body; None if it does not say. ``wire_id``: what the client called it there (``x-request-id``).

    ``rate_stated``: whether the answer states ``sample_rate_hz``, and not the configuration alone; None where nobody
    noted it (an older run). ``first_lag_ns``: how long the first audio or text may have waited in the client before it
    was read, at most (:mod:`omni_bench.load.lag`); None where it was not measured. ``unknown_events``: kinds of events
    that the client passed over, and how many of each came; None if there were none.
    """

    request_id: str
    prompt_id: str
    concurrency: Level
    seed: int | None
    scheduled_ns: int
    started_ns: int
    headers_ns: int | None
    first_byte_ns: int | None
    first_audio_ns: int | None
    ended_ns: int | None
    failed_ns: int | None
    chunk_arrived_ns: tuple[int, ...]
    chunk_bytes: tuple[int, ...]
    sample_rate_hz: int | None
    sample_width_bytes: int
    http_status: int | None
    error: RequestError | None
    warmup: bool = False
    chunk_ends: tuple[bool, ...] = ()
    text_arrived_ns: tuple[int, ...] = ()
    text_tokens: tuple[int, ...] = ()
    reply_text: str | None = None
    completion_tokens: int | None = None
    server_request_id: str | None = None
    wire_id: str | None = None
    rate_stated: bool | None = None
    first_lag_ns: int | None = None
    unknown_events: str | None = None

    @property
    def ok(self) -> bool:
        """True if the stream ended cleanly (its audio may still be judged invalid)."""
        return self.error is None and self.ended_ns is not None

    @property
    def finished_ns(self) -> int:
        """When the request stopped being in flight: its clean end, or the moment its failure was noticed."""
        finished = self.ended_ns if self.ended_ns is not None else self.failed_ns
        if finished is None:
            raise ValueError(f"request {self.request_id} has neither ended_ns nor failed_ns")
        return finished

    @property
    def output_tokens(self) -> int | None:
        """Text tokens of the reply: the server's own count, else the sum over its deltas, else None."""
        if self.completion_tokens is not None:
            return self.completion_tokens
        return sum(self.text_tokens) if self.text_tokens else None

    @property
    def audio_bytes(self) -> int:
        """Bytes of audio payload received."""
        return sum(self.chunk_bytes)

    @property
    def chunk_samples(self) -> tuple[int, ...]:
        """Whole samples completed by each read: a read may end within a sample."""
        counts, total_bytes, total_samples = [], 0, 0
        for size in self.chunk_bytes:
            total_bytes += size
            samples = total_bytes // self.sample_width_bytes
            counts.append(samples - total_samples)
            total_samples = samples
        return tuple(counts)

    @property
    def http_chunks(self) -> tuple[tuple[int, int], ...]:
        """(arrival of the first byte in ns, whole samples completed) of each chunk as the server sent it.

        The reads of one HTTP chunk count as one: how the network cuts a chunk is not the
        server's doing. A last chunk that was cut off is one too.
        """
        ends = self.chunk_ends or (True,) * len(self.chunk_bytes)
        chunks: list[tuple[int, int]] = []
        begins = True
        for arrived_ns, samples, ended in zip(self.chunk_arrived_ns, self.chunk_samples, ends, strict=True):
            if begins:
                chunks.append((arrived_ns, samples))
            else:
                chunks[-1] = (chunks[-1][0], chunks[-1][1] + samples)
            begins = ended
        return tuple(chunks)


SAMPLE_WIDTH_BYTES = 2  # s16le
