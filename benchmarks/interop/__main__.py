"""Do other clients and ours measure the same of one server? Writes the table of reports/interop.md.

    python -m benchmarks.interop --vllm-python PATH [--aiperf PATH] [--guidellm PATH] --out reports/interop.md

PATH of ``--vllm-python``: the interpreter of an environment with vllm 0.30.0 and vllm-omni 0.30.0 (Python 3.12; the
client needs no GPU); of the others, their command in environments of their own.

One reference server at a time, on this machine. The clients take turns on it in ABBA order, ``--rounds`` times
each, with the same prompts, recordings, seed, number of requests and concurrency, so that what drifts hits
them alike. Its engine is first one without a model, which keeps its time (the table that must agree), then the
bundled voice. ``--keep FOLDER`` keeps the prompts, logs and the JSON results of ``vllm bench serve``.
"""

from __future__ import annotations

import argparse
import contextlib
import shlex
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.interop.habits import THEIRS, Habits
from benchmarks.interop.others import aiperf_section, guidellm_section, vllm_chat_section
from benchmarks.interop.page import Page, write_page
from benchmarks.interop.report import Group
from benchmarks.interop.runs import (
    Load,
    Server,
    VllmBench,
    our_timelines,
    run_openai,
    run_ours,
    run_vllm,
    write_prompts,
)
from omni_bench.datasets.load import load_prompts
from omni_bench.records.config import DatasetConfig


def main() -> None:
    """Run everything and write the page."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.interop", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--vllm-python", required=True, help="interpreter of the environment of vllm-omni")
    parser.add_argument("--aiperf", help="the command aiperf of its environment")
    parser.add_argument("--guidellm", help="the command guidellm of its environment")
    parser.add_argument("--levels", default="1,4", help="concurrencies (default: %(default)s)")
    parser.add_argument("--requests", type=int, default=16, help="requests of a run (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=4, help="runs of each client, even (default: %(default)s)")
    parser.add_argument("--tiny-requests", type=int, default=6, help="of a run of the bundled voice; 0: none")
    parser.add_argument("--out", type=Path, help="the page; without it, standard output")
    parser.add_argument("--keep", type=Path, help="a folder for what the runs leave behind")
    arguments = parser.parse_args()
    if arguments.rounds < 2 or arguments.rounds % 2:
        parser.error(f"--rounds {arguments.rounds}: must be even, so that the clients' orders cancel out")
    began_s = time.monotonic()
    with folder_of(arguments.keep) as folder:
        page = measure(arguments, folder)
    page.duration_s = time.monotonic() - began_s
    text = write_page(page)
    if arguments.out is None:
        sys.stdout.write(text)
    else:
        arguments.out.write_text(text, encoding="utf-8")


@contextlib.contextmanager
def folder_of(keep: Path | None) -> Iterator[Path]:
    """The folder to work in, which goes away unless it was asked for."""
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep.absolute()
    else:
        with tempfile.TemporaryDirectory() as name:
            yield Path(name)


def measure(arguments: argparse.Namespace, folder: Path) -> Page:
    """All runs."""
    levels = [int(level) for level in arguments.levels.split(",")]
    needed = max(arguments.requests, arguments.tiny_requests, 2)
    prompts = load_prompts(DatasetConfig(kind="bundled", name="seed_tts_mini", shuffle=False), needed)
    prompts = write_prompts(folder / "prompts", prompts)
    page = Page(command=shown_command(), requests=arguments.requests, tiny_requests=arguments.tiny_requests)
    page.rounds = arguments.rounds
    with VllmBench(arguments.vllm_python, folder) as bench:
        page.versions = bench.hello
        with Server("steady", folder / "steady.log") as server:
            for level in levels:
                load = Load("steady", prompts, arguments.requests, level, voice="tone")
                page.steady[level] = turns(bench, server, load, arguments.rounds, f"steady-c{level}")
                plain = Load("steady", prompts, arguments.requests, level, reference=False, voice="tone")
                page.plain[level] = turns(bench, server, plain, 2, f"plain-c{level}")
                page.steps[level] = steps(server, load)
                page.wav[level] = our_timelines(server.url, plain, plain.client("openai_speech_wav"))
                page.openai[level] = Group([run_openai(server, plain) for _ in range(2)])
            page.others.append(vllm_chat_section(bench, server, replace(load, concurrency=1), levels))
            other = Load("steady", prompts, arguments.requests, 1, reference=False)
            if arguments.aiperf:
                page.others.append(aiperf_section(arguments.aiperf, server, folder, other, levels))
            if arguments.guidellm:
                page.others.append(guidellm_section(arguments.guidellm, server, folder, other, levels))
        if arguments.tiny_requests:
            with Server("tiny", folder / "tiny.log") as server:
                for level in levels:
                    load = Load("tiny", prompts, arguments.tiny_requests, level)
                    page.tiny[level] = turns(bench, server, load, 2, f"tiny-c{level}")
    return page


def turns(bench: VllmBench, server: Server, load: Load, rounds: int, name: str) -> Group:
    """Theirs, ours like theirs and ours as it is, in turn: A B C, C B A, and so on."""
    runs = []
    for number in range(rounds):
        clients = [
            lambda number=number: run_vllm(bench, server, load, f"{name}-{number}-"),
            lambda: run_ours(server, load, THEIRS),
            lambda: run_ours(server, load),
        ]
        print(f"{name}, round {number + 1} of {rounds}", file=sys.stderr)
        runs += [run() for run in (clients if number % 2 == 0 else reversed(clients))]
    return Group(runs)


def steps(server: Server, load: Load) -> Group:
    """Our client with one habit of theirs more each time, there and back: what each of them costs."""
    ladder = [Habits(*(number > place for place in range(3))) for number in range(4)]
    return Group([run_ours(server, load, habits) for habits in (*ladder, *reversed(ladder))])


def shown_command(words: Sequence[str] = ()) -> str:
    """The command line, without where programs lie on this machine."""
    shown = [f"PATH/{Path(word).name}" if word.startswith(("/", "~")) else word for word in words or sys.argv[1:]]
    return shlex.join(["python", "-m", "benchmarks.interop", *shown])


if __name__ == "__main__":
    main()
