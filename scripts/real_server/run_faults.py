"""Break a real vLLM-Omni on purpose, one fault a run, and see whether omni-bench notices; then run it whole.

python scripts/real_server/run_faults.py reports/real_servers --clean 10     (after `make real-server`)

Every run launches the server of scenario=vllm_omni_cpu at concurrency 4. A fault is caught if the run is invalid for
one of the reasons that ``faults.toml`` names; a clean run is quiet if it is valid. Writes faults.json and faults.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

FAULTS = Path(__file__).parent / "faults.toml"
RUN = ["scenario=vllm_omni_cpu", "load.concurrency=[4]", "load.requests_per_level=8", "load.warmup_per_slot=1"]


def found(run: Mapping[str, Any]) -> list[str]:
    """The codes of all reasons that a run.json gives, with the names of audio faults instead of ``invalid_audio``."""
    names = {reason["code"] for reason in run["invalid_reasons"]}
    for level in run["levels"]:
        names |= {reason["code"] for reason in level["invalid_reasons"]} | set(level["invalid"])
    return sorted(names - {"invalid_audio"})


def one_run(folder: Path, *overrides: str) -> dict[str, Any]:
    """Launch, drive and judge the server once; what is known of the run. Exits if there was no run at all."""
    command = [*RUN, *overrides]
    done = subprocess.run([sys.executable, "-m", "omni_bench", "run", *command, f"hydra.run.dir={folder}"], check=False)
    if not (folder / "run.json").is_file():
        sys.exit(f"{folder}: no run (exit code {done.returncode}); has `make real-server` been run?")
    run = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    level = run["levels"][0] if run["levels"] else {}
    return {
        "command": f"omni-bench run {' '.join(command)}",
        "commit": run["provenance"]["harness"]["commit"],
        "server": run["provenance"]["target"]["version"],
        "valid": run["valid"],
        "found": found(run),
        "wer": (level.get("accuracy") or {}).get("wer"),
        "cross_talk": (level.get("cross_talk") or {}).get("hits"),
    }


def table(runs: Iterable[Mapping[str, Any]], faults: Mapping[str, Any]) -> str:
    """The matrix: what was named, what was found."""
    lines = [
        "| fault | as it was made in | named in advance | found | caught | WER | cross-talk |",
        "|---|---|---|---|---|--:|--:|",
    ]
    for run in runs:
        fault = faults.get(run["fault"])
        named = fault["detectors"] if fault else []
        caught = (
            ("quiet" if run["valid"] else "**alarm**")
            if not fault
            else "yes"
            if set(named) & set(run["found"])
            else "**no**"
        )
        wer = "n/a" if run["wer"] is None else f"{run['wer']:.1%}"
        hits = "n/a" if run["cross_talk"] is None else run["cross_talk"]
        cells = [
            run["fault"],
            fault["source"] if fault else "",
            ", ".join(named),
            ", ".join(run["found"]),
            caught,
            wer,
            hits,
        ]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def write(out: Path, runs: list[dict[str, Any]], faults: Mapping[str, Any]) -> None:
    """faults.json and faults.md, after every run."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "faults.json").write_text(json.dumps(runs, indent=1) + "\n", encoding="utf-8")
    head = (
        f"# vLLM-Omni {runs[0]['server']}, broken on purpose\n\nConcurrency 4, 8 requests, omni-bench commit "
        f"{(runs[0]['commit'] or 'n/a')[:12]} (each run's own in faults.json). "
        "Faults: `scripts/real_server/plugin`, named in advance: "
        "`scripts/real_server/faults.toml`.\n\n"
    )
    again = (
        f"\n\n    python scripts/real_server/run_faults.py {out} --clean 10\n\nA single run: `{runs[0]['command']}`\n"
    )
    (out / "faults.md").write_text(head + table(runs, faults) + again, encoding="utf-8")


def main() -> int:
    """Exit code 0 if every fault was caught and every clean run was quiet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, help="folder for faults.json and faults.md")
    parser.add_argument("--clean", type=int, default=10, metavar="N", help="runs of the whole server (10)")
    parser.add_argument("--only", metavar="FAULT", help="one fault alone; clean: none, the whole server alone")
    parser.add_argument("--runs", type=Path, default=Path("reports/runs/real_faults"), help="folder for the runs")
    options = parser.parse_args()
    faults = tomllib.loads(FAULTS.read_text(encoding="utf-8"))
    if options.only not in (None, "clean", *faults):
        parser.error(f"--only {options.only}: valid: clean, {', '.join(faults)}")
    chosen = [name for name in faults if options.only in (None, name)]
    orders = [(name, [f"+target.env.OMNI_BENCH_FAULT={name}"]) for name in chosen]
    orders += [("clean", [f"dataset.seed={index}"]) for index in range(options.clean)]
    runs: list[dict[str, Any]] = []
    for index, (name, overrides) in enumerate(orders):
        runs.append({"fault": name, **one_run(options.runs / f"{index:02}_{name}", *overrides)})
        write(options.out, runs, faults)
        print(f"{name}: {', '.join(runs[-1]['found']) or 'nothing found'}", flush=True)
    missed = [
        run
        for run in runs
        if run["fault"] != "clean" and not set(faults[run["fault"]]["detectors"]) & set(run["found"])
    ]
    return 1 if missed or any(not run["valid"] for run in runs if run["fault"] == "clean") else 0


if __name__ == "__main__":
    sys.exit(main())
