"""Whose words could be heard in an output: requests in flight with it, and those whose place it may have taken."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from omni_bench.accuracy.cross_talk.score import Words
from omni_bench.records.level import Level, Rate

TARGET, REFERENCE = "target", "reference"
IN_FLIGHT, EARLIER = "in flight", "earlier"


@dataclass(frozen=True)
class Request:
    """A request as a source of words: its texts as they are compared, and when it was in flight.

    ``reference``: the words of the reference recording that was sent with it, () if none was.
    ``concurrency``: of the level that it belongs to. ``slots``: of that level, which a rate does not tell.
    """

    request_id: str
    concurrency: Level
    started_ns: int
    finished_ns: int
    target: Words
    reference: Words = ()
    slots: int | None = None


@dataclass(frozen=True)
class SourceText:
    """A text whose words could be heard in an output.

    ``kind``: :data:`TARGET` or :data:`REFERENCE`. ``relation``: whether its request was in flight with
    the output's (:data:`IN_FLIGHT`) or had finished before (:data:`EARLIER`). ``also``: further requests
    with the same text.
    """

    request_id: str
    kind: str
    relation: str
    words: Words
    also: tuple[str, ...] = ()


class Neighbours:
    """Finds the sources of each request of a run. All times are of one clock, whatever the level."""

    def __init__(self, requests: Sequence[Request]):
        sent = [request for request in requests if request.finished_ns > request.started_ns]  # others never left
        self._by_start = sorted(sent, key=lambda request: (request.started_ns, request.request_id))
        self._by_end = sorted(sent, key=lambda request: (request.finished_ns, request.request_id))
        self._starts = [request.started_ns for request in self._by_start]
        self._ends = [request.finished_ns for request in self._by_end]
        self._longest_ns = max((request.finished_ns - request.started_ns for request in sent), default=0)

    def in_flight_with(self, request: Request) -> list[Request]:
        """Other requests whose time in flight overlaps, in the order in which they started."""
        low = bisect_left(self._starts, request.started_ns - self._longest_ns)
        high = bisect_left(self._starts, request.finished_ns)
        return [
            other
            for other in self._by_start[low:high]
            if other.finished_ns > request.started_ns and other.request_id != request.request_id
        ]

    def earlier_than(self, request: Request) -> list[Request]:
        """The requests that finished last before it started, as many as its level has slots, the latest first.

        A server with that many slots gave it one in which one of these was the last: a buffer that was not
        cleaned holds their words. How long ago they finished does not matter to a buffer.
        """
        slots = request.concurrency if request.slots is None else request.slots
        if isinstance(slots, Rate):
            raise ValueError(f"request {request.request_id} of {slots} has no number of slots")
        high = bisect_left(self._ends, request.started_ns + 1)
        return self._by_end[max(high - slots, 0) : high][::-1]

    def sources_of(self, request: Request) -> list[SourceText]:
        """The texts to look for in its output, each once: those in flight before those earlier, targets first.

        The request's own reference counts, as it must not be spoken either. Texts that equal its
        own text are left out: they cannot be told apart.
        """
        in_flight = [(other, IN_FLIGHT) for other in self.in_flight_with(request)]
        earlier = [(other, EARLIER) for other in self.earlier_than(request)]
        found: dict[Words, SourceText] = {}
        for others in (in_flight, earlier):
            for kind in (TARGET, REFERENCE):
                own = [(request, IN_FLIGHT)] if kind == REFERENCE and others is in_flight else []
                for other, relation in [*own, *others]:
                    words = other.target if kind == TARGET else other.reference
                    if words and words != request.target:
                        _add(found, SourceText(other.request_id, kind, relation, words))
        return list(found.values())


def _add(found: dict[Words, SourceText], source: SourceText) -> None:
    first = found.setdefault(source.words, source)
    if source.request_id != first.request_id and source.request_id not in first.also:
        found[source.words] = SourceText(
            first.request_id, first.kind, first.relation, first.words, (*first.also, source.request_id)
        )
