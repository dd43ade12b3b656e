"""Transcribes many clips on a few judging processes.

Batches are planned from the clips alone and handed out as processes become free, so that
neither the number of processes nor their speed has a say in what is heard.
"""

from __future__ import annotations

import json
import math
import queue
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from omni_bench.accuracy.asr.clips import WHISPER_WINDOW_S, AsrClip, Transcript, clip_duration_s, longest_clip_s
from omni_bench.accuracy.asr.engines import resolve_engine
from omni_bench.accuracy.asr.settings import THREADS_PER_WORKER, judge_settings, on_cuda
from omni_bench.accuracy.asr.weights.resolve import JudgeSpec
from omni_bench.accuracy.asr.worker import clip_to_json, spec_to_json
from omni_bench.errors import AccuracyError
from omni_bench.records.config import AsrConfig
from omni_bench.subprocesses import child_env, module_command, start

WORKERS_CPU, WORKERS_CUDA = 2, 1
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
WORKER_COMMAND = module_command("omni_bench.accuracy.asr.worker")
REPLY_TIMEOUT_S = 3600.0  # without a word from any process; a batch of a large model on a CPU takes minutes
_MAX_REPLY_BYTES = 64 << 20
_STDERR_TAIL_CHARS = 2000
_STOP_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class Batch:
    """Clips (by index) that are decoded together: one language, one audio context."""

    indices: tuple[int, ...]
    language: str


def transcribe(
    clips: Sequence[AsrClip],
    asr: AsrConfig,
    language: str,
    on_progress: Callable[[int, int], None] | None = None,
    *,
    spec: JudgeSpec | None = None,
) -> list[Transcript]:
    """Transcripts of ``clips``, in their order.

    ``language`` serves clips that name none. ``on_progress(done, total)`` is called after every
    finished clip, in the calling thread. ``spec``: a judge already resolved, else
    ``asr.model`` and ``asr.device`` are. The processes live only as long as the call, also
    when it ends by an exception. Raises :class:`AccuracyError` if a clip cannot be read, the judge
    cannot be had, or a process dies or stays silent.
    """
    done = 0
    transcripts = [Transcript(clip.request_id, "", None, None) for clip in clips]
    durations_s = [clip_duration_s(clip) for clip in clips]
    spoken = [index for index, duration_s in enumerate(durations_s) if duration_s > 0]

    def finished(count: int) -> None:
        nonlocal done
        for _ in range(count):
            done += 1
            if on_progress is not None:
                on_progress(done, len(clips))

    finished(len(clips) - len(spoken))
    if not spoken:
        return transcripts
    if spec is None:
        spec = resolve_engine(asr, language)
    settings = judge_settings(asr, spec.device)
    batches = plan_batches(
        {index: durations_s[index] for index in spoken},
        {index: clips[index].language or language for index in spoken},
        batch_size=settings.batch_size,
        short_s=longest_clip_s(spec.context_s, settings.silence_s),
        window_s=longest_clip_s(WHISPER_WINDOW_S, settings.silence_s),
    )
    count = asr.workers or (WORKERS_CUDA if on_cuda(spec.device) else WORKERS_CPU)
    setup = {"spec": spec_to_json(spec), "settings": asdict(settings)}
    with tempfile.TemporaryDirectory(prefix="omni-bench-judge-") as folder:
        requests = [_request(number, batch, clips, Path(folder)) for number, batch in enumerate(batches)]
        with _Pool(min(count, len(batches)), setup, Path(folder)) as pool:
            for reply in pool.run(requests):
                indices = batches[reply["batch"]].indices
                for index, fields in zip(indices, reply["transcripts"], strict=True):
                    transcripts[index] = Transcript(**fields)
                finished(len(indices))
    return transcripts


def plan_batches(
    durations_s: dict[int, float], languages: dict[int, str], *, batch_size: int, short_s: float, window_s: float
) -> list[Batch]:
    """Batches of clips alike in language and length, the costliest first.

    Both dictionaries have the clips' indices as keys. Clips of up to ``short_s`` go with their
    like, as do those of up to ``window_s``; longer ones go alone, since each is several windows.
    Sizes within a group differ by one at most, and a group has an even number of batches where
    it can, so that two processes end together. The plan depends on nothing else.
    """
    groups: dict[tuple[int, str], list[int]] = {}
    batches = []
    for index in sorted(durations_s, key=lambda index: (-durations_s[index], index)):
        if durations_s[index] > window_s:
            batches.append(Batch((index,), languages[index]))
        else:
            groups.setdefault((int(durations_s[index] <= short_s), languages[index]), []).append(index)
    for (_, language), indices in sorted(groups.items()):
        parts = math.ceil(len(indices) / batch_size)
        parts = min(len(indices), parts + parts % 2)
        for part in range(parts):
            start, end = part * len(indices) // parts, (part + 1) * len(indices) // parts
            batches.append(Batch(tuple(indices[start:end]), language))
    return batches


