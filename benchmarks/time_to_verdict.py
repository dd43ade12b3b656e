"""How long until the verdict: studies of a known slowdown, as they were and as they are, and many of them on a card.

python -m benchmarks.time_to_verdict                a paced server, 30 and 8 % slower: 9 minutes on two idle cores
python -m benchmarks.time_to_verdict --studies 1    a try: 3 minutes
python -m benchmarks.time_to_verdict --ladder       the ladder of the reference server on a CUDA card: 5 minutes
python -m benchmarks.time_to_verdict --device       20 A/A studies and 10 of slow_8 on one CUDA card: 9 minutes
python -m benchmarks.time_to_verdict --device --seconds 300 --keep FILE    as many as fit; the next call goes on

On a CPU the studies are those of `omni-bench ab`: with a fresh server for each run and no early looks (before), and
with servers that stay alive, measured level by level in turns, and early looks (after). On a card the levels of the
runs are driven and judged by the same code, but without probe, report and files, as thirty studies would not fit
otherwise; three servers stay alive for all. A study is then what `restart=never` makes it, without what differs from
start to start.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import math
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tabulate import tabulate

from omni_bench.commands.cli import main as omni_bench
from omni_bench.commands.compare import JSON_NAME
from omni_bench.compare.ab.order import AFTER, BEFORE, level_order, random_start
from omni_bench.compare.stats.pairs import averaged_over_levels, log_ratio, points_effect
from omni_bench.compare.stats.verdicts import PrimaryVerdict, StudyPlan, Verdict, judge, overall
from omni_bench.load.runner import run_level
from omni_bench.metrics.definitions import METRICS, primary_metrics
from omni_bench.records.config import RunConfig
from omni_bench.records.plan import LevelPlan
from omni_bench.run.config.compose import compose
from omni_bench.run.measure import measure_level
from omni_bench.run.prepare import Prepared, prepare
from omni_bench.selftest.matrix import rate_interval
from omni_bench.targets.base import Target
from omni_bench.targets.create import create_target

ROOT = Path(__file__).resolve().parent.parent
OUT, LADDER_OUT, DEVICE_OUT = (ROOT / "reports" / f"time_to_verdict{name}.md" for name in ("", "_ladder", "_device"))
SERVER = "{python} tests/helpers/fake_speech_server.py {port} "
FIRST_S, REST_S = 0.065, 0.3
CPU_LOAD = (
    "scenario=smoke",
    "checks.signal=false",
    "load.concurrency=[8]",
    "load.requests_per_level=32",
    "asr=none",
    "output.save_audio=none",
    "output.plots=false",
)
LADDER = (
    "scenario=qwen3_tts_1_7b_shapes",
    "before.reference.predictor=reprefill",
    "before.reference.graphs=off",
    "after.reference.graphs=full_step",
    "load.concurrency=[8]",
    "load.requests_per_level=8",
    "load.requests_per_slot=1",
    "load.warmup_per_slot=1",
    "output.save_audio=none",
    "output.plots=false",
)
WAYS = {"before": ("looks=off", "restart=run"), "after": ("looks=on", "restart=never")}
SLOWER = (30, 8)
CARD = (
    "scenario=qwen3_tts_1_7b_shapes",
    "reference.graphs=full_step",
    "dataset=random",
    "dataset.min_words=5",
    "dataset.max_words=8",
    "load.concurrency=[8]",
    "load.requests_per_level=32",
    "load.warmup_per_slot=1",
    "asr=none",
)
SAME, SLOW = "A/A", "slow_8"
DEVICE_STUDIES = {SAME: 20, SLOW: 10}
DEADLINE_S = 520.0
ON_PACED = f"""a paced server that answers after {1000 * FIRST_S:g} ms and ends {1000 * REST_S:g} ms later, and one that
takes longer by a known share in both"""
ON_LADDER = """the reference server at the shapes of Qwen3-TTS 1.7B with random weights on a card: the code predictor
reads its codes anew and there are no graphs, against a whole step in one CUDA graph"""


def main() -> int:
    """Run the studies and write the report; returns 0."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.time_to_verdict", description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, help="of each kind and way: 3, with --ladder 1")
    parser.add_argument("--ladder", action="store_true", help="the ladder of the reference server, on a CUDA card")
    parser.add_argument("--device", action="store_true", help="A/A and slow_8, on a CUDA card")
    parser.add_argument("--seconds", type=float, default=DEADLINE_S, help="--device: begin no run after so many")
    parser.add_argument("--keep", type=Path, help="--device: a file of the studies so far, to go on with later")
    parser.add_argument("--out", type=Path)
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE")
    arguments = parser.parse_args()
    overrides = arguments.overrides
    if arguments.device:
        out, text = DEVICE_OUT, on_card(overrides, arguments.seconds, arguments.keep)
    elif arguments.ladder:
        cases, studies = {"a graph a step": LADDER}, arguments.studies or 1
        out, text = LADDER_OUT, whole_studies(cases, ON_LADDER, studies, ["--ladder"], overrides)
    else:
        cases = {f"{slower} % slower": (*_paced(slower), *CPU_LOAD) for slower in SLOWER}
        out, text = OUT, whole_studies(cases, ON_PACED, arguments.studies or 3, [], overrides)
    (arguments.out or out).write_text(text, encoding="utf-8")
    print(text)
    return 0


