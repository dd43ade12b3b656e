"""Summaries of a sample: mean, standard deviation, and the percentiles that its size supports."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Summary:
    """``n`` values and what they come to; None where there are too few values to say it."""

    n: int
    mean: float | None
    std: float | None
    p50: float | None
    p90: float | None
    p95: float | None
    p99: float | None


def requests_needed(percentile: float, confidence: float = CONFIDENCE) -> int:
    """Smallest n whose largest value bounds the percentile from above with ``confidence``.

    All n values are below the q-quantile with probability q^n, whatever the distribution, so
    1 − q^n ≥ confidence is needed: n = 59 for p95 and 299 for p99 at 95 %. With fewer there
    is no distribution-free upper bound at all (order-statistic tolerance limits: Wilks 1941).
    """
    if not 0 < percentile < 100:
        raise ValueError(f"percentile={percentile}; must be between 0 and 100")
    n = math.ceil(math.log(1 - confidence) / math.log(percentile / 100))
    while n > 1 and 1 - (percentile / 100) ** (n - 1) >= confidence:  # rounding of the logarithms
        n -= 1
    return n


P95_NEEDS = requests_needed(95)  # 59
P99_NEEDS = requests_needed(99)  # 299


def summarise(values: Iterable[float | None], requests: int | None = None) -> Summary:
    """Summarise the values that are not None; percentiles by linear interpolation, std with n − 1.

    ``requests``: how many requests the values come from, where that is not one each (gaps
    between chunks): values of one request are not independent, so p95 and p99 are granted by
    the number of requests.
    """
    present = np.array([value for value in values if value is not None], dtype=np.float64)
    n = len(present)
    if n == 0:
        return Summary(n=0, mean=None, std=None, p50=None, p90=None, p95=None, p99=None)
    support = n if requests is None else min(n, requests)
    p50, p90, p95, p99 = (float(value) for value in np.percentile(present, (50, 90, 95, 99), method="linear"))
    return Summary(
        n=n,
        mean=float(present.mean()),
        std=float(present.std(ddof=1)) if n > 1 else None,
        p50=p50,
        p90=p90,
        p95=p95 if support >= P95_NEEDS else None,
        p99=p99 if support >= P99_NEEDS else None,
    )
