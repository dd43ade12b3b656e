"""Real A/B studies with a known answer on this machine: how often is `omni-bench ab` right?

python benchmarks/ab_power.py                     20 A/A studies, 10 of slow_8, 10 of longer_audio: a night on two cores
python benchmarks/ab_power.py --studies 2 --faults 1 load.requests_per_level=8
python benchmarks/ab_power.py --paced --faults 5    a paced server without a model: half an hour
taskset -c 2,3 python benchmarks/ab_power.py --part 2/8   every eighth study, for a machine with cores to spare: each
                                                          part on two cores of its own, one report of what has ended

Killed, it goes on where it was when it is called again. Run it from a checkout that nobody edits meanwhile: runs of
one study are measured by one version.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import math
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tabulate import tabulate

from omni_bench.commands.cli import main as omni_bench
from omni_bench.commands.compare import JSON_NAME
from omni_bench.compare.ab.state import STATE_NAME
from omni_bench.compare.rows import interval_text
from omni_bench.errors import EXIT_INTERRUPTED, EXIT_USAGE
from omni_bench.metrics.definitions import METRICS
from omni_bench.report.format import change_text
from omni_bench.run.config.compose import utc_folder_name
from omni_bench.selftest.matrix import rate_interval

ROOT = Path(__file__).resolve().parent.parent
OUT, WORK = ROOT / "reports" / "ab_power.md", ROOT / "reports" / "runs" / "ab_power"
PACED_OUT, PACED_WORK = OUT.with_name("ab_power_paced.md"), WORK.with_name("ab_power_paced")
SAME, SLOW, LONGER, LATE = "A/A", "slow", "longer_audio", "late"
SLOW_PERCENT = 8
TRUSTED_RUN_CV, DETECTABLE_TIMES = 0.03, 1.5
LOAD = (
    "load.concurrency=[4]",
    "load.requests_per_level=32",
    "asr=none",
    "output.save_audio=none",
    "output.plots=false",
)
SERVER = "{python} tests/helpers/fake_speech_server.py {port} 0.3 0.065"
"""Its first chunk comes after 65 ms, the rest 300 ms later."""
LATE_S = 0.030
PACED_LOAD = ("scenario=smoke", "checks.signal=false", "load.concurrency=[8]", *LOAD[1:])


@dataclass(frozen=True)
class StudyRow:
    """One study. ``changes``: (metric, change, interval, verdict) of each primary; ``run_cv``, ``detectable``: the
    largest over the primaries, fractions; None where there is none. ``outcome``: None if it came to no comparison.
    ``commit``: of omni-bench.
    """

    case: str
    name: str
    outcome: str | None
    exit_code: int
    pairs: int
    changes: tuple[tuple[str, float | None, tuple[float, float] | None, str | None], ...]
    run_cv: float | None
    detectable: float | None
    guard_tripped: bool | None
    why: str | None
    machine: str | None
    commit: str | None


def main() -> int:
    """Run what is missing and write the report; returns 0, or 130 when interrupted."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, default=20, help="A/A studies (default: %(default)s)")
    parser.add_argument("--faults", type=int, default=10, help="studies of each fault (default: %(default)s)")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--slow", type=int, default=SLOW_PERCENT, metavar="N", help="percent (default: %(default)s)")
    parser.add_argument("--cases", nargs="+", choices=(SAME, SLOW, LONGER), default=[SAME, SLOW, LONGER])
    parser.add_argument("--part", type=part, default=(1, 1), metavar="I/N", help="only every N-th study, from the I-th")
    parser.add_argument("--work", type=Path, help="where the studies are kept")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--paced", action="store_true", help="a paced server: A/A, and every seventh request late")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help=f"instead of {' '.join(LOAD)}")
    arguments = parser.parse_args()
    paced = arguments.paced
    arguments.work = arguments.work or (PACED_WORK if paced else WORK)
    arguments.out = arguments.out or (PACED_OUT if paced else OUT)
    load = PACED_LOAD if paced else LOAD
    words = list({word.partition("=")[0]: word for word in (*load, *arguments.overrides)}.values())
    sizes = {name: getattr(arguments, name[2:]) for name in ("--studies", "--faults", "--pairs", "--slow")}
    again = [f"{name} {value}" for name, value in sizes.items() if value != parser.get_default(name[2:])]
    again = ["--paced"] * paced + again + arguments.overrides
    first, step = arguments.part
    cases = [SAME, LATE] if paced else arguments.cases
    studies = [one for one in planned(arguments.studies, arguments.faults) if one[0] in cases]
    for kind, number in studies[first - 1 :: step]:
        case = f"slow_{arguments.slow}" if kind == SLOW else kind
        folder = arguments.work / case.replace("/", "") / f"{number:02d}"
        code = run_study(folder, study_words(case, number, arguments.pairs, words))
        count = write_report(arguments.out, arguments.work, words, again)
        print(f"{case} {number}: exit code {code}; {count} studies in {arguments.out}", file=sys.stderr, flush=True)
        if code == EXIT_INTERRUPTED:
            return code
    write_report(arguments.out, arguments.work, words, again)
    return 0


