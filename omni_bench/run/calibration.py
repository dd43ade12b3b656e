"""What the client itself adds to a TTFP: measured against a server of known send times, and kept with the machine.

Nothing is ever subtracted. The measured bias is printed beside TTFP, and a TTFP that is not above it makes no claim.
"""

from __future__ import annotations

import hashlib
import json
import platform
import tempfile
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from omni_bench import __version__
from omni_bench.errors import ConfigError, OmniBenchError, StoreError
from omni_bench.load.closed_plan import build_level_plans, prompts_needed
from omni_bench.load.files import allow_files
from omni_bench.load.runner import run_level
from omni_bench.metrics.open_loop import peak_in_flight
from omni_bench.records.config import CLOSED_LOOP, ClientConfig, LoadConfig
from omni_bench.records.convert import structure
from omni_bench.records.files import cache_folder, parse_json, write_json
from omni_bench.records.level import Rate
from omni_bench.records.prompt import Prompt
from omni_bench.records.recording import LevelRecording, LoopLag, TtfpBias
from omni_bench.records.timeline import Timeline
from omni_bench.run.provenance import cpu_model, usable_cores
from omni_bench.targets.null_server import Pace, null_server_process

WIRE_FORM = "openai_speech"
"""Raw samples are what the null server speaks; events and WAV cost the client more, so that nothing is said of them."""

PACE = Pace(first_ms=100.0, interval_ms=80.0, chunk_ms=80.0, chunks=25, spread_ms=80.0)
"""Two seconds of speech, a frame of 12.5 Hz at a time, in real time, the streams out of step with one another."""

FEW_STREAMS, FEW_CHUNKS = 16, 6
"""So few are no work for the client whatever their length: short ones save minutes."""

MIN_REQUESTS, REQUESTS_PER_SLOT = 64, 4
OPEN_LOOP_LEVELS = (1, 8, 32, 128, 512)


@dataclass(frozen=True)
class Calibration:
    """One level of a calibration: ``bias``, and the ``lag`` of the client beside it. ``jitter_p99_ms``: of the gaps
    between chunks, how much they differ from those between the server's writes, as a magnitude."""

    bias: TtfpBias
    jitter_p99_ms: float | None
    lag: LoopLag | None
    measured_utc: str


def calibrated_levels(load: LoadConfig) -> list[int]:
    """The concurrencies to calibrate for a load; an open loop may come to any up to its cap."""
    if load.kind == CLOSED_LOOP:
        return sorted(load.concurrency)
    most = min(load.max_in_flight, OPEN_LOOP_LEVELS[-1])
    return [level for level in OPEN_LOOP_LEVELS if level < most] + [most]


def calibrate(
    levels: Sequence[int], client: ClientConfig, workers: int | None, done: Callable[[Calibration], None]
) -> list[Calibration]:
    """Measure the levels one after another and keep what was found; ``done`` is called with each.

    Raises ConfigError for a wire form that the null server does not speak, OmniBenchError when requests fail.
    """
    if client.kind != WIRE_FORM:
        raise ConfigError(
            f"client.kind={client.kind}: the null server speaks raw samples; valid: client={WIRE_FORM}, whose bias is "
            "shown with runs of that wire form alone"
        )
    calibration_file()  # minutes would be lost without a place to keep them
    client = replace(client, api_key_env=None, sample_rate_hz=PACE.sample_rate_hz, extra_body={})
    allow_files(max(levels))
    found = []
    for concurrency in levels:
        pace = PACE if concurrency >= FEW_STREAMS else replace(PACE, chunks=min(PACE.chunks, FEW_CHUNKS))
        with null_server_process(pace) as (_, base_url), tempfile.TemporaryDirectory() as spool:
            found.append(_one_level(concurrency, client, workers, base_url, Path(spool)))
        done(found[-1])
        store(found)
    return found


def _one_level(
    concurrency: int, client: ClientConfig, workers: int | None, base_url: str, spool_dir: Path
) -> Calibration:
    load = LoadConfig(
        kind=CLOSED_LOOP,
        concurrency=[concurrency],
        requests_per_level=MIN_REQUESTS,
        requests_per_slot=REQUESTS_PER_SLOT,
        warmup_per_slot=1,
    )
    prompts = [
        Prompt(id=f"{number}", text=f"Sentence {number}.", ref_text=None, ref_audio=None, language="en")
        for number in range(prompts_needed(load))
    ]
    (plan,) = build_level_plans(prompts, load, client)
    recording = run_level(
        plan, base_url=base_url, client=client, spool_dir=spool_dir, on_event=lambda event: None, workers=workers
    )
    with urllib.request.urlopen(f"{base_url}/sent", timeout=30) as response:
        sent_ns = json.load(response)
    return calibration_of(recording, sent_ns)


