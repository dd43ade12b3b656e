"""One run of one client against ``server.py``: of vllm-omni's, of ours, and of the openai package."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.interop.habits import THEIRS, Habits, timelines_with
from benchmarks.interop.report import OPENAI, OURS, OURS_LIKE, VLLM
from benchmarks.interop.table import THEIR_KEYS, ClientRun, figures_of, parts_of, their_figures
from omni_bench.errors import TargetError
from omni_bench.load.closed_plan import build_level_plans
from omni_bench.load.runner import run_level
from omni_bench.records.config import ClientConfig, LoadConfig
from omni_bench.records.prompt import Prompt
from omni_bench.records.timeline import Timeline
from omni_bench.subprocesses import child_env

START_TIMEOUT_S = 300.0  # vllm-omni imports for half a minute, longer on a busy machine
RUN_TIMEOUT_S = 300.0
SEED = 8  # of every request, so that all clients get the same audio


@dataclass(frozen=True)
class Load:
    """What is sent: the first ``requests`` of ``prompts``, with their recordings or without, as speech or as chat."""

    model: str
    prompts: Sequence[Prompt]
    requests: int
    concurrency: int
    reference: bool = True
    voice: str | None = None
    chat: bool = False

    def client(self, kind: str = "openai_speech") -> ClientConfig:
        """Our client, which sends what vllm-omni's sends."""
        cloning = {"send_reference": True, "task_type": "Base", "language": "English", "max_new_tokens": 2048}
        return ClientConfig(
            kind=kind,
            model=self.model,
            seed=None,
            extra_body=self.extra_body,
            **(cloning if self.reference else {}),
        )

    @property
    def extra_body(self) -> dict[str, Any]:
        """What both clients are told to add; a cloned voice has no name."""
        named = self.voice is not None and not self.reference and not self.chat
        return {"seed": SEED, **({"voice": self.voice} if named else {})}


class JsonLines:
    """A child process that is told and answers JSON lines."""

    def __init__(
        self, command: Sequence[str], log: Path, env: Mapping[str, str] | None = None, cwd: Path | None = None
    ):
        self._command, self._log, self._env, self._cwd = command, log, env, cwd

    def __enter__(self) -> JsonLines:
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=self._env, cwd=self._cwd
            )
        try:
            self.hello = self.read(START_TIMEOUT_S)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def tell(self, message: Any) -> None:
        """Write a line."""
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def read(self, timeout_s: float) -> Any:
        """Read a line. Raises TargetError, with the end of the log, if none comes."""
        ready, _, _ = select.select([self.process.stdout], [], [], timeout_s)
        line = self.process.stdout.readline() if ready else b""
        if not line:
            tail = self._log.read_text(errors="replace")[-2000:]
            raise TargetError(
                f"{Path(self._command[0]).name} said nothing within {timeout_s:g} s; its log ends: {tail}"
            )
        return json.loads(line)


class Server(JsonLines):
    """``server.py`` with one of its engines."""

    def __init__(self, engine: str, log: Path, *options: str):
        script = Path(__file__).with_name("server.py")
        super().__init__([sys.executable, str(script), "--engine", engine, *options], log, child_env())

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.hello['port']}"

    def records(self) -> dict[str, dict[str, int]]:
        """What it saw since it was last asked."""
        with urllib.request.urlopen(f"{self.url}/records", timeout=10) as response:
            return json.load(response)


class VllmBench(JsonLines):
    """``vllm bench serve --omni`` of another environment, kept running by ``vllm_bench.py``."""

    def __init__(self, python: str, folder: Path):
        self.folder = folder
        write_tokenizer(folder / "tok")
        env = {**os.environ, "HF_HUB_OFFLINE": "1", "OPENAI_API_KEY": "none", "PYTHONPATH": ""}
        command = [python, str(Path(__file__).with_name("vllm_bench.py").absolute())]
        super().__init__(command, folder / "vllm.log", env, folder)

    def arguments(self, url: str, load: Load, prefix: str) -> list[str]:
        """The command line of a run, after ``vllm``; folders are relative."""
        options = {
            "backend": "openai-chat-omni" if load.chat else "openai-audio-speech",
            "endpoint": "/v1/chat/completions" if load.chat else "/v1/audio/speech",
            "base-url": url,
            "model": load.model,
            "tokenizer": "./tok",
            "dataset-name": "seed-tts" if load.reference else "seed-tts-text",
            "dataset-path": "prompts",
            "seed-tts-locale": "en",
            "num-prompts": load.requests,
            "num-warmups": 2 * load.concurrency,
            "max-concurrency": load.concurrency,
            "extra-body": json.dumps(load.extra_body),
            "percentile-metrics": ",".join(("ttft", "tpot", "itl", "e2el", *THEIR_KEYS.audio)),
            "metric-percentiles": "50,90,99",
            "request-id-prefix": prefix,
            "result-dir": "results",
            "result-filename": f"{prefix}.json",
        }
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        return [
            "bench",
            "serve",
            "--omni",
            *words,
            "--disable-shuffle",
            "--disable-tqdm",
            "--save-result",
            "--save-detailed",
        ]

    def run(self, url: str, load: Load, prefix: str) -> dict[str, Any]:
        """The result of a run. Raises TargetError if it failed, or a request did."""
        (self.folder / "results").mkdir(exist_ok=True)
        self.tell(self.arguments(url, load, prefix))
        answer = self.read(RUN_TIMEOUT_S)
        if answer["error"]:
            raise TargetError(f"vllm bench serve failed: {answer['error'][-2000:]}")
        result = json.loads((self.folder / "results" / f"{prefix}.json").read_text(encoding="utf-8"))
        if result["failed"] or result["completed"] != load.requests:
            raise TargetError(f"vllm bench serve: {result['failed']} requests failed: {result['errors'][:1]}")
        return result


