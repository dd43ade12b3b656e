"""How many streams a client holds before its own part of TTFP grows beyond a bound: ours, AIPerf, vllm bench serve.

    python -m benchmarks.client_overhead --aiperf PATH/aiperf --vllm-python PATH/python --out reports/client_overhead
    python -m benchmarks.client_overhead --workers 1,2,4,8 --levels 512 --out reports/client_overhead

One paced server of known times in a process of its own, each client in turn at each level, twice as many requests as
streams and at least 24. The bias of a request is the client's TTFP less what the server took, from the last bytes of
the request out of the socket to writing the first audio: sending, reading, and waiting for a core at the client. A
client holds a level if the p99 of it is within the bound there and at every level below. AIPerf reads events only,
vllm-omni's client raw samples only: each is compared with ours on its own wire form. vllm's p50 and p99 are of its
TTFP, less the median of what the server took. A level that would begin after ``--minutes`` is left out. With
``--workers`` it is our client alone, by how many load processes it has. It needs idle cores: run nothing beside it.
Writes README.md into ``--out``, with ``--workers`` workers_N_cores.md.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import io
import json
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
import wave
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from tabulate import tabulate

from omni_bench import __version__
from omni_bench.errors import OmniBenchError, TargetError
from omni_bench.load.closed_plan import build_level_plans
from omni_bench.load.runner import run_level
from omni_bench.records.config import ClientConfig, LoadConfig
from omni_bench.records.prompt import Prompt
from omni_bench.run.calibration import PACE
from omni_bench.run.provenance import cpu_model, harness, usable_cores
from omni_bench.subprocesses import start_module
from omni_bench.targets.null_server import Pace, tone

if TYPE_CHECKING:
    from benchmarks.interop.runs import VllmBench

_FIELD = re.compile(rb"^([a-z-]+): *([^\r]*)", re.MULTILINE)
RAW, SSE = "openai_speech", "openai_speech_sse"
THEIR_TIMEOUT_S = 180
WARMUP_PER_SLOT = 1


class OverheadServer:
    """Raw samples or events, as asked for, at a fixed pace.

    ``sent_ns``: request id -> when it was read, and when its audio began; GET /sent gives that away and forgets it. It
    speaks as much HTTP as the three clients do, with what it sends made before: a library's server takes as long for a
    request of a burst as a client, so that the queue before it would be most of what is measured.
    """

    def __init__(self, pace: Pace) -> None:
        self.pace = pace
        self.sent_ns: dict[str, list[int]] = {}
        samples = tone(round(pace.chunk_ms / 1e3 * pace.sample_rate_hz), pace.sample_rate_hz)
        event = json.dumps({"type": "speech.audio.delta", "audio": base64.b64encode(samples).decode()})
        done = b'data: {"type": "speech.audio.done"}\n\n'
        self.answers = {
            False: (_head("audio/pcm"), _http_chunk(samples), b"0\r\n\r\n"),
            True: (
                _head("text/event-stream"),
                _http_chunk(f"data: {event}\n\n".encode()),
                _http_chunk(done) + b"0\r\n\r\n",
            ),
        }

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[int]:
        """Serve inside this event loop; yields the port."""
        server = await asyncio.get_running_loop().create_server(lambda: _Connection(self), "127.0.0.1", 0)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()


def _head(mime: str) -> bytes:
    return f"HTTP/1.1 200 OK\r\nContent-Type: {mime}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()


def _http_chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


class _Connection(asyncio.Protocol):
    """One request after another; ``received`` is what has come of the next."""

    def __init__(self, server: OverheadServer) -> None:
        self.server = server
        self.received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        now_ns = time.perf_counter_ns()
        self.received += data
        head, end, body = self.received.partition(b"\r\n\r\n")
        fields = dict(_FIELD.findall(head.lower()))
        if not end or len(body) < int(fields.get(b"content-length", b"0")):
            return
        self.received = b""
        if head.startswith(b"POST"):
            name = fields.get(b"x-request-id", b"").decode() or str(len(self.server.sent_ns))
            times = self.server.sent_ns.setdefault(name, [now_ns])
            self.send(self.server.answers[json.loads(body).get("stream_format") == "sse"], times, 0)
            return
        told: dict[str, list[int]] = {}
        if head.startswith(b"GET /sent"):
            told, self.server.sent_ns = self.server.sent_ns, told
        text = json.dumps(told).encode()
        self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n")
        self.transport.write(b"Content-Length: %d\r\n\r\n%b" % (len(text), text))

    def send(self, answer: tuple[bytes, bytes, bytes], times: list[int], index: int) -> None:
        """Write a chunk when it is due, by ``times[0]``, and what comes after it later."""
        head, chunk, end = answer
        pace, loop = self.server.pace, asyncio.get_running_loop()
        due_s = times[0] / 1e9 + (pace.first_ms + index * pace.interval_ms) / 1e3
        wait_s = due_s - time.perf_counter()
        if self.transport.is_closing():
            return
        if wait_s > 0:
            loop.call_later(wait_s, self.send, answer, times, index)
            return
        if index == 0:
            times.append(time.perf_counter_ns())
        last = index + 1 == pace.chunks
        self.transport.write((b"" if index else head) + chunk + (end if last else b""))
        if not last:
            self.send(answer, times, index + 1)


@dataclass(frozen=True)
class Running:
    """The server at ``url``."""

    url: str

    def held_ms(self) -> dict[str, float]:
        """Request id -> ms from reading it to its first audio, of all since the last time."""
        with urllib.request.urlopen(f"{self.url}/sent", timeout=30) as response:
            return {name: (times[1] - times[0]) / 1e6 for name, times in json.load(response).items() if len(times) > 1}


@contextlib.contextmanager
def server() -> Iterator[Running]:
    """The server in a process of its own."""
    process = start_module("benchmarks.client_overhead", "--serve")
    try:
        assert process.stdout is not None
        yield Running(f"http://127.0.0.1:{int(process.stdout.readline())}")
    finally:
        process.kill()
        process.communicate()


Bias = Callable[[Running, int], np.ndarray]
"""The bias of each request of a run at that many streams, in ms. Raises OmniBenchError where requests failed."""


def requests_for(streams: int) -> int:
    return max(2 * streams, 24)


def prompts_for(streams: int) -> list[Prompt]:
    count = requests_for(streams) + WARMUP_PER_SLOT * streams + 16
    return [
        Prompt(id=f"{i}", text=f"Sentence {i}.", ref_text=None, ref_audio=None, language="en") for i in range(count)
    ]


def ours(kind: str, workers: int | None = None) -> Bias:
    def bias(running: Running, streams: int) -> np.ndarray:
        load = LoadConfig(
            kind="closed_loop",
            concurrency=[streams],
            requests_per_level=requests_for(streams),
            requests_per_slot=2,
            warmup_per_slot=WARMUP_PER_SLOT,
        )
        client = ClientConfig(kind=kind, model="null")
        (plan,) = build_level_plans(prompts_for(streams), load, client)
        with tempfile.TemporaryDirectory() as spool:
            recording = run_level(
                plan,
                base_url=running.url,
                client=client,
                spool_dir=Path(spool),
                on_event=lambda event: None,
                workers=workers,
            )
        held = running.held_ms()
        failed = [one.error.message for one in recording.timelines if one.error is not None]
        if failed:
            raise TargetError(f"{len(failed)} requests failed: {failed[0]}")
        return np.array(
            [(one.first_audio_ns - one.started_ns) / 1e6 - held[one.wire_id] for one in recording.timelines]
        )

    return bias


def with_recordings(prompts: Sequence[Prompt], folder: Path) -> list[Prompt]:
    """``prompts`` with a recording of silence, which vllm-omni's client wants and does not send."""
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setparams((1, 2, 24000, 0, "NONE", ""))
        file.writeframes(bytes(4800))
    path = folder / "silence.wav"
    path.write_bytes(buffer.getvalue())
    return [replace(prompt, ref_text="Silence.", ref_audio=path) for prompt in prompts]


