"""``vllm bench serve --omni`` and omni-bench on a server that runs already: do they measure the same? Writes a page.

    python -m benchmarks.interop.running --vllm-python PATH --url URL --model NAME --voice VOICE --out PAGE

The two clients take turns as in ``benchmarks.interop``, with the same sentences, seed, number of requests and
concurrency.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.interop.__main__ import folder_of, turns
from benchmarks.interop.report import agreement, definitions, statistics_table
from benchmarks.interop.runs import Load, VllmBench, write_prompts
from omni_bench import __version__
from omni_bench.datasets.load import load_prompts
from omni_bench.records.config import DatasetConfig
from omni_bench.run.provenance import cpu_model, usable_cores


@dataclass(frozen=True)
class RunningServer:
    """A server at ``url`` that notes nothing of its requests."""

    url: str

    def records(self) -> dict[str, dict[str, int]]:
        """Nothing."""
        return {}


def main() -> None:
    """Run both clients at every level and write the page."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.interop.running",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--vllm-python", required=True, help="interpreter of the environment of vllm-omni")
    parser.add_argument("--url", required=True)
    parser.add_argument("--model", required=True, help="as the server calls it")
    parser.add_argument("--voice", required=True)
    parser.add_argument("--levels", default="1,4", help="concurrencies (default: %(default)s)")
    parser.add_argument("--requests", type=int, default=8, help="requests of a run (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=2, help="runs of each client (default: %(default)s)")
    parser.add_argument("--out", type=Path, required=True, help="the page")
    parser.add_argument("--keep", type=Path, help="a folder for what the runs leave behind")
    arguments = parser.parse_args()
    began_s = time.monotonic()
    tables = []
    with folder_of(arguments.keep) as folder:
        prompts = load_prompts(
            DatasetConfig(kind="bundled", name="seed_tts_mini", shuffle=False), max(arguments.requests, 2)
        )
        prompts = write_prompts(folder / "prompts", prompts)
        server = RunningServer(arguments.url)
        with VllmBench(str(Path(arguments.vllm_python).absolute()), folder) as bench:
            for level in map(int, arguments.levels.split(",")):
                load = Load(arguments.model, prompts, arguments.requests, level, reference=False, voice=arguments.voice)
                group = turns(bench, server, load, arguments.rounds, f"c{level}")
                tables.append(f"### Concurrency {level}\n\n{agreement(group)}\n\n{statistics_table(group)}")
            versions = ", ".join(f"{name} {version}" for name, version in bench.hello.items())
    text = (
        f"- omni-bench {__version__}; {versions} in theirs; {cpu_model()}, {usable_cores()} cores\n"
        f"- {arguments.requests} requests a run, {arguments.rounds} runs of each client in turn, two warm-up requests "
        f"a slot; {time.monotonic() - began_s:.0f} s in all\n\n{definitions()}\n\n" + "\n\n".join(tables) + "\n"
    )
    arguments.out.write_text(text, encoding="utf-8")
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
