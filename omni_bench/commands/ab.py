"""``omni-bench ab``: a before/after study in one command."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from omni_bench import terminal
from omni_bench.commands.compare import profiles_of, show_comparison, write_comparison
from omni_bench.commands.run import PROGRAM, signals_as_interrupt
from omni_bench.compare.ab.arms import resolve_arms
from omni_bench.compare.ab.environments import Recipe, build_environment
from omni_bench.compare.ab.notes import opening
from omni_bench.compare.ab.order import RunState, good_pairs, random_start
from omni_bench.compare.ab.pace import Pace, earlier_run_s, stored_run_s
from omni_bench.compare.ab.state import RUNS, STATE_NAME, Ending, StudyState, check_restart, claimed
from omni_bench.compare.ab.study import Runner, Study, StudyResult
from omni_bench.compare.ab.words import more_pairs, read_words
from omni_bench.compare.document import to_document
from omni_bench.compare.result import EXIT_INCONCLUSIVE, Advisory, Comparison, ComparisonOutcome
from omni_bench.compare.stats.verdicts import FULL_PAIRS
from omni_bench.errors import EXIT_USAGE, ConfigError, OmniBenchError, StoreError
from omni_bench.run.config.compose import utc_folder_name
from omni_bench.run.provenance import harness
from omni_bench.run.turns import Ended, Part, Turns

_NOT_ENDED = Ending(None, EXIT_INCONCLUSIVE, "it has not ended")
DEFAULT_ROOT = Path("reports/runs/ab")
HAVE_FILES = (RunState.MEASURED, RunState.DONE, RunState.INVALID)
ENVIRONMENTS = Path("reports/runs/environments")


def ab_command(
    words: Sequence[str],
    *,
    resume: str | None = None,
    out: str | None = None,
    recipe: Recipe | None = None,
    runner: Runner | None = None,
    say: Callable[[str], None] | None = None,
    as_json: bool = False,
    for_pr: bool = False,
) -> int:
    """Begin a study, or go on with the one in ``resume``, print the comparison and write it into its folder.

    ``for_pr``: print markdown to paste; ``as_json``: print how it ended, and compare.json.

    0 for no regression or an improvement, 1 for a regression, a hard failure or an after that is broken where before
    is not, 2 for inconclusive, 3 for infrastructure. Raises ConfigError and whatever :meth:`Study.go` raises.
    """
    say = say or terminal.say_aside
    with signals_as_interrupt():
        if resume is not None:
            folder, state = _resumed(resume, words, out)
        else:
            folder, state = _new(words, out, recipe or Recipe(ENVIRONMENTS), say)
        with claimed(folder):
            result = _go(folder, state, runner or real_runs, say)
    code = _finish(folder, state, result, say, as_json=as_json, for_pr=for_pr)
    if as_json:
        terminal.say_json(_document(folder, result))
    return code


def ab_from_arguments(parsed: argparse.Namespace) -> int:
    """:func:`ab_command` from the parsed command line."""
    recipe = Recipe(
        root=Path(parsed.environments) if parsed.environments is not None else ENVIRONMENTS,
        constraints=Path(parsed.constraints) if parsed.constraints is not None else None,
        share_packages=parsed.share_packages,
    )
    return ab_command(
        parsed.words,
        resume=parsed.resume,
        out=parsed.out,
        recipe=recipe,
        as_json=parsed.as_json,
        for_pr=parsed.for_pr,
    )


def real_runs(parts: Sequence[Part], turns: Turns) -> list[Ended]:
    """Runs by the orchestration, with their bars as part of the study's, without their summaries."""
    from omni_bench.run.orchestrate import run_in_turns

    return run_in_turns(parts, turns)


def _new(words: Sequence[str], out: str | None, recipe: Recipe, say: Callable[[str], None]) -> tuple[Path, StudyState]:
    read = read_words(words)
    folder = (Path(out) if out is not None else DEFAULT_ROOT / utc_folder_name()).absolute()
    if (folder / STATE_NAME).is_file():
        raise ConfigError(f"--out {folder} holds a study already; go on with it: {resume_command(folder)}")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"--out {folder} is not an empty folder; choose one that does not exist yet")
    arms = resolve_arms(read, Path.cwd(), lambda source: build_environment(source, recipe, say))
    drawn = [] if any(word.startswith("seed=") for word in words) else [f"seed={read.seed}"]
    state = StudyState(
        command=(PROGRAM, "ab", *_options(recipe), *words, *drawn),
        started_utc=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        harness=harness(),
        plan=read.plan,
        seed=read.seed,
        start=random_start(read.seed),
        arms=arms,
        restart=read.restart,
        judging=read.judging,
    )
    check_restart(state)
    state.write(folder)
    return folder, state


def _options(recipe: Recipe) -> list[str]:
    """The options of a command line that decide what goes into the environments."""
    constraints = [] if recipe.constraints is None else ["--constraints", str(recipe.constraints)]
    return [*(["--share-packages"] if recipe.share_packages else []), *constraints]