def whole_studies(
    cases: Mapping[str, Sequence[str]],
    what: str,
    studies: int,
    arguments: Sequence[str],
    overrides: Sequence[str],
) -> str:
    """Whole studies of `omni-bench ab`, one after another, the ways in turns; the report."""
    rows: dict[tuple[str, str], list[tuple[float, Mapping[str, Any]]]] = {}
    for number in range(1, studies + 1):
        for case, words in cases.items():
            for way in WAYS if number % 2 else reversed(WAYS):
                rows.setdefault((case, way), []).append(_whole_study([*words, *WAYS[way], *overrides], number))
                _say(f"{case} {way}, study {number}: {rows[case, way][-1][0]:.0f} s")
    table = [
        [
            case,
            way,
            " ".join(WAYS[way]),
            f"{statistics.median(took_s for took_s, _ in found):.0f}",
            ", ".join(f"{took_s:.0f}" for took_s, _ in found),
            f"{statistics.median(len(one['used_pairs']) for _, one in found):g}",
            ", ".join(dict.fromkeys(str(one["outcome"]) for _, one in found)),
        ]
        for case in cases
        for way in WAYS
        for found in [rows[case, way]]
    ]
    heads = ("after", "way", "options", "median (s)", "each (s)", "median pairs", "outcome")
    machine = next(one["hardware"] for found in rows.values() for _, one in found)
    return f"""# Time to a verdict

Wall time of `omni-bench ab` from the call to the verdict, with {what}. The error of both ways is
at most 5 % ([ab_simulation.md](ab_simulation.md)). Measured on {machine}.

{tabulate(table, heads, tablefmt="pipe", disable_numparse=True)}

## Reproduce

```sh
python -m benchmarks.time_to_verdict {" ".join([*arguments, f"--studies {studies}", *overrides])}
```
"""


def _paced(slower: int) -> list[str]:
    first, rest = (value * (1 + slower / 100) for value in (FIRST_S, REST_S))
    return [f"before.command={SERVER}{REST_S} {FIRST_S}", f"after.command={SERVER}{rest:g} {first:g}"]


def _whole_study(words: Sequence[str], number: int) -> tuple[float, Mapping[str, Any]]:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "study"
        words = [f"seed={number}", f"dataset.seed={number}", *words]
        words = list({word.partition("=")[0]: word for word in words}.values())
        started = time.monotonic()
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
            code = omni_bench(["ab", *words, "--out", str(folder)])
        took_s = time.monotonic() - started
        if not (folder / JSON_NAME).is_file():
            raise SystemExit(f"exit code {code}: {said.getvalue()[-2000:]}")
        return took_s, json.loads((folder / JSON_NAME).read_text(encoding="utf-8"))


