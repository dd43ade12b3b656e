"""The one list of metrics. Adding one is one entry here, with its formula.

run.json, requests.jsonl, the tables and plots of a report, the comparison, the history, the gate and the page of metric
definitions all go by it. Formulas of a request are in :mod:`omni_bench.metrics.formulas`, figures of a whole level in
:mod:`omni_bench.metrics.measured_level`; a summary and its percentiles are made in :mod:`omni_bench.metrics.summary`.
"""

from __future__ import annotations

from omni_bench.metrics import formulas
from omni_bench.metrics.metric import Compared, Metric, Part, Plotted, Scope, Shown, WithLength

# fmt: off
_LIST = (
    Metric(
        "queue_ms", "queue", "Time in the client's queue", "ms", "lower",
        "started − scheduled: how late the client sent the request against the load plan, so that a slow server "
        "cannot hide its own queue (coordinated omission).",
        compute=formulas.queue_ms, part=Part.ANY,
    ),
    Metric(
        "ttfp_ms", "TTFP", "Time to first packet", "ms", "lower",
        "First byte of audio − started. WAV headers, SSE framing, JSON and empty reads are no audio.",
        compute=formulas.ttfp_ms, order=40, shown=Shown.ALWAYS, plot=Plotted(), compared=Compared.PRIMARY, gated=True,
        legend="time to the first audio byte",
        server=("vllm_omni:audio_ttfp_s", "omni_reference_time_to_first_packet_seconds"),
    ),
    Metric(
        "ttfp_tail_ms", "TTFP tail", "Tail of the time to first packet", "ms", "lower",
        "Mean TTFP of the slowest tenth of a level's requests. It rises with how many are late and with how late they "
        "are, where a median stands still. None with fewer than 10 requests.",
        compute=lambda level: level.tail("ttfp_ms"), scope=Scope.LEVEL, order=200, compared=Compared.PRIMARY,
        gated=True, tail=True,
    ),
    Metric(
        "ttfp_sched_ms", "TTFP sched", "Time to first packet from the schedule", "ms", "lower",
        "First byte of audio − scheduled: the wait of a user who does not know that the request was sent late.",
        compute=formulas.ttfp_sched_ms, order=50, shown=Shown.OPEN_LOOP,
    ),
    Metric(
        "ttfa_ms", "TTFA", "Time to first audio", "ms", "lower",
        "When a player that starts at the first byte of audio, plays at real time and waits when it runs dry comes "
        "to the first 20 ms window above −50 dBFS, − started. None if the audio is silent.",
        compute=formulas.ttfa_ms, needs_samples=True, order=45, compared=Compared.SECONDARY,
    ),
    Metric(
        "e2el_ms", "E2EL", "End-to-end latency", "ms", "lower",
        "Last byte of a clean end of stream − started.",
        compute=formulas.e2el_ms, part=Part.ANY, order=70, shown=Shown.ALWAYS, plot=Plotted(),
        compared=Compared.SECONDARY, with_length=WithLength.BIASED,
        server=("vllm_omni:e2e_request_latency_s", "omni_reference_request_duration_seconds"),
    ),
    Metric(
        "audio_s", "audio", "Audio length", "s", None,
        "Samples / sample rate.",
        compute=formulas.audio_s, server=("vllm_omni:audio_duration_s", "omni_reference_audio_duration_seconds"),
    ),
    Metric(
        "speech_s", "speech", "Length of the speech", "s", None,
        "From the first to the last 20 ms window above −50 dBFS: the audio without the silence before and after.",
        compute=formulas.speech_s, needs_samples=True,
    ),
    Metric(
        "rtf", "RTF", "Real-time factor", "", "lower",
        "End-to-end latency / audio length, both in seconds. Below 1 is faster than real time.",
        compute=formulas.rtf, digits=3, order=60, shown=Shown.ALWAYS, figures=("p50", "p90", "mean"),
        plot=Plotted(y_label="RTF (E2EL / audio)", reference=(1.0, "real time")), compared=Compared.PRIMARY, gated=True,
        with_length=WithLength.BIASED,
        legend="end-to-end latency (E2EL) over audio length, below 1 is faster than real time",
        server=("vllm_omni:audio_rtf",),
    ),
    Metric(
        "decode_rtf", "decode RTF", "Real-time factor of decoding", "", "lower",
        "(ended − first byte of audio) / (audio length − audio of the first chunk). None with one chunk.",
        compute=formulas.decode_rtf, digits=3,
    ),
    Metric(
        "icl_ms", "ICL", "Inter-chunk latency", "ms", "lower",
        "Gaps between the first bytes of consecutive HTTP chunks, events or messages, of all requests of a level "
        "together. However many reads a chunk comes in, it is one.",
        compute=formulas.icl_ms, many=True, order=80, shown=Shown.ALWAYS, narrow=False,
        legend="time between the first bytes of HTTP chunks, or between events or messages",
    ),
    Metric(
        "stalls", "stalls", "Stalls", "", "lower",
        "Pauses of a player that starts at the first byte of audio, plays at real time, stands still when it has "
        "nothing to play and goes on with the next chunk; summed over the requests of a level. None with fewer than "
        "two chunks: a single late blob shows nothing about continuity.",
        compute=formulas.stalls, path=("stalls",), digits=0, order=90, shown=Shown.ALWAYS, narrow=False,
        legend="pauses of a player that starts with the first chunk",
    ),
    Metric(
        "stalled", "stalling requests", "Requests that stall", "", "lower",
        "Share of the requests of at least two chunks that stall once or more.",
        compute=lambda level: level.stalled, scope=Scope.LEVEL, percent=True, order=205, compared=Compared.PRIMARY,
        gated=True, tail=True, points=True, with_length=WithLength.BIASED,
    ),
    Metric(
        "stall_s", "stall", "Time stalled", "s", "lower",
        "How long that player stands still in a request, all its stalls together.",
        compute=formulas.stall_s,
    ),
    Metric(
        "prebuffer_s", "prebuffer", "Prebuffer", "s", "lower",
        "The smallest start delay after the first byte of audio with which the audio plays without a stall.",
        compute=formulas.prebuffer_s, server=("vllm_omni:audio_underrun_s",),
    ),
    Metric(
        "ttft_ms", "TTFT", "Time to first text", "ms", "lower",
        "First text delta − started (omni chat).",
        compute=formulas.ttft_ms, part=Part.TEXT, order=10, shown=Shown.ALWAYS, plot=Plotted(),
        compared=Compared.PRIMARY, gated=True,
        legend="time to the first text",
    ),
    Metric(
        "ttft_tail_ms", "TTFT tail", "Tail of the time to first text", "ms", "lower",
        "Mean TTFT of the slowest tenth of a level's requests (omni chat). None with fewer than 10 requests.",
        compute=lambda level: level.tail("ttft_ms"), scope=Scope.LEVEL, part=Part.TEXT, order=195,
        compared=Compared.PRIMARY, gated=True, tail=True,
    ),
    Metric(
        "tpot_ms", "TPOT", "Time per output token", "ms", "lower",
        "(last − first text delta) / (tokens − 1), with the tokens that the server counts (omni chat). None if it "
        "does not count, and with a single delta.",
        compute=formulas.tpot_ms, part=Part.TEXT, order=20, shown=Shown.ALWAYS, plot=Plotted(y_label="time (ms)"),
        compared=Compared.PRIMARY, gated=True,
        legend="time per token after the first",
    ),
    Metric(
        "itl_ms", "ITL", "Inter-token latency", "ms", "lower",
        "Gaps between text deltas, of all requests of a level together (omni chat).",
        compute=formulas.itl_ms, part=Part.TEXT, many=True, order=30, shown=Shown.TEXT_ALONE, narrow=False,
        plot=Plotted(joins="tpot_ms"),
        legend="time between two pieces of text",
    ),
    Metric(
        "audio_per_s", "audio/s", "Throughput", "s/s", "higher",
        "Audio of the valid requests / (last ended − first started).",
        compute=lambda level: level.rates.audio_per_s, scope=Scope.LEVEL, order=100, shown=Shown.ALWAYS,
        plot=Plotted(y_label="audio seconds per second"), compared=Compared.PRIMARY, gated=True,
        with_length=WithLength.BIASED,
        legend="seconds of audio per second",
    ),
    Metric(
        "audio_per_s_steady", "audio/s steady", "Throughput in the steady state", "s/s", "higher",
        "Audio that arrives while the target concurrency is really in flight, over that time; in an open loop, from "
        "the first to the last scheduled start.",
        compute=lambda level: level.rates.audio_per_s_steady, scope=Scope.LEVEL, order=105,
        plot=Plotted(joins="audio_per_s", line="steady state"),
    ),
    Metric(
        "tokens_per_s", "tokens/s", "Text throughput", "1/s", "higher",
        "Text tokens of the valid requests, by the server's own count, / (last ended − first started) (omni chat).",
        compute=lambda level: level.rates.tokens_per_s, scope=Scope.LEVEL, part=Part.TEXT, order=110,
        shown=Shown.ALWAYS, plot=Plotted(y_label="text tokens per second"), compared=Compared.PRIMARY, gated=True,
        legend="tokens of text per second; TPOT and tokens/s are by the server's own count (n/a: it does not count)",
    ),
    Metric(
        "requests_per_s", "req/s", "Requests per second", "1/s", "higher",
        "Valid requests / (last ended − first started).",
        compute=lambda level: level.rates.requests_per_s, scope=Scope.LEVEL, part=Part.ANY, order=120,
        shown=Shown.ALWAYS, narrow=False,
    ),
    Metric(
        "e2el_intercept_ms", "E2EL intercept", "Fixed cost", "ms", "lower",
        "Theil–Sen intercept of E2EL over audio length: the fixed cost of a request, whatever its length. None with "
        "fewer than 8 requests, or audio that is about equally long.",
        compute=lambda level: level.fit and level.fit.intercept_ms, scope=Scope.LEVEL, order=190,
        compared=Compared.PRIMARY, gated=True, with_length=WithLength.INSTEAD, relative_to="e2el_ms",
    ),
    Metric(
        "e2el_slope", "E2EL slope", "Marginal real-time factor", "", "lower",
        "Theil–Sen slope of E2EL over audio length, both in seconds: the cost of one more second of audio. None as "
        "for the intercept.",
        compute=lambda level: level.fit and level.fit.slope, scope=Scope.LEVEL, digits=3, order=180,
        compared=Compared.PRIMARY, gated=True, with_length=WithLength.INSTEAD,
    ),
    Metric(
        "goodput", "goodput", "Goodput", "", "higher",
        "Share of all requests that succeed with a valid answer within the scenario's service level (slo); in an "
        "open loop its times count from the scheduled start. None without a service level.",
        compute=lambda level: level.goodput, scope=Scope.LEVEL, part=Part.ANY, of_all=True, percent=True, order=150,
        shown=Shown.IF_PRESENT,
    ),
    Metric(
        "wer", "WER", "Word error rate", "", "lower",
        "Word edits between the text and what the judge heard / words of the text, over a whole level. Failed, "
        "empty and silent requests count as 100 %.",
        scope=Scope.CHECK, path=("accuracy", "wer"), percent=True, order=130, shown=Shown.WORDS,
        plot=Plotted(title="Word and character error rate", y_label="errors (%)"),
    ),
    Metric(
        "cer", "CER", "Character error rate", "", "lower",
        "The same by characters: the rate of languages that do not write words apart.",
        scope=Scope.CHECK, path=("accuracy", "cer"), percent=True, order=140, shown=Shown.ALWAYS, narrow=False,
        plot=Plotted(joins="wer", y_label="errors (%)"),
    ),
    Metric(
        "cross_talk", "cross-talk", "Cross-talk hits", "", "lower",
        "Outputs in which the judge heard words of another request that could have got into them, of those in "
        "flight at the same time or shortly before.",
        scope=Scope.CHECK, part=Part.ANY, path=("cross_talk", "hits"), digits=0, order=160, shown=Shown.IF_PRESENT,
        legend="outputs in which words of another request were heard",
    ),
    Metric(
        "parity", "parity", "Parity mismatches", "", "lower",
        "Requests whose answer in company differs from the answer to the same request alone; the table shows those "
        "that are the same, of those compared.",
        scope=Scope.CHECK, part=Part.ANY, path=("parity", "mismatches"), digits=0, order=170, shown=Shown.IF_PRESENT,
        legend="requests that got the same answer when sent once more alone, of those compared",
    ),
)
# fmt: on

