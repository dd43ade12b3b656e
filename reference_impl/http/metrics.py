"""/metrics in Prometheus' text form: what the HTTP side measured, and the engine's counters."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from reference_impl.engine_api import EngineLike, EngineStats
from reference_impl.http.framing import SAMPLE_WIDTH_BYTES

_LATENCY_BUCKETS_S = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2, 3, 5, 7.5, 10, 15, 20, 30, 60, 120)
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_COUNTERS = {
    "requests": ("Requests the engine took", lambda s: s.requests_total),
    "frames": ("Codec frames spoken", lambda s: s.frames_total),
    "steps": ("Decode steps of the batch", lambda s: s.steps_total),
    "step_seconds": ("Time in decode steps", lambda s: s.step_seconds_total),
    "code2wav_seconds": ("Time in Code2Wav", lambda s: s.code2wav_seconds_total),
    "prefill_seconds": ("Time in prefill", lambda s: s.prefill_seconds_total),
}


class EngineCollector(Collector):
    """Reads :class:`EngineStats` when scraped; an engine that still loads is down."""

    def __init__(self, engine: Callable[[], EngineLike | None]):
        self._engine = engine

    def collect(self) -> Iterator[Metric]:
        """See :class:`Collector`."""
        engine = self._engine()
        stats = engine.stats() if engine else None
        up = float(stats is not None and stats.alive)
        yield GaugeMetricFamily("omni_reference_engine_up", "1 while the engine takes requests", value=up)
        if engine and engine.fault is not None:
            injected = GaugeMetricFamily(
                "omni_reference_fault_injected", "1: this server is broken on purpose", labels=["fault"]
            )
            injected.add_metric([engine.fault], 1.0)
            yield injected
        if stats is not None:
            yield from self._of(stats)

    def _of(self, stats: EngineStats) -> Iterator[Metric]:
        gauges = {"running": stats.running, "waiting": stats.waiting}
        for name, value in gauges.items():
            yield GaugeMetricFamily(f"omni_reference_engine_requests_{name}", f"Requests {name} now", value=value)
        for name, (text, value_of) in _COUNTERS.items():
            yield CounterMetricFamily(f"omni_reference_engine_{name}", text, value=value_of(stats))
        ended = CounterMetricFamily(
            "omni_reference_engine_requests_ended", "Requests that left the engine, by reason", labels=["reason"]
        )
        ended.add_metric(["stop"], stats.finished_stop_total)
        ended.add_metric(["length"], stats.finished_length_total)
        ended.add_metric(["cancelled"], stats.cancelled_total)
        ended.add_metric(["failed"], stats.failed_total)
        yield ended


class RequestMeter:
    """The times and the audio of one utterance. ``pcm_bytes``: its samples handed to the socket so far."""

    def __init__(self, metrics: ServerMetrics, sample_rate_hz: int, started_s: float):
        self._metrics, self._sample_rate_hz, self._started_s = metrics, sample_rate_hz, started_s
        self.pcm_bytes = 0

    def sent(self, pcm_bytes: int) -> None:
        """Some samples have been handed to the socket."""
        if not self.pcm_bytes:
            self._metrics.time_to_first_packet.observe(time.perf_counter() - self._started_s)
        self.pcm_bytes += pcm_bytes

    def finished(self) -> None:
        """The utterance has come to its clean end."""
        self._metrics.request_duration.observe(time.perf_counter() - self._started_s)
        self._metrics.audio_duration.observe(self.pcm_bytes / SAMPLE_WIDTH_BYTES / self._sample_rate_hz)


class ServerMetrics:
    """The server's own registry, so that several servers in one process do not share counts."""

    def __init__(self, engine: Callable[[], EngineLike | None]):
        self._registry = CollectorRegistry()
        self._registry.register(EngineCollector(engine))
        self.in_flight = Gauge(
            "omni_reference_http_requests_in_flight", "HTTP requests being answered", registry=self._registry
        )
        self._requests = Counter(
            "omni_reference_http_requests",
            "HTTP requests by route, method and status (499: the client went away)",
            ["route", "method", "status"],
            registry=self._registry,
        )
        self.time_to_first_packet = Histogram(
            "omni_reference_time_to_first_packet_seconds",
            "From the request's headers to its first audio handed to the socket",
            registry=self._registry,
            buckets=_LATENCY_BUCKETS_S,
        )
        self.request_duration = Histogram(
            "omni_reference_request_duration_seconds",
            "From the request's headers to the end of its audio, finished speech requests",
            registry=self._registry,
            buckets=_LATENCY_BUCKETS_S,
        )
        self.audio_duration = Histogram(
            "omni_reference_audio_duration_seconds",
            "Audio of finished speech requests",
            registry=self._registry,
            buckets=_LATENCY_BUCKETS_S,
        )

    def meter(self, sample_rate_hz: int, started_s: float) -> RequestMeter:
        """Measures one request; ``started_s`` is ``time.perf_counter()`` at its headers."""
        return RequestMeter(self, sample_rate_hz, started_s)

    def count_request(self, route: str, method: str, status: int) -> None:
        """``method`` comes from the client: unknown ones share a label."""
        self._requests.labels(route, method if method in _METHODS else "other", str(status)).inc()

    def render(self) -> bytes:
        """The scrape's body."""
        return generate_latest(self._registry)
