"""Hand-made nights, for the tests of the history and of the gate."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from omni_bench.metrics.definitions import METRICS
from omni_bench.nightly.history.database import History
from omni_bench.nightly.history.records import Role, StoredLevel, StoredRun, content_hash, series_id

FIRST = datetime(2026, 1, 1, 2, tzinfo=UTC)
WOBBLE = (0.4, -1.0, 0.7, -0.5, 0.9, -0.2, 0.3, -0.8, 0.1, -0.4, 1.1, -0.6, 0.6)
"""Run effects, in percent of a time."""


def figures(name, value):
    """A metric of which ``value`` is the headline figure."""
    unit = {"unit": METRICS[name].unit, "better": METRICS[name].better, "n": 32}
    return unit | {"mean": value, "std": None, "p50": value, "p90": None, "p95": None, "p99": None}


def level(
    concurrency=1, *, slower=1.0, longer=1.0, reasons=(), failed=0, faulty=0, hits=None, mismatches=None, **metrics
):
    """A level whose times are ``slower`` times as long, and whose audio is ``longer`` times as long."""
    values = {
        "ttfp_ms": 60.0 * slower,
        "rtf": 0.3 * slower,
        "audio_per_s": 40.0 / slower,
        "audio_s": 4.0 * longer,
        "e2el_ms": 1200.0 * slower * longer,
        "e2el_slope": 0.28 * slower,
        "e2el_intercept_ms": 80.0 * slower,
        **metrics,
    }
    counts = {"cross_talk_hits": hits, "parity_mismatches": mismatches}
    return StoredLevel(
        load=f"c = {concurrency}",
        concurrency=concurrency,
        arrival="closed_loop",
        requests=32,
        failed=failed,
        faulty=faulty,
        valid=not reasons,
        reasons=tuple(reasons),
        metrics={name: figures(name, value) for name, value in values.items()},
        accuracy=counts if hits is not None or mismatches is not None else None,
    )


def commit_of(number):
    """The commit of a night."""
    return f"{number:04x}" * 10


def night(number, *, concurrencies=(1,), role=Role.NIGHT, reasons=(), keys=None, settings=None, hour=0, **changes):
    """Night ``number`` from 1, with the run effect of :data:`WOBBLE`; ``changes``: of every level.

    ``reasons``: why the whole run is invalid; ``level_reasons``: why every level is.
    """
    commit = changes.pop("commit", commit_of(number))
    scenario, faults = changes.pop("scenario", "qwen3_tts"), changes.pop("faults", ())
    slower = changes.pop("slower", 1.0) * (1 + WOBBLE[number % len(WOBBLE)] / 100)
    of_levels = changes.pop("level_reasons", ())
    levels = tuple(level(concurrency, slower=slower, reasons=of_levels, **changes) for concurrency in concurrencies)
    why = (*reasons, *(replace(reason, level=one.load) for one in levels for reason in one.reasons))
    keys = {"load.concurrency": list(concurrencies)} | (keys or {})
    return StoredRun(
        run_id=content_hash([number, role, hour, slower, repr(sorted(changes.items())), repr(why), keys]),
        kind="omni-bench",
        scenario=scenario,
        series=series_id(scenario, "reference (tiny)", keys),
        target="reference (tiny)",
        hardware="NVIDIA H100",
        started_utc=(FIRST + timedelta(days=number - 1, hours=hour)).strftime("%Y-%m-%dT%H:%M:%SZ"),
        valid=not why,
        reasons=why,
        keys=keys,
        settings={"reference.predictor": "kv_cache"} | (settings or {}),
        versions={"target.commit": None, "omni-bench.commit": commit, "target.version": "0.1.0"},
        levels=levels,
        command=("omni-bench", "run", "scenario=qwen3_tts"),
        faults=tuple(faults),
        source=f"runs/{number}",
        role=role,
    )


def nights(count, start=1, **changes):
    """Nights one after the other."""
    return [night(number, **changes) for number in range(start, start + count)]


def history_of(runs, path=None):
    """A history that holds ``runs``."""
    history = History(path)
    for run in runs:
        history.add(run)
    return history
