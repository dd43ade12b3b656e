"""Thousands of requests and slow clients at the reference server: is its memory flat, and is every request answered?

    python benchmarks/soak.py --out reports/soak.md

First ``--requests`` at ``--concurrency``, by the load worker of omni-bench; meanwhile ``--slow`` clients send the head
of a request a byte at a time, and as many its body. Then ``--queued`` at once and ``--beyond`` more than the queue
holds: those are to get 429. Memory is the resident set of the server's processes. No speed is measured.
Exits with 1 if anything is not as it should be.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import psutil

from omni_bench.load.clients.urls import server_root
from omni_bench.load.clients.wire_forms import FORMS
from omni_bench.load.events import LoadEvent
from omni_bench.load.runner import run_level
from omni_bench.records.config import ClientConfig, TargetConfig
from omni_bench.records.plan import LevelPlan, PlannedRequest
from omni_bench.records.prompt import Prompt
from omni_bench.run.config.compose import compose
from omni_bench.targets.reference import ReferenceTarget
from reference_impl.http.app import KEEPALIVE_TIMEOUT_S
from reference_impl.http.service import BODY_TIMEOUT_S
from reference_impl.settings import ServerSettings

TEXT = "Hi."
SAMPLE_S, DRIP_S, SETTLE_S = 1.0, 2.0, 3.0
LINGER_S = 10.0  # for which aiohttp reads on after it has answered 408
SETTLED, ENOUGH = 0.2, 500
"""The share of the requests in which allocators and caches fill up; how many must follow for a slope."""
MAX_GROWTH_MIB = 1.0  # per 1,000 requests


@dataclass(frozen=True)
class Sample:
    """The server's processes at one moment: requests answered so far, resident bytes, open files, threads."""

    answered: int
    rss: int
    files: int
    threads: int