def aiperf(command: str, folder: Path) -> Bias:
    from benchmarks.interop.others import TEMPLATE
    from benchmarks.interop.runs import write_tokenizer

    write_tokenizer(folder / "tok")

    def bias(running: Running, streams: int) -> np.ndarray:
        name = f"aiperf-{streams}"
        (folder / "aiperf.json").write_text(TEMPLATE, encoding="utf-8")
        lines = (json.dumps({"text": prompt.text}) + "\n" for prompt in prompts_for(streams))
        (folder / "aiperf.jsonl").write_text("".join(lines), encoding="utf-8")
        words = [command, "profile", "--model", "null", "--url", running.url, "--streaming"]
        words += ["--endpoint-type", "template", "--custom-endpoint", "/v1/audio/speech"]
        words += ["--extra-inputs", "payload_template:aiperf.json", "--extra-inputs", "response_field:audio"]
        words += [
            "--input-file",
            "aiperf.jsonl",
            "--custom-dataset-type",
            "single_turn",
            "--tokenizer",
            str(folder / "tok"),
        ]
        words += ["--concurrency", str(streams), "--request-count", str(requests_for(streams)), "--ui", "none"]
        words += ["--warmup-request-count", str(streams), "--output-artifact-dir", name]
        done = subprocess.run(
            [*words, "--no-server-metrics", "--no-gpu-telemetry"],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=THEIR_TIMEOUT_S,
            check=False,
        )
        held = running.held_ms()
        records = folder / name / "profile_export.jsonl"
        if done.returncode or not records.is_file():
            raise TargetError(f"aiperf ended with {done.returncode}: {done.stdout[-1000:]}")
        measured = [json.loads(line) for line in records.read_text(encoding="utf-8").splitlines()]
        measured = [one for one in measured if one["metadata"]["benchmark_phase"] == "profiling"]
        if any(one.get("error") for one in measured) or len(measured) != requests_for(streams):
            raise TargetError(
                f"aiperf: {len(measured)} of {requests_for(streams)} requests were measured, or some failed"
            )
        return np.array(
            [one["metrics"]["time_to_first_token"]["value"] - held[one["metadata"]["x_request_id"]] for one in measured]
        )

    return bias


