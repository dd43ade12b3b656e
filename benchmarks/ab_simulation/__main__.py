"""Simulate A/B studies with a known truth through the procedure's own code, and write what came out.

python -m benchmarks.ab_simulation                     1,000 studies a cell -> reports/ab_simulation.md
python -m benchmarks.ab_simulation --studies 200 --out somewhere.md
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path

from tabulate import tabulate

from benchmarks.ab_simulation.simulate import Rates, World, log_sd, simulate
from omni_bench.compare.stats.pairs import smallest_detectable_change
from omni_bench.compare.stats.verdicts import ALPHA, StudyPlan
from omni_bench.selftest.matrix import rate_interval

EFFECTS = (0.0, 0.03, 0.05, 0.08, 0.15, 0.30, -0.08)
RUN_CVS = (0.01, 0.02, 0.03, 0.05)
TAILS = (
    {},
    {"levels": 1},
    {"stalled": (0.05, 0.05)},
    {"stalled": (0.3, 0.3)},
    {"late": 1 / 7},
    {"late": 1 / 7, "levels": 1},
    {"late": 1 / 14},
    {"late": 1 / 14, "levels": 1},
    {"late": 1 / 14, "levels": 1, "requests": 64},
    {"late": 1 / 7, "levels": 1, "requests": 16},
    {"stalled": (0.0, 0.06)},
    {"stalled": (0.0, 0.12)},
)
SEED = 2026
OUT = Path(__file__).resolve().parents[2] / "reports" / "ab_simulation.md"


def main() -> int:
    """Simulate every cell and write the report; returns 0."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ab_simulation", description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--out", type=Path, default=OUT)
    arguments = parser.parse_args()
    started = time.monotonic()
    cells, before, heavy = (
        [
            simulate(World(effect=effect, run_cv=run_cv, heavy=heavy), arguments.studies, seed=seed + number, plan=plan)
            for number, (run_cv, effect) in enumerate((run_cv, effect) for run_cv in RUN_CVS for effect in EFFECTS)
        ]
        for plan, heavy, seed in (
            (StudyPlan(), False, arguments.seed),
            (StudyPlan(early=False), False, arguments.seed),
            (StudyPlan(), True, arguments.seed + 300),
        )
    )
    single = [
        simulate(World(effect=effect, run_cv=0.02), arguments.studies, seed=arguments.seed + 100 + number, plan=plan)
        for number, (plan, effect) in enumerate(
            (plan, effect)
            for plan in (StudyPlan(pairs, None, early=False) for pairs in (3, 5, 8))
            for effect in (0.0, 0.08)
        )
    ]
    tails = [
        simulate(World(effect=0.0, run_cv=0.02, **world), arguments.studies, seed=arguments.seed + 200 + number)
        for number, world in enumerate(TAILS)
    ]
    arguments.out.write_text(
        render((cells, before, heavy), single, tails, arguments.studies, arguments.seed), encoding="utf-8"
    )
    print(
        f"{arguments.out}: {3 * len(cells) + len(single) + len(tails)} cells, {time.monotonic() - started:.0f} s",
        file=sys.stderr,
    )
    return 0


def render(
    whole: tuple[list[Rates], list[Rates], list[Rates]],
    single: list[Rates],
    tails: list[Rates],
    studies: int,
    seed: int,
) -> str:
    """The report as markdown. ``whole``: studies as they are by default, with looks=off, and with heavy tails."""
    cells, before, heavy = whole
    falsely = max((cell.regression for cell in (*cells, *heavy) if cell.world.effect == 0), default=0)
    world = replace(cells[0].world, effect=0.0)
    command = "python -m benchmarks.ab_simulation"
    changed = [f"--studies {studies}"] * (studies != 1000) + [f"--seed {seed}"] * (seed != SEED)
    null = next(cell for cell in cells if cell.world.run_cv == 0.02 and cell.world.effect == 0)
    slow = next(cell for cell in cells if cell.world.run_cv == 0.02 and cell.world.effect == 0.08)
    return f"""# Simulated A/B studies: how often the procedure is right

{studies:,} studies a row with a known truth, through the code that judges real runs
(`omni_bench/compare/stats/verdicts.py`): pairs of runs in ABBA order, with looks at {_looks(StudyPlan())} pairs that
spend an error of 5 % together (`omni_bench/compare/stats/looks.py`), Holm over TTFP, RTF, audio/s, the TTFP tail (the
mean of the slowest tenth) and the share of requests that stall. A study stops at the first look that can tell,
and before 5 pairs only for a change. "slower" is the true effect on every time (negative: faster); a row with 0 %
is an A/A study, in which every REGRESSION is false. At most {_rate(falsely, studies)} of the studies of such a row
({_interval(falsely, studies)}) end as one, heavy tails included.

At a run CV of 2 %: {_rate(null.regression, studies)} of the A/A studies end as a false REGRESSION
(95 % interval {_interval(null.regression, studies)}; the limit is 5 %), and a slowdown of 8 % is found in
{_rate(slow.regression, studies)} of the studies ({_interval(slow.regression, studies)}; at least 95 % are wanted).

{_table(cells)}

A true slowdown of 3 % lies on the threshold itself (the estimate must be worse than 3 %), so that one of the
medians is beyond it more often than not; below 5 % a study may truthfully end as NO REGRESSION, which says only that
a loss of 5 % is excluded. What a study of 5 pairs can find at a given run CV (power 0.8, one-sided 0.05):
{_detectable()}.

## What the early looks change

The same with `looks=off`: looks at {_looks(StudyPlan(early=False))} pairs that share the error equally.

{_change_table(before, cells)}

## Heavy tails

Run effects by Student's t with three degrees of freedom, of the same CV: most runs are closer to each other, and a
few are far away.

{_table(heavy)}

## One look, no extension, run CV 2 %

{_single_table(single)}

## The tail, run CV 2 %

Requests of after that are late by chance, by {100 * tails[0].world.late_by:g} % of the usual TTFP, and shares of
requests that stall in before → after; nothing else differs. Every REGRESSION of a row without a difference is false.

{_tail_table(tails)}

## The simulated world

A request takes base · effect · run effect · drift · prompt · noise, all log-normal. A run effect is drawn for each
run and shared by its {world.levels} levels of {world.requests} requests (the run is the unit); that of TTFP
correlates with that of RTF and audio/s by {world.ttfp_correlation:g}. The machine drifts with a CV of
{100 * world.drift_cv:g} %, autocorrelated {world.drift_memory:g} from run to run, so that pairs share most of it but
not all. Prompts (CV {100 * world.prompt_cv:g} %) are the same in both arms, requests repeat with a CV of
{100 * world.request_cv:g} %. The drift comes on top of the run CV.

## Reproduce

```sh
{" ".join([command, *changed])}
```
"""


