"""The execution ladder of the reference server on one card: what each step of it buys.

    python benchmarks/ladder.py --out ladder.json
    python benchmarks/ladder.py --models qwen3_tts_1_7b --rungs full_step --concurrency 1 32

Offline, through the engine (admission, prefill, talker, code predictor, Code2Wav and the
delivery of 16-bit samples; no HTTP), with random weights and utterances of one length. Closed
loop: a request that ends is followed by the next at once. ``ms a frame`` is the wall time of
everything divided by the frames that each of the c places spoke one after the other. The
floor is that of ``reference_impl/cost_model.py`` with this card's measured limits.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import threading
import time
from pathlib import Path
from statistics import median

import torch

from omni_bench.errors import EngineError
from reference_impl.checkpoint import Model
from reference_impl.cost_model import Limits, count_weights, frame_cost
from reference_impl.device_limits import measure_limits
from reference_impl.engine import Engine
from reference_impl.engine_api import AudioChunk, Event, Failed, SpeechRequest
from reference_impl.loading import Origin, load_weights
from reference_impl.settings import ServerSettings

RUNGS = {
    "host_roundtrip": {"graphs": "off", "buffers": "host_roundtrip"},
    "eager": {"graphs": "off"},
    "compile": {"graphs": "compile"},
    "cuda_graph": {"graphs": "cuda_graph"},
    "full_step": {"graphs": "full_step"},
}
SLOW = ("host_roundtrip", "eager", "compile")
FLOOR_CONTEXT = 256


@dataclasses.dataclass
class Spoken:
    """What one request did: host times of its start and of every chunk, and the frames in the chunks."""

    started_s: float
    chunks_s: list[float] = dataclasses.field(default_factory=list)
    frames: list[int] = dataclasses.field(default_factory=list)
    error: str | None = None


def closed_loop(engine: Engine, text: str, concurrency: int, rounds: int) -> tuple[float, list[Spoken]]:
    """``rounds`` requests one after the other in each of ``concurrency`` places -> wall seconds, requests."""
    spoken: list[Spoken] = []
    left = threading.Semaphore(0)
    lock = threading.Lock()

    def start(place: int, number: int) -> None:
        record = Spoken(time.perf_counter())
        with lock:
            spoken.append(record)

        def on_event(event: Event) -> None:
            if isinstance(event, AudioChunk):
                record.chunks_s.append(time.perf_counter())
                record.frames.append(event.frames)
                return
            if isinstance(event, Failed):
                record.error = event.message
            if number + 1 < rounds and record.error is None:
                start(place, number + 1)
            else:
                left.release()

        name = f"{place}-{number}"
        engine.submit(SpeechRequest(name, text, engine.voices[0], seed=place * 1000 + number), on_event)

    begun = time.perf_counter()
    for place in range(concurrency):
        start(place, 0)
    for _ in range(concurrency):
        if not left.acquire(timeout=300):
            raise RuntimeError("a request did not end within 300 s")
    return time.perf_counter() - begun, spoken


def stall_s(record: Spoken, frame_s: float) -> float:
    """How long playback that starts with the first chunk would have to wait for later ones."""
    heard_until, waited = record.chunks_s[0], 0.0
    for at, frames in zip(record.chunks_s, record.frames, strict=True):
        waited += max(0.0, at - heard_until)
        heard_until = max(at, heard_until) + frames * frame_s
    return waited


def measure(
    model: Model, settings: ServerSettings, concurrencies: list[int], text: str, rounds: int, limits: Limits
) -> list[dict]:
    """Rows of results of one rung, one a concurrency."""
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    begun = time.perf_counter()
    engine = Engine(model, settings, Origin(None, None))
    engine.warm_up()
    ready_s = time.perf_counter() - begun
    weights = count_weights(model.config)
    frame_s = 1.0 / model.config.frame_rate_hz
    rows = []
    try:
        for concurrency in concurrencies:
            closed_loop(engine, text, concurrency, 1)
            before = engine.stats()
            wall_s, spoken = closed_loop(engine, text, concurrency, rounds)
            after = engine.stats()
            errors = [record.error for record in spoken if record.error]
            if errors:
                raise RuntimeError(errors[0])
            frames = sum(sum(record.frames) for record in spoken)
            each = frames / concurrency
            cost = frame_cost(
                model.config, weights, batch=concurrency, context=FLOOR_CONTEXT,
                chunk_frames=settings.chunk_frames, element_bytes=model.dtype.itemsize,
            )  # fmt: skip
            ms = wall_s / each * 1e3
            steps = after.steps_total - before.steps_total
            rows.append(
                {
                    "concurrency": concurrency,
                    "requests": len(spoken),
                    "frames": frames,
                    "ms_per_frame": ms,
                    "audio_per_s": frames * frame_s / wall_s,
                    "rtf": ms / 1e3 / frame_s,
                    "ttfp_p50_ms": median(r.chunks_s[0] - r.started_s for r in spoken) * 1e3,
                    "ttfp_max_ms": max(r.chunks_s[0] - r.started_s for r in spoken) * 1e3,
                    "stall_s": sum(stall_s(r, frame_s) for r in spoken),
                    "step_ms": (after.step_seconds_total - before.step_seconds_total) / steps * 1e3,
                    "prefill_ms": (after.prefill_seconds_total - before.prefill_seconds_total) / len(spoken) * 1e3,
                    "code2wav_busy": (after.code2wav_seconds_total - before.code2wav_seconds_total) / wall_s,
                    "floor_ms": cost.floor_s(limits) * 1e3,
                    "floor_share": cost.floor_s(limits) * 1e3 / ms,
                    "peak_gb": torch.cuda.max_memory_allocated() / 1e9,
                    "reserved_gb": torch.cuda.memory_reserved() / 1e9,
                    "ready_s": ready_s,
                }
            )
    finally:
        engine.stop()
    return rows


def main() -> None:
    """Print a table and store every number."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", nargs="+", default=["qwen3_tts_1_7b", "qwen3_tts_0_6b"])
    parser.add_argument("--rungs", nargs="+", default=list(RUNGS), choices=list(RUNGS))
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 4, 8, 16, 32])
    parser.add_argument("--frames", type=int, default=100, help="of each utterance (the slow rungs speak a quarter)")
    parser.add_argument("--rounds", type=int, default=2, help="requests one after the other in each place")
    parser.add_argument("--set", nargs="*", default=[], metavar="FIELD=JSON", help="other settings of the server")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    more = {key: json.loads(value) for key, value in (entry.split("=", 1) for entry in args.set)}
    results = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "settings": more, "rows": []}
    for name in args.models:
        base = {"preset": name, "checkpoint": "random", "device": "cuda", "max_batch": 32, **more}
        model, _ = load_weights(ServerSettings(**base))
        limits = measure_limits(model.device, model.dtype)
        results.setdefault("limits", dataclasses.asdict(limits))
        for rung in args.rungs:
            slow = rung in SLOW
            # forced lengths: 14 characters a second, 12.5 frames a second
            frames = max(12, args.frames // 4) if slow else args.frames
            text = ("a fine day " * frames)[: round(frames * 14 / 12.5)].strip()
            settings = ServerSettings(**{**base, **RUNGS[rung]})
            levels = args.concurrency[:: len(args.concurrency) - 1 or 1] if slow else args.concurrency
            try:
                rows = measure(model, settings, levels, text, 1 if slow else args.rounds, limits)
            except (EngineError, RuntimeError) as error:
                # one rung that cannot run is a result as well; the others still can
                results["rows"].append({"model": name, "rung": rung, "error": str(error)})
                print(f"{name} {rung:14} {error}", flush=True)
                continue
            for row in rows:
                results["rows"].append({"model": name, "rung": rung, **row})
                print(
                    f"{name} {rung:14} c={row['concurrency']:2}  {row['ms_per_frame']:7.2f} ms/frame  "
                    f"RTF {row['rtf']:.4f}  {row['audio_per_s']:6.1f} audio-s/s  "
                    f"TTFP p50 {row['ttfp_p50_ms']:6.1f} ms  step {row['step_ms']:6.2f} ms  "
                    f"floor {row['floor_share']:4.0%}  {row['peak_gb']:.1f} GB  stall {row['stall_s']:.2f} s",
                    flush=True,
                )
            if args.out:
                args.out.write_text(json.dumps(results, indent=1))
        del model


if __name__ == "__main__":
    main()
