"""Replay synthetic histories with a known truth through the nightly gate, and write what it said.

python -m benchmarks.gate_replay                 the 60 nights, and the study -> reports/gate_replay.md
python -m benchmarks.gate_replay --scale 0.05 --out somewhere.md      a quick look
"""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tabulate import tabulate

from benchmarks.gate_replay.replay import Nights, replay
from omni_bench.compare.stats.nightly import MIN_NIGHTS
from omni_bench.nightly.gate.result import GateOutcome, GateResult, Status
from omni_bench.selftest.matrix import rate_interval

SEED = 2026
DRIFT_NIGHT = 35
IN_TIME = 5
OUT = Path(__file__).resolve().parents[2] / "reports" / "gate_replay.md"
SIXTY = Nights(drift=(DRIFT_NIGHT, 0.06), spikes={20: 0.25, 47: 0.30}, broken=frozenset({28}))
ONE_LOAD = (16,)
STUDIES = (
    (Nights(run_cv=0.01, concurrencies=ONE_LOAD), 100),
    (Nights(run_cv=0.02, concurrencies=ONE_LOAD), 100),
    (Nights(run_cv=0.03, concurrencies=ONE_LOAD), 100),
    (Nights(run_cv=0.01, machine_cv=0.03, concurrencies=ONE_LOAD), 20),
    (Nights(run_cv=0.01, machine_cv=0.03, concurrencies=ONE_LOAD, pinned=True), 20),
    (Nights(run_cv=0.01, drift=(DRIFT_NIGHT, 0.06), concurrencies=ONE_LOAD), 20),
    (Nights(run_cv=0.02, drift=(DRIFT_NIGHT, 0.06), concurrencies=ONE_LOAD), 20),
    (Nights(run_cv=0.01, drift=(DRIFT_NIGHT, 0.04), concurrencies=ONE_LOAD), 20),
)
"""Worlds, and how many histories of each are replayed: those with a change take several times as long."""


@dataclass(frozen=True)
class Tally:
    """How ``histories`` histories ended; counts of histories. ``second``: alarmed again after the drift was."""

    world: Nights
    histories: int
    false_alarm: int
    in_time: int
    later: int
    second: int
    inconclusive_share: float


def main() -> int:
    """Replay and write the report; 0 if the sixty nights went as they should, else 1."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gate_replay", description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0, help="of the numbers of histories")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--out", type=Path, default=OUT)
    arguments = parser.parse_args()
    nights = replay(SIXTY, arguments.seed)
    started, tallies = time.monotonic(), []
    with ProcessPoolExecutor(arguments.jobs) as pool:
        for number, (world, histories) in enumerate(STUDIES):
            wanted = max(1, round(arguments.scale * histories))
            seeds = [arguments.seed + 1000 * (number + 1) + history for history in range(wanted)]
            tallies.append(tally(world, list(pool.map(outcomes, [world] * len(seeds), seeds))))
            print(f"{number + 1} of {len(STUDIES)}, {time.monotonic() - started:.0f} s: {tallies[-1]}", file=sys.stderr)
    arguments.out.write_text(render(nights, tallies, arguments.scale, arguments.seed), encoding="utf-8")
    print(arguments.out, file=sys.stderr)
    return 0 if as_it_should(nights) else 1


def outcomes(world: Nights, seed: int) -> list[GateOutcome]:
    """What the gate said on each night of one history."""
    return [one.outcome for one in replay(world, seed)]


def tally(world: Nights, histories: list[list[GateOutcome]]) -> Tally:
    """Count how histories of one world ended."""
    counts = dict.fromkeys(("false_alarm", "in_time", "later", "second"), 0)
    inconclusive = judged = 0
    for said in histories:
        alarms = alarm_nights(said)
        first = world.drift[0] if world.drift else world.nights + 1
        after = [night for night in alarms if night >= first]
        counts["false_alarm"] += any(night < first for night in alarms)
        counts["in_time"] += bool(after) and after[0] < first + IN_TIME
        counts["later"] += bool(after) and after[0] >= first + IN_TIME
        counts["second"] += len(after) > 1
        enough = said[MIN_NIGHTS:]
        inconclusive += enough.count(GateOutcome.INCONCLUSIVE)
        judged += len(enough)
    return Tally(world, len(histories), **counts, inconclusive_share=inconclusive / judged)


def alarm_nights(said: list[GateOutcome]) -> list[int]:
    """The nights, from 1, that the gate called a regression."""
    return [number for number, outcome in enumerate(said, start=1) if outcome is GateOutcome.REGRESSION]


def as_it_should(results: list[GateResult]) -> bool:
    """One alarm within five nights of the drift, and nothing else but the broken night."""
    alarms = alarm_nights([one.outcome for one in results])
    broken = {number for number, one in enumerate(results, start=1) if one.exit_code == 3}
    return len(alarms) == 1 and 0 <= alarms[0] - DRIFT_NIGHT < IN_TIME and broken == set(SIXTY.broken)


def render(nights: list[GateResult], tallies: list[Tally], scale: float, seed: int) -> str:
    """The report as markdown."""
    changed = [f"--scale {scale:g}"] * (scale != 1) + [f"--seed {seed}"] * (seed != SEED)
    command = " ".join(["python -m benchmarks.gate_replay", *changed])
    ended = "As it should be" if as_it_should(nights) else "NOT as it should be"
    alarms = _listed(alarm_nights([one.outcome for one in nights]))
    broken = _listed([number for number, one in enumerate(nights, start=1) if one.exit_code == 3])
    return f"""# The nightly gate, replayed over synthetic histories

