"""The command ``omni-bench``. Heavy imports happen inside the subcommand that needs them."""

from __future__ import annotations

import argparse
import io
import os
import re
import sys
import warnings
from collections.abc import Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from omni_bench import __version__
from omni_bench.commands.failures import guarded
from omni_bench.commands.nightly_arguments import add_nightly_parsers, json_option, run_history
from omni_bench.errors import EXIT_OK, EXIT_USAGE, ConfigError, alternatives
from omni_bench.terminal import in_columns, say, say_aside, say_help

RUN_HELP = Path(__file__).with_name("run_help.txt")
"""The help of `run` without Hydra, which takes seconds; ``python -m omni_bench.commands.run`` writes it."""
PLUGINS = ("omni_bench.targets", "omni_bench.wire_forms")
"""Groups of entry points: with what packages bring, the help is composed."""
EPILOG = """\
examples:
  omni-bench run scenario=qwen3_tts_c16     the main job: 16 concurrent requests against the bundled server
  omni-bench run scenario=smoke             a quick look
  omni-bench run --help                     groups, keys and Hydra's flags
  omni-bench list

exit codes: 0 finished and valid, 1 finished but a level is invalid, 2 usage or configuration,
3 infrastructure (server, judge, disk), 130 interrupted; compare, ab and gate have verdicts: see their --help
"""
COMPARE_EXITS = """\
exit codes: 1 a regression, an after that is broken, repeated cross-talk, or no claim about speed; 2 wrong usage;
0 anything else, inconclusive too"""
AB_EXITS = """\
exit codes: 0 no regression, or an improvement; 1 a regression, or an after that is broken; 2 inconclusive, advisory
(fewer than 5 pairs), or wrong usage; 3 infrastructure"""

EXPORTS = (
    "In CSV a text that a spreadsheet would run as a formula gets an apostrophe before it. In Python no file is "
    "needed: omni_bench.load_run, load_study and load_history give pandas frames. MLflow's experiment is that of "
    "MLFLOW_EXPERIMENT_NAME, else of the scenario's name; what is there already is not logged again."
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):
            stream.reconfigure(errors="backslashreplace")  # no character ends a run after hours

    def command() -> int:
        code = _dispatch(arguments)
        if sys.stdout is not None:  # it is when the caller has closed it (`>&-`)
            sys.stdout.flush()  # so that a reader that has gone is noticed here and not at exit
        return code

    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        return guarded(command)


def _show_warning(message: Warning | str, category: type[Warning], *_: Any) -> None:
    """Libraries warn of what they were given, which may be a stranger's text."""
    say_aside(f"warning: {category.__name__}: {message}")


def _dispatch(arguments: list[str]) -> int:
    # `run` is a Hydra application with a command line of its own, past argparse.
    if arguments in (["run", "--help"], ["run", "-h"]) and not any(entry_points(group=group) for group in PLUGINS):
        say_help(RUN_HELP.read_text(encoding="utf-8").rstrip("\n"))
        return EXIT_OK
    if arguments[:1] == ["run"]:
        from omni_bench.commands.run import run_command

        return run_command(arguments[1:])
    # Hydra's shell completion calls the program, not the subcommand.
    if arguments[:1] in (["-sc"], ["--shell-completion"]):
        return complete(arguments)
    if arguments and not arguments[0].startswith("-") and arguments[0] not in SUBCOMMANDS:
        raise ConfigError(f"{arguments[0]!r} is no command{alternatives(arguments[0], SUBCOMMANDS)}")
    parsed = build_parser().parse_args(arguments)
    if parsed.command is None:
        build_parser().print_help()
        return EXIT_USAGE
    return _run_subcommand(parsed)


