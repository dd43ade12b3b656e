"""Draw the pictures of reports/gallery anew: of small runs of the bundled server, and of nights made from one.

python scripts/gallery.py --work FOLDER

Runs that are in FOLDER already are taken as they are. Every picture is marked as an EXAMPLE where the hardware stands,
as nobody looks after the machine that it is drawn on. The nights of the trend are the sweep with a random spread of
3 %, and 24 % slower from the fifteenth on; what is alarmed is left to the gate's own rule.
"""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from omni_bench.compare.compare import compare_runs
from omni_bench.compare.load import load_arm
from omni_bench.compare.plots import draw_comparison
from omni_bench.metrics.definitions import METRICS
from omni_bench.nightly.gate.judge_series import Evidence, judge_series
from omni_bench.nightly.history.database import Baseline, HistoryAlarm
from omni_bench.nightly.history.plots import draw_trends
from omni_bench.nightly.history.records import StoredLevel, StoredRun, record_of_run
from omni_bench.nightly.history.trend import trends
from omni_bench.records.run_folder import RunFolder
from omni_bench.report.cross_talk_plot import draw_cross_talk
from omni_bench.report.page.lanes import in_flight_ns
from omni_bench.report.plots import draw_plots

GALLERY = Path(__file__).resolve().parents[1] / "reports" / "gallery"
BUSY = ("scenario=smoke", "load.lag_budget_ms=500")
RUNS = {
    "one": ("run", *BUSY, "load.requests_per_level=24"),
    "sweep": ("run", *BUSY, "load.concurrency=[1,2,4]", "load.requests_per_level=16"),
    "fault": ("run", *BUSY, "load.concurrency=[1,4]", "load.requests_per_level=16", "reference.fault=neighbour_slot"),
    "ab": (
        "ab", *BUSY, "load.concurrency=[1,4]", "load.requests_per_level=12", "before.reference.predictor=reprefill",
        "after.reference.predictor=kv_cache", "pairs=3", "extend=off",
    ),
}  # fmt: skip
EXAMPLE = "EXAMPLE, not a measurement: a busy CPU"
FIRST, NIGHTS, SLOWER_FROM, SLOWER, SPREAD, SEED = datetime(2026, 11, 1, 3, tzinfo=UTC), 20, 15, 1.24, 0.03, 16


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, required=True, help="folder of the runs; those there are not made again")
    work = parser.parse_args().work.resolve()
    for name in RUNS:
        make(work, name)
    for name, pictures in (("one", ("overview",)), ("sweep", ("overview",)), ("fault", ("overview", "ttfp"))):
        keep(draw_run(work, name), name, pictures)
    keep(work / "plots" / "fault", "fault", ["cross_talk_c4"])
    keep(draw_study(work), "ab", ("before_after", "e2el_over_audio"))
    keep(draw_nights(work), "trend", ("ttfp_ms",))


def make(work: Path, name: str) -> None:
    """Run a command of :data:`RUNS` into ``work``, unless its result is there."""
    if (work / name).exists():
        return
    command, *words = RUNS[name]
    out = ("--out", str(work / name)) if command == "ab" else (f"output.root={work / name}",)
    subprocess.run([sys.executable, "-m", "omni_bench", command, *words, *out], check=False)  # a fault ends with 1


def keep(folder: Path, name: str, pictures: Sequence[str]) -> None:
    """Copy PNG files to the gallery, ``name`` before theirs."""
    for picture in pictures:
        (drawn,) = folder.glob(f"*{picture}.png")
        shutil.copy(drawn, GALLERY / f"{name}_{picture}.png")


def run_of(work: Path, name: str) -> tuple[RunFolder, dict[str, Any]]:
    """The one run in a folder, marked as an example."""
    (path,) = (work / name).glob("*/*/run.json")
    folder = RunFolder.open(path.parent)
    run = folder.read_run()
    run["provenance"]["hardware"]["cpu"] = EXAMPLE
    return folder, run


def draw_run(work: Path, name: str) -> Path:
    """The pictures of a run; their folder."""
    folder, run = run_of(work, name)
    requests, out = folder.read_requests(), work / "plots" / name
    draw_plots(run, out, requests)
    busy = in_flight_ns([*requests, *folder.read_lines(folder.warmup_jsonl)])
    draw_cross_talk(run, folder.read_lines(folder.cross_talk_jsonl), busy, out)
    return out


def draw_study(work: Path) -> Path:
    """The pictures of the study; their folder."""
    arms = (load_arm(f"{work}/ab/runs/*-{arm}") for arm in ("before", "after"))
    marked = [[replace(run, facts=replace(run.facts, hardware=EXAMPLE)) for run in arm] for arm in arms]
    draw_comparison(compare_runs(*marked), *marked, work / "plots" / "ab")
    return work / "plots" / "ab"


def draw_nights(work: Path) -> Path:
    """The pictures of the trend; their folder."""
    folder, run = run_of(work, "sweep")
    nights = list(made_nights(record_of_run(run, str(folder.path))))
    alarms: list[HistoryAlarm] = []
    for index, night in enumerate(nights):
        for load in (level.load for level in night.levels):
            found = judge_series("ttfp_ms", load, night, Evidence(nights[:index], alarms))
            alarms += [found.alarm] if found.alarm is not None else []
    baseline = Baseline(nights[0].series, nights[3].started_utc or "", "example", tuple(nights[:4]))
    mine = [trend for trend in trends(nights, baseline) if trend.series.metric == "ttfp_ms"]
    draw_trends(nights, mine, work / "plots" / "trend", baseline, alarms)
    return work / "plots" / "trend"


def made_nights(run: StoredRun) -> Iterator[StoredRun]:
    """The nights of the module's docstring."""
    chance = random.Random(SEED)
    for number in range(1, NIGHTS + 1):
        factor = (SLOWER if number >= SLOWER_FROM else 1.0) * (1 + SPREAD * chance.uniform(-1, 1))
        yield replace(
            run,
            run_id=f"{number:064x}",
            started_utc=(FIRST + timedelta(days=number - 1)).strftime("%Y-%m-%dT%H:%M:%SZ"),
            versions={**run.versions, "target.commit": f"{number:02d}" * 20},
            levels=tuple(slower(level, factor) for level in run.levels),
        )


def slower(level: StoredLevel, factor: float) -> StoredLevel:
    """A level whose times are ``factor`` times as long."""

    def scaled(name: str, summary: Mapping[str, Any]) -> dict[str, Any]:
        by = 1 / factor if METRICS[name].better == "higher" else factor
        figures = ("mean", "std", "p50", "p90", "p95", "p99")
        return {**summary, **{key: summary[key] * by for key in figures if summary.get(key) is not None}}

    return replace(level, metrics={name: scaled(name, summary) for name, summary in level.metrics.items()})


if __name__ == "__main__":
    main()
