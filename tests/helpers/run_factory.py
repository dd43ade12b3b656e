"""Hand-made runs, built through the real summaries, for tests of store and report."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from omni_bench.accuracy.wer import UtteranceScore, score_corpus, score_utterance
from omni_bench.metrics.level import summarise_level
from omni_bench.metrics.request import request_metrics
from omni_bench.records.invalid_reason import InvalidReason
from omni_bench.records.recording import LoopLag
from omni_bench.records.timeline import RequestError, Timeline
from omni_bench.run.document import build_level, build_run
from omni_bench.run.validity import is_excused, level_reasons, run_reasons

RATE_HZ = 24000
MS = 1_000_000


def timeline(
    request_id: str, *, concurrency: int = 1, start_ms: int = 0, ttfp_ms: int = 100, chunks: int = 4, gap_ms: int = 50
) -> Timeline:
    """A request whose ``chunks`` chunks of 0.25 s arrive every ``gap_ms``."""
    start_ns = start_ms * MS
    arrived = tuple(start_ns + (ttfp_ms + i * gap_ms) * MS for i in range(chunks))
    return Timeline(
        request_id=request_id,
        prompt_id=f"prompt-{request_id}",
        concurrency=concurrency,
        seed=1,
        scheduled_ns=start_ns,
        started_ns=start_ns,
        headers_ns=start_ns + MS,
        first_byte_ns=arrived[0],
        first_audio_ns=arrived[0],
        ended_ns=arrived[-1] + MS,
        failed_ns=None,
        chunk_arrived_ns=arrived,
        chunk_bytes=(RATE_HZ // 2,) * chunks,
        sample_rate_hz=RATE_HZ,
        sample_width_bytes=2,
        http_status=200,
        error=None,
    )


def failed_timeline(request_id: str, *, concurrency: int = 1) -> Timeline:
    """A request that could not connect."""
    return Timeline(
        request_id=request_id,
        prompt_id=f"prompt-{request_id}",
        concurrency=concurrency,
        seed=None,
        scheduled_ns=0,
        started_ns=0,
        headers_ns=None,
        first_byte_ns=None,
        first_audio_ns=None,
        ended_ns=None,
        failed_ns=5 * MS,
        chunk_arrived_ns=(),
        chunk_bytes=(),
        sample_rate_hz=None,
        sample_width_bytes=2,
        http_status=None,
        error=RequestError("connect", "refused"),
    )


def level_timelines(concurrency: int, requests: int = 12) -> list[Timeline]:
    """Requests that grow slower with the concurrency, in waves of ``concurrency``."""
    wave_ms = 400 + 40 * concurrency
    return [
        timeline(
            f"c{concurrency}-{i:04d}",
            concurrency=concurrency,
            start_ms=(i // concurrency) * wave_ms,
            ttfp_ms=40 + 12 * concurrency + 7 * (i % 5),
            chunks=6 + i % 7,
            gap_ms=15 + 4 * concurrency,
        )
        for i in range(requests)
    ]


def scores(request_ids: list[str]) -> list[UtteranceScore]:
    """Every fifth utterance has an error."""
    text = "The cat sat on the mat."
    heard = "The cat | sat on a mat."
    return [score_utterance(name, text, heard if i % 5 == 2 else text, "en") for i, name in enumerate(request_ids)]


def make_level(concurrency: int, requests: int = 12, *, failures: int = 0, judge: bool = True) -> dict[str, Any]:
    """A level of run.json."""
    timelines = level_timelines(concurrency, requests)
    timelines += [failed_timeline(f"c{concurrency}-f{i}", concurrency=concurrency) for i in range(failures)]
    metrics = [request_metrics(one, None) for one in timelines]
    lag = LoopLag(p50_ms=0.2, p99_ms=1.5, max_ms=3.0, samples=400)
    summary = summarise_level(concurrency, timelines, metrics, {}, lag=lag)
    corpus = score_corpus("tiny.en", scores([one.request_id for one in timelines])) if judge else None
    reasons = level_reasons(summary, lag_budget_ms=25.0)
    return build_level(summary, metrics, corpus, lag_budget_ms=25.0, reasons=reasons)


CPU_HEALTH = {"model": "tiny", "device": "cpu", "device_name": "cpu"}


def make_provenance(*, judge: bool = True, kind: str = "reference", health: Any = CPU_HEALTH) -> dict[str, Any]:
    """A complete provenance; ``health``: what the server's /health answered."""
    return {
        "command": ["omni-bench", "run", "scenario=qwen3_tts", "client.voice=it's"],
        "harness": {"version": "0.1.0", "commit": "0123456789abcdef0123456789abcdef01234567", "dirty": True},
        "target": {
            "kind": kind,
            "url": "http://127.0.0.1:8000",
            "version": "0.1.0",
            "commit": None,
            "description": {"startup_s": 2.5, "health": health},
        },
        "config": {"scenario": {"name": "qwen3_tts"}},
        "prompts": {
            "dataset": "seed_tts_mini",
            "locale": "en",
            "count": 76,
            "measured": 60,
            "warmup": 16,
            "sha256": "ab" * 32,
        },
        "judge": {"name": "tiny.en", "sha256": "cd" * 32, "source": "package", "device": "cpu"} if judge else None,
        "hardware": {"cpu": "Fast CPU 9000", "cpu_cores": 2, "memory_bytes": 8 * 2**30, "gpus": [], "cuda": None},
        "software": {"python": "3.11.7", "platform": "Linux", "packages": {"torch": "2.13.0", "vllm": None}},
    }


def make_run(
    concurrencies: tuple[int, ...] = (1, 4, 16), own: Sequence[InvalidReason] = (), **changes: Any
) -> dict[str, Any]:
    """A run over ``concurrencies``, invalid for its ``own`` reasons; ``changes`` replace arguments of ``build_run``."""
    arguments = {
        "scenario": "qwen3_tts",
        "description": "The sweep",
        "started_utc": datetime(2026, 11, 27, 23, 40, tzinfo=UTC),
        "duration_s": 61.5,
        "levels": [make_level(concurrency) for concurrency in concurrencies],
        "provenance": make_provenance(),
        **changes,
    }
    return build_run(**arguments, reasons=run_reasons(own, arguments["levels"], is_excused))