def write_report(out: Path, work: Path, words: Sequence[str], arguments: Sequence[str]) -> int:
    """Write what has ended so far; how many studies that is."""
    rows = finished(work)
    out.write_text(render(rows, words, arguments), encoding="utf-8")
    return len(rows)


def part(text: str) -> tuple[int, int]:
    """``2/8`` -> (2, 8). Raises ValueError, which argparse tells."""
    first, step = map(int, text.split("/"))
    if not 1 <= first <= step:
        raise ValueError(text)
    return first, step


def planned(studies: int, faults: int) -> Iterator[tuple[str, int]]:
    """The studies in turns, so that a night cut short has some of each."""
    for number in range(1, max(studies, faults) + 1):
        if number <= studies:
            yield SAME, number
        if number <= faults:
            yield SLOW, number
            yield LONGER, number
            yield LATE, number


def study_words(case: str, number: int, pairs: int, overrides: Sequence[str]) -> list[str]:
    """The words of a study: other prompts and another start in each."""
    arms = ["before=reference", "after=reference" if case == SAME else f"after.reference.fault={case}"]
    if "scenario=smoke" in overrides:
        arms = [f"before.command={SERVER}", f"after.command={SERVER}" + f" {LATE_S}" * (case == LATE)]
    return [*arms, f"pairs={pairs}", f"seed={number}", f"dataset.seed={number}", *overrides]


def run_study(folder: Path, words: Sequence[str]) -> int:
    """Begin a study, go on with it, or leave it as it ended; its exit code."""
    state = _read(folder / STATE_NAME)
    with contextlib.redirect_stdout(io.StringIO()):  # the tables of single studies are in their folders
        if state is not None and state["ending"] is None:
            code = omni_bench(["ab", "--resume", str(folder)])
            if code != EXIT_USAGE or (_read(folder / STATE_NAME) or {}).get("ending"):
                return code
            folder.rename(folder.with_name(f"{folder.name}.stale.{utc_folder_name()}"))  # begun by another version
        elif state is not None:
            return state["ending"]["exit_code"]
        return omni_bench(["ab", *words, "--out", str(folder)])


def finished(work: Path) -> list[StudyRow]:
    """The studies that have ended, by case and number."""
    rows = []
    slow = sorted((path.name for path in work.glob("slow_*")), key=slow_share)
    for case in (SAME, *slow, LONGER, LATE):
        for folder in sorted((work / case.replace("/", "")).glob("[0-9]*")):
            state = _read(folder / STATE_NAME)
            if state is not None and state["ending"] is not None and ".stale." not in folder.name:
                rows.append(study_row(case, folder.name, state, _read(folder / JSON_NAME)))
    return rows


def study_row(case: str, name: str, state: Mapping[str, Any], comparison: Mapping[str, Any] | None) -> StudyRow:
    """What ab.json and compare.json (None if there is none) say of a study."""
    primaries = comparison["primaries"] if comparison is not None else []
    spreads = [one["log_sd"] for one in primaries if one["log_sd"] is not None]
    detectable = [one["detectable"] for one in primaries if one["detectable"] is not None]
    return StudyRow(
        case=case,
        name=name,
        outcome=state["ending"]["outcome"],
        exit_code=state["ending"]["exit_code"],
        pairs=len(comparison["used_pairs"]) if comparison is not None else 0,
        changes=tuple(
            (one["metric"], one["change"], tuple(one["interval"]) if one["interval"] else None, one["verdict"])
            for one in primaries
        ),
        # the spread of ln(after/before) is that of two runs
        run_cv=math.sqrt(math.expm1(max(spreads) ** 2 / 2)) if spreads else None,
        detectable=max(detectable) if detectable else None,
        guard_tripped=comparison["length_guard"]["tripped"] if comparison is not None else None,
        why=state["ending"]["why"],
        machine=comparison["hardware"] if comparison is not None else None,
        commit=state["harness"]["commit"],
    )


def slow_share(case: str) -> float:
    """``slow_8`` -> 0.08."""
    return int(case.removeprefix("slow_")) / 100


def must_be_found(row: StudyRow) -> bool:
    """Whether this machine was quiet enough in this study for the slowdown to be found."""
    if not row.case.startswith("slow_"):
        return False
    share = slow_share(row.case)
    quiet = row.run_cv is not None and row.run_cv <= TRUSTED_RUN_CV and share >= SLOW_PERCENT / 100
    return quiet or (row.detectable is not None and DETECTABLE_TIMES * row.detectable <= share)


