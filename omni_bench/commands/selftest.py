"""``omni-bench selftest``: inject the fault catalogue and print what was caught."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich import box
from rich.table import Table
from rich.text import Text

from omni_bench.errors import EXIT_INVALID, EXIT_OK, ConfigError
from omni_bench.records.files import write_json, write_text
from omni_bench.report.console import TerminalConsole, from_here
from omni_bench.run.config.compose import utc_folder_name
from omni_bench.run.progress import RunProgress
from omni_bench.selftest.campaign import run_selftest
from omni_bench.selftest.cases import chosen_faults
from omni_bench.selftest.matrix import SelftestResult
from omni_bench.selftest.plan import FULL, QUICK
from omni_bench.selftest.report import HEADERS, clean_line, render, rows, selftest_document
from omni_bench.terminal import say_json

DEFAULT_ROOT = Path("reports/runs/selftest")
JSON_NAME, MARKDOWN_NAME = "selftest.json", "selftest.md"
PLAIN_WIDTH = 160


def selftest_command(
    quick: bool,
    only: Sequence[str],
    repeats: int | None,
    clean: int | None,
    out: str | None,
    resume: bool,
    *,
    as_json: bool = False,
) -> int:
    """Run the self-test; 0 if every fault was caught and the clean server stayed silent, else 1.

    ``as_json``: print selftest.json.

    Raises ConfigError for a fault that does not exist, if all that are chosen are for ``omni-bench ab``, for a folder
    that is taken, or for ``resume`` without a folder, and OmniBenchError for what makes the self-test impossible.
    """
    if resume and out is None:
        raise ConfigError("--resume needs --out FOLDER, the folder of the self-test to go on with")
    plan = QUICK if quick else FULL
    plan = replace(plan, repeats=plan.repeats if repeats is None else repeats)
    plan = replace(plan, clean_runs=max(plan.clean_runs if clean is None else clean, plan.repeats))
    faults = chosen_faults(only)
    if not any(fault.testable for fault in faults):
        raise ConfigError(f"--only {', '.join(only)}: single runs cannot show it; omni-bench ab can")
    folder = (Path(out) if out is not None else DEFAULT_ROOT / utc_folder_name()).absolute()
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"--out {folder} is a file; choose a new folder")
    if folder.exists() and any(folder.iterdir()) and not resume:
        raise ConfigError(f"--out {folder} is not empty; choose another folder, or go on with --resume")
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with RunProgress() as progress:
            result = run_selftest(plan, faults, folder, progress, _command(quick, only, repeats, clean))
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"the runs so far are in {folder}; go on with --out {folder} --resume") from None
    document = selftest_document(result)
    write_json(folder / JSON_NAME, document, indent=None)
    write_text(folder / MARKDOWN_NAME, render(result))
    if as_json:
        say_json(document)
    else:
        _print(result, folder)
    return EXIT_OK if result.ok else EXIT_INVALID


def _command(quick: bool, only: Sequence[str], repeats: int | None, clean_runs: int | None) -> list[str]:
    """The command line that repeats a self-test; without the output folder, which does not belong in a report."""
    command = ["omni-bench", "selftest", *(["--quick"] if quick else [])]
    for name in only:
        command += ["--only", name]
    for option, value in (("--repeats", repeats), ("--clean", clean_runs)):
        command += [option, str(value)] if value is not None else []
    return command


def _print(result: SelftestResult, folder: Path) -> None:
    console = TerminalConsole(plain_width=PLAIN_WIDTH)
    table = Table(box=box.SIMPLE, show_edge=False, pad_edge=False)
    for header in HEADERS:
        table.add_column(header, overflow="fold")
    bad = {verdict.case.name for verdict in result.verdicts if not verdict.ok}
    for row in rows(result):
        table.add_row(*map(Text, row), style="red" if row[0] in bad else None)
    console.print(table)
    console.print_text(clean_line(result), indent="")
    console.print_text(f"{result.duration_s:.0f} s; report:")
    console.print_text(from_here(folder.absolute() / MARKDOWN_NAME))
