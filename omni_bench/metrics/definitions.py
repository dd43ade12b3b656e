"""The one list of metrics: name, unit, direction and meaning of everything under ``metrics`` in run.json."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Metric:
    """``better`` is ``lower``, ``higher``, or None where neither is (audio length is a fact, not a merit)."""

    name: str
    unit: str
    better: str | None
    description: str


REQUEST_METRICS: tuple[Metric, ...] = (
    Metric("queue_ms", "ms", "lower", "started − scheduled: how late the client sent the request"),
    Metric("ttfp_ms", "ms", "lower", "time to first packet: first byte of audio − started"),
    Metric("ttfp_sched_ms", "ms", "lower", "first byte of audio − scheduled"),
    Metric("ttfa_ms", "ms", "lower", "time to first audio: when the first audible sample can be played − started"),
    Metric("e2el_ms", "ms", "lower", "end-to-end latency: last byte of a clean end − started"),
    Metric("audio_s", "s", None, "length of the audio: samples / sample rate"),
    Metric("rtf", "", "lower", "real-time factor: end-to-end latency / audio length"),
    Metric("decode_rtf", "", "lower", "(ended − first audio) / (audio − first chunk's audio)"),
    Metric("icl_ms", "ms", "lower", "inter-chunk latency: gaps between first bytes of HTTP chunks, or events"),
    Metric("stall_s", "s", "lower", "time a player that starts at the first audio stands still"),
    Metric("prebuffer_s", "s", "lower", "smallest start delay after the first audio that plays without a stall"),
    Metric("ttft_ms", "ms", "lower", "time to first text delta − started (omni chat)"),
    Metric("tpot_ms", "ms", "lower", "time per output token after the first, by the server's count (omni chat)"),
    Metric("itl_ms", "ms", "lower", "gaps between text deltas (omni chat)"),
)

LEVEL_METRICS: tuple[Metric, ...] = (
    Metric("audio_per_s", "s/s", "higher", "audio of valid requests / (last ended − first started)"),
    Metric(
        "audio_per_s_steady",
        "s/s",
        "higher",
        "the same over the time with the target concurrency in flight (open loop: first to last scheduled start)",
    ),
    Metric("tokens_per_s", "1/s", "higher", "text tokens of valid requests / (last ended − first started) (omni chat)"),
    Metric("requests_per_s", "1/s", "higher", "valid requests / (last ended − first started)"),
    Metric("e2el_intercept_ms", "ms", "lower", "fixed cost: Theil–Sen intercept of E2EL over audio length"),
    Metric("e2el_slope", "", "lower", "marginal real-time factor: Theil–Sen slope of E2EL over audio length"),
    Metric("goodput", "", "higher", "share of all requests that meet the scenario's service level"),
)

METRICS: dict[str, Metric] = {metric.name: metric for metric in REQUEST_METRICS + LEVEL_METRICS}
