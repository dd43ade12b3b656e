"""``omni-bench run``: the Hydra application around :func:`omni_bench.run.orchestrate.run`."""

from __future__ import annotations

import contextlib
import io
import os
import resource
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig

from omni_bench.commands.failures import guarded
from omni_bench.errors import EXIT_INTERRUPTED, EXIT_OK, EXIT_USAGE, ConfigError, OmniBenchError, alternatives
from omni_bench.records.config import RunConfig
from omni_bench.records.run_folder import RunFolder
from omni_bench.report.console import print_summary
from omni_bench.run.config.compose import (
    COMPOSITION_ERRORS,
    CONFIG_NAME,
    VERSION_BASE,
    group_options,
    register,
    scenario_folder,
    to_run_config,
)
from omni_bench.run.config.explain import explain
from omni_bench.run.config.words import as_meant
from omni_bench.terminal import say_aside, say_help, say_json

PROGRAM = "omni-bench"
RESUME, JSON = "--resume", "--json"
FLAGS = (RESUME, JSON, "--help", "--multirun", "--cfg", "--package", "--resolve", "--info", "--version", "--run")
FLAGS += (
    "--hydra-help",
    "--config-path",
    "--config-name",
    "--config-dir",
    "--experimental-rerun",
    "--shell-completion",
)
"""Its own, and Hydra's."""
MEMORY_BYTES = 384 << 20
"""Address space that a run's own process needs; its server, judge and load workers have their own."""
_HYDRA_FILES = ("config.yaml", "hydra.yaml", "overrides.yaml")

# At import: a launcher that runs jobs in other processes (joblib, Ray, submitit) imports this
# module there, and nothing else of this package, before it composes the job's configuration.
register()

GROUPS = tuple(RunConfig.__dataclass_fields__)

_exit_codes: list[int] = []
_as_json: list[bool] = []


class JobFailed(OmniBenchError):
    """A job of a multirun ended with an exit code other than 0; what happened has been said."""

    def __init__(self, exit_code: int):
        super().__init__(exit_code)  # what an exception is rebuilt from on its way between processes
        self.exit_code = exit_code

    def __str__(self) -> str:
        return f"a job of the multirun ended with exit code {self.exit_code}"


def run_command(arguments: list[str]) -> int:
    """Hand ``arguments`` to Hydra; the exit code of the job, in a multirun that of the first that failed.

    ``--resume FOLDER`` goes on with a run instead; ``--json`` prints run.json in the place of the summary. Raises
    ConfigError for what Hydra cannot compose, StoreError for a ``hydra.run.dir`` that holds a run, and what
    :func:`omni_bench.run.orchestrate.resume` raises.
    """
    _check_memory()
    if {"--help", "-h"} & set(arguments):
        say_help(composed_help(arguments).rstrip("\n"))
        return EXIT_OK
    _as_json.clear()
    if JSON in arguments:
        arguments = [one for one in arguments if one != JSON]
        if set(arguments) & {"-m", "--multirun"}:
            raise ConfigError(f"{JSON} is of one run; of a multirun each job's run.json is in its folder")
        _as_json.append(True)
    if any(one == RESUME or one.startswith(f"{RESUME}=") for one in arguments):
        return _resume(arguments)
    _exit_codes.clear()
    _refuse_flags(arguments)
    arguments = _words(arguments)
    _refuse_taken_folder(arguments)
    return _hydra(arguments)


def composed_help(arguments: list[str]) -> str:
    """The help, with the keys at what ``arguments`` set them to. Raises ConfigError for what Hydra cannot compose."""
    _refuse_flags(arguments)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        _hydra(_words(arguments))
    return printed.getvalue()


def _words(arguments: list[str]) -> list[str]:
    return as_meant(arguments, multirun=bool({"-m", "--multirun", "hydra.mode=MULTIRUN"} & set(arguments)))


def _hydra(arguments: list[str]) -> int:
    application = hydra.main(version_base=VERSION_BASE, config_path=str(scenario_folder()), config_name=CONFIG_NAME)
    with _as_program(arguments), signals_as_interrupt():
        try:
            application(run_job)()
        except COMPOSITION_ERRORS as error:
            raise explain(error, list(group_options("scenario"))) from None
        except SystemExit as end:
            # Hydra's argparse, and flags such as --cfg with a package that does not exist.
            return end.code if isinstance(end.code, int) else EXIT_USAGE
    return _exit_codes[-1] if _exit_codes else EXIT_OK


def _check_memory() -> None:
    """Raise ConfigError for too little memory: SciPy's OpenBLAS asks for it again and again, without end."""
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft != resource.RLIM_INFINITY and soft < MEMORY_BYTES:
        raise ConfigError(
            f"this process may have {soft >> 20} MiB of memory, and needs {MEMORY_BYTES >> 20} MiB: raise the limit "
            "(ulimit -v)"
        )