def vllm_bench(bench: VllmBench, prompts: Sequence[Prompt]) -> Bias:
    """Its result has percentiles only: those of its TTFP less the median of what the server took, which is one pace.

    Two figures, which are the p50 and the p99.
    """
    from benchmarks.interop.runs import Load

    def bias(running: Running, streams: int) -> np.ndarray:
        load = Load("null", prompts, requests_for(streams), streams, reference=False)
        result = bench.run(running.url, load, f"c{streams}-")
        held = float(np.median(list(running.held_ms().values())))
        return np.array([result["p50_audio_ttfp_ms"], result["p99_audio_ttfp_ms"]]) - held

    return bias


@dataclass(frozen=True)
class Found:
    """The bias of a client at so many streams, in ms; None: the run failed, or was left out."""

    streams: int
    p50_ms: float | None = None
    p99_ms: float | None = None


def held_streams(found: Sequence[Found], bound_ms: float) -> int:
    """The highest level within the bound, at and below which all are; 0 for none."""
    held = 0
    for one in found:
        if one.p99_ms is None or one.p99_ms > bound_ms:
            break
        held = one.streams
    return held


OURS_SSE, OURS_RAW = "omni-bench, events", "omni-bench, raw"
AIPERF, VLLM = "AIPerf, events", "vllm bench serve, raw"
RIVALS = ((OURS_SSE, AIPERF), (OURS_RAW, VLLM))
TIMES = 5
"""So many times the streams of the other clients ours is to hold (issue 17)."""
P50_P99 = ((50, 99), (0, 100))
"""Of all requests, and of two figures that are percentiles."""


