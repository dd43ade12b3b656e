"""Checks of the values of an open loop, of the rate search and of the service level."""

from __future__ import annotations

import math

from omni_bench.errors import ConfigError, alternatives
from omni_bench.load.arrivals import ARRIVALS, GAMMA, MAX_ARRIVALS, TRACE
from omni_bench.metrics.slo import TIMES
from omni_bench.metrics.summary import requests_needed
from omni_bench.records.config import RATE_SEARCH, LoadConfig, SloConfig
from omni_bench.records.level import rate_of

MIN_RATE_HZ, MAX_RATE_HZ = 1e-4, 10_000.0
MAX_IN_FLIGHT = 4096
MAX_PROBES = 64
MIN_PRECISION, MAX_PRECISION = 0.005, 1.0
MIN_SHAPE, MAX_SHAPE = 0.05, 1000.0  # below that gaps underflow to nothing
MAX_DURATION_S = 7 * 86400.0
P95_MIN = requests_needed(95)


def validate_open_loop(load: LoadConfig) -> None:
    """Raise ConfigError for the first value of an open loop or a rate search that cannot be run."""
    if load.arrival not in ARRIVALS:
        raise ConfigError(f"load.arrival={load.arrival!r}{alternatives(load.arrival, ARRIVALS)}")
    _within("load.burstiness", load.burstiness, MIN_SHAPE, MAX_SHAPE)
    if load.burstiness != 1 and load.arrival != GAMMA:
        raise ConfigError(
            f"load.burstiness={load.burstiness:g} with load.arrival={load.arrival}: add load.arrival=gamma"
        )
    _count("load.requests_per_level", load.requests_per_level, 1, MAX_ARRIVALS)
    _count("load.max_in_flight", load.max_in_flight, 1, MAX_IN_FLIGHT)
    _count("load.warmup_requests", load.warmup_requests, 0, MAX_ARRIVALS)
    _within("load.lag_budget_ms", load.lag_budget_ms, 1e-6, math.inf)
    if load.duration_s is not None:
        _within("load.duration_s", load.duration_s, 1e-3, MAX_DURATION_S)
    _rates(load)
    if load.kind == RATE_SEARCH:
        _search(load)
    levels = len(load.rate_hz) or 1
    if not 0 <= load.rotate_levels < levels:
        raise ConfigError(f"load.rotate_levels={load.rotate_levels}: 0 to {levels - 1} for {levels} levels")


def validate_slo(slo: SloConfig, load: LoadConfig) -> None:
    """Raise ConfigError for a service level that is no limit, or that a rate search lacks."""
    times = {name: getattr(slo, name) for name in TIMES}
    for name, limit_ms in times.items():
        if limit_ms is not None:
            _within(f"slo.{name}", limit_ms, 1e-6, math.inf)
    if slo.stall_s is not None:
        _within("slo.stall_s", slo.stall_s, 0.0, math.inf)
    if load.kind == RATE_SEARCH and all(limit_ms is None for limit_ms in times.values()):
        raise ConfigError(
            "load=rate_search needs a limit to search for: add slo=interactive, or slo.ttfp_ms=200; "
            "for a chat's text slo=chat_text, or slo.ttft_ms=450"
        )


def _rates(load: LoadConfig) -> None:
    if (load.arrival == TRACE) != (load.trace is not None):
        raise ConfigError(
            f"load.arrival={load.arrival} with load.trace={load.trace}: "
            "load.arrival=trace and load.trace=FILE go together"
        )
    if load.arrival == TRACE:
        if load.ramp is not None:
            raise ConfigError("load.ramp with load.arrival=trace: a trace is replayed as it is")
        return
    if load.ramp is not None:  # it takes the place of the rates
        if len(load.ramp) != 2:
            raise ConfigError(f"load.ramp={load.ramp}: two rates in requests a second, [from, to], such as [1, 20]")
        for hz in load.ramp:
            _within("load.ramp", hz, MIN_RATE_HZ, MAX_RATE_HZ)
        return
    if not load.rate_hz:
        raise ConfigError("load.rate_hz=[]: at least one rate in requests a second, such as [5], or load.ramp")
    for hz in load.rate_hz:
        _within("load.rate_hz", hz, MIN_RATE_HZ, MAX_RATE_HZ)
        if load.duration_s is not None and hz * load.duration_s > MAX_ARRIVALS / 2:
            raise ConfigError(
                f"load.duration_s={load.duration_s:g} at {hz:g} req/s: more than {MAX_ARRIVALS // 2} requests"
            )
    levels = [rate_of(hz) for hz in load.rate_hz]
    repeated = next((level for level in levels if levels.count(level) > 1), None)
    if repeated is not None:
        raise ConfigError(f"load.rate_hz={load.rate_hz}: {repeated.hz:g} is there twice; a level is run once")


def _search(load: LoadConfig) -> None:
    if load.arrival == TRACE or load.ramp is not None or load.duration_s is not None:
        raise ConfigError(
            "load=rate_search takes load.rate_hz=[START] and load.probe_requests; "
            "load.arrival=trace, load.ramp and load.duration_s are of load=open_loop"
        )
    if len(load.rate_hz) != 1:
        raise ConfigError(f"load.rate_hz={load.rate_hz}: a rate search starts at one rate, such as [1]")
    _count("load.probe_requests", load.probe_requests, 1, MAX_ARRIVALS)
    if load.probe_requests < P95_MIN:
        raise ConfigError(
            f"load.probe_requests={load.probe_requests}: a rate search judges by the p95 of each probe, "
            f"which takes at least {P95_MIN} requests"
        )
    _within("load.probe_s", load.probe_s, 0.0, MAX_DURATION_S)
    _within("load.precision", load.precision, MIN_PRECISION, MAX_PRECISION)
    _count("load.max_probes", load.max_probes, 1, MAX_PROBES)
    _within("load.min_rate_hz", load.min_rate_hz, MIN_RATE_HZ, MAX_RATE_HZ)
    _within("load.max_rate_hz", load.max_rate_hz, MIN_RATE_HZ, MAX_RATE_HZ)
    if load.max_rate_hz * load.probe_s > MAX_ARRIVALS:
        raise ConfigError(f"load.probe_s={load.probe_s:g} at load.max_rate_hz={load.max_rate_hz:g}: too many requests")
    if not load.min_rate_hz <= load.rate_hz[0] <= load.max_rate_hz:
        raise ConfigError(
            f"load.rate_hz={load.rate_hz}: a rate search starts between load.min_rate_hz={load.min_rate_hz:g} and "
            f"load.max_rate_hz={load.max_rate_hz:g}"
        )


def _within(key: str, value: float, least: float, most: float) -> None:
    finite = math.isfinite(value)
    if not finite or not least <= value <= most:
        bound = f"{least:g} to {most:g}" if math.isfinite(most) else f"a finite number of at least {least:g}"
        raise ConfigError(f"{key}={value:g}: {bound}")


def _count(key: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise ConfigError(f"{key}={value}: {least} to {most}")
