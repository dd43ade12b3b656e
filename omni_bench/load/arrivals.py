"""Arrivals of the open loop: when each request is due, decided before anything is sent.

A schedule is made in two steps. The gaps of an arrival process of rate 1 add up to moments
``u`` on a clock that counts expected arrivals; the level's rate, which may grow or fall
over the level, says when that clock shows ``u`` (the time change of a non-homogeneous process:
Cinlar 1975, chapter 4). So every process can be constant or a ramp.

The generator is ``random.Random``, whose ``random()`` and whose seeding by a text do not
change between versions of Python; with shape 1 the gamma process draws what the Poisson process draws.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

CONSTANT, POISSON, GAMMA, TRACE = "constant", "poisson", "gamma", "trace"
ARRIVALS = (CONSTANT, POISSON, GAMMA, TRACE)
MAX_ARRIVALS = 1_000_000
NS_PER_S = 1e9


@dataclass(frozen=True)
class RateProfile:
    """Requests a second over a level: from ``start_hz`` in a straight line to ``end_hz`` after ``length_s``.

    ``length_s`` is None if the rate does not change, and where the level ends is for others to say.
    """

    start_hz: float
    end_hz: float
    length_s: float | None = None

    @classmethod
    def constant(cls, rate_hz: float) -> RateProfile:
        """The same rate all the time."""
        return cls(rate_hz, rate_hz)

    @classmethod
    def ramp(cls, start_hz: float, end_hz: float, *, requests: int | None, duration_s: float | None) -> RateProfile:
        """A ramp over ``duration_s`` or, if that is None, over the time in which ``requests`` are to be expected."""
        if duration_s is None:
            if requests is None:
                raise ValueError("a ramp needs a number of requests or a duration")
            duration_s = 2 * requests / (start_hz + end_hz)
        return cls(start_hz, end_hz, duration_s)

    @property
    def mean_hz(self) -> float:
        """The mean rate over the level."""
        return (self.start_hz + self.end_hz) / 2

    def expected(self, at_s: float) -> float:
        """Arrivals to be expected until ``at_s``: the integral of the rate. After a ramp its last rate goes on."""
        if self.length_s is None:
            return self.start_hz * at_s
        within_s = min(at_s, self.length_s)
        slope = (self.end_hz - self.start_hz) / self.length_s
        return self.start_hz * within_s + slope * within_s**2 / 2 + self.end_hz * (at_s - within_s)

    def moment(self, expected: float) -> float:
        """The inverse of :meth:`expected`, in seconds."""
        if self.length_s is None:
            return expected / self.start_hz
        whole = self.mean_hz * self.length_s
        if expected >= whole:
            return self.length_s + (expected - whole) / self.end_hz
        slope = (self.end_hz - self.start_hz) / self.length_s
        # the root of slope/2 t² + start t = expected, in the form that does not cancel for a small slope
        return 2 * expected / (self.start_hz + math.sqrt(self.start_hz**2 + 2 * slope * expected))


def arrival_offsets_ns(
    arrival: str,
    profile: RateProfile,
    *,
    seed: str,
    requests: int | None = None,
    duration_s: float | None = None,
    burstiness: float = 1.0,
) -> tuple[int, ...]:
    """When each request is due, in ns after the level's start, in order.

    ``requests``: how many; with ``duration_s`` instead, all that are due before that time, which is random in
    number but for ``constant``. ``constant``: the first at once, then one every 1/rate. ``poisson``: exponential
    gaps. ``gamma``: gaps of a gamma distribution of shape ``burstiness`` and the same mean: 1 is Poisson, below 1
    comes in bursts, above 1 is more regular (the meaning of ``--burstiness`` in vllm bench serve). In both
    the first request is due after the first gap. Equal arguments give equal schedules.

    Raises ValueError for another ``arrival``, for both or neither of ``requests`` and ``duration_s``, and
    for more than :data:`MAX_ARRIVALS`.
    """
    if (requests is None) == (duration_s is None):
        raise ValueError("give either requests or duration_s")
    found: list[int] = []
    for expected in _unit_process(arrival, burstiness, random.Random(seed)):
        if requests is not None and len(found) >= requests:
            break
        at_s = profile.moment(expected)
        if duration_s is not None and at_s >= duration_s:
            break
        if len(found) >= MAX_ARRIVALS:
            raise ValueError(f"more than {MAX_ARRIVALS} arrivals")
        found.append(round(at_s * NS_PER_S))
    return tuple(found)


def _unit_process(arrival: str, burstiness: float, generator: random.Random) -> Iterator[float]:
    """The moments of a process of one arrival a second, without end."""
    if arrival == CONSTANT:
        number = 0
        while True:
            yield float(number)
            number += 1
    if arrival not in (POISSON, GAMMA):
        raise ValueError(f"arrival {arrival!r}; valid: {CONSTANT}, {POISSON}, {GAMMA}")
    shape = 1.0 if arrival == POISSON else burstiness
    gap: Callable[[], float] = lambda: generator.gammavariate(shape, 1 / shape)  # noqa: E731
    at = gap()
    while True:
        yield at
        at += gap()