def main() -> None:
    """Measure, print and write the report into ``--out``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument(
        "--levels", default="1,2,3,4,6,8,12,16,24,32,48,64,96,128,192,256", help="streams (default: %(default)s)"
    )
    parser.add_argument("--bound-ms", type=float, default=5.0, help="of the p99 of the bias (default: %(default)s)")
    parser.add_argument("--minutes", type=float, default=11.0, help="begin no run after these (default: %(default)s)")
    parser.add_argument("--workers", help="load processes of ours, such as 1,2,4,8; no other client")
    parser.add_argument("--aiperf", help="the command aiperf of its own environment")
    parser.add_argument("--vllm-python", help="the interpreter of an environment with vllm and vllm-omni")
    parser.add_argument("--out", type=Path, help="a folder for the report")
    arguments = parser.parse_args()
    if arguments.serve:
        asyncio.run(serve())
        return
    levels = [int(level) for level in arguments.levels.split(",")]
    end_s = time.monotonic() + 60 * arguments.minutes
    with server() as running, tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        clients: dict[str, Bias] = {OURS_SSE: ours(SSE), OURS_RAW: ours(RAW)}
        if arguments.workers:
            counts = [int(workers) for workers in arguments.workers.split(",")]
            clients = {f"{workers} process{'es' * (workers > 1)}": ours(RAW, workers) for workers in counts}
        if arguments.aiperf:
            clients[AIPERF] = aiperf(str(Path(arguments.aiperf).absolute()), folder)
        if arguments.vllm_python:
            from benchmarks.interop.runs import VllmBench, write_prompts

            prompts = write_prompts(folder / "prompts", with_recordings(prompts_for(max(levels)), folder))
            bench = stack.enter_context(VllmBench(arguments.vllm_python, folder))
            clients[VLLM] = vllm_bench(bench, prompts)
        found = {
            client: by_level(client, bias, running, levels, arguments.bound_ms, end_s)
            for client, bias in clients.items()
        }
    text = page(found, levels, arguments.bound_ms)
    sys.stdout.write(text)
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        file = f"workers_{usable_cores()}_cores.md" if arguments.workers else "README.md"
        (arguments.out / file).write_text(text, encoding="utf-8")


def by_level(
    client: str, bias: Bias, running: Running, levels: Sequence[int], bound_ms: float, end_s: float
) -> list[Found]:
    """The bias at each level, up to one that is ten times beyond the bound: above, it takes minutes."""
    found: list[Found] = []
    for streams in levels:
        if time.monotonic() > end_s:
            sys.stderr.write(f"{client} at {streams}: left out, no time is left\n")
            found.append(Found(streams))
            continue
        found.append(measured(client, bias, running, streams))
        p99_ms = found[-1].p99_ms
        if p99_ms is None or p99_ms > 10 * bound_ms:
            break
    return found


def measured(client: str, bias: Bias, running: Running, streams: int) -> Found:
    """One run; why it failed is told."""
    try:
        p50_ms, p99_ms = (float(value) for value in np.percentile(bias(running, streams), P50_P99[client == VLLM]))
    except (OmniBenchError, subprocess.TimeoutExpired, KeyError) as error:
        sys.stderr.write(f"{client} at {streams}: {error}\n")
        return Found(streams)
    sys.stderr.write(f"{client} at {streams}: p50 {p50_ms:.2f}, p99 {p99_ms:.2f} ms\n")
    return Found(streams, p50_ms, p99_ms)


def page(found: dict[str, list[Found]], levels: Sequence[int], bound_ms: float) -> str:
    """The report."""
    known = {client: {one.streams: one for one in of} for client, of in found.items()}
    rows = [
        (client, *(_cell(of.get(level)) for level in levels), held_streams(found[client], bound_ms))
        for client, of in known.items()
    ]
    headers = ("client", *(f"{level}" for level in levels), f"held at {bound_ms:g} ms")
    table = tabulate(rows, headers=headers, tablefmt="github", disable_numparse=True)
    said = "\n".join(_ratio(found, mine, theirs, bound_ms) for mine, theirs in RIVALS if {mine, theirs} <= set(found))
    commit = (harness()["commit"] or "of unknown commit")[:17]
    return (
        "# Streams that a client holds\n\n"
        f"`python -m benchmarks.client_overhead {' '.join(sys.argv[1:])}`\n\n"
        f"omni-bench {__version__} ({commit}), {cpu_model()}, {usable_cores()} cores. What the client adds to TTFP "
        f"at so many streams, p50 / p99 in ms; held: p99 within {bound_ms:g} ms there and at every level below. "
        "n/a: a level below was far beyond the bound, the run failed, or no time was left. How it is measured: "
        f"`python -m benchmarks.client_overhead --help`.\n\n{table}\n" + (f"\n{said}\n" if said else "")
    )


def _cell(one: Found | None) -> str:
    return "n/a" if one is None or one.p99_ms is None else f"{one.p50_ms:.2f} / {one.p99_ms:.2f}"


def _ratio(found: dict[str, list[Found]], mine: str, theirs: str, bound_ms: float) -> str:
    """How many times the streams, as far as is known: who held every level may hold more, and who held none, a few."""
    own, other = (held_streams(found[name], bound_ms) for name in (mine, theirs))
    first, last = found[theirs][0], found[theirs][-1]
    if first.p99_ms is None:
        return f"- {mine}: {own} streams; {theirs}: n/a, its run failed."
    if not other:
        verdict = "met" if own >= TIMES * first.streams else "not shown"
        return f"- {mine}: {own} streams; {theirs}: fewer than {first.streams}, the lowest level: {verdict}."
    more = "or more, " * (own == found[mine][-1].streams)
    more_theirs = " or more" * (other == last.streams)
    verdict = "met" if own >= TIMES * other and not more_theirs else "not shown" if more or more_theirs else "missed"
    return (
        f"- {mine}: {own} streams; {theirs}: {other}{more_theirs}; {own / other:.3g} times, {more}"
        f"and {TIMES} were asked for: {verdict}."
    )


async def serve() -> None:
    """Serve until stdin ends."""
    stdin = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stdin), sys.stdin)
    async with OverheadServer(replace(PACE, first_ms=200.0)).serving() as port:
        sys.stdout.write(f"{port}\n")
        sys.stdout.flush()
        await stdin.read()


if __name__ == "__main__":
    main()