@dataclass(frozen=True)
class CardRow:
    """A study that has ended, as it is kept and shown. ``run_cv``: a fraction, None: too few pairs."""

    case: str
    number: int
    verdict: str
    pairs: int
    took_s: float
    changes: str
    run_cv: float | None


@dataclass
class CardStudy:
    """One study on the card. ``changes``: by metric, of each pair; ``verdict``: None until it has ended."""

    case: str
    number: int
    changes: dict[str, list[float]] = field(default_factory=dict)
    primaries: tuple[PrimaryVerdict, ...] = ()
    verdict: Verdict | None = None
    took_s: float = 0.0

    @property
    def pairs(self) -> int:
        """Pairs that were measured."""
        return len(next(iter(self.changes.values()), []))

    @property
    def run_cv(self) -> float | None:
        """Of the noisiest primary: the spread of ln(after/before) is that of two runs."""
        found = [
            one.effect.sd for one in self.primaries if one.effect and one.effect.sd and not METRICS[one.metric].points
        ]
        return math.sqrt(math.expm1(max(found) ** 2 / 2)) if found else None

    def row(self) -> CardRow:
        """What is kept of it once it has ended."""
        verdict, took_s = str(self.verdict), round(self.took_s, 1)
        return CardRow(self.case, self.number, verdict, self.pairs, took_s, _changes(self), self.run_cv)


def on_card(overrides: Sequence[str], seconds: float, keep: Path | None = None) -> str:
    """Three servers on one card, and the studies in turns until ``seconds`` are over; the report.

    ``keep``: JSON lines of :class:`CardRow`; its studies are not measured again.
    """
    started = time.monotonic()
    words = list({word.partition("=")[0]: word for word in (*CARD, *overrides)}.values())
    configs = {name: compose([*words, *more]) for name, more in _servers().items()}
    rows = [CardRow(**json.loads(line)) for line in keep.read_text().splitlines()] if keep and keep.exists() else []
    done = {(row.case, row.number) for row in rows}
    folder = Path(tempfile.mkdtemp(prefix="omni-bench-verdict-"))
    targets = {name: create_target(config, folder / f"{name}.log") for name, config in configs.items()}
    try:
        with ThreadPoolExecutor(len(targets)) as pool:
            infos = list(pool.map(lambda target: target.start(), targets.values()))
        _say(f"three servers are ready after {time.monotonic() - started:.0f} s")
        for case, number in _in_turns():
            if (case, number) in done:
                continue
            study = CardStudy(case, number)
            arms = {BEFORE: targets["one"], AFTER: targets["other" if case == SAME else "slow"]}
            config = compose([*words, f"dataset.seed={number}"])
            _run_card_study(study, arms, config, folder, lambda: time.monotonic() - started < seconds)
            if study.verdict is None:
                break
            rows.append(study.row())
            if keep:
                with keep.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(rows[-1])) + "\n")
            _say(f"{case} {number}: {study.verdict}, {study.pairs} pairs, {study.took_s:.0f} s")
    finally:
        for target in targets.values():
            target.stop()
        shutil.rmtree(folder, ignore_errors=True)
    device = (infos[0].health or {}).get("device_name") or (infos[0].health or {}).get("device")
    return _card_report(rows, words, device)


def _servers() -> dict[str, list[str]]:
    return {"one": [], "other": [], "slow": [f"reference.fault={SLOW}"]}


def _in_turns() -> list[tuple[str, int]]:
    """Two A/A and one slow in turns, so that a call cut short has some of each."""
    found = sorted(
        (number / count, case, number) for case, count in DEVICE_STUDIES.items() for number in range(1, count + 1)
    )
    return [(case, number) for _, case, number in found]