def _run_subcommand(parsed: argparse.Namespace) -> int:
    """The command's function; its parameters are named as its options are."""
    options = {name: value for name, value in vars(parsed).items() if name != "command"}
    match parsed.command:
        case "serve":
            from omni_bench.commands.serve import serve_command

            return serve_command(**options)
        case "report":
            from omni_bench.commands.stored_runs import report_command

            return report_command(**options)
        case "judge":
            from omni_bench.commands.stored_runs import judge_command

            return judge_command(**options)
        case "roofline":
            from omni_bench.commands.roofline import roofline_command

            frames, is_measured = options.pop("frames"), options.pop("measure")
            return roofline_command(**options, measured_frames=frames if is_measured else None)
        case "selftest":
            from omni_bench.commands.selftest import selftest_command

            return selftest_command(**options)
        case "compare":
            from omni_bench.commands.compare import compare_command

            return compare_command(**options)
        case "ab":
            from omni_bench.commands.ab import ab_from_arguments

            return ab_from_arguments(parsed)
        case "history":
            return run_history(parsed)
        case "gate":
            from omni_bench.commands.gate import gate_command

            return gate_command(**options)
        case "export":
            from omni_bench.commands.export import export_command

            return export_command(**options)
        case "list":
            from omni_bench.commands.doctor import list_command

            return list_command(**options)
        case "doctor":
            from omni_bench.commands.doctor import doctor_command

            return doctor_command(**options)
        case "calibrate":
            from omni_bench.commands.calibrate import calibrate_command

            return calibrate_command(**options)
        case "voice":
            from omni_bench.commands.voice import voice_command

            return voice_command(**options)
        case command:
            raise AssertionError(f"no such command: {command}")


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Examples and exit codes keep their lines, which are broken for the width of the terminal."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return in_columns(text, width)


class CommandParser(argparse.ArgumentParser):
    """A parser whose list of words may go on behind an option; argparse takes those before the first for all."""

    _list: str | None = None

    def add_argument(self, *names: str, **settings: Any) -> argparse.Action:  # type: ignore[override]
        """As argparse has it."""
        if settings.get("nargs") in ("*", "+") and not names[0].startswith("-"):
            self._list = names[0]
        return super().add_argument(*names, **settings)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:  # type: ignore[override]
        """As argparse has it, but nothing is left over: ends the program by :meth:`error` for what it does not know."""
        parsed, left = super().parse_known_args(args, namespace)
        if left and (self._list is None or any(word.startswith("-") for word in left)):
            self.error(f"unrecognized arguments: {' '.join(left)}")
        if left:
            setattr(parsed, self._list, [*getattr(parsed, self._list), *left])
        return parsed, []


