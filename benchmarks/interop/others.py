"""AIPerf and guidellm against the reference server, beside our clients of the same wire forms, for ``interop.py``.

Read off their code: neither AIPerf 0.13.0 nor guidellm 0.8.1 knows /v1/audio/speech. AIPerf's endpoint type
``template`` takes any JSON body and reads server-sent events, so that it can drive the SSE form; raw bytes of audio
it cannot read. guidellm's request formats are a fixed list, whose chat form is all that this server speaks of it.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tabulate import tabulate

from benchmarks.interop.habits import THEIRS
from benchmarks.interop.page import wrap
from benchmarks.interop.report import number
from benchmarks.interop.runs import SEED, Load, Server, VllmBench, our_timelines
from benchmarks.interop.table import agrees
from omni_bench.errors import TargetError
from omni_bench.metrics.request import request_metrics
from omni_bench.records.timeline import Timeline

RUN_TIMEOUT_S = 240.0
TEMPLATE = (
    '{"model": {{ model|tojson }}, "input": {{ text|tojson }}, "response_format": "pcm", '
    f'"stream": true, "stream_format": "sse", "seed": {SEED}}}'
)
SSE, CHAT = "openai_speech_sse", "openai_chat_audio"
SPEECH_ROWS = (
    ("first audio", "time_to_first_token", "first_ms", "TTFT: first event with `audio` − start", "TTFP"),
    (
        "last audio",
        "request_latency",
        "last_ms",
        "request latency: last event with content − start",
        "last chunk − started",
    ),
    ("gap", "inter_chunk_latency", "gap_ms", "inter-chunk latency", "ICL"),
)
CHAT_ROWS = (
    ("first text", "time_to_first_token", "first_ms", "TTFT", "TTFT"),
    ("per token", "inter_token_latency", "tpot_ms", "inter-token latency: (last − first) / (tokens − 1)", "TPOT"),
    ("gap", "inter_chunk_latency", "gap_ms", "inter-chunk latency", "ITL"),
    (
        "last text",
        "request_latency",
        "last_ms",
        "request latency: last event with content − start",
        "last delta − started",
    ),
)
GUIDELLM_ROWS = (
    ("first text", "time_to_first_token_ms", "first_ms", "TTFT", "TTFT"),
    ("per token", "inter_token_latency_ms", "tpot_ms", "ITL: (last − first) / (tokens − 1)", "TPOT"),
    ("end", "request_latency_ms", "end_ms", "request latency: end of the stream − start", "E2EL"),
)
AIPERF_TEXT = """
AIPerf has no endpoint type for speech. Its `template` type sends any JSON and reads server-sent events, so that
it drives the SSE form of /v1/audio/speech (`response_field:audio`), where its TTFT is the TTFP; each character of
base64 counts as an output token there. It cannot read the raw form. Its `chat` type drives /v1/chat/completions with
`modalities: ["text"]`. It keeps connections, as ours does. Medians over {requests} requests, one run each.
"""
VLLM_CHAT_ROWS = (
    ("first text", "median_ttft_ms", "ttft_ms", "TTFT", "TTFT"),
    ("per token", "median_tpot_ms", "tpot_ms", "TPOT: mean of the gaps", "TPOT"),
    ("gap", "median_itl_ms", "itl_ms", "ITL", "ITL"),
    ("first audio", "median_audio_ttfp_ms", "ttfp_ms", "audio TTFP", "TTFP"),
    ("end", "median_e2el_ms", "e2el_ms", "E2EL: last event that it counts − start", "E2EL"),
)
VLLM_CHAT_TEXT = """
`--backend openai-chat-omni` on /v1/chat/completions: a token of text each 5 ms, from the stand-in for a text model, and
audio after its first sentence. Ours: `openai_chat_audio` with modalities text and audio and the habits of theirs.
Medians over {requests} requests, one run each.
"""
GUIDELLM_TEXT = """
guidellm's request formats are a fixed list (completions, chat completions, embeddings, responses, audio transcriptions
and translations, pooling): speech is not among them, and its routes can be renamed but not their bodies. It drives
/v1/chat/completions with `modalities: ["text"]`. It keeps connections, over httpx. Medians over {requests} requests,
one run each.
"""


@dataclass(frozen=True)
class Compared:
    """A run of another client and one of ours: medians by the names of their rows."""

    what: str
    concurrency: int
    theirs: Mapping[str, float | None]
    ours: Mapping[str, float | None]


def aiperf_section(command: str, server: Server, folder: Path, load: Load, levels: Sequence[int]) -> str:
    """Its part of the page; ``load`` says what is sent, at each of ``levels``."""
    (folder / "aiperf.json").write_text(TEMPLATE, encoding="utf-8")
    (folder / "aiperf.jsonl").write_text(
        "".join(json.dumps({"text": prompt.text}) + "\n" for prompt in load.prompts[: load.requests]), encoding="utf-8"
    )
    speech, chat = [], []
    for level in levels:
        at = replace(load, concurrency=level, reference=False)
        options = ["--endpoint-type", "template", "--custom-endpoint", "/v1/audio/speech"]
        options += ["--extra-inputs", "payload_template:aiperf.json", "--extra-inputs", "response_field:audio"]
        theirs = aiperf(command, server, folder, at, f"aiperf-speech-c{level}", options)
        speech.append(Compared("SSE speech", level, theirs, our_figures(ours(server, at, SSE))))
        options = ["--endpoint-type", "chat", "--use-server-token-count"]
        options += ["--extra-inputs", json.dumps({"modalities": ["text"], "seed": SEED})]
        theirs = aiperf(command, server, folder, at, f"aiperf-chat-c{level}", options)
        chat.append(Compared("chat, text", level, theirs, our_figures(ours(server, at, CHAT))))
    tables = [compared_table(speech, SPEECH_ROWS), compared_table(chat, CHAT_ROWS)]
    return "\n\n".join(["## AIPerf", wrap(AIPERF_TEXT.format(requests=load.requests)), *tables])


def aiperf(
    command: str, server: Server, folder: Path, load: Load, name: str, options: Sequence[str]
) -> dict[str, float | None]:
    """Medians over the requests of a run. Raises TargetError if one failed."""
    words = [command, "profile", "--model", load.model, "--url", server.url, "--streaming", *options]
    words += ["--input-file", "aiperf.jsonl", "--custom-dataset-type", "single_turn", "--tokenizer", "./tok"]
    words += ["--concurrency", load.concurrency, "--request-count", load.requests]
    words += ["--warmup-request-count", 2 * load.concurrency, "--output-artifact-dir", name, "--ui", "none"]
    run([*words, "--no-server-metrics", "--no-gpu-telemetry"], folder)
    lines = (folder / name / "profile_export.jsonl").read_text(encoding="utf-8").splitlines()
    return aiperf_figures(map(json.loads, lines), load.requests)


def aiperf_figures(records: Iterable[Mapping[str, Any]], requests: int) -> dict[str, float | None]:
    """Medians by metric out of ``profile_export.jsonl``, in ms. Raises TargetError if a request failed or is
    missing.
    """
    measured = [record for record in records if record["metadata"]["benchmark_phase"] == "profiling"]
    failed = [record["error"] for record in measured if record.get("error")]
    if failed or len(measured) != requests:
        raise TargetError(
            f"aiperf: {len(failed)} of {len(measured)} requests failed, {requests} were wanted: {failed[:1]}"
        )
    values: dict[str, list[float]] = {}
    for record in measured:
        for name, metric in record["metrics"].items():
            value = metric["value"]
            if metric["unit"] == "ms":
                values.setdefault(name, []).extend(value if isinstance(value, list) else [value])
    return {name: statistics.median(some) for name, some in values.items() if some}


def vllm_chat_section(bench: VllmBench, server: Server, load: Load, levels: Sequence[int]) -> str:
    """The part of the page about vllm-omni's client and the chat form; see :func:`aiperf_section`."""
    runs = []
    for level in levels:
        at = replace(load, concurrency=level, chat=True)
        result = bench.run(server.url, at, f"chat-c{level}-")
        client = replace(at.client(CHAT), modalities=["text", "audio"])
        timelines = our_timelines(server.url, at, client, THEIRS)
        runs.append(Compared("chat, text and audio", level, result, metric_medians(timelines)))
    table = compared_table(runs, VLLM_CHAT_ROWS)
    return "\n\n".join(["## vllm-omni's client and chat", wrap(VLLM_CHAT_TEXT.format(requests=load.requests)), table])


