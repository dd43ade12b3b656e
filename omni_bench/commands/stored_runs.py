"""``omni-bench report``: derive and draw again what a run's raw data say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from omni_bench.compare.load import STUDY_NAME
from omni_bench.errors import EXIT_INVALID, EXIT_OK, ConfigError, StoreError
from omni_bench.records.run_folder import RunFolder
from omni_bench.report.console import print_summary
from omni_bench.run.progress import RunProgress
from omni_bench.run.rebuild import rebuild
from omni_bench.run.rejudge import judge_again, redraw
from omni_bench.terminal import say_json


def report_command(paths: Sequence[str], *, as_json: bool = False) -> int:
    """Rewrite the report of each run folder, and print its summary or its run.json; 0 if all are valid, else 1.

    Of a study of ``omni-bench ab`` the comparison is written anew, its exit code is that of the study.
    Raises ConfigError for what is no run folder, StoreError for one that is damaged.
    """
    code, documents = EXIT_OK, list[dict[str, Any]]()
    for path in paths:
        if (study := study_named(path)) is not None:
            from omni_bench.commands.ab import report_study

            of_study, document = report_study(study, as_json=as_json)
            code = max(code, of_study)
            documents.append(document)
            continue
        folder = named_run(path)
        was_killed = folder.begun_json.is_file() and not folder.run_json.is_file()
        with RunProgress() as progress:
            folder, run = (rebuild if was_killed else redraw)(folder.path, progress.tell)
        documents.append({"folder": str(folder.path), "run": run})
        if not as_json:
            print_summary(run, folder)
        if not run["valid"]:
            code = max(code, EXIT_INVALID)
    if as_json:
        say_json(documents)
    return code


# ``omni-bench judge``: transcribe the stored audio of a run again.


def judge_command(path: str, overrides: Sequence[str], *, as_json: bool = False) -> int:
    """Judge a run folder again and print its summary, or its run.json; 0 if the run is valid now, else 1.

    Raises ConfigError, AccuracyError or StoreError.
    """
    with RunProgress() as progress:
        folder, run = judge_again(named_run(path).path, overrides, progress)
    if as_json:
        say_json(run)
    else:
        print_summary(run, folder)
    return EXIT_OK if run["valid"] else EXIT_INVALID


# ---- Run folders named on the command line ----


def study_named(path: str) -> Path | None:
    """The folder of the study that ``path`` (or its ab.json) is, None if it is none."""
    folder = Path(path).parent if Path(path).name == STUDY_NAME else Path(path)
    return folder if (folder / STUDY_NAME).is_file() else None


def named_run(path: str) -> RunFolder:
    """The run folder at ``path``. Raises ConfigError if there is none: the argument is wrong, and not the disk."""
    try:
        return RunFolder.open(path)
    except StoreError as error:
        raise ConfigError(str(error)) from None