def build_parser() -> argparse.ArgumentParser:
    """The parser of everything but ``run``."""
    parser = CommandParser(
        prog="omni-bench",
        description="Benchmarking and regression testing for streaming speech servers.",
        epilog=EPILOG,
        formatter_class=HelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"omni-bench {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    _add(commands, "run", "one scenario: launch, drive, check, report (omni-bench run --help)", "run scenario=smoke")

    serve = _add(
        commands,
        "serve",
        "the reference server alone, in the foreground",
        "serve --port 8091 reference.chunk_frames=4",
    )
    serve.add_argument("--host", default="127.0.0.1", help="address to bind (default: %(default)s)")
    serve.add_argument("--port", type=_port, default=8091, help="port to bind (default: %(default)s)")
    serve.add_argument("overrides", nargs="*", metavar="reference.KEY=VALUE", help="settings of the server")

    report = _add(
        commands,
        "report",
        "redraw report.html, report.md and the plots of finished runs from their raw data, and tables of studies",
        "report reports/runs/smoke/2026-01-31T12-00-00.000Z",
        "report reports/runs/ab/2026-01-31T12-00-00.000Z",
    )
    report.add_argument("paths", nargs="+", metavar="PATH", help="a run folder, or a folder of `ab`")
    json_option(report, "print each run.json, and of a study how it ended and compare.json")

    judge = _add(
        commands,
        "judge",
        "transcribe the stored audio of a run again (the run needs output.save_audio=all)",
        "judge reports/runs/smoke/2026-01-31T12-00-00.000Z asr.model=base",
    )
    judge.add_argument("path", metavar="RUN", help="a run folder, or its run.json")
    judge.add_argument("overrides", nargs="*", metavar="asr.KEY=VALUE", help="settings (default: the run's)")
    json_option(judge, "print run.json")

    roofline = _add(
        commands,
        "roofline",
        "the floor of the reference model on this device, and how near a run came to it",
        "roofline reference.preset=qwen3_tts_1_7b reference.checkpoint=random",
    )
    roofline.add_argument("overrides", nargs="*", metavar="reference.KEY=VALUE", help="which shapes, device and dtype")
    roofline.add_argument(
        "--run", metavar="RUN", help="a run folder of this machine: its configuration, and its share of the limit"
    )
    json_option(roofline, "print the floors")
    roofline.add_argument("--concurrency", type=_count, nargs="+", metavar="C", help="default: 1 4 8 16 32")
    roofline.add_argument(
        "--context", type=_count, default=256, help="positions behind a request (default: %(default)s)"
    )
    roofline.add_argument(
        "--chunk-frames", type=_count, help="frames a reading of Code2Wav serves (default: reference.chunk_frames)"
    )
    roofline.add_argument(
        "--measure", action="store_true", help="let the engine of this configuration speak, and compare"
    )
    roofline.add_argument(
        "--frames", type=_count, default=50, help="of each utterance of --measure, at most (default: %(default)s)"
    )

    selftest = _add(
        commands,
        "selftest",
        "inject every fault of the catalogue into the bundled server, and print which detector caught it",
        "selftest --quick",
    )
    selftest.add_argument("--quick", action="store_true", help="one run of every fault, minutes on two CPU cores")
    selftest.add_argument("--only", action="append", default=[], metavar="FAULT", help="this fault alone (repeatable)")
    selftest.add_argument("--repeats", type=_count, metavar="N", help="runs of every fault (default: 3, quick 1)")
    selftest.add_argument(
        "--clean", type=_count, metavar="N", help="runs of the clean server (default: 20, quick 1), at least --repeats"
    )
    json_option(selftest, "print selftest.json")
    selftest.add_argument("--out", metavar="FOLDER", help="a new folder (default: reports/runs/selftest/<UTC time>)")
    selftest.add_argument(
        "--resume", action="store_true", help="go on in --out FOLDER, which it needs: runs that are there stay"
    )

    compare = _add(
        commands,
        "compare",
        "a before/after table with verdicts for a pull request, from stored runs",
        "compare reports/runs/before reports/runs/after --out reports/runs/before_after",
    )
    compare.epilog = f"{compare.epilog}\n\n{COMPARE_EXITS}"
    runs = "a run folder, a folder of runs, a pattern, results of vllm bench serve (JSON), or a comma list of these"
    compare.add_argument("before", metavar="BEFORE", help=runs)
    compare.add_argument("after", metavar="AFTER", help="as many runs; run i of each make pair i")
    compare.add_argument("--out", metavar="FOLDER", help="write it there: markdown, JSON, CSV and plots")
    compare.add_argument("--force", action="store_true", help="compare what is not comparable, under a banner")
    _printed(compare)

    ab = _add(
        commands,
        "ab",
        "a before/after study: interleaved runs with fresh servers, then compare with verdicts",
        "ab scenario=qwen3_tts before.reference.predictor=reprefill after.reference.predictor=kv_cache",
        "ab scenario=qwen3_tts before=git:main after=git:.",
        "ab before=http://127.0.0.1:8091 after=http://127.0.0.1:8092 client.model=NAME load.concurrency=[4,16]",
        "ab before.command='serve-v1 --port {port}' after.command='serve-v2 --port {port}' client.model=NAME",
        "ab --resume reports/runs/ab/2026-01-31T12-00-00.000Z pairs=8",
    )
    ab.epilog = f"{ab.epilog}\n\n{AB_EXITS}"
    ab.add_argument(
        "words",
        nargs="*",
        metavar="KEY=VALUE",
        help="before=, after=: a URL, git:REF (git:. is the working tree), a wheel, or a target; before.KEY=, "
        "after.KEY=: settings of one arm (target.*, reference.*, or command=); pairs=5, extend=8 or off, looks=on or "
        "off, restart=run, pair or never, judging=in_place, seed=; all else: settings of both, as for `run`",
    )
    ab.add_argument(
        "--resume",
        metavar="FOLDER",
        help="go on with a study that was interrupted or killed; with pairs=N, add pairs to one that has ended",
    )
    _printed(ab)
    ab.add_argument("--out", metavar="FOLDER", help="a new folder (default: reports/runs/ab/<UTC time>)")
    ab.add_argument("--environments", metavar="FOLDER", help="where git refs and wheels are installed, and found again")
    ab.add_argument("--constraints", metavar="FILE", help="pip's constraints for both (default: each ref's own)")
    ab.add_argument(
        "--share-packages",
        action="store_true",
        help="install the server alone, and let it use the packages of this environment",
    )

    add_nightly_parsers(commands, _add)
    export = _add(
        commands,
        "export",
        "a run, a study or a history as CSV; a run or a study as results of vllm bench serve, or to MLflow",
        "export reports/runs/smoke/2026-01-31T12-00-00.000Z --csv reports/runs/csv",
        "export reports/runs/ab/2026-01-31T12-00-00.000Z --vllm-bench reports/runs/vllm --mlflow http://127.0.0.1:5000",
        "export reports/runs/history.sqlite --csv reports/runs/csv_history",
    )
    export.epilog = f"{export.epilog}\n\n{EXPORTS}"
    export.add_argument("path", metavar="PATH", help="a run folder, a folder of `ab`, or the SQLite file of a history")
    export.add_argument("--csv", metavar="FOLDER", help="write a CSV file of each frame there")
    export.add_argument("--vllm-bench", metavar="FOLDER", help="write a JSON file of each valid level there")
    export.add_argument("--mlflow", metavar="URI", help="log to this MLflow server (needs the extra `mlflow`)")
    json_option(export, "print what was written")
    json_option(
        _add(commands, "list", "scenarios, data sets, targets, wire forms, judges, and faults to inject", "list")
    )
    doctor = _add(
        commands,
        "doctor",
        "what this machine can run, and why not",
        "doctor",
        "doctor target=vllm_omni client.model=Qwen/Qwen3-TTS-12Hz-1.7B-CustomVoice target.devices=[0]",
    )
    json_option(doctor, "print the findings")
    doctor.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="the run to look at, as for `run`")
    calibrate = _add(
        commands,
        "calibrate",
        "what this machine's client adds to a TTFP, at each concurrency of a run; later runs print it",
        "calibrate scenario=qwen3_tts",
        "calibrate load.concurrency=[1,32,512]",
    )
    json_option(calibrate, "print the levels")
    calibrate.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="the run to calibrate for, as for `run`")
    voice = _add(
        commands, "voice", "write the small voice as a checkpoint for other Qwen3-TTS servers", "voice my_voice"
    )
    voice.add_argument("folder", metavar="FOLDER", help="a new or empty folder")
    json_option(voice)
    return parser