def metric_medians(timelines: Sequence[Timeline]) -> dict[str, float | None]:
    """Our metrics of chat; gaps of all requests together, as theirs."""
    metrics = [request_metrics(timeline, None) for timeline in timelines]
    values: dict[str, list[float | None]] = {"itl_ms": [gap for one in metrics for gap in one["itl_ms"]]}
    for name in ("ttft_ms", "tpot_ms", "ttfp_ms", "e2el_ms"):
        values[name] = [one[name] for one in metrics]
    return {name: statistics.median(some) if some and None not in some else None for name, some in values.items()}


def guidellm_section(command: str, server: Server, folder: Path, load: Load, levels: Sequence[int]) -> str:
    """Its part of the page; see :func:`aiperf_section`."""
    (folder / "guidellm.jsonl").write_text(
        "".join(json.dumps({"prompt": prompt.text}) + "\n" for prompt in load.prompts[: load.requests]),
        encoding="utf-8",
    )
    chat = []
    for level in levels:
        at = replace(load, concurrency=level, reference=False)
        theirs = guidellm(command, server, folder, at, f"guidellm-c{level}.json")
        chat.append(Compared("chat, text", level, theirs, our_figures(ours(server, at, CHAT))))
    table = compared_table(chat, GUIDELLM_ROWS)
    return "\n\n".join(["## guidellm", wrap(GUIDELLM_TEXT.format(requests=load.requests)), table])


