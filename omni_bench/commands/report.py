"""``omni-bench report``: derive and draw again what a run's raw data say."""

from __future__ import annotations

from collections.abc import Sequence

from omni_bench.commands.failures import EXIT_INVALID, EXIT_OK
from omni_bench.commands.run_argument import named_run
from omni_bench.run.redo import redraw
from omni_bench.run.summary import print_summary


def report_command(runs: Sequence[str]) -> int:
    """Rewrite the report of each run folder and print its summary; 0 if all are valid, else 1.

    Raises ConfigError for what is no run folder, StoreError for one that is damaged.
    """
    code = EXIT_OK
    for path in runs:
        folder, run = redraw(named_run(path).path)
        print_summary(run, folder.report_md)
        if not run["valid"]:
            code = EXIT_INVALID
    return code
