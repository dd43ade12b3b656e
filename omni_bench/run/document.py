"""Builds the dictionary of run.json from the pieces of a run. Pure: nothing is read or measured here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from omni_bench.errors import StoreError
from omni_bench.records.invalid_reason import InvalidReason
from omni_bench.records.level import Level, level_fields
from omni_bench.records.schema import SCHEMA_VERSION, validate_run

if TYPE_CHECKING:
    from omni_bench.accuracy.signal.level_audio import LevelAudio
    from omni_bench.accuracy.voices.similarity import VoiceSummary
    from omni_bench.accuracy.wer import CorpusScore, UtteranceScore
    from omni_bench.metrics.level import LevelSummary
    from omni_bench.metrics.pace import LevelPace
    from omni_bench.metrics.summary import Summary
    from omni_bench.records.recording import LoopLag
    from omni_bench.records.request_metrics import RequestMetrics


def build_level(
    summary: LevelSummary,
    requests: Sequence[RequestMetrics],
    accuracy: CorpusScore | None = None,
    *,
    lag_budget_ms: float | None = None,
    reasons: Sequence[InvalidReason] = (),
    parity: Mapping[str, Any] | None = None,
    voices: VoiceSummary | None = None,
    audio: LevelAudio | None = None,
    cross_talk: Mapping[str, Any] | None = None,
    probe: Mapping[str, Any] | None = None,
    pace: LevelPace | None = None,
) -> dict[str, Any]:
    """One entry of ``levels``.

    ``requests`` are the metrics of the valid requests in ``summary`` (for the count of stalls).
    ``accuracy`` is None without a judge. ``reasons``: of :func:`omni_bench.run.validity.level_reasons`. ``parity`` and
    ``cross_talk``: as the schema describes them, None if they were not checked; likewise ``voices`` and ``audio``.
    ``probe``: what a rate search made of the level. ``pace``: of its voice, None if none was expected.
    """
    stalls = [request["stalls"] for request in requests if request["stalls"] is not None]
    open_loop = summary.open_loop
    return {
        **level_fields(summary.concurrency),
        **({"concurrency": max(open_loop.peak_in_flight, 1)} if open_loop is not None else {"rate_hz": None}),
        "arrival": summary.arrival,
        "requests": summary.requests,
        "completed": summary.completed,
        "faulty": summary.faulty,
        "failed": summary.failed,
        "errors": dict(summary.errors),
        "invalid": dict(summary.invalid),
        "valid": not reasons,
        "invalid_reasons": [reason.to_json() for reason in reasons],
        "metrics": summary.metrics_json(),
        "stalls": sum(stalls) if stalls else None,
        "stalled_requests": sum(count > 0 for count in stalls) if stalls else None,
        "accuracy": _accuracy(accuracy, parity, cross_talk),
        "parity": dict(parity) if parity is not None else None,
        "cross_talk": dict(cross_talk) if cross_talk is not None else None,
        "audio": _audio(audio),
        "voices": asdict(voices) if voices is not None else None,
        "client": _client(summary.lag, summary.first_lag_ms, lag_budget_ms),
        "pace": {**asdict(pace), "fitting_hz": list(pace.fitting_hz)} if pace is not None else None,
        "warmup": asdict(summary.warmup) if summary.warmup is not None else None,
        "open_loop": asdict(open_loop) if open_loop is not None else None,
        "probe": dict(probe) if probe is not None else None,
    }


def build_run(
    *,
    scenario: str,
    description: str,
    started_utc: datetime,
    duration_s: float | None,
    levels: Sequence[Mapping[str, Any]],
    provenance: Mapping[str, Any],
    reasons: Sequence[InvalidReason] = (),
    rate_search: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The whole of run.json, checked against its schema.

    ``reasons``: of :func:`omni_bench.run.validity.run_reasons`. ``provenance`` has the form that the schema describes.
    Raises StoreError if a piece does not fit, or ``started_utc`` has no time zone.
    """
    if started_utc.tzinfo is None:
        raise StoreError(f"started_utc {started_utc.isoformat()} has no time zone")
    run = {
        "schema_version": SCHEMA_VERSION,
        "scenario": scenario,
        "description": description,
        "started_utc": started_utc.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "duration_s": duration_s,
        "valid": not reasons,
        "invalid_reasons": [reason.to_json() for reason in reasons],
        "provenance": dict(provenance),
        "levels": [dict(level) for level in levels],
        "rate_search": dict(rate_search) if rate_search is not None else None,
    }
    validate_run(run, "the run")
    return run


def utterance_record(
    score: UtteranceScore,
    *,
    concurrency: Level,
    prompt_id: str,
    audio: str | None = None,
    avg_logprob: float | None = None,
    no_speech_prob: float | None = None,
    alignment: Sequence[Sequence[str]] = (),
    voice: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """One line of utterances.jsonl: the score with its level, prompt, and kept recording (a path in the run folder).

    ``alignment``: of the compared texts, as (kind, reference words, heard words). ``voice``: further fields.
    """
    return {
        **level_fields(concurrency),
        "prompt_id": prompt_id,
        **asdict(score),
        "audio": audio,
        "avg_logprob": avg_logprob,
        "no_speech_prob": no_speech_prob,
        "alignment": [list(operation) for operation in alignment],
        **(voice or {}),
    }


def _accuracy(
    score: CorpusScore | None, parity: Mapping[str, Any] | None, cross_talk: Mapping[str, Any] | None
) -> dict[str, Any] | None:
    if score is None:
        return None
    return {
        **asdict(score),
        "cross_talk_hits": cross_talk["hits"] if cross_talk else None,
        "parity_mismatches": parity["mismatches"] if parity else None,
    }


def _audio(audio: LevelAudio | None) -> dict[str, Any] | None:
    if audio is None:
        return None
    suspects = {name: list(ids) for name, ids in audio.suspects.items()}
    return {**asdict(audio), "pausing_at": list(audio.pausing_at), "suspects": suspects}


def _client(lag: LoopLag | None, first: Summary | None, budget_ms: float | None) -> dict[str, Any] | None:
    if lag is None:
        return None
    return {
        "lag_p50_ms": lag.p50_ms,
        "lag_p99_ms": lag.p99_ms,
        "lag_max_ms": lag.max_ms,
        "lag_samples": lag.samples,
        "lag_budget_ms": budget_ms,
        "first_lag_ms": asdict(first) if first is not None else None,
        "cpu_wait": asdict(lag.cpu) if lag.cpu is not None else None,
        "workers": lag.workers,
        "ttfp_bias": asdict(lag.bias) if lag.bias is not None else None,
        "nodes": [asdict(node) for node in lag.nodes],
    }