def _add(commands: argparse._SubParsersAction, name: str, what: str, *examples: str) -> argparse.ArgumentParser:
    lines = "\n".join(f"  omni-bench {example}" for example in examples)
    return commands.add_parser(
        name,
        help=what,
        description=f"{what[0].upper()}{what[1:]}.",
        epilog=f"example{'s' * (len(examples) > 1)}:\n{lines}",
        formatter_class=HelpFormatter,
        allow_abbrev=False,
    )


def _printed(parser: argparse.ArgumentParser) -> None:
    """In which form a comparison is printed."""
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--for-pr", action="store_true", help="print markdown to paste into a pull request")
    json_option(form, "print compare.json")


def _port(text: str) -> int:
    if not text.isdecimal() or not 0 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r}: 0 (a free port) to 65535")
    return int(text)


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 1000:
        raise argparse.ArgumentTypeError(f"{text!r}: 1 to 1000")
    return int(text)


SUBCOMMANDS = ("ab", "calibrate", "compare", "doctor", "export", "gate", "history", "judge", "list", "report")
SUBCOMMANDS += ("roofline", "run", "selftest", "serve", "voice")


# ---- Shell completion: Hydra's, for a subcommand ----


def complete(arguments: list[str]) -> int:
    """Answer Hydra's script: subcommands first, then Hydra's completion of ``omni-bench run``."""
    line = os.environ.get("COMP_LINE", "")
    typed = re.match(r"(\s*\S+)\s+run\s(.*)", line, flags=re.DOTALL)
    if line and typed is None:
        words = line.split()[1:]
        start = words[0] if words else ""
        if len(words) <= 1 and not (words and line.endswith(" ")):
            say(" ".join(name for name in SUBCOMMANDS if name.startswith(start)))
        return 0
    if typed is not None:
        os.environ["COMP_LINE"] = f"{typed.group(1)} {typed.group(2)}"
    from omni_bench.commands.run import run_command

    return run_command(arguments)
