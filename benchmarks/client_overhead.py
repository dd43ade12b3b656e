"""How many streams a client holds before its own part of TTFP grows beyond a bound: ours, AIPerf, vllm bench serve.

    python -m benchmarks.client_overhead --aiperf PATH/aiperf [--vllm-python PATH/python] [--bound-ms 5] [--out FOLDER]

One paced server of known times (:mod:`omni_bench.targets.null_server`) in a process of its own, each client in turn at
each level, twice as many requests as streams. The bias of a request is the client's TTFP less what the server took,
from reading the request to writing the first audio: sending, reading and waiting for a core at the client's side. A
client holds a level if the p99 of it is within the bound there and at every level below. AIPerf reads events only,
vllm-omni's client raw samples only: each is compared with ours on its own wire form. It needs idle cores: run nothing
beside it.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from aiohttp import web
from tabulate import tabulate

from benchmarks.interop.others import TEMPLATE
from benchmarks.interop.runs import Load, VllmBench, write_prompts, write_tokenizer
from omni_bench import __version__
from omni_bench.errors import OmniBenchError, TargetError
from omni_bench.load.closed_plan import build_level_plans
from omni_bench.load.runner import run_level
from omni_bench.records.config import ClientConfig, LoadConfig
from omni_bench.records.prompt import Prompt
from omni_bench.run.calibration import PACE
from omni_bench.run.provenance import cpu_model, usable_cores
from omni_bench.subprocesses import start_module
from omni_bench.targets.null_server import NullServer, serving

RAW, SSE = "openai_speech", "openai_speech_sse"
THEIR_TIMEOUT_S = 180
WARMUP_PER_SLOT = 1


class OverheadServer(NullServer):
    """Raw samples or events, as asked for. ``sent_ns``: request id -> when it was read, and when its audio began."""

    async def stream(self, request: web.Request, body: bytes) -> web.StreamResponse:
        received_ns = time.perf_counter_ns()
        times = self.sent_ns.setdefault(request.headers.get("x-request-id") or str(len(self.sent_ns)), [received_ns])
        events = json.loads(body).get("stream_format") == "sse"
        chunk = self.chunk
        if events:
            audio = base64.b64encode(self.chunk).decode()
            chunk = f"data: {json.dumps({'type': 'speech.audio.delta', 'audio': audio})}\n\n".encode()
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream" if events else "audio/pcm"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):
            for index in range(self.pace.chunks):
                due_ns = received_ns + round((self.pace.first_ms + index * self.pace.interval_ms) * 1e6)
                await asyncio.sleep(max(0.0, (due_ns - time.perf_counter_ns()) / 1e9))
                if index == 0:
                    times.append(time.perf_counter_ns())
                await response.write(chunk)
            if events:
                await response.write(b'data: {"type": "speech.audio.done"}\n\n')
        return response


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


def prompts_for(streams: int) -> list[Prompt]:
    count = (2 + WARMUP_PER_SLOT) * streams + 16
    return [
        Prompt(id=f"{i}", text=f"Sentence {i}.", ref_text=None, ref_audio=None, language="en") for i in range(count)
    ]


def ours(kind: str, workers: int | None = None) -> Bias:
    def bias(running: Running, streams: int) -> np.ndarray:
        load = LoadConfig(
            kind="closed_loop",
            concurrency=[streams],
            requests_per_level=2 * streams,
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


def aiperf(command: str, folder: Path) -> Bias:
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
        words += ["--concurrency", str(streams), "--request-count", str(2 * streams), "--ui", "none"]
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
        if any(one.get("error") for one in measured) or len(measured) != 2 * streams:
            raise TargetError(f"aiperf: {len(measured)} of {2 * streams} requests were measured, or some failed")
        return np.array(
            [one["metrics"]["time_to_first_token"]["value"] - held[one["metadata"]["x_request_id"]] for one in measured]
        )

    return bias


def vllm_bench(bench: VllmBench, prompts: Sequence[Prompt]) -> Bias:
    """Its result has percentiles only: those of its TTFP less the median of what the server took, which is one pace."""

    def bias(running: Running, streams: int) -> np.ndarray:
        load = Load("null", prompts, 2 * streams, streams, reference=False)
        result = bench.run(running.url, load, f"c{streams}-")
        held = float(np.median(list(running.held_ms().values())))
        return np.array([result["p50_audio_ttfp_ms"], result["p99_audio_ttfp_ms"]]) - held

    return bias


def held_streams(p99_ms: Sequence[tuple[int, float | None]], bound_ms: float) -> int:
    """The highest level within the bound, at and below which all are; 0 for none. None: the run failed."""
    held = 0
    for streams, value in p99_ms:
        if value is None or value > bound_ms:
            break
        held = streams
    return held


def main() -> None:
    """Measure, print and write ``README.md`` into ``--out``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--levels", default="4,8,16,32,64,128,256", help="streams (default: %(default)s)")
    parser.add_argument("--bound-ms", type=float, default=5.0, help="of the p99 of the bias (default: %(default)s)")
    parser.add_argument("--aiperf", help="the command aiperf of its own environment")
    parser.add_argument("--vllm-python", help="the interpreter of an environment with vllm and vllm-omni")
    parser.add_argument("--out", type=Path, help="a folder for README.md")
    arguments = parser.parse_args()
    if arguments.serve:
        asyncio.run(serve())
        return
    levels = [int(level) for level in arguments.levels.split(",")]
    with server() as running, tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        clients: dict[str, Bias] = {"omni-bench, events": ours(SSE), "omni-bench, raw": ours(RAW)}
        if arguments.aiperf:
            clients["AIPerf, events"] = aiperf(str(Path(arguments.aiperf).absolute()), folder)
        if arguments.vllm_python:
            prompts = write_prompts(folder / "prompts", prompts_for(max(levels)))
            bench = stack.enter_context(VllmBench(arguments.vllm_python, folder))
            clients["vllm bench serve, raw"] = vllm_bench(bench, prompts)
        rows = []
        for client, bias in clients.items():
            found: list[tuple[int, float | None]] = []
            for streams in levels:
                p99_ms = measured(client, bias, running, streams)
                found.append((streams, p99_ms))
                if p99_ms is None or p99_ms > 10 * arguments.bound_ms:
                    break  # it only gets worse, and takes minutes
            by_level = dict(found)
            rows.append((client, *(by_level.get(level) for level in levels), held_streams(found, arguments.bound_ms)))
    headers = ("client", *(f"p99 at {level}" for level in levels), f"streams held at {arguments.bound_ms:g} ms")
    table = tabulate(rows, headers=headers, tablefmt="github", floatfmt=".2f", missingval="n/a")
    sys.stdout.write(table + "\n")
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        (arguments.out / "README.md").write_text(page(table, arguments.bound_ms), encoding="utf-8")


