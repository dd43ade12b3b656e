"""Our engine beside the official ``qwen-tts`` and ``faster-qwen3-tts``, on one card, one utterance at a time.

    python -m benchmarks.peers --peer-python qwen_tts=A/bin/python faster_qwen3_tts=B/bin/python --out peers.json
    python -m benchmarks.peers --tiny --device cpu                  does it work at all? small models, no GPU

Random weights at the released sizes, utterances of one forced length, prompts of nearly one length, the same
sampling, bfloat16, at concurrency 1. Each system runs in a process of its own, one after the other, measured
by the same code (worker.py). The peers are optional and cannot share an environment, as they need
different versions of transformers:

    pip install qwen-tts==0.1.1                                     A: transformers 4.57.3
    pip install faster-qwen3-tts==0.5.4 transformers==5.15.1        B: newer ones break the qwen-tts-hf it needs

A peer that is not installed, fails or exceeds --limit-s is a row with the reason.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers.table import OURS, document, figures, understand, with_ratios
from omni_bench.subprocesses import child_env, start

SYSTEMS = (OURS, "qwen_tts", "faster_qwen3_tts")
MODELS = ("qwen3_tts_1_7b", "qwen3_tts_0_6b")
WORKER = Path(__file__).resolve().with_name("worker.py")
CHARACTERS_PER_FRAME = 14 / 12.5
"""Of the lengths that our engine forces with random weights (``reference_impl/prompt/builder.py``)."""

WARM_UP_FRAMES = 24
# no model hub is asked for anything: every file is local
QUIET = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}


def text_of(frames: int) -> str:
    """English words that our engine speaks in ``frames`` frames where lengths are forced.

    Nearly every word is one token, both for the stand-in tokenizer of random weights and for the byte-level
    one of the peers' checkpoint.
    """
    length = round(frames * CHARACTERS_PER_FRAME)
    text = ("the " * length)[:length]
    return text[:-1] + "e" if text.endswith(" ") else text


def interpreters(given: Sequence[str]) -> dict[str, str]:
    """``SYSTEM=PYTHON`` entries, or one PYTHON for both peers, as a mapping; ValueError for an unknown system."""
    chosen: dict[str, str] = {}
    for entry in given:
        system, equals, python = entry.partition("=")
        if not equals:
            chosen |= dict.fromkeys(SYSTEMS[1:], entry)
        elif system in SYSTEMS and python:
            chosen[system] = python
        else:
            raise ValueError(f"--peer-python {entry!r}: give PYTHON or SYSTEM=PYTHON; valid: {', '.join(SYSTEMS)}")
    return chosen


def run_system(
    system: str, python: str, plan: Mapping[str, Any], limit_s: float
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Run one system's process -> what is known of it, its results (with one of ``error`` for what is missing)."""
    env = child_env(**QUIET)
    if python != sys.executable:
        # packages put in this interpreter's way are not meant for another
        env["PYTHONPATH"] = str(WORKER.parents[2])
    begun, why, output = time.perf_counter(), None, b""
    with tempfile.TemporaryFile() as log:
        try:
            process = start([python, str(WORKER)], stderr=log, env=env)
        except OSError as error:
            why = f"{python} cannot be started: {error.strerror}"
        else:
            try:
                output, _ = process.communicate(json.dumps({**plan, "system": system}).encode(), timeout=limit_s)
            except subprocess.TimeoutExpired:
                why = f"not done within {limit_s:g} s"
            finally:
                end_session(process)
            if why is not None:
                output, _ = process.communicate()
            elif process.returncode != 0:
                why = f"the process ended with {process.returncode}: {last_line(log)}"
    about, results = understand(output.decode(), plan["models"], why)
    return {**about, "interpreter": python, "took_s": time.perf_counter() - begun, "ended": why or "normally"}, results


def end_session(process: subprocess.Popen[bytes]) -> None:
    """Kill whatever is left of a process and its children."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def last_line(log: Any) -> str:
    """The last line of a process's log that says something."""
    log.seek(0)
    said = [line for line in log.read().decode(errors="replace").splitlines() if line.strip()]
    return said[-1].strip() if said else "it said nothing"


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line; exits with 2 for one that makes no sense."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__.split("\n")[0])
    parser.add_argument("--systems", nargs="+", default=list(SYSTEMS), choices=SYSTEMS)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=MODELS)
    parser.add_argument("--peer-python", nargs="+", default=[], metavar="[SYSTEM=]PYTHON", help="who runs the peers")
    parser.add_argument("--frames", type=int, default=100, help="of each utterance")
    parser.add_argument("--rounds", type=int, default=3, help="utterances measured, after a short one that is not")
    parser.add_argument("--enough-s", type=float, default=10, help="no more rounds once they took so long together")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true", help="models of a few layers: a functional check")
    parser.add_argument("--limit-s", type=float, default=300, help="for each system")
    parser.add_argument("--set", nargs="*", default=[], metavar="FIELD=JSON", help="other settings of our engine")
    parser.add_argument("--out", type=Path, help="write every number as JSON, and the table beside it as .md")
    args = parser.parse_args(arguments)
    if args.frames < 2 or args.rounds < 1 or args.limit_s <= 0:
        parser.error("--frames must be at least 2, --rounds at least 1, --limit-s above 0")
    try:
        args.interpreters = interpreters(args.peer_python)
        args.settings = {key: json.loads(value) for key, value in (entry.split("=", 1) for entry in args.set)}
    except ValueError as error:
        parser.error(str(error))
    return args


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table and store every number; 1 if nothing at all could be measured."""
    args = parse(arguments)
    names = ("models", "frames", "rounds", "enough_s", "device", "tiny", "settings")
    plan = {name: getattr(args, name) for name in names}
    plan["text"] = text_of(args.frames)
    plan["warm_up"] = {"frames": WARM_UP_FRAMES, "text": text_of(WARM_UP_FRAMES)}
    results: dict[str, Any] = {
        "command": shlex.join(
            ["python", "-m", "benchmarks.peers", *(sys.argv[1:] if arguments is None else arguments)]
        ),
        "frames": args.frames,
        "rounds": args.rounds,
        "tiny": args.tiny,
        "settings": args.settings,
        "systems": {},
        "rows": [],
    }
    rows: list[dict[str, Any]] = []
    for system in args.systems:
        print(f"{system} …", file=sys.stderr, flush=True)
        about, said = run_system(system, args.interpreters.get(system, sys.executable), plan, args.limit_s)
        results["systems"][system] = about
        rows += [figures(system, result) for result in said]
        results["rows"] = with_ratios(sorted(rows, key=lambda row: args.models.index(row["model"])))
        if args.out:
            args.out.write_text(json.dumps(results, indent=1), encoding="utf-8")
            args.out.with_suffix(".md").write_text(document(results), encoding="utf-8")
    print(document(results))
    return 0 if any("error" not in row for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