def _run_card_study(
    study: CardStudy, arms: Mapping[str, Target], config: RunConfig, folder: Path, in_time: Callable[[], bool]
) -> None:
    plan, start, begun = StudyPlan(), random_start(study.number), time.monotonic()
    wanted = plan.looks[0]
    prepared = prepare(config, folder, lambda text: None)
    while study.pairs < wanted:
        figures: dict[str, dict[Any, dict[str, float | None]]] = {BEFORE: {}, AFTER: {}}
        for number, level in enumerate(prepared.plans):
            for arm in level_order(study.pairs + 1, number, start):
                if not in_time():
                    return
                figures[arm][level.concurrency] = _figures(arms[arm], config, level, prepared, folder / "spool")
        levels = list(figures[BEFORE])
        for name in primary_metrics():
            effect = points_effect if METRICS[name].points else log_ratio
            values = {
                level: effect(figures[BEFORE][level].get(name), figures[AFTER][level].get(name)) for level in levels
            }
            averaged = averaged_over_levels([values])
            if averaged is not None:
                study.changes.setdefault(name, []).append(averaged[0])
        if study.pairs > 1:
            look = plan.look(study.pairs)
            study.primaries = judge(study.changes, look)
            wanted = plan.wanted_pairs(study.pairs, overall(study.primaries))
    study.verdict, study.took_s = overall(study.primaries), time.monotonic() - begun


def _figures(
    target: Target, config: RunConfig, plan: LevelPlan, prepared: Prepared, spool: Path
) -> dict[str, float | None]:
    """The primaries of a level. Ends the benchmark if a request failed."""
    recording = run_level(
        plan,
        base_url=target.base_url,
        client=config.client,
        spool_dir=spool,
        on_event=lambda event: None,
        is_target_alive=target.is_alive,
        workers=1,
    )
    if not all(one.ok for one in recording.timelines):
        raise SystemExit(f"a request failed: {target.failure()}")
    metrics = measure_level(recording, prepared.prompts).summary().metrics_json()
    shutil.rmtree(spool, ignore_errors=True)
    return {name: (metrics.get(name) or {}).get(METRICS[name].headline) for name in primary_metrics()}


def _card_report(rows: Sequence[CardRow], words: Sequence[str], device: str | None) -> str:
    table, lines = [], []
    for case, planned in DEVICE_STUDIES.items():
        found = [row for row in rows if row.case == case]
        alarms = sum(row.verdict == Verdict.REGRESSION for row in found)
        what = "false REGRESSION" if case == SAME else "REGRESSION, found"
        low, high = rate_interval(alarms, len(found)) if found else (0.0, 1.0)
        cvs = [row.run_cv for row in found if row.run_cv is not None]
        cv = f"{_cv(statistics.median(cvs))} (largest {_cv(max(cvs))})" if cvs else "n/a"
        took = f"{statistics.median(row.took_s for row in found):.0f} s" if found else "n/a"
        lines.append(
            f"- **{case}**, {what}: {alarms} of {len(found)} studies (95 % interval {100 * low:.0f} to "
            f"{100 * high:.0f} %; {planned} were planned); median run CV of the noisiest primary {cv}; median time to "
            f"the verdict {took}."
        )
        table += [
            [case, f"{row.number:02d}", row.verdict, str(row.pairs), f"{row.took_s:.0f}", row.changes, _cv(row.run_cv)]
            for row in found
        ]
    heads = ("after", "study", "outcome", "pairs", "s", "changes", "run CV")
    return f"""# A/B studies with a known answer, on a card

The reference server at the shapes of Qwen3-TTS 1.7B with random weights, on {device or "n/a"}: before and after
the same (A/A), and after with {SLOW}, whose device idles for 8 % of each step. Three servers stay alive side by side
for all studies of a call, one under load at a time, so that what differs from start to start is not in the figures.
The levels are short and nothing is heard.

{chr(10).join(lines)}

{tabulate(table, heads, tablefmt="pipe", disable_numparse=True)}

## Reproduce

```sh
python -m benchmarks.time_to_verdict --device
```

with `{" ".join(words)}`
"""


def _changes(study: CardStudy) -> str:
    return "; ".join(
        f"{METRICS[one.metric].short} {100 * one.change:+.1f}{' points' if METRICS[one.metric].points else ' %'}"
        for one in study.primaries
        if one.change is not None
    )


def _cv(value: float | None) -> str:
    return "n/a" if value is None else f"{100 * value:.2f} %"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