Every night goes through the gate that judges real ones (`omni_bench/nightly/gate/night.py`), with a history in
memory: five metrics, here at three loads, judged by the nights before. A night that is acute gets its second run, as
`omni-bench gate --rerun` makes it.

## Sixty nights

A drift of +6 % on every time from night {DRIFT_NIGHT} on, spikes of +25 % and +30 % in nights 20 and 47, broken
audio in night 28; run CV {100 * SIXTY.run_cv:g} %. {ended}: alarms in {alarms}, hard failures in {broken}.

{_nights_table(nights)}

While fewer than ten nights are there, or have passed since a change, the gate says INCONCLUSIVE (exit 2), which is no
alarm. A change that was alarmed is KNOWN afterwards: a warning, until `omni-bench history baseline set` accepts it.

## How often it is right

Histories of 60 nights, five metrics at one load (no request stalls). False alarm: a history in which any night
(before the drift, if there is one) is called a REGRESSION. In time: the drift is alarmed within {IN_TIME} nights of its
first. Twice: alarmed again later. INCONCLUSIVE: share of the nights from the eleventh on.

{_study_table(tallies)}

The permutation test of a change point takes nights for exchangeable. A machine whose own speed wanders from night to
night (AR(1), memory {SIXTY.machine_memory:g}) breaks that: its wandering is found, reproducibly, and is no fault of the
server. A pinned build that runs the same night (`--pinned`) cancels it.

## Reproduce

```sh
{command}
```
"""


def _nights_table(nights: list[GateResult]) -> str:
    """Nights that are not a plain pass, runs of equal ones as one row."""
    rows: list[list[str]] = []
    groups: list[tuple[int, int, str, str]] = []
    for number, one in enumerate(nights, start=1):
        said = _said(one)
        if groups and groups[-1][2:] == (str(one.outcome), said):
            groups[-1] = (groups[-1][0], number, *groups[-1][2:])
        else:
            groups.append((number, number, str(one.outcome), said))
    for first, last, outcome, said in groups:
        rows.append([str(first) if first == last else f"{first} to {last}", outcome, said])
    return tabulate(rows, ("night", "gate", "why"), tablefmt="pipe", disable_numparse=True)


def _said(one: GateResult) -> str:
    if one.outcome is GateOutcome.HARD_FAILURE:
        return next(case.failures[0] for case in one.integrity if case.failures)
    alarmed = one.with_status(Status.REGRESSION)
    if alarmed:
        return f"{alarmed[0].name}: {alarmed[0].reason}; {len(alarmed)} of {len(one.series)} series"
    if one.replaced:
        return "acute, and not reproduced by the second run, which stands for the night"
    if one.outcome is GateOutcome.INCONCLUSIVE:
        since_change = any("since the change" in each.reason for each in one.series)
        return "fewer than ten nights" + (" since the change" if since_change else "")
    return "the change is known" if one.with_status(Status.KNOWN) else ""


def _study_table(tallies: list[Tally]) -> str:
    headers = (
        "histories",
        "run CV",
        "machine",
        "pinned",
        "drift",
        "false alarm",
        "95 % interval",
        "in time",
        "95 % interval",
    )
    rows = [
        [
            str(one.histories),
            f"{100 * one.world.run_cv:g} %",
            f"wanders {100 * one.world.machine_cv:g} %" if one.world.machine_cv else "steady",
            "yes" if one.world.pinned else "no",
            f"+{100 * one.world.drift[1]:g} %" if one.world.drift else "none",
            *_rate(one.false_alarm, one.histories),
            *(_rate(one.in_time, one.histories) if one.world.drift else ("", "")),
            f"{one.later} of {one.histories}" if one.world.drift else "",
            f"{one.second} of {one.histories}" if one.world.drift else "",
            f"{100 * one.inconclusive_share:.0f} %",
        ]
        for one in tallies
    ]
    return tabulate(
        rows,
        (*headers, "later", "twice", "INCONCLUSIVE"),
        tablefmt="pipe",
        disable_numparse=True,
        colalign=["right"] * (len(headers) + 3),
    )


def _rate(count: int, histories: int) -> tuple[str, str]:
    low, high = rate_interval(count, histories)
    return f"{100 * count / histories:.1f} %", f"{100 * low:.1f} to {100 * high:.1f} %"


def _listed(nights: list[int]) -> str:
    return ("night " if len(nights) == 1 else "nights ") + ", ".join(map(str, nights)) if nights else "no night"


if __name__ == "__main__":
    sys.exit(main())
