"""``omni-bench export``: a run, a study or a history for other programs."""

from __future__ import annotations

from pathlib import Path

from omni_bench.errors import EXIT_OK, ConfigError
from omni_bench.export.frames import is_study, load_history, load_run, load_study, opened, study_runs
from omni_bench.records.files import os_errors_as_store_errors
from omni_bench.records.level import short_title
from omni_bench.report.console import from_here
from omni_bench.terminal import say, say_aside, say_json

_SQLITE = b"SQLite format 3\0"


def export_command(
    path: str, *, csv: str | None, vllm_bench: str | None, mlflow: str | None, as_json: bool = False
) -> int:
    """Write CSV files or results of ``vllm bench serve`` into folders, or log to an MLflow server; 0.

    Raises ConfigError, StoreError.
    """
    if not (csv or vllm_bench or mlflow):
        raise ConfigError("say as what: --csv FOLDER, --vllm-bench FOLDER or --mlflow URI (or several of them)")
    history = _is_history(Path(path))
    if history and (vllm_bench or mlflow):
        other = "--vllm-bench" if vllm_bench else "--mlflow"
        raise ConfigError(f"{path} is a history, which {other} does not take: name a run or a study, or use --csv")
    said: dict[str, object] = {}
    if csv:
        said["csv"] = _csv(path, Path(csv), history, as_json)
    if vllm_bench:
        said["vllm_bench"] = _vllm_bench(path, Path(vllm_bench), as_json)
    if mlflow:
        said["mlflow"] = _mlflow(path, mlflow, as_json)
    if as_json:
        say_json(said)
    return EXIT_OK


def _is_history(path: Path) -> bool:
    if not path.is_file() or path.suffix == ".json":
        return False
    with os_errors_as_store_errors("read", path), path.open("rb") as file:
        return file.read(len(_SQLITE)) == _SQLITE


def _csv(path: str, out: Path, history: bool, quiet: bool) -> list[dict[str, object]]:
    from omni_bench.export.csv_files import write_csv
    from omni_bench.export.frames import named

    frames = load_history(path) if history else load_study(path) if is_study(Path(path)) else load_run(path)
    rows = [len(frame) for frame in named(frames).values()]
    files = write_csv(frames, out)
    for file, count in zip(files, rows, strict=True) if not quiet else ():
        say(f"{from_here(file.absolute())}: {count} rows")
    return [{"file": str(file), "rows": count} for file, count in zip(files, rows, strict=True)]


def _vllm_bench(path: str, out: Path, quiet: bool) -> dict[str, list[str]]:
    from omni_bench.export.vllm_bench import write_results

    study = is_study(Path(path))
    runs = [folder for folder, place in study_runs(Path(path)) if place["counts"]] if study else [opened(path)]
    if not runs:
        raise ConfigError(f"{path}: no pair of this study is valid, and results of vllm bench cannot say that")
    written, left_out = [], []
    for folder in runs:
        files, invalid = write_results(folder, out / folder.path.name if study else out)
        written += [str(file) for file in files]
        left_out += [f"{folder.path.name}, {short_title(level)}" for level in invalid]
    for file in written if not quiet else ():
        say(from_here(Path(file).absolute()))
    for level in left_out:
        say_aside(f"left out: {level}: it is invalid, which results of vllm bench cannot say")
    return {"files": written, "left_out": left_out}


def _mlflow(path: str, uri: str, quiet: bool) -> dict[str, object]:
    from omni_bench.export.mlflow_runs import log_run, log_study

    run_id, is_new = log_study(Path(path), uri) if is_study(Path(path)) else log_run(opened(path), uri)
    if not quiet:
        say(f"MLflow run {run_id}" + ("" if is_new else ": was there already"))
    return {"run_id": run_id, "new": is_new}