def calibration_of(recording: LevelRecording, sent_ns: Mapping[str, Sequence[int]]) -> Calibration:
    """From the client's account of a closed loop and the server's, ``sent_ns``: wire id -> when each chunk was sent.

    Both clocks are one. Raises OmniBenchError for a request that failed: a client that loses requests has no bias.
    """
    failed = [one for one in recording.timelines if one.error is not None or one.first_audio_ns is None]
    if failed or not isinstance(recording.concurrency, int):
        why = failed[0].error.message if failed and failed[0].error is not None else "no audio"
        raise OmniBenchError(
            f"calibration: {len(failed)} of {len(recording.timelines)} requests at {recording.concurrency} streams "
            f"failed ({why})"
        )
    late_ms = [(one.first_audio_ns - sent_ns[one.wire_id or ""][0]) / 1e6 for one in recording.timelines]  # type: ignore[operator]
    jitter_ms = [gap for one in recording.timelines for gap in _jitter_ms(one, sent_ns[one.wire_id or ""])]
    p50, p99 = (float(value) for value in np.percentile(late_ms, (50, 99)))
    workers = recording.lag.workers if recording.lag is not None else 1
    return Calibration(
        TtfpBias(p50, p99, recording.concurrency, workers, len(late_ms)),
        float(np.percentile(jitter_ms, 99)) if jitter_ms else None,
        recording.lag,
        datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    )


def _jitter_ms(timeline: Timeline, sent_ns: Sequence[int]) -> list[float]:
    """[] where a chunk came in two reads, or two in one."""
    if len(timeline.chunk_arrived_ns) != len(sent_ns):
        return []
    return [abs(float(gap)) / 1e6 for gap in np.diff(timeline.chunk_arrived_ns) - np.diff(sent_ns)]


# ---- Kept with the machine and the version, in the user's cache ----


def machine() -> dict[str, Any]:
    """What a calibration holds for; anything else about the machine does not change the client much."""
    return {
        "version": __version__,
        "host": platform.node(),
        "cpu": cpu_model(),
        "cores": usable_cores(),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def calibration_file() -> Path:
    """``calibration/KEY.json`` below :func:`cache_folder`, KEY of :func:`machine`. Raises StoreError."""
    key = hashlib.sha256(json.dumps(machine(), sort_keys=True).encode()).hexdigest()[:16]
    return cache_folder() / "calibration" / f"{key}.json"


def store(found: Sequence[Calibration]) -> None:
    """Add ``found`` to what is kept, in the place of older figures of the same levels. Raises StoreError."""
    path = calibration_file()
    kept = {(one.bias.concurrency, one.bias.workers): one for one in (*read_calibrations(), *found)}
    write_json(path, {"machine": machine(), "levels": [asdict(kept[key]) for key in sorted(kept)]})


def read_calibrations() -> list[Calibration]:
    """What is kept of this machine; [] if there is nothing, or what is there cannot be read: then it is made anew."""
    try:
        path = calibration_file()
        stored = parse_json(path.read_bytes())
        return [structure(one, Calibration, str(path)) for one in stored["levels"]]
    except (OSError, ValueError, KeyError, TypeError, StoreError, RecursionError):
        return []


def bias_at(concurrency: int, workers: int, kind: str) -> TtfpBias | None:
    """The bias at the next calibrated concurrency with as many load processes that is not below; None without one."""
    if kind != WIRE_FORM:
        return None
    found = [
        one.bias for one in read_calibrations() if one.bias.concurrency >= concurrency and one.bias.workers == workers
    ]
    return min(found, key=lambda bias: bias.concurrency, default=None)


def with_bias(recording: LevelRecording, kind: str) -> LevelRecording:
    """``recording`` with the bias of its level, if this machine knows it. ``kind``: the wire form."""
    if recording.lag is None or not all(node.one_machine for node in recording.lag.nodes):
        return recording  # nothing is known of another machine
    streams = recording.concurrency
    if isinstance(streams, Rate):
        streams = max(peak_in_flight(recording.timelines), 1)
    return replace(recording, lag=replace(recording.lag, bias=bias_at(streams, recording.lag.workers, kind)))