METRICS: dict[str, Metric] = {metric.name: metric for metric in _LIST}
"""Every metric by name, in the order of run.json."""


def summarised() -> list[Metric]:
    """The metrics under ``metrics`` of a level, in the order of run.json."""
    return [metric for metric in METRICS.values() if metric.path is None]


def in_order(*, audio: bool, text: bool) -> list[Metric]:
    """The metrics of such answers by their order: those of the audio first, then those of the text.

    Those of any answer stand among those of the audio; behind those of the text if there is no audio.
    """
    rank = {Part.AUDIO: 0, Part.TEXT: 1, Part.ANY: 0 if audio else 2}
    parts = {Part.ANY} | ({Part.AUDIO} if audio else set()) | ({Part.TEXT} if text else set())
    return sorted(
        (metric for metric in METRICS.values() if metric.part in parts),
        key=lambda metric: (rank[metric.part], metric.order),
    )


def primary_metrics(*, audio: bool = True, text: bool = False, by_fit: bool = False) -> tuple[str, ...]:
    """The metrics that get a verdict in a comparison; ``by_fit``: the audio is not equally long in both arms."""
    return tuple(
        metric.name
        for metric in in_order(audio=audio, text=text)
        if metric.compared is Compared.PRIMARY and _judged(metric, by_fit)
    )


def gated_metrics(*, audio: bool = True, text: bool = False, by_fit: bool = False) -> tuple[str, ...]:
    """The metrics that are judged every night; ``by_fit``: the audio is not as long as in the nights before."""
    return tuple(metric.name for metric in in_order(audio=audio, text=text) if metric.gated and _judged(metric, by_fit))


def _judged(metric: Metric, by_fit: bool) -> bool:
    return metric.with_length is not (WithLength.BIASED if by_fit else WithLength.INSTEAD)
