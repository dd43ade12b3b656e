"""The command lines of ``omni-bench history`` and ``omni-bench gate``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from omni_bench.errors import EXIT_INFRASTRUCTURE
from omni_bench.nightly.history import DEFAULT_DATABASE

_RUNS = "a run folder, a folder of runs, a pattern, or results of vllm bench serve (JSON; a comma list is one sweep)"

AddParser = Callable[..., argparse.ArgumentParser]


def add_nightly_parsers(commands: argparse._SubParsersAction, add: AddParser) -> None:
    """Add both commands; ``add`` makes one, with its name, help and examples."""
    history = add(
        commands,
        "history",
        "the runs of many nights in one file: trends, change points, baselines",
        "history add reports/runs/qwen3_tts",
        "history show --scenario qwen3_tts --out reports/runs/trend",
        "history baseline set reports/runs/qwen3_tts/2026-11-2* --note 'after the new kernels'",
    )
    _database(history, DEFAULT_DATABASE)
    actions = history.add_subparsers(dest="action", metavar="ACTION", title="actions", required=True)
    one = actions.add_parser("add", help="add runs (again is fine)", allow_abbrev=False)
    _database(one)
    one.add_argument("runs", nargs="+", metavar="RUN", help=_RUNS)
    json_option(one)
    one = actions.add_parser("show", help="the trend of every gated metric, with change points", allow_abbrev=False)
    _database(one)
    _scenario(one)
    one.add_argument("--out", metavar="FOLDER", help="draw a plot of every metric there")
    json_option(one)
    one = actions.add_parser("baseline", help="what is normal", allow_abbrev=False)
    baseline = one.add_subparsers(dest="baseline_action", metavar="ACTION", required=True)
    one = baseline.add_parser("set", help="declare runs of the history to be normal from now on", allow_abbrev=False)
    _database(one)
    one.add_argument("runs", nargs="+", metavar="RUN", help="runs that were added before")
    one.add_argument("--note", required=True, metavar="WHY", help="why, for those who read it later")
    json_option(one)
    one = baseline.add_parser("show", help="every baseline, with the runs it comes from", allow_abbrev=False)
    _database(one)
    _scenario(one)
    json_option(one)

    gate = add(
        commands,
        "gate",
        "add a night to the history and judge it: exit 0 pass, 1 regression, 2 inconclusive, 3 hard failure or no "
        "measurement",
        "gate reports/runs/qwen3_tts/2026-11-28T02-00-00.000Z --rerun",
    )
    _database(gate, DEFAULT_DATABASE)
    gate.add_argument("run", metavar="RUN", help="the run folder of the night")
    gate.add_argument(
        "--rerun",
        nargs="?",
        const="",
        metavar="COMMAND",
        help="if something is acute, run again: the stored command, or COMMAND, in which {out} is the folder to use",
    )
    gate.add_argument("--reproduced-by", metavar="RUN", help="a second run of the same night, on a fresh server")
    gate.add_argument("--pinned", metavar="RUN", help="the pinned build's run of the same night: judge the ratio to it")
    gate.add_argument("--out", metavar="FOLDER", help="for gate.json, gate.md, junit.xml (default: the run's folder)")
    gate.add_argument(
        "--until-accepted",
        action="store_true",
        help="exit 1 every night while a change is open that no baseline accepts",
    )
    json_option(gate)
    gate.error = _usage_error(gate)  # type: ignore[method-assign]


def run_history(parsed: argparse.Namespace) -> int:
    """``omni-bench history``, by its action."""
    from omni_bench.commands import history

    match parsed.action, getattr(parsed, "baseline_action", None):
        case "add", _:
            return history.history_add(parsed.database, parsed.runs, as_json=parsed.as_json)
        case "show", _:
            return history.history_show(parsed.database, parsed.scenario, parsed.out, as_json=parsed.as_json)
        case "baseline", "set":
            return history.baseline_set(parsed.database, parsed.runs, parsed.note, as_json=parsed.as_json)
        case _:
            return history.baseline_show(parsed.database, parsed.scenario, as_json=parsed.as_json)


def _database(parser: argparse.ArgumentParser, default: str = argparse.SUPPRESS) -> None:
    """``--db``; of an action it is the same option, which need not be said twice."""
    parser.add_argument(
        "--db",
        dest="database",
        metavar="FILE",
        default=default,
        help=f"the history, an SQLite file (default: {DEFAULT_DATABASE})",
    )


def json_option(parser: Any, what: str = "print JSON") -> None:
    """``--json``: the result as one JSON document on stdout, and nothing else there."""
    parser.add_argument("--json", dest="as_json", action="store_true", help=what)


def _scenario(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--scenario", metavar="NAME", help="this scenario alone")


def _usage_error(parser: argparse.ArgumentParser) -> Callable[[str], NoReturn]:
    """A wrong command line of the gate ends with 3: its 2 means that the night is inconclusive."""

    def error(message: str) -> NoReturn:
        parser.print_usage(sys.stderr)
        parser.exit(EXIT_INFRASTRUCTURE, f"{parser.prog}: error: {message}\n")

    return error
