"""A judging process: ``python -m omni_bench.accuracy.asr.worker``, driven by :mod:`omni_bench.accuracy.asr.pool`.

It speaks JSON lines. In: first the set-up (``spec``, ``settings``), then batches
(``batch``, ``language``, ``clips``). Out: one ``ready`` line, then ``batch`` and ``transcripts`` for each
batch, or one ``error`` line and exit code 3. Standard input at its end means that the parent
has finished or died: the process ends at once, in the middle of a batch too.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from omni_bench.accuracy.asr.clips import AsrClip
from omni_bench.accuracy.asr.settings import THREADS_PER_WORKER, JudgeSettings
from omni_bench.accuracy.asr.weights.resolve import JudgeSpec
from omni_bench.errors import OmniBenchError


def main() -> int:
    """Serve batches until standard input ends. Returns the exit code."""
    replies = _claim_stdout()
    requests: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_read_until_parent_is_gone, args=(sys.stdin, requests), daemon=True).start()
    try:
        _serve(requests, replies)
    except OmniBenchError as error:
        _send(replies, {"error": str(error)})
    return OmniBenchError.exit_code


def _serve(requests: queue.Queue[str], replies: TextIO) -> None:
    setup = json.loads(requests.get())
    warnings.simplefilter("ignore")
    import torch  # only now: the set-up has to be read first even if the import fails

    from omni_bench.accuracy.asr.engines import load_engine

    torch.set_num_threads(THREADS_PER_WORKER)
    judge = load_engine(spec_from_json(setup["spec"]), JudgeSettings(**setup["settings"]))
    _send(replies, {"ready": True})
    while True:
        request = json.loads(requests.get())
        clips = [clip_from_json(fields) for fields in request["clips"]]
        transcripts = judge.transcribe(clips, request["language"])
        _send(replies, {"batch": request["batch"], "transcripts": [asdict(transcript) for transcript in transcripts]})


def spec_to_json(spec: JudgeSpec) -> dict[str, Any]:
    """A JudgeSpec as JSON types."""
    return {**asdict(spec), "paths": [str(path) for path in spec.paths]}


def spec_from_json(fields: dict[str, Any]) -> JudgeSpec:
    """The inverse of :func:`spec_to_json`."""
    return JudgeSpec(**{**fields, "paths": tuple(Path(path) for path in fields["paths"])})


def clip_to_json(clip: AsrClip) -> dict[str, Any]:
    """An AsrClip whose samples are in a file, as JSON types."""
    return {**asdict(clip), "pcm16": str(clip.pcm16)}


def clip_from_json(fields: dict[str, Any]) -> AsrClip:
    """The inverse of :func:`clip_to_json`."""
    return AsrClip(**{**fields, "pcm16": Path(fields["pcm16"])})


def _claim_stdout() -> TextIO:
    """A private stream on standard output; whatever else prints there goes to standard error."""
    private = os.dup(1)
    os.dup2(2, 1)
    return os.fdopen(private, "w", encoding="utf-8")


def _read_until_parent_is_gone(stream: TextIO, requests: queue.Queue[str]) -> None:
    for line in stream:
        requests.put(line)
    os._exit(0)


def _send(replies: TextIO, message: dict[str, Any]) -> None:
    replies.write(json.dumps(message) + "\n")
    replies.flush()


if __name__ == "__main__":
    sys.exit(main())
