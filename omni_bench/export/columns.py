"""The columns of the frames: name, unit, type and meaning. Frames, CSV files and the page of the docs go by these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from omni_bench.metrics.definitions import METRICS
from omni_bench.metrics.metric import Metric, Scope

INT, FLOAT, BOOL, TEXT, TIME = "Int64", "float64", "boolean", "string", "datetime64[ns, UTC]"
"""Types of pandas that can miss a value."""
FIGURES = ("n", "mean", "std", "p50", "p90", "p95", "p99")


@dataclass(frozen=True)
class Column:
    """One column. ``unit``: "" where there is none."""

    name: str
    type: str
    unit: str
    what: str


_CLOCK = "of the client's monotonic clock"
_LEVEL = (
    Column("concurrency", INT, "", "requests in flight that the level keeps; missing in an open loop"),
    Column("rate_hz", FLOAT, "1/s", "request rate of the level; missing in a closed loop"),
)
_RUN = (Column("run", TEXT, "", "name of the run folder"),)
STUDY = (
    Column("arm", TEXT, "", "study: before or after"),
    Column("pair", INT, "", "study: number of the pair, from 1"),
    Column("attempt", INT, "", "study: which attempt at the pair, from 1"),
    Column("counts", BOOL, "", "study: whether both runs of this attempt are valid, so that it is compared"),
)
"""What every frame of a study begins with."""


def _of_request(metric: Metric) -> Column:
    return Column(metric.name, INT if metric.name == "stalls" else FLOAT, metric.unit, metric.definition)


REQUEST_METRICS = tuple(one for one in METRICS.values() if one.scope is Scope.REQUEST and not one.many)

REQUESTS = (
    *_RUN,
    *_LEVEL,
    Column("request_id", TEXT, "", "unique within the run"),
    Column("prompt_id", TEXT, "", "of the prompt in its data set"),
    Column("seed", INT, "", "sent with the request"),
    Column("valid", BOOL, "", "it ended cleanly and its audio has no faults: it is part of the level's figures"),
    Column("error_kind", TEXT, "", "why it failed: a code; missing if it did not"),
    Column("error_message", TEXT, "", "the same for people"),
    Column("faults", TEXT, "", "what is wrong with its audio: codes with spaces between them; empty if nothing is"),
    Column("scheduled_ns", INT, "ns", f"when the load plan wanted it to start, {_CLOCK}"),
    Column("started_ns", INT, "ns", f"when the client began to connect, or to write on an open connection, {_CLOCK}"),
    Column("headers_ns", INT, "ns", f"response headers complete, {_CLOCK}"),
    Column("first_byte_ns", INT, "ns", f"first byte of the body, {_CLOCK}"),
    Column("first_audio_ns", INT, "ns", f"first byte of audio, {_CLOCK}"),
    Column("ended_ns", INT, "ns", f"last byte of a clean end, {_CLOCK}; missing if it failed"),
    Column("failed_ns", INT, "ns", f"when its failure was noticed, {_CLOCK}; missing if it did not"),
    Column("first_lag_ns", INT, "ns", "how long the first audio or text waited in the client to be read, at most"),
    *map(_of_request, REQUEST_METRICS),
    Column("http_chunks", INT, "", "HTTP chunks, events or messages of audio"),
    Column("audio_bytes", INT, "bytes", "of audio, without headers"),
    Column("sample_rate_hz", INT, "Hz", "of its audio"),
    Column("http_status", INT, "", "of the answer; missing if there was none"),
    Column("completion_tokens", INT, "", "text tokens by the server's own count"),
    Column("server_request_id", TEXT, "", "what the server calls it"),
    Column("wire_id", TEXT, "", "the x-request-id that was sent"),
    Column("language", TEXT, "", "of the text"),
    Column("text", TEXT, "", "what is to be heard: the text of the prompt, of a chat that of its reply"),
    Column("prompt_text", TEXT, "", "what was asked for, where that is not `text`"),
    Column("ref_text", TEXT, "", "what is said in the reference recording that was sent"),
    Column("audio", TEXT, "", "its recording, within the run folder; missing if it was not kept"),
)

CHUNKS = (
    *_RUN,
    *_LEVEL,
    Column("request_id", TEXT, "", "as in requests"),
    Column("kind", TEXT, "", "audio (an HTTP chunk, event or message) or text (a delta of a chat)"),
    Column("index", INT, "", "from 0, within the request and kind"),
    Column("arrived_ns", INT, "ns", f"its first byte, {_CLOCK}"),
    Column("after_start_ms", FLOAT, "ms", "arrived − started"),
    Column("samples", INT, "", "whole samples of an audio chunk"),
    Column("audio_ms", FLOAT, "ms", "samples / sample rate"),
    Column("tokens", INT, "", "of a text delta, where the server says it of every one"),
)

UTTERANCES = (
    *_RUN,
    *_LEVEL,
    Column("request_id", TEXT, "", "as in requests"),
    Column("prompt_id", TEXT, "", "of the prompt in its data set"),
    Column("reference", TEXT, "", "what was to be said"),
    Column("hypothesis", TEXT, "", "what the judge heard"),
    Column("reference_normal", TEXT, "", "the text as it is compared"),
    Column("hypothesis_normal", TEXT, "", "what was heard as it is compared"),
    Column("wer", FLOAT, "fraction", "word edits / words of the text; may exceed 1; missing without words"),
    Column("cer", FLOAT, "fraction", "the same by characters"),
    Column("substitutions", INT, "words", "words heard as others"),
    Column("deletions", INT, "words", "words not heard"),
    Column("insertions", INT, "words", "words heard that are not in the text"),
    Column("reference_words", INT, "words", "of the text as it is compared"),
    Column("character_edits", INT, "characters", "edits by characters"),
    Column("reference_characters", INT, "characters", "of the text as it is compared"),
    Column("corrupted", BOOL, "", "more than half of its words and more than one are wrong, or `forced` is set"),
    Column("forced", TEXT, "", "why it counts as wholly wrong whatever was heard: failed, empty, silent, no_text"),
    Column("avg_logprob", FLOAT, "", "the judge's mean log probability of a token"),
    Column("no_speech_prob", FLOAT, "fraction", "the judge's probability that nobody speaks"),
    Column("voice_onset_rest", FLOAT, "", "similarity of the speaker of its onset to that of its rest"),
    Column("voice_onset", FLOAT, "", "similarity of the speaker of its onset to the voice of the level"),
    Column("voice_whole", FLOAT, "", "similarity of its speaker to the voice of the level"),
    Column("voice_outlier", BOOL, "", "it is of another speaker than the others"),
    Column("audio", TEXT, "", "its recording, within the run folder; missing if it was not kept"),
)

_COUNTS = (
    Column("arrival", TEXT, "", "closed_loop, or how requests of an open loop arrive"),
    Column("requests", INT, "", "measured requests"),
    Column("completed", INT, "", "those that ended cleanly"),
    Column("faulty", INT, "", "of the completed: those whose audio has faults"),
    Column("failed", INT, "", "those that failed"),
    Column("valid", BOOL, "", "the level makes a performance claim"),
    Column("invalid_reasons", TEXT, "", "codes of why it makes none, with spaces between them"),
)


def _figures(metric: Metric) -> tuple[Column, ...]:
    """Of a metric of requests its distribution, of one of the level or a check its value."""
    if metric.scope is not Scope.REQUEST:
        kind, unit = (INT, "") if metric.scope is Scope.CHECK and not metric.percent else (FLOAT, metric.unit)
        return (Column(metric.name, kind, unit or ("fraction" if metric.percent else ""), metric.definition),)
    if metric.path is not None:
        return (Column(metric.name, INT, "", metric.definition),)
    of = "gaps" if metric.many else "requests"
    what = {"n": f"{of} that the figures are of", "mean": f"mean {metric.short}", "std": "with n − 1"}
    return tuple(
        Column(
            f"{metric.name}_{name}",
            INT if name == "n" else FLOAT,
            "" if name == "n" else metric.unit,
            what.get(name, f"{name[1:]}th percentile; missing where there are too few requests to say it"),
        )
        for name in FIGURES
    )


LEVEL_METRICS = tuple(METRICS.values())
LEVELS = (
    *_RUN,
    *_LEVEL,
    *_COUNTS,
    *(column for metric in LEVEL_METRICS for column in _figures(metric)),
    Column("judge", TEXT, "", "name of the judge"),
    Column("words", INT, "words", "of the texts that were judged"),
    Column("edits", INT, "words", "edits in them"),
    Column("client_lag_p50_ms", FLOAT, "ms", "lag of the client's own event loop"),
    Column("client_lag_p99_ms", FLOAT, "ms", "the same; a level is invalid where it is above load.lag_budget_ms"),
)

_NIGHT = (
    Column("run_id", TEXT, "", "SHA-256 of the run.json: joins the frames"),
    Column("series", TEXT, "", "runs of one series can be drawn in one line"),
    Column("scenario", TEXT, "", "name of the scenario"),
    Column("started_utc", TIME, "", "when the run began"),
)
NIGHTS = (
    *_NIGHT,
    Column("target", TEXT, "", "the server"),
    Column("hardware", TEXT, "", "what it ran on"),
    Column("commit", TEXT, "", "or version of the server"),
    Column("valid", BOOL, "", "an invalid night is no part of any trend"),
    Column("invalid_reasons", TEXT, "", "codes of why it is invalid, with spaces between them"),
    Column("outcome", TEXT, "", "how the gate judged it; missing if it was not judged"),
    Column("faults", TEXT, "", "faults that were injected on purpose"),
    Column("source", TEXT, "", "its run folder, as it was named"),
)
NIGHT_LEVELS = (
    *_NIGHT,
    Column("load", TEXT, "", "what the level is called: c = 16, or 5 req/s"),
    Column("concurrency", INT, "", "requests in flight, of an open loop the most"),
    *(one for one in _COUNTS if one.name != "completed"),
    *(column for metric in LEVEL_METRICS if metric.name != "stalls" for column in _figures(metric)),
)
ALARMS = (
    Column("series", TEXT, "", "as in nights"),
    Column("metric", TEXT, "", "its name"),
    Column("load", TEXT, "", "as in levels"),
    Column("kind", TEXT, "", "acute, drift, or joined (another sign of the same change)"),
    Column("onset_run", TEXT, "", "run_id of the first night of the change"),
    Column("raised_by", TEXT, "", "run_id of the night that alarmed"),
    Column("change", FLOAT, "fraction", "against the nights before; of a share, its difference"),
)
BASELINES = (
    Column("series", TEXT, "", "as in nights"),
    Column("set_utc", TIME, "", "when it was set; the last of a series holds"),
    Column("note", TEXT, "", "why, in the words of who set it"),
    Column("run_id", TEXT, "", "a run that it comes from; a row each"),
)

FRAMES: Mapping[str, Mapping[str, tuple[Column, ...]]] = {
    "run": {"requests": REQUESTS, "chunks": CHUNKS, "utterances": UTTERANCES, "levels": LEVELS},
    "history": {"nights": NIGHTS, "levels": NIGHT_LEVELS, "alarms": ALARMS, "baselines": BASELINES},
}
"""The frames of a run (a study has the columns :data:`STUDY` before these), and of a history."""