def render(rows: Sequence[StudyRow], words: Sequence[str], arguments: Sequence[str]) -> str:
    """The report as markdown."""
    command = " ".join(["python benchmarks/ab_power.py", *arguments])
    cases = {case: [row for row in rows if row.case == case] for case in dict.fromkeys(row.case for row in rows)}
    if "--paced" in arguments:
        return _render_paced(cases, words, command)
    same, longer = cases.get(SAME, []), cases.get(LONGER, [])
    slow = {case: found for case, found in cases.items() if case not in (SAME, LONGER)}
    slow_lines = "\n".join(
        f"- **{case}**, REGRESSION: {_share(found, 'REGRESSION')}; of those that must find it (run CV at most "
        f"3 %, or\n  {100 * slow_share(case):.0f} % at least 1.5 × the smallest detectable change): "
        f"{_share([row for row in found if must_be_found(row)], 'REGRESSION')}."
        for case, found in slow.items()
    )
    return f"""# A/B studies with a known answer, on a real server

`omni-bench ab` over the bundled tiny server on a CPU, each run with a fresh server: before and after the same (A/A),
after N % slower a step (`reference.fault=slow_N`), and after with longer audio (`reference.fault=longer_audio`). The
run CV is measured: the spread of ln(after/before) over pairs, divided by √2, of the noisiest primary. Measured on
{_listed([row.machine for row in rows])}; omni-bench commit {_listed([row.commit and row.commit[:12] for row in rows])}.

- **A/A**, false REGRESSION: {_share(same, "REGRESSION")}; false IMPROVEMENT: {_share(same, "IMPROVEMENT")}.
{slow_lines or "- **slow_N**: no study yet."}
- **longer_audio**, length guard tripped: {_count(sum(row.guard_tripped is True for row in longer), len(longer))}.

{_summary(*cases.items())}

## Every study

{_studies(rows)}

## Reproduce

```sh
{command}
```

with `{" ".join(words)}`
"""


def _render_paced(cases: Mapping[str, Sequence[StudyRow]], words: Sequence[str], command: str) -> str:
    same, late = cases.get(SAME, []), cases.get(LATE, [])
    rows = [*same, *late]
    tail = sum(verdict == "REGRESSION" for row in late for metric, *_, verdict in row.changes if "tail" in metric)
    return f"""# A/B studies with a known answer, on a paced server

`omni-bench ab` over a server without a model (`tests/helpers/fake_speech_server.py`), with audio at a fixed pace,
each run with a fresh server: before and after the same (A/A), and after with every seventh request
{1000 * LATE_S:.0f} ms late, which hardly moves a median (issue 18). Measured on
{_listed([row.machine for row in rows])}, while other work ran; omni-bench commit
{_listed([row.commit and row.commit[:12] for row in rows])}.

- **A/A**, false REGRESSION: {_share(same, "REGRESSION")}; false IMPROVEMENT: {_share(same, "IMPROVEMENT")}.
- **late**, REGRESSION: {_share(late, "REGRESSION")}; of the TTFP tail: {_count(tail, len(late))}.

{_summary(*cases.items())}

## Every study

{_studies(rows)}

## Reproduce

```sh
{command}
```

with `{" ".join(words)}`
"""


def _summary(*cases: tuple[str, Sequence[StudyRow]]) -> str:
    outcomes = ("REGRESSION", "IMPROVEMENT", "NO REGRESSION", "INCONCLUSIVE")
    headers = ("after", "studies", *outcomes, "other", "median run CV", "median detectable", "guard tripped")
    table = []
    for case, rows in cases:
        counts = [sum(row.outcome == outcome for row in rows) for outcome in outcomes]
        table.append(
            [
                case,
                str(len(rows)),
                *map(str, counts),
                str(len(rows) - sum(counts)),
                _percent(_median([row.run_cv for row in rows])),
                _percent(_median([row.detectable for row in rows])),
                str(sum(row.guard_tripped is True for row in rows)),
            ]
        )
    return _table(table, headers)


def _studies(rows: Sequence[StudyRow]) -> str:
    headers = ("after", "study", "outcome", "pairs", "changes", "run CV", "detectable", "guard", "ended early")
    table = [
        [
            row.case,
            row.name,
            row.outcome or f"none (exit {row.exit_code})",
            str(row.pairs),
            "; ".join(
                f"{METRICS[metric].short} {change_text(METRICS[metric], change)} {interval_text(interval)}"
                for metric, change, interval, _ in row.changes
            ),
            _percent(row.run_cv),
            _percent(row.detectable),
            {True: "tripped", False: "quiet", None: "n/a"}[row.guard_tripped],
            row.why or "",
        ]
        for row in rows
    ]
    return _table(table, headers)


def _table(table: Sequence[Sequence[str]], headers: Sequence[str]) -> str:
    return tabulate(table, headers, tablefmt="pipe", disable_numparse=True)


def _share(rows: Sequence[StudyRow], outcome: str) -> str:
    return _count(sum(row.outcome == outcome for row in rows), len(rows))


def _count(count: int, studies: int) -> str:
    if not studies:
        return "no study yet"
    low, high = rate_interval(count, studies)
    return f"{count} of {studies} studies (95 % interval {100 * low:.0f} to {100 * high:.0f} %)"


def _listed(values: Sequence[str | None]) -> str:
    return ", ".join(dict.fromkeys(value for value in values if value)) or "n/a"


def _median(values: Sequence[float | None]) -> float | None:
    present = [value for value in values if value is not None]
    return statistics.median(present) if present else None


def _percent(value: float | None) -> str:
    return "n/a" if value is None else f"{100 * value:.1f} %"


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


if __name__ == "__main__":
    sys.exit(main())