class Watch:
    """Samples the server once a second while it is open. ``answered`` is counted by the events of the load."""

    def __init__(self, pid: int):
        self.answered = 0
        self.samples: list[Sample] = []
        self._root = psutil.Process(pid)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._go, daemon=True)

    def on_event(self, event: LoadEvent) -> None:
        timeline = getattr(event, "timeline", None)
        self.answered += timeline is not None and timeline.ok

    def now(self) -> Sample:
        rss = files = threads = 0
        for one in (self._root, *self._root.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                rss, files, threads = (
                    rss + one.memory_info().rss, files + one.num_fds(), threads + one.num_threads(),
                )  # fmt: skip
        return Sample(self.answered, rss, files, threads)

    def _go(self) -> None:
        while not self._stop.wait(SAMPLE_S):
            self.samples.append(self.now())

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def growth_mib(samples: Sequence[Sample], requests: int) -> float | None:
    """Least squares of resident memory over answered requests, in MiB per 1,000; None of too few."""
    late = [one for one in samples if one.answered >= SETTLED * requests]
    if len(late) < 10 or late[-1].answered - late[0].answered < ENOUGH:
        return None
    return statistics.linear_regression([one.answered for one in late], [one.rss for one in late]).slope * 1000 / 2**20


def plan(requests: int, concurrency: int, client: ClientConfig) -> LevelPlan:
    """``requests`` short ones, each with a seed of its own."""
    form, prompt = FORMS[client.kind], Prompt("short", TEXT, None, None, "en")
    measured = tuple(
        PlannedRequest(f"soak-{number:05d}", prompt.id, form.build_body(prompt, client, number), number, False, None)
        for number in range(requests)
    )
    return LevelPlan(concurrency, (), measured)


async def drip(host: str, port: int, body: bool, limit_s: float) -> float | None:
    """A client that sends a byte every two seconds, of the head or the body; how long it was let, None: to the end."""
    reader, writer = await asyncio.open_connection(host, port)
    head = b"POST /v1/audio/speech HTTP/1.1\r\nHost: soak\r\nContent-Length: 4096\r\n"
    started = time.monotonic()
    ended = asyncio.ensure_future(reader.read())
    with contextlib.suppress(ConnectionError):
        if body:
            writer.write(head + b"\r\n")
        rest = itertools.repeat(b" ") if body else (head[i : i + 1] for i in range(len(head)))
        for byte in rest:
            if time.monotonic() - started >= limit_s or ended.done():
                break
            writer.write(byte)
            await asyncio.wait((ended,), timeout=DRIP_S)
    took = time.monotonic() - started if ended.done() else None
    ended.cancel()
    writer.close()
    return took


async def drips(url: str, count: int, limit_s: float) -> tuple[list[float | None], list[float | None]]:
    """``count`` of each kind at once: of the head, of the body."""
    address = urlsplit(url)
    assert address.hostname is not None and address.port is not None
    kinds = [False, True] * count
    both = await asyncio.gather(*(drip(address.hostname, address.port, body, limit_s) for body in kinds))
    return both[0::2], both[1::2]


async def burst(url: str, requests: int, limit_s: float) -> tuple[Counter[str], float]:
    """``requests`` at once: how each was answered (``200``: with audio to its end), and when the last was, in s."""
    body = {"model": "tiny", "input": TEXT, "response_format": "pcm", "stream": True}

    async def one(session: aiohttp.ClientSession) -> str:
        try:
            async with session.post(url, json=body) as answer:
                audio = await answer.read()
                return f"{answer.status}" if audio else f"{answer.status} without a body"
        except TimeoutError:
            return "not within the limit"
        except aiohttp.ClientError as error:
            return type(error).__name__

    started = time.monotonic()
    timeout = aiohttp.ClientTimeout(total=limit_s)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=timeout) as session:
        answers = await asyncio.gather(*(one(session) for _ in range(requests)))
    return Counter(answers), time.monotonic() - started


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all of it, print and write the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0], allow_abbrev=False)
    for name, default in (
        ("requests", 5000), ("concurrency", 32), ("queued", 1000), ("beyond", 64), ("slow", 50), ("limit-s", 300),
    ):  # fmt: skip
        parser.add_argument(f"--{name}", type=int, default=default, help="default: %(default)s")
    parser.add_argument("--settings", default="{}", help="of the server, JSON (default: the tiny voice)")
    parser.add_argument("--out", type=Path)
    parsed = parser.parse_args(arguments)
    settings = replace(ServerSettings.from_json(parsed.settings), max_queue=parsed.queued)
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        target = ReferenceTarget(TargetConfig(), settings, Path(folder) / "server.log")
        target.start()
        try:
            lines, problems = soak(parsed, target, settings, Path(folder))
        finally:
            target.stop()
    text = "\n".join(["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in lines)])
    print(f"{text}\n\n{'; '.join(problems) or 'all as it should be'}")
    if parsed.out is not None:
        words = " ".join(sys.argv[1:] if arguments is None else arguments)
        said = " ".join((__doc__ or "").split("\n\n")[2].split())
        end = "; ".join(problems) or "All is as it should be"
        parsed.out.write_text(f"# Soak\n\n`python benchmarks/soak.py {words}`\n\n{said}\n\n{text}\n\n{end}.\n", "utf-8")
    return 1 if problems else 0


def soak(
    parsed: argparse.Namespace, target: ReferenceTarget, settings: ServerSettings, folder: Path
) -> tuple[list[tuple[str, str]], list[str]]:
    """The figures, and what is wrong with them."""
    assert target._process is not None and target._process.pid is not None
    client = replace(compose().client, request_timeout_s=float(parsed.limit_s))
    url, watch = FORMS[client.kind].url(target.base_url), Watch(target._process.pid)
    slow: list[tuple[list[float | None], list[float | None]]] = []
    allowed_s = max(KEEPALIVE_TIMEOUT_S, BODY_TIMEOUT_S + LINGER_S) + 3 * DRIP_S
    dripping = threading.Thread(
        target=lambda: slow.append(asyncio.run(drips(server_root(url), parsed.slow, allowed_s))), daemon=True
    )
    with watch:
        before = watch.now()
        dripping.start()
        recording = run_level(
            plan(parsed.requests, parsed.concurrency, client),
            base_url=target.base_url,
            client=client,
            spool_dir=folder / "spool",
            on_event=watch.on_event,
            is_target_alive=target.is_alive,
        )
        dripping.join()
        loaded = len(watch.samples)
        answers, took_s = asyncio.run(burst(url, parsed.queued + settings.max_batch + parsed.beyond, parsed.limit_s))
        time.sleep(SETTLE_S)
        after = watch.now()
        slope = growth_mib(watch.samples[:loaded], parsed.requests)
        peak = max(one.rss for one in watch.samples)
        most = max(one.files for one in watch.samples)
    failed = Counter(one.error.kind for one in recording.timelines if one.error is not None)
    heads, bodies = slow[0]
    kept = [sum(one is None for one in kind) for kind in (heads, bodies)]
    longest = [max((one for one in kind if one is not None), default=None) for kind in (heads, bodies)]
    load = f"{parsed.requests} requests at c = {parsed.concurrency}"
    lines = [
        ("server", f"{settings.preset}, checkpoint {settings.checkpoint}, {settings.max_batch} slots"),
        (
            load,
            f"{watch.answered} answered, failed: {dict(failed)}",
        ),
        ("resident memory before, most, after (MiB)", " / ".join(f"{n >> 20}" for n in (before.rss, peak, after.rss))),
        (
            f"growth after the first {SETTLED:.0%} (MiB per 1,000 requests)",
            "n/a" if slope is None else f"{slope:+.2f}",
        ),
        ("open files before, most, after", f"{before.files} / {most} / {after.files}"),
        ("threads before, after", f"{before.threads} / {after.threads}"),
        (f"{len(heads)} slow heads (limit {KEEPALIVE_TIMEOUT_S:g} s)", _ended(kept[0], longest[0])),
        (f"{len(bodies)} slow bodies (limit {BODY_TIMEOUT_S:g} s)", _ended(kept[1], longest[1])),
        (
            f"{sum(answers.values())} at once, {settings.max_queue} places in the queue",
            f"{json.dumps(answers)}; the last after {took_s:.0f} s of {parsed.limit_s} s",
        ),
    ]
    problems = [
        problem
        for problem, holds in (
            ("requests failed", not failed and watch.answered == parsed.requests),
            ("memory grows", slope is None or slope <= MAX_GROWTH_MIB),
            ("open files were lost", after.files <= before.files),
            ("slow clients were kept", not any(kept)),
            ("nobody was told that the queue is full", answers["429"] > 0),
            ("requests of the queue got no answer", set(answers) <= {"200", "429"} and answers["200"] >= parsed.queued),
        )
        if not holds
    ]
    return lines, problems


def _ended(kept: int, longest_s: float | None) -> str:
    return f"{kept} kept; the longest was ended after {'n/a' if longest_s is None else f'{longest_s:.0f} s'}"


if __name__ == "__main__":
    sys.exit(main())
