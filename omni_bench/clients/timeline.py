"""Raw facts of one request, as the client saw them: monotonic nanoseconds and byte counts.

Nothing here is derived: every metric is computed from these by :mod:`omni_bench.metrics`,
so that a metric can be recomputed from an old run. All ``_ns`` values are
``time.perf_counter_ns()`` of the client process.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RequestError:
    """Why a request failed. ``kind`` is one of :data:`ERROR_KINDS`."""

    kind: str
    message: str


ERROR_KINDS = (
    "connect",  # no connection could be made
    "http_status",  # status other than 200
    "content_type",  # 200 with a content type the client did not ask for
    "in_band_error",  # 200, then an error object in the stream
    "disconnected",  # the connection ended without a clean end of stream
    "timeout",  # the client's own deadline passed
    "too_large",  # more audio than the configured bound
    "cancelled",  # the run was interrupted
)


@dataclass(frozen=True)
class Timeline:
    """One request from plan to end.

    ``scheduled_ns``: when the load plan wanted it to start. ``started_ns``: when the client
    began to send it. ``headers_ns``: response headers complete. ``first_byte_ns``: first
    byte of the body. ``first_audio_ns``: first byte of audio payload (headers of the
    container do not count). ``ended_ns``: last byte of a clean end of stream, None if it
    failed. ``failed_ns``: when the failure was noticed, None if it succeeded.
    ``chunk_arrived_ns[i]`` and ``chunk_bytes[i]``: arrival and payload bytes of the i-th
    audio read (a read returns what has arrived).
    """

    request_id: str
    prompt_id: str
    concurrency: int
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
