"""``omni-bench compare``: a before/after table with verdicts, from stored runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from omni_bench.compare.compare import compare_runs
from omni_bench.compare.console import print_comparison
from omni_bench.compare.csv_file import render_csv
from omni_bench.compare.document import to_document
from omni_bench.compare.load import is_run, load_arm
from omni_bench.compare.markdown import Profiles, render_comparison, render_for_pull_request, to_drag
from omni_bench.compare.page import comparison_page
from omni_bench.compare.result import EXIT_CODES, Comparison
from omni_bench.compare.views import RunView
from omni_bench.errors import EXIT_INVALID, EXIT_OK, ConfigError
from omni_bench.records.files import write_json, write_text
from omni_bench.records.run_folder import RunFolder
from omni_bench.report.console import from_here
from omni_bench.report.drawing import drawn
from omni_bench.terminal import say, say_aside, say_json, say_page

MARKDOWN_NAME, PULL_REQUEST_NAME, JSON_NAME, CSV_NAME = "compare.md", "pull_request.md", "compare.json", "compare.csv"
PAGE_NAME, PLOTS_NAME = "report.html", "plots"


def compare_command(
    before: str, after: str, *, out: str | None, force: bool, as_json: bool = False, for_pr: bool = False
) -> int:
    """Print the comparison (``for_pr``: as markdown to paste; ``as_json``: compare.json), and write it into ``out``.

    1 for a regression, a hard failure, a broken after, or runs that make no performance claim, else 0. Raises
    ConfigError, ComparabilityError, StoreError.
    """
    if out is not None and is_run(Path(out)):
        raise ConfigError(f"--out {out}: is the folder of a run, whose report.html would be lost; name another folder")
    arms = load_arm(before), load_arm(after)
    comparison = compare_runs(*arms, force=force)
    command = ["omni-bench", "compare", before, after, *(["--force"] if force else [])]
    profiles = profiles_of(*arms)
    if out is not None:
        write_comparison(comparison, *arms, Path(out), command, profiles, Path())
    folder = None if out is None else Path(out)
    show_comparison(comparison, folder, command, profiles, as_json=as_json, for_pr=for_pr)
    if out is None and not (as_json or for_pr):
        say_aside("for a pull request: --for-pr prints markdown; --out FOLDER writes it, with plots, JSON and CSV")
    return EXIT_INVALID if EXIT_CODES[comparison.outcome] == EXIT_INVALID else EXIT_OK


def show_comparison(
    comparison: Comparison,
    folder: Path | None,
    command: Sequence[str],
    profiles: Profiles,
    *,
    as_json: bool,
    for_pr: bool,
    runs_in: Path | None = None,
) -> None:
    """Print it. ``folder``: where it was written, None if it was not; ``runs_in``: what the runs' names begin with."""
    pictures = [] if folder is None else [str(path) for path in sorted((folder / PLOTS_NAME).glob("*.png"))]
    if as_json:
        say_json(to_document(comparison))
    elif for_pr:
        say_page(render_for_pull_request(comparison, pictures, command, profiles, _place(runs_in)))
        if folder is not None:
            say_aside(f"to look at and to listen to: {from_here(folder.absolute() / PAGE_NAME)}")
    else:
        print_comparison(comparison, runs_in)
        if all(profiles):
            say("both were profiled: --for-pr, and compare.md, show where the time of a frame went")
        if folder is not None:
            places = {"written:": MARKDOWN_NAME, "to paste into a pull request:": PULL_REQUEST_NAME}
            for what, name in {**places, "to look at and to listen to:": PAGE_NAME}.items():
                say(what)
                say(from_here(folder.absolute() / name))
            say("to drag into the pull request:")
            for path in to_drag(comparison, pictures):
                say(from_here(Path(path).absolute()))


def write_comparison(
    comparison: Comparison,
    before: Sequence[RunView],
    after: Sequence[RunView],
    folder: Path,
    command: Sequence[str],
    profiles: Profiles,
    runs_in: Path,
) -> Path:
    """Write report.html, compare.md, pull_request.md, compare.json, compare.csv and plots; the path of compare.md.

    ``runs_in``: the folder in which the runs are named. Raises StoreError.
    """

    def draw() -> list[Path]:
        from omni_bench.compare.plots import draw_comparison  # matplotlib takes seconds to import

        return draw_comparison(comparison, before, after, folder / PLOTS_NAME)

    write_json(folder / JSON_NAME, to_document(comparison))
    pictures = [f"{PLOTS_NAME}/{path.name}" for path in drawn(draw, str(folder))]
    texts = {
        MARKDOWN_NAME: render_comparison(comparison, pictures, command, profiles),
        PULL_REQUEST_NAME: render_for_pull_request(comparison, pictures, command, profiles, _place(runs_in)),
        CSV_NAME: render_csv(comparison),
        PAGE_NAME: comparison_page(comparison, before, after, folder, command, profiles, runs_in),
    }
    for name, text in texts.items():
        write_text(folder / name, text)
    return folder / MARKDOWN_NAME


def _place(runs_in: Path | None) -> str:
    """The folder in which runs are named, for a reader on another machine; empty for the current one."""
    folder, here = (runs_in or Path()).absolute(), Path.cwd()
    if folder == here:
        return ""
    return str(folder.relative_to(here)) if folder.is_relative_to(here) else folder.name


def profiles_of(before: Sequence[RunView], after: Sequence[RunView], folder: Path | None = None) -> Profiles:
    """The profile of the last run of each side, None where there is none. Raises StoreError.

    ``folder``: in which the runs are named, None for the current one.
    """

    def last(arm: Sequence[RunView]):
        return RunFolder((folder or Path()) / arm[-1].source).read_profile() if arm else None

    return last(before), last(after)