def write_tokenizer(folder: Path) -> None:
    """A tokenizer of single characters, as the client wants one; it only counts the tokens of prompts."""
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = {"[UNK]": 0} | {chr(code): code - 31 for code in range(32, 127)}
    tokenizer = {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "."}, "behavior": "Isolated", "invert": False},
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]"},
    }
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "[UNK]"}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    # any kind that is known: without one, vllm tries again after a pause, before every run
    (folder / "config.json").write_text(json.dumps({"model_type": "gpt2"}), encoding="utf-8")


def write_prompts(folder: Path, prompts: Sequence[Prompt]) -> list[Prompt]:
    """A Seed-TTS folder with these prompts and their recordings; the prompts as they are there."""
    wavs = folder / "en" / "prompt-wavs"
    wavs.mkdir(parents=True, exist_ok=True)
    rows, copies = [], []
    for prompt in prompts:
        if prompt.ref_audio is None:
            raise TargetError(f"prompt {prompt.id} has no recording, which vllm-omni's client needs")
        copy = wavs / prompt.ref_audio.name
        shutil.copyfile(prompt.ref_audio, copy)
        rows.append(f"{prompt.id}|{prompt.ref_text}|prompt-wavs/{copy.name}|{prompt.text}\n")
        copies.append(replace(prompt, ref_audio=copy.absolute()))
    (folder / "en" / "meta.lst").write_text("".join(rows), encoding="utf-8")
    return copies


def run_vllm(bench: VllmBench, server: Server, load: Load, prefix: str) -> ClientRun:
    """A run of vllm-omni's client."""
    server.records()
    result = bench.run(server.url, load, prefix)
    starts_ns = {f"{prefix}{number}": round(start * 1e9) for number, start in enumerate(result["start_times"])}
    parts = parts_of(starts_ns, server.records())
    return ClientRun(VLLM, load.concurrency, load.reference, their_figures(result), parts, result)


def run_ours(server: Server, load: Load, habits: Habits | None = None) -> ClientRun:
    """A run of our load worker, as ``omni-bench run`` makes it, or of our client with ``habits`` of theirs.

    Raises TargetError if a request failed.
    """
    server.records()
    timelines = our_timelines(server.url, load, load.client(), habits)
    starts_ns = {timeline.wire_id or timeline.request_id: timeline.started_ns for timeline in timelines}
    name = OURS if habits is None else OURS_LIKE if habits == THEIRS else str(habits)
    figures = figures_of(timelines, load.concurrency)
    return ClientRun(name, load.concurrency, load.reference, figures, parts_of(starts_ns, server.records()), timelines)


def our_timelines(url: str, load: Load, client: ClientConfig, habits: Habits | None = None) -> list[Timeline]:
    """The measured requests of one level. Raises TargetError if one failed."""
    level = LoadConfig(
        kind="closed_loop", concurrency=[load.concurrency], requests_per_level=load.requests, requests_per_slot=1
    )
    warmup = itertools.islice(itertools.cycle(load.prompts), 2 * load.concurrency)
    (plan,) = build_level_plans([*load.prompts[: load.requests], *warmup], level, client)
    if habits is None:
        with tempfile.TemporaryDirectory() as spool:
            recording = run_level(plan, base_url=url, client=client, spool_dir=Path(spool), on_event=lambda event: None)
        timelines = list(recording.timelines)
    else:
        timelines = timelines_with(habits, plan, url, client)
    failed = [timeline for timeline in timelines if not timeline.ok]
    if failed:
        raise TargetError(f"{len(failed)} of our requests failed, the first: {failed[0].error}")
    return timelines


def run_openai(server: Server, load: Load) -> ClientRun:
    """A run of the openai package, timed around its calls: the start, the first bytes that it hands out, the end."""
    times = asyncio.run(_openai_times(server.url, load))
    figures = {
        "ttfp_ms": [(first - start) * 1e3 for start, first, _, _ in times],
        "e2el_ms": [(end - start) * 1e3 for start, _, end, _ in times],
        "audio_s": [size / 48_000 for *_, size in times],
        "rtf": [(end - start) / (size / 48_000) for start, _, end, size in times],
    }
    return ClientRun.of_lists(OPENAI, load.concurrency, load.reference, figures)


async def _openai_times(url: str, load: Load) -> list[tuple[float, float, float, int]]:
    import openai

    places = asyncio.Semaphore(load.concurrency)
    fields = {
        "model": load.model,
        "voice": load.voice or "default",
        "response_format": "pcm",
        "extra_body": {"stream": True, "stream_format": "audio", "seed": SEED},
    }
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:

        async def ask(prompt: Prompt) -> tuple[float, float, float, int]:
            async with places:
                start, first, size = time.perf_counter(), None, 0
                create = client.audio.speech.with_streaming_response.create
                async with create(input=prompt.text, **fields) as response:
                    async for chunk in response.iter_bytes():
                        first = time.perf_counter() if first is None else first
                        size += len(chunk)
                if first is None:
                    raise TargetError("the openai package got no audio")
                return start, first, time.perf_counter(), size

        await asyncio.gather(*(ask(load.prompts[0]) for _ in range(2 * load.concurrency)))
        return await asyncio.gather(*(ask(prompt) for prompt in load.prompts[: load.requests]))
