"""Arrivals of the open loop: when each request is due, decided before anything is sent.

A schedule is made in two steps. The gaps of a process add up to moments on a clock that counts
expected arrivals; the level's rate, which may grow or fall over the level, says when that clock
shows them (the time change of a non-homogeneous process: Cinlar 1975, chapter 4). So every
process can have a constant rate or a ramp.

A level has exactly as many requests as its rate and length say. For Poisson arrivals that is the
process given its number of arrivals, whose times are those of as many sorted uniform draws
(Kingman 1993, section 2.4): n + 1 gaps, scaled to fill the level. With free gaps 60 requests "at 20 a second" would
come at anything from 15 to 27, and a search for a rate would find the luck of its schedules.

The generator is ``random.Random``, whose ``random()`` and whose seeding by a text do not
change between versions of Python; with shape 1 the gamma process draws what the Poisson process draws.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from itertools import accumulate

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
        """A ramp over ``duration_s`` or, if that is None, over the time in which ``requests`` are expected."""
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
        """Arrivals to be expected until ``at_s``, which is within the level: the integral of the rate."""
        slope = 0.0 if self.length_s is None else (self.end_hz - self.start_hz) / self.length_s
        return self.start_hz * at_s + slope * at_s**2 / 2

    def moment(self, expected: float) -> float:
        """The inverse of :meth:`expected`, in seconds.

        The root of slope/2 t² + start t = expected, in the form that does not cancel for a small slope.
        """
        slope = 0.0 if self.length_s is None else (self.end_hz - self.start_hz) / self.length_s
        return 2 * expected / (self.start_hz + math.sqrt(max(self.start_hz**2 + 2 * slope * expected, 0.0)))


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

    ``requests``: how many, over the time in which the rate makes that number; with ``duration_s`` instead, as many as
    the rate makes in it. ``constant``: the first at once, then at the rate. ``poisson``: exponential gaps.
    ``gamma``: gaps of a gamma distribution of shape ``burstiness`` and the same mean: 1 is Poisson, below 1
    comes in bursts, above 1 is more regular (the meaning of ``--burstiness`` in vllm bench serve). In both
    the first request is due after the first gap. Equal arguments give equal schedules.

    Raises ValueError for another ``arrival``, for both or neither of ``requests`` and ``duration_s``, and
    for more than :data:`MAX_ARRIVALS`.
    """
    if (requests is None) == (duration_s is None):
        raise ValueError("give either requests or duration_s")
    expected = float(requests) if requests is not None else profile.expected(duration_s or 0.0)
    if expected > MAX_ARRIVALS:
        raise ValueError(f"{expected:.0f} arrivals; at most {MAX_ARRIVALS}")
    moments = _moments(arrival, expected, burstiness, random.Random(seed))
    return tuple(round(profile.moment(at) * NS_PER_S) for at in moments)


def _moments(arrival: str, expected: float, burstiness: float, generator: random.Random) -> list[float]:
    """The arrivals on the clock of expected arrivals, all within [0, ``expected``)."""
    if arrival == CONSTANT:
        return [float(number) for number in range(math.ceil(expected - 1e-9))]
    if arrival not in (POISSON, GAMMA):
        raise ValueError(f"arrival {arrival!r}; valid: {CONSTANT}, {POISSON}, {GAMMA}")
    count, shape = round(expected), 1.0 if arrival == POISSON else burstiness
    sums = list(accumulate(generator.gammavariate(shape, 1 / shape) for _ in range(count + 1)))
    return [expected * at / sums[-1] for at in sums[:-1]]