def _request(number: int, batch: Batch, clips: Sequence[AsrClip], folder: Path) -> dict[str, Any]:
    fields = [clip_to_json(_on_disk(clips[index], folder / f"{index}.pcm")) for index in batch.indices]
    return {"batch": number, "language": batch.language, "clips": fields}


def _on_disk(clip: AsrClip, path: Path) -> AsrClip:
    if not isinstance(clip.pcm16, np.ndarray):
        return replace(clip, pcm16=clip.pcm16.absolute())
    try:
        clip.pcm16.astype("<i2").tofile(path)
    except OSError as error:
        raise AccuracyError(f"clip {clip.request_id}: cannot write its samples to {path}: {error}") from error
    return replace(clip, pcm16=path)


class _Pool:
    """A few workers, each with a thread that feeds it; gone with their block, however it ends."""

    def __init__(self, count: int, setup: dict[str, Any], folder: Path) -> None:
        self._setup = setup
        self._replies: queue.SimpleQueue[dict[str, Any] | Exception] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._workers: list[_Worker] = []
        try:
            for number in range(count):
                self._workers.append(_Worker(folder / f"worker-{number}.log"))
        except OSError as error:
            self._stop()
            raise AccuracyError(f"cannot start a judging process: {error}") from error

    def __enter__(self) -> _Pool:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stop()

    def run(self, requests: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """Yield the reply to every request as it comes. Raises AccuracyError at the first failure."""
        pending: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        for request in requests:
            pending.put(request)
        for worker in self._workers:
            thread = threading.Thread(target=self._feed, args=(worker, pending), daemon=True)
            self._threads.append(thread)
            thread.start()
        left = len(requests)
        while left:
            try:
                reply = self._replies.get(timeout=REPLY_TIMEOUT_S)
            except queue.Empty:
                raise AccuracyError(f"the judge has not answered for {REPLY_TIMEOUT_S:.0f} s") from None
            if isinstance(reply, Exception):
                raise reply
            if "batch" in reply:
                left -= 1
                yield reply

    def _feed(self, worker: _Worker, pending: queue.SimpleQueue[dict[str, Any]]) -> None:
        try:
            self._replies.put(worker.ask(self._setup))
            while True:
                try:
                    request = pending.get_nowait()
                except queue.Empty:
                    return
                self._replies.put(worker.ask(request))
        except Exception as error:  # raised again by run(), in the caller's thread
            self._replies.put(error)

    def _stop(self) -> None:
        for worker in self._workers:
            worker.kill()
        for thread in self._threads:
            thread.join(_STOP_TIMEOUT_S)
        for worker in self._workers:
            worker.close()


class _Worker:
    """One ``omni_bench.accuracy.asr.worker`` process. Its standard error goes to ``log``."""

    def __init__(self, log: Path) -> None:
        self._log = log
        env = child_env(**dict.fromkeys(THREAD_VARIABLES, str(THREADS_PER_WORKER)))
        with log.open("wb") as stderr:
            self._process = start(WORKER_COMMAND, stderr=stderr, env=env)

    def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        """Send one message and wait for the reply. Raises AccuracyError if there is none."""
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline(_MAX_REPLY_BYTES)
        except OSError:  # a broken pipe: what the process wrote before it died says more
            line = b""
        if not line.endswith(b"\n"):
            raise self._died()
        try:
            reply = json.loads(line)
        except ValueError as error:
            raise AccuracyError(f"a judging process sent something else than JSON: {line[:200]!r}") from error
        if "error" in reply:
            raise AccuracyError(reply["error"])
        return reply

    def _died(self) -> AccuracyError:
        try:
            code: int | str = self._process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            code = "none yet"
        tail = self._log.read_text(encoding="utf-8", errors="replace")[-_STDERR_TAIL_CHARS:].strip() or "nothing"
        return AccuracyError(f"a judging process died (exit code {code}); the end of its output:\n{tail}")

    def kill(self) -> None:
        """End the process now and collect it."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """Close the pipes, once no thread uses them."""
        for pipe in (self._process.stdin, self._process.stdout):
            try:
                pipe.close()
            except OSError:  # unsent bytes of a process that is gone
                continue