def guidellm(command: str, server: Server, folder: Path, load: Load, output: str) -> dict[str, float | None]:
    """Medians over the requests of a run. Raises TargetError if one failed."""
    backend = {
        "kind": "openai_http",
        "target": server.url,
        "model": load.model,
        "request_format": "/v1/chat/completions",
        "extras": {"body": {"modalities": ["text"], "seed": SEED}},
    }
    words = [command, "run", "--backend", json.dumps(backend), "--disable-console"]
    words += ["--profile", f"kind=concurrent,streams={load.concurrency}"]
    words += ["--constraint", f"kind=max_requests,count={load.requests}"]
    words += ["--data", "kind=json_file,path=guidellm.jsonl", "--output", f"kind=json,path={output}"]
    run(words, folder)
    return guidellm_figures(json.loads((folder / output).read_text(encoding="utf-8")), load.requests)


def guidellm_figures(document: Mapping[str, Any], requests: int) -> dict[str, float | None]:
    """Medians by metric out of its JSON output. Raises TargetError if a request is missing or failed."""
    (benchmark,) = document["benchmarks"]
    done, failed = benchmark["requests"]["successful"], benchmark["requests"]["errored"]
    if failed or len(done) != requests:
        raise TargetError(f"guidellm: {len(done)} requests of {requests}, {len(failed)} failed: {failed[:1]}")
    values = {name: [one[name] for one in done] for name in ("time_to_first_token_ms", "inter_token_latency_ms")}
    values["request_latency_ms"] = [1e3 * one["request_latency"] for one in done]
    return {name: None if None in some else statistics.median(some) for name, some in values.items()}


def run(words: Sequence[Any], folder: Path) -> None:
    """Run a program in ``folder``. Raises TargetError with the end of what it printed if it fails."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "HF_HUB_OFFLINE")}
    name = Path(words[0]).name
    try:
        done = subprocess.run(
            list(map(str, words)), cwd=folder, env=environment, capture_output=True, text=True, timeout=RUN_TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        raise TargetError(f"{name} did not end within {RUN_TIMEOUT_S:g} s") from None
    (folder / f"{name}.log").write_text(done.stdout + done.stderr, encoding="utf-8")
    if done.returncode:
        raise TargetError(f"{name} failed with status {done.returncode}: {(done.stdout + done.stderr)[-2000:]}")


def ours(server: Server, load: Load, kind: str) -> list[Timeline]:
    """Our client of that form, with connections that are kept."""
    client = load.client(kind)
    if kind == CHAT:
        client = replace(client, modalities=["text"])
    return our_timelines(server.url, load, client)


def compared_table(runs: Sequence[Compared], rows: Sequence[tuple[str, str, str, str, str]]) -> str:
    """Their median, ours of the same times, and whether they agree."""
    lines = []
    for one in runs:
        for _, theirs_name, ours_name, definition, our_title in rows:
            theirs, mine = one.theirs.get(theirs_name), one.ours.get(ours_name)
            difference = None if theirs is None or mine is None else theirs - mine
            within = {True: "yes", False: "**no**", None: "n/a"}[agrees(theirs, mine, "ms")]
            cells = (number(theirs, "ms"), number(mine, "ms"), number(difference, "ms", True), within)
            lines.append((one.what, one.concurrency, definition, our_title, *cells))
    headers = ("form", "c", "theirs", "in our words", "theirs, ms", "ours, ms", "difference", "within 3 % or 2 ms")
    return tabulate(lines, headers, tablefmt="github", disable_numparse=True)


def our_figures(timelines: Sequence[Timeline]) -> dict[str, float | None]:
    """Medians of what these clients measure, from our timelines: of text, where there is any, else of audio."""
    values: dict[str, list[float]] = {"first_ms": [], "last_ms": [], "gap_ms": [], "tpot_ms": [], "end_ms": []}
    for timeline in timelines:
        arrived_ns = timeline.text_arrived_ns or timeline.chunk_arrived_ns
        metrics = request_metrics(timeline, None)
        values["first_ms"].append((arrived_ns[0] - timeline.started_ns) / 1e6)
        values["last_ms"].append((arrived_ns[-1] - timeline.started_ns) / 1e6)
        values["gap_ms"] += metrics["itl_ms"] if timeline.text_arrived_ns else metrics["icl_ms"]
        values["end_ms"].append(metrics["e2el_ms"])
        if metrics["tpot_ms"] is not None:
            values["tpot_ms"].append(metrics["tpot_ms"])
    return {name: statistics.median(some) if some else None for name, some in values.items()}
