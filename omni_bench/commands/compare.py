"""``omni-bench compare``: a before/after table with verdicts, from stored runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from omni_bench.compare.compare import compare_runs
from omni_bench.compare.document import to_document
from omni_bench.compare.load import load_arm
from omni_bench.compare.markdown import render_comparison
from omni_bench.compare.result import Comparison, ComparisonOutcome
from omni_bench.compare.views import RunView
from omni_bench.errors import EXIT_INVALID, EXIT_OK
from omni_bench.records.files import json_bytes, write_atomically
from omni_bench.records.profile import RunProfile
from omni_bench.records.run_folder import RunFolder
from omni_bench.report.drawing import drawn
from omni_bench.terminal import say

MARKDOWN_NAME, JSON_NAME, PLOTS_NAME = "compare.md", "compare.json", "plots"
FAILING = (ComparisonOutcome.REGRESSION, ComparisonOutcome.HARD_FAILURE, ComparisonOutcome.NO_CLAIM)


def compare_command(before: str, after: str, *, out: str | None, force: bool, as_json: bool) -> int:
    """Print the comparison as markdown (or JSON), and write both with the plots into ``out``.

    1 for a regression, a hard failure, or runs that make no performance claim, else 0. Raises ConfigError,
    ComparabilityError, StoreError.
    """
    arms = load_arm(before), load_arm(after)
    comparison = compare_runs(*arms, force=force)
    command = ["omni-bench", "compare", before, after, *(["--force"] if force else [])]
    profiles = profiles_of(*arms)
    if out is not None:
        write_comparison(comparison, *arms, Path(out), command, profiles)
    if as_json:
        say(json_bytes(to_document(comparison), JSON_NAME, indent=2).decode("utf-8"))
    else:
        say(render_comparison(comparison, command=command, profiles=profiles), end="")
    return EXIT_INVALID if comparison.outcome in FAILING else EXIT_OK


def write_comparison(
    comparison: Comparison,
    before: Sequence[RunView],
    after: Sequence[RunView],
    folder: Path,
    command: Sequence[str],
    profiles: tuple[RunProfile | None, RunProfile | None],
) -> Path:
    """Write compare.md, compare.json and plots/*.png; the path of compare.md. Raises StoreError."""

    def draw() -> list[Path]:
        from omni_bench.compare.plots import draw_comparison  # matplotlib takes seconds to import

        return draw_comparison(comparison, before, after, folder / PLOTS_NAME)

    document = json_bytes(to_document(comparison), JSON_NAME, indent=2) + b"\n"
    write_atomically(folder / JSON_NAME, lambda path: path.write_bytes(document))
    pictures = [f"{PLOTS_NAME}/{path.name}" for path in drawn(draw, str(folder))]
    text = render_comparison(comparison, pictures, command, profiles)
    write_atomically(folder / MARKDOWN_NAME, lambda path: path.write_text(text, encoding="utf-8"))
    return folder / MARKDOWN_NAME


def profiles_of(
    before: Sequence[RunView], after: Sequence[RunView], folder: Path | None = None
) -> tuple[RunProfile | None, RunProfile | None]:
    """The profile of the last run of each side, None where there is none. Raises StoreError.

    ``folder``: in which the runs are named, None for the current one.
    """

    def last(arm: Sequence[RunView]) -> RunProfile | None:
        return RunFolder((folder or Path()) / arm[-1].source).read_profile() if arm else None

    return last(before), last(after)