def _resumed(resume: str, words: Sequence[str], out: str | None) -> tuple[Path, StudyState]:
    pairs = more_pairs(words)
    if out is not None:
        raise ConfigError("--resume goes on in the study's own folder: it takes no --out")
    folder = Path(resume).absolute()
    state = StudyState.read(folder)
    gone = [
        one.folder for one in state.records if one.state in HAVE_FILES and not (folder / RUNS / one.folder).is_dir()
    ]
    if gone:
        raise StoreError(
            f"{folder / RUNS / gone[0]} is gone, so that there is nothing to go on with or to show anew; begin a new "
            f"study: {shlex.join(state.command)}"
        )
    if pairs is not None:
        state = _with_more(state, pairs, folder)
    now = harness()
    if state.ending is None and {**now, "dirty": None} != {**state.harness, "dirty": None}:
        raise ConfigError(
            f"{folder} was started by omni-bench {_version(state.harness)}, this is {_version(now)}: runs of one study "
            "are measured by one version; go back to that one, or start a new study"
        )
    for arm in state.arms if state.ending is None else ():
        if arm.source is not None and not Path(arm.config.target.python or "").is_file():
            raise ConfigError(
                f"the environment of {arm.name} ({arm.source.title}) is gone: {arm.config.target.python}; begin a new "
                "study, which makes it again"
            )
    return folder, state


def _with_more(state: StudyState, pairs: int, folder: Path) -> StudyState:
    """An ended study that is to go on to ``pairs`` pairs."""
    if state.ending is None:
        raise ConfigError(f"pairs={pairs}: this study has not ended yet; first {resume_command(folder)}")
    if state.ending.why is not None:
        raise ConfigError(f"pairs={pairs}: more pairs would not help, as {state.ending.why}; begin a new study")
    done = len(good_pairs(state.records))
    try:
        plan = state.plan.with_more(pairs)
    except ValueError as error:
        raise ConfigError(f"{error}, which this study has already or may have had") from None
    return replace(state, plan=plan, extended_from=(*state.extended_from, done), ending=None)


def _version(harness: Mapping[str, Any]) -> str:
    commit = harness.get("commit")
    return str(harness.get("version")) + (f" ({str(commit)[:12]})" if commit else "")


def _go(folder: Path, state: StudyState, runner: Runner, say: Callable[[str], None]) -> StudyResult:
    pace = Pace(earlier_run_s(state.arms[0].config) if state.ending is None else None)
    for one in state.records if state.ending is None else ():
        pace.add(stored_run_s(folder / RUNS / one.folder))
    ended = [f"this study has ended; for more pairs: {resume_command(folder)} pairs=N"]
    for line in [f"study: {folder}", *opening(state, pace)] if state.ending is None else ended:
        say(line)
    study = Study(folder, state, runner, say, pace)
    try:
        return study.go()
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"go on with: {resume_command(folder)}") from None
    except OmniBenchError as error:
        if error.exit_code == EXIT_USAGE and not any(one.state != "interrupted" for one in study.state.records):
            _discard(folder)
        else:
            say(f"go on with: {resume_command(folder)}")
        raise


def resume_command(folder: Path) -> str:
    """What goes on with the study."""
    return f"{PROGRAM} ab --resume {folder}"


def _discard(folder: Path) -> None:
    """Remove the folder of a study whose first run could not even begin: a wrong value, too few prompts."""
    (folder / STATE_NAME).unlink(missing_ok=True)
    for place in ((folder / RUNS).glob("*"), [folder / RUNS, folder]):
        for path in place:
            if path.is_dir() and not any(path.iterdir()):
                path.rmdir()


def report_study(folder: Path, *, as_json: bool = False) -> tuple[int, dict[str, Any]]:
    """Compare the runs of a study again and write its report, table and plots anew; its exit code and document.

    One that has not ended is reported as far as it came, and ends with 2. Raises ConfigError without any pair,
    StoreError for a study that goes on or is damaged.
    """
    folder = folder.absolute()
    with claimed(folder):
        state = StudyState.read(folder)
        result = Study(folder, replace(state, ending=state.ending or _NOT_ENDED), real_runs, terminal.say_aside).go()
    if result.comparison is None:
        raise ConfigError(f"{folder}: this study has no pair to compare; go on with it: {resume_command(folder)}")
    code = _finish(folder, state, result, terminal.say_aside, as_json=as_json, for_pr=False)
    return code, _document(folder, result)


def _document(folder: Path, result: StudyResult) -> dict[str, Any]:
    comparison = None if result.comparison is None else to_document(result.comparison)
    fallback = result.state.fallback
    restart = {"asked": result.state.restart, "fallback": None if fallback is None else asdict(fallback)}
    return {"study": str(folder), "ending": asdict(result.ending), "restart": restart, "comparison": comparison}


def _finish(
    folder: Path,
    state: StudyState,
    result: StudyResult,
    say: Callable[[str], None],
    *,
    as_json: bool,
    for_pr: bool,
) -> int:
    comparison, ending = result.comparison, result.ending
    if comparison is not None:
        profiles = profiles_of(result.before, result.after, folder)
        write_comparison(comparison, result.before, result.after, folder, state.command, profiles, folder)
        if not as_json:
            show_comparison(comparison, folder, state.command, profiles, as_json=False, for_pr=for_pr, runs_in=folder)
    if ending == _NOT_ENDED:
        say(f"the study has not ended; go on with it: {resume_command(folder)}")
    elif ending.why is not None:
        say(f"the study ended early: {ending.why}")
    elif comparison is not None and _wants_more(comparison):
        wanted = FULL_PAIRS if comparison.pairs < FULL_PAIRS else comparison.pairs + 3
        say(f"for more pairs: {resume_command(folder)} pairs={wanted}")
    return ending.exit_code


def _wants_more(comparison: Comparison) -> bool:
    return comparison.outcome in (ComparisonOutcome.INCONCLUSIVE, ComparisonOutcome.ADVISORY) or (
        Advisory.FEW_PAIRS in comparison.advisory
    )