def _resume(arguments: list[str]) -> int:
    """Go on with the run that ``--resume FOLDER`` names; its configuration is its own."""
    words = [part for one in arguments for part in (one.split("=", 1) if one.startswith(f"{RESUME}=") else [one])]
    if len(words) != 2 or words[0] != RESUME or not words[1]:
        raise ConfigError(
            f"{' '.join(arguments)}: {RESUME} takes the folder of a run and nothing else, as the run goes on with the "
            f"configuration that it began with: {PROGRAM} run {RESUME} FOLDER"
        )
    folder = Path(words[1])
    if not folder.is_dir():
        raise ConfigError(f"{RESUME} {folder}: there is no such folder")
    from omni_bench.run.orchestrate import resume

    with signals_as_interrupt():
        return resume(folder, _show).exit_code


def run_job(composed: DictConfig) -> None:
    """One job, called by Hydra (in a multirun perhaps in another process).

    Hydra drops what a job returns, so a single run leaves its exit code in this module; a job of a
    multirun raises, which every launcher carries back.
    """
    from omni_bench.run.orchestrate import run

    hydra_config = HydraConfig.get()
    run_dir = Path(hydra_config.runtime.output_dir)
    multirun = hydra_config.mode == RunMode.MULTIRUN
    asked_for = any(one.startswith("hydra.run.dir=") for one in hydra_config.overrides.hydra)
    command = [PROGRAM, "run", *(hydra_config.overrides.task if multirun else sys.argv[1:])]
    if multirun:
        say_aside(f"job {hydra_config.job.num}: {' '.join(hydra_config.overrides.task)}")

    def job() -> int:
        return run(
            to_run_config(composed), run_dir, command, show=_show, keep_unanswered=multirun or asked_for
        ).exit_code

    code = guarded(job, lambda: run_dir)
    if code != EXIT_OK:
        _discard_without_run(run_dir)
    _exit_codes.append(code)
    if multirun and code == EXIT_INTERRUPTED:
        sys.exit(code)  # past Hydra, which would go on with the next job
    if multirun and code != EXIT_OK:
        raise JobFailed(code)


def _show(document: dict[str, Any], folder: RunFolder) -> None:
    if _as_json:
        say_json(document)
    else:
        print_summary(document, folder)


def _refuse_flags(arguments: list[str]) -> None:
    """Raise ConfigError for ``--scenario smoke``: keys have no dashes before them, Hydra's flags have."""
    for number, argument in enumerate(arguments):
        name, equals, value = argument.removeprefix("--").partition("=")
        if not argument.startswith("--"):
            continue
        if not (name in GROUPS or "." in name):
            if not any(flag.startswith(f"--{name}") for flag in FLAGS):
                raise ConfigError(f"{argument}: there is no such flag{alternatives(f'--{name}', FLAGS)}")
            continue
        if not equals:
            value = next(iter(arguments[number + 1 : number + 2]), "VALUE")
        raise ConfigError(f"{argument}: keys are written without dashes; did you mean {name}={value}?")


def _refuse_taken_folder(arguments: list[str]) -> None:
    """Raise StoreError before Hydra writes its files into the folder of another run."""
    for argument in arguments:
        key, _, value = argument.partition("=")
        if key == "hydra.run.dir" and (path := Path(value.strip("'\""))).is_dir():
            RunFolder.create(path).release()


def _discard_without_run(run_dir: Path) -> None:
    """Remove the folder that Hydra made if the job wrote nothing there (a bad value, no judge)."""
    hydra_dir = run_dir / ".hydra"
    with contextlib.suppress(OSError):
        if Path.cwd().is_relative_to(run_dir) or {entry.name for entry in run_dir.iterdir()} - {hydra_dir.name}:
            return
        for name in _HYDRA_FILES:
            (hydra_dir / name).unlink(missing_ok=True)
        if hydra_dir.is_dir():
            hydra_dir.rmdir()
        run_dir.rmdir()


@contextlib.contextmanager
def _as_program(arguments: list[str]) -> Iterator[None]:
    """Let Hydra see the command line it is to parse, and raise its errors instead of printing them."""
    argv, full_error = sys.argv, os.environ.get("HYDRA_FULL_ERROR")
    sys.argv = [PROGRAM, *arguments]
    os.environ["HYDRA_FULL_ERROR"] = "1"
    try:
        yield
    finally:
        sys.argv = argv
        if full_error is None:
            del os.environ["HYDRA_FULL_ERROR"]
        else:
            os.environ["HYDRA_FULL_ERROR"] = full_error


@contextlib.contextmanager
def signals_as_interrupt() -> Iterator[None]:
    """Within this context SIGTERM and SIGHUP end a run in order, as Ctrl-C does."""

    def interrupt(number: int, _: object) -> NoReturn:
        raise KeyboardInterrupt(f"by {signal.Signals(number).name}")

    numbers = (signal.SIGTERM, signal.SIGHUP) if threading.current_thread() is threading.main_thread() else ()
    previous = {number: signal.signal(number, interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


if __name__ == "__main__":  # after a change of a key or of a file of scenarios/
    help_file = Path(__file__).with_name("run_help.txt")
    help_file.write_text(composed_help(["--help"]), encoding="utf-8")