def _looks(plan: StudyPlan) -> str:
    *first, last = plan.looks
    return f"{', '.join(map(str, first))} and {last}"


def _change_table(before: list[Rates], after: list[Rates]) -> str:
    headers = ("run CV", "slower", "looks=off", "now", "IMPROVEMENT, off", "now", "pairs, off", "now")
    rows = [
        [
            f"{100 * new.world.run_cv:g} %",
            f"{100 * new.world.effect:g} %",
            *(_rate(count, new.studies) for count in (old.regression, new.regression)),
            *(_rate(count, new.studies) for count in (old.improvement, new.improvement)),
            *(f"{one.mean_pairs:.2f}" for one in (old, new)),
        ]
        for old, new in zip(before, after, strict=True)
    ]
    return tabulate(rows, headers, tablefmt="pipe", disable_numparse=True, colalign=["right"] * len(headers))


def _table(cells: list[Rates]) -> str:
    headers = (
        "run CV",
        "slower",
        "REGRESSION",
        "95 % interval",
        "IMPROVEMENT",
        "NO REGRESSION",
        "INCONCLUSIVE",
        "pairs",
    )
    rows = [
        [
            f"{100 * cell.world.run_cv:g} %",
            f"{100 * cell.world.effect:g} %",
            _rate(cell.regression, cell.studies),
            _interval(cell.regression, cell.studies),
            *(_rate(count, cell.studies) for count in (cell.improvement, cell.no_regression, cell.inconclusive)),
            f"{cell.mean_pairs:.2f}",
        ]
        for cell in cells
    ]
    return tabulate(rows, headers, tablefmt="pipe", disable_numparse=True, colalign=["right"] * len(headers))


def _single_table(cells: list[Rates]) -> str:
    headers = ("pairs", "slower", "REGRESSION", "95 % interval", "NO REGRESSION", "INCONCLUSIVE")
    rows = [
        [
            str(pairs),
            f"{100 * cell.world.effect:g} %",
            _rate(cell.regression, cell.studies),
            _interval(cell.regression, cell.studies),
            _rate(cell.no_regression, cell.studies),
            _rate(cell.inconclusive, cell.studies),
        ]
        for pairs, cell in zip((3, 3, 5, 5, 8, 8), cells, strict=True)
    ]
    return tabulate(rows, headers, tablefmt="pipe", disable_numparse=True, colalign=["right"] * len(headers))


def _tail_table(cells: list[Rates]) -> str:
    headers = (
        "levels",
        "requests",
        "late",
        "stalling",
        "REGRESSION",
        "95 % interval",
        "NO REGRESSION",
        "INCONCLUSIVE",
        "pairs",
    )
    rows = [
        [
            str(cell.world.levels),
            str(cell.world.requests),
            f"{100 * cell.world.late:.1f} %",
            " → ".join(f"{100 * share:g} %" for share in cell.world.stalled),
            _rate(cell.regression, cell.studies),
            _interval(cell.regression, cell.studies),
            *(_rate(count, cell.studies) for count in (cell.no_regression, cell.inconclusive)),
            f"{cell.mean_pairs:.2f}",
        ]
        for cell in cells
    ]
    return tabulate(rows, headers, tablefmt="pipe", disable_numparse=True, colalign=["right"] * len(headers))


def _detectable() -> str:
    changes = [smallest_detectable_change(2**0.5 * log_sd(run_cv), 5, alpha=ALPHA) for run_cv in RUN_CVS]
    return ", ".join(
        f"{100 * change:.1f} % at {100 * run_cv:g} %" for run_cv, change in zip(RUN_CVS, changes, strict=True) if change
    )


def _rate(count: int, studies: int) -> str:
    return f"{100 * count / studies:.1f} %"


def _interval(count: int, studies: int) -> str:
    low, high = rate_interval(count, studies)
    return f"{100 * low:.1f} to {100 * high:.1f} %"


if __name__ == "__main__":
    sys.exit(main())
