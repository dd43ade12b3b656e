"""``omni-bench judge``: transcribe the stored audio of a run again."""

from __future__ import annotations

from collections.abc import Sequence

from omni_bench.commands.failures import EXIT_INVALID, EXIT_OK
from omni_bench.commands.run_argument import named_run
from omni_bench.run.progress import RunProgress
from omni_bench.run.redo import judge_again
from omni_bench.run.summary import print_summary


def judge_command(path: str, overrides: Sequence[str]) -> int:
    """Judge a run folder again and print its summary; 0 if the run is valid now, else 1.

    Raises ConfigError, AccuracyError or StoreError.
    """
    with RunProgress() as progress:
        folder, run = judge_again(named_run(path).path, overrides, progress)
    print_summary(run, folder.report_md)
    return EXIT_OK if run["valid"] else EXIT_INVALID
