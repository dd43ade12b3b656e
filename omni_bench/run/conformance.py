"""How a server answers: the facts in the answer to a probe, and what a reader of the results must know. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from omni_bench.foreign_text import is_cut
from omni_bench.records.config import ClientConfig
from omni_bench.records.timeline import Timeline
from omni_bench.targets.base import TargetInfo

RAW_CONTENT_TYPES = ("audio/pcm", "application/octet-stream")
"""Of bare samples, which have no place for a rate of their own."""
STREAMS_BELOW = 0.9
"""A first audio later than at this share of a request is no stream: nothing is heard before it is all there."""
OBEYED, WITHOUT_EFFECT, NOT_REPEATABLE = "obeyed", "without effect", "not repeatable"


@dataclass(frozen=True)
class Framing:
    """How an answer came: ``transfer`` is ``chunked``, ``length``, ``until close`` or ``websocket``."""

    status: int
    content_type: str | None
    transfer: str
    stated_rate_hz: int | None


@dataclass(frozen=True)
class Conformance:
    """What the probe found. Shares are of the time from start to end; None: not known, or nothing to know.

    ``streams``: whether the first audio (of a reply in text, the first delta) came well before the end, and not all
    at once. ``seed``: ``obeyed`` (the same seed repeats the answer, another changes it), ``without effect`` (the answer
    is the same for another seed), ``not repeatable`` (the same seed gave two answers), None if none is sent.
    ``keeps_connections``: whether a connection could be used again, also after it had waited for a while.
    """

    status: int | None
    content_type: str | None
    transfer: str | None
    sample_rate_hz: int | None
    sample_rate_stated: bool | None
    audio_s: float | None
    chunks: int
    text_deltas: int
    first_share: float | None
    streams: bool
    seed: str | None
    keeps_connections: bool | None = None
    warnings: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Plain types, for run.json."""
        return {**asdict(self), "warnings": list(self.warnings)}

    def line(self) -> str:
        """For people, in one line."""
        parts = [f"HTTP {self.status}", *filter(None, (self.content_type, self.transfer))]
        if self.audio_s is not None:
            assumed = " (client.sample_rate_hz: not stated)" if self.sample_rate_stated is False else ""
            parts += [f"{self.sample_rate_hz} Hz{assumed}", f"{self.audio_s:.1f} s of audio in {_times(self.chunks)}"]
        if self.text_deltas:
            parts.append(f"text in {_times(self.text_deltas)}")
        if self.first_share is not None:
            parts.append(f"the first after {100 * self.first_share:.0f} % of the time")
        parts.append("clean end")
        return f"probe: {', '.join(parts)}; seed: {self.seed or 'none sent'}"


def describe(timeline: Timeline, framing: Framing | None, seed: str | None) -> Conformance:
    """The facts in an answer that ended cleanly."""
    chunks, deltas = timeline.http_chunks, timeline.text_arrived_ns
    heard = timeline.first_audio_ns if timeline.first_audio_ns is not None else next(iter(deltas), None)
    share = None
    if heard is not None and timeline.ended_ns is not None and timeline.ended_ns > timeline.started_ns:
        share = (heard - timeline.started_ns) / (timeline.ended_ns - timeline.started_ns)
    pieces = len(chunks) if chunks else len(deltas)
    samples = sum(timeline.chunk_samples)
    rate_hz = timeline.sample_rate_hz
    stated = None  # where the stream itself may have said so
    if framing is not None and framing.stated_rate_hz is not None:
        stated = True
    elif framing is not None and framing.content_type in RAW_CONTENT_TYPES:
        stated = False
    return Conformance(
        status=framing.status if framing is not None else timeline.http_status,
        content_type=framing.content_type if framing is not None else None,
        transfer=framing.transfer if framing is not None else None,
        sample_rate_hz=rate_hz if samples else None,
        sample_rate_stated=stated if samples else None,
        audio_s=samples / rate_hz if samples and rate_hz else None,
        chunks=len(chunks),
        text_deltas=len(deltas),
        first_share=share,
        streams=pieces > 1 and share is not None and share < STREAMS_BELOW,
        seed=seed,
    )


def warnings(found: Conformance, client: ClientConfig, info: TargetInfo) -> Iterator[str]:
    """What a reader of the results must know, a sentence each."""
    if not found.streams:
        what, first = ("TTFP", "audio") if found.chunks else ("TTFT", "text")
        pieces = found.chunks or found.text_deltas
        share = f", after {100 * found.first_share:.0f} % of the time" if found.first_share is not None else ""
        yield f"the server does not stream: {first} came in {_times(pieces)}{share}; {what} is E2EL"
    if found.seed == NOT_REPEATABLE:
        yield "the same seed gave two different answers: runs cannot be repeated exactly, and parity alone means little"
    if found.keeps_connections is False:
        yield (
            "the server closes connections between two requests: every request opens one of its own, as part of its "
            "TTFP"
        )
    if (unlisted := unlisted_model(client, info)) is not None:
        yield unlisted


def unlisted_model(client: ClientConfig, info: TargetInfo) -> str | None:
    """That the server lists its models and the one that it is asked for is none of them; None otherwise."""
    models = listed_models(info.models)
    if not models or client.model in models or is_cut(info.models["data"]):
        return None
    return f"client.model={client.model} is not among the models that the server lists: {', '.join(models[:5])}"


def listed_models(models: Any) -> list[str]:
    """The ids in an answer of /v1/models; [] if it is not one."""
    entries = models.get("data") if isinstance(models, dict) else None
    if not isinstance(entries, list):
        return []
    return [one["id"] for one in entries if isinstance(one, dict) and isinstance(one.get("id"), str)]


def _times(pieces: int) -> str:
    return "one piece" if pieces == 1 else f"{pieces} pieces"