def measured(client: str, bias: Bias, running: Running, streams: int) -> float | None:
    """The p99 of the bias in ms; None where the run failed, which is told."""
    try:
        value = float(np.percentile(bias(running, streams), 99))
    except (OmniBenchError, subprocess.TimeoutExpired, KeyError) as error:
        sys.stderr.write(f"{client} at {streams}: {error}\n")
        return None
    sys.stderr.write(f"{client} at {streams}: {value:.2f} ms\n")
    return value


def page(table: str, bound_ms: float) -> str:
    """The report."""
    return (
        "# Streams that a client holds\n\n"
        f"omni-bench {__version__}, {cpu_model()}, {usable_cores()} cores. p99 of what the client adds to TTFP, in ms, "
        f"at so many streams; held: within {bound_ms:g} ms there and at every level below. "
        "n/a: not measured, as a level below was far beyond the bound, or the run failed. How it is measured: "
        f"`python -m benchmarks.client_overhead --help`.\n\n{table}\n"
    )


async def serve() -> None:
    """Serve until stdin ends."""
    stdin = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stdin), sys.stdin)
    async with serving(OverheadServer(replace(PACE, first_ms=200.0))) as port:
        sys.stdout.write(f"{port}\n")
        sys.stdout.flush()
        await stdin.read()


if __name__ == "__main__":
    main()
