"""``omni-bench report``: derive and draw again what a run's raw data say."""

from __future__ import annotations

from collections.abc import Sequence

from omni_bench.errors import EXIT_INVALID, EXIT_OK, ConfigError, StoreError
from omni_bench.records.run_folder import RunFolder
from omni_bench.report.console import print_summary
from omni_bench.run.progress import RunProgress
from omni_bench.run.rebuild import rebuild
from omni_bench.run.rejudge import judge_again, redraw


def report_command(runs: Sequence[str]) -> int:
    """Rewrite the report of each run folder and print its summary; 0 if all are valid, else 1.

    Raises ConfigError for what is no run folder, StoreError for one that is damaged.
    """
    code = EXIT_OK
    for path in runs:
        folder = named_run(path)
        was_killed = folder.begun_json.is_file() and not folder.run_json.is_file()
        folder, run = (rebuild if was_killed else redraw)(folder.path)
        print_summary(run, folder)
        if not run["valid"]:
            code = EXIT_INVALID
    return code


# ``omni-bench judge``: transcribe the stored audio of a run again.


def judge_command(path: str, overrides: Sequence[str]) -> int:
    """Judge a run folder again and print its summary; 0 if the run is valid now, else 1.

    Raises ConfigError, AccuracyError or StoreError.
    """
    with RunProgress() as progress:
        folder, run = judge_again(named_run(path).path, overrides, progress)
    print_summary(run, folder)
    return EXIT_OK if run["valid"] else EXIT_INVALID


# ---- Run folders named on the command line ----


def named_run(path: str) -> RunFolder:
    """The run folder at ``path``. Raises ConfigError if there is none: the argument is wrong, and not the disk."""
    try:
        return RunFolder.open(path)
    except StoreError as error:
        raise ConfigError(str(error)) from None
