"""Runs, studies and histories as pandas frames; their columns are those of :mod:`omni_bench.export.columns`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pandas as pd

from omni_bench.accuracy.wer import is_corrupted
from omni_bench.compare.ab.order import good_pairs
from omni_bench.compare.ab.state import RUNS, STATE_NAME, StudyState
from omni_bench.errors import ConfigError, StoreError
from omni_bench.export import columns
from omni_bench.export.columns import FIGURES, TEXT, TIME, Column
from omni_bench.metrics.metric import Metric, Scope
from omni_bench.nightly.history.database import History
from omni_bench.nightly.history.records import StoredLevel, StoredRun
from omni_bench.records.invalid_reason import InvalidReason, reasons_of
from omni_bench.records.level import level_fields, level_of
from omni_bench.records.run_folder import RunFolder
from omni_bench.report.utterances import score_of
from omni_bench.run.level_result import RequestResult
from omni_bench.run.stored_results import read_results

Row = Mapping[str, Any]


class _Frames:
    def __repr__(self) -> str:
        """``RunFrames(requests 24 x 61, levels 3 x 97)``: rows and columns."""
        sizes = (f"{name} {len(one)} x {len(one.columns)}" for name, one in named(self).items())  # type: ignore[arg-type]
        return f"{type(self).__name__}({', '.join(sizes)})"


@dataclass(frozen=True, repr=False)
class RunFrames(_Frames):
    """A run, or the runs of a study: one row a measured request, a chunk of one, a judged utterance, a level.

    A run without requests.jsonl (as reports are committed) has levels alone, one without a judge no utterances:
    such frames are empty, with all their columns. A missing value is missing and never 0. ``folders``: those of the
    runs by their names in the column ``run``.
    """

    requests: pd.DataFrame
    chunks: pd.DataFrame
    utterances: pd.DataFrame
    levels: pd.DataFrame
    folders: Mapping[str, Path]

    def recording(self, row: Any) -> Path | None:
        """The recording of a row of ``requests`` or ``utterances`` (a Series, or one of ``itertuples``), to be opened.

        None if it was not kept, or if what stands there is no path within its run's folder.
        """
        try:
            path = RunFolder(self.folders[row.run]).recording(row.audio if isinstance(row.audio, str) else None)
        except StoreError:
            return None
        return path if path is not None and path.is_file() else None


@dataclass(frozen=True, repr=False)
class HistoryFrames(_Frames):
    """A history: one row a night, a level of one, an alarm, and a run of a baseline."""

    nights: pd.DataFrame
    levels: pd.DataFrame
    alarms: pd.DataFrame
    baselines: pd.DataFrame


def load_run(folder: str | Path) -> RunFrames:
    """The frames of a finished run; ``folder`` may also be its run.json.

    Raises ConfigError if there is no run, StoreError for one that did not finish or is damaged.
    """
    if is_study(Path(folder)):
        raise ConfigError(f"{folder} is a study of omni-bench ab: omni_bench.load_study reads it")
    return _frames([(opened(folder), {})], ())


def load_study(folder: str | Path) -> RunFrames:
    """The frames of all runs of a study of ``omni-bench ab`` that left a run.json, with arm and pair before each row.

    Raises ConfigError if there is no study, StoreError for one that is damaged.
    """
    return _frames(study_runs(Path(folder)), columns.STUDY)


def load_history(file: str | Path) -> HistoryFrames:
    """The frames of a history, as ``omni-bench history`` and ``gate`` keep it.

    Raises ConfigError if there is no such file, StoreError for one that is no history or is damaged.
    """
    if not Path(file).is_file():
        raise ConfigError(f"{file}: there is no such history; omni-bench history add RUN makes one")
    rows: dict[str, list[Row]] = {name: [] for name in columns.FRAMES["history"]}
    with History(Path(file)) as history:
        for series in history.series():
            verdicts = history.verdicts(series)
            for night in history.nights(series):
                rows["nights"].append(_night(night, verdicts.get(night.run_id)))
                rows["levels"] += [_night_level(night, level) for level in night.levels]
            rows["alarms"] += [{"series": series, **vars(alarm)} for alarm in history.alarms(series)]
            for one in history.baselines(series):
                rows["baselines"] += [{**vars(one), "run_id": run.run_id} for run in one.runs]
    return HistoryFrames(**{name: _frame(rows[name], of) for name, of in columns.FRAMES["history"].items()})


def named(frames: RunFrames | HistoryFrames) -> dict[str, pd.DataFrame]:
    """The frames by name."""
    found = {one.name: getattr(frames, one.name) for one in fields(frames)}
    return {name: one for name, one in found.items() if isinstance(one, pd.DataFrame)}


# ---- Folders ----


def is_study(path: Path) -> bool:
    """Whether ``path`` is the folder of a study, or its ab.json."""
    return path.name == STATE_NAME or (path / STATE_NAME).is_file()


def opened(folder: str | Path) -> RunFolder:
    """The run folder. Raises ConfigError if there is none: the argument is wrong, and not the disk."""
    try:
        return RunFolder.open(folder)
    except StoreError as error:
        raise ConfigError(str(error)) from None


def study_runs(path: Path) -> list[tuple[RunFolder, dict[str, Any]]]:
    """Every run of a study that left a run.json, with its values of :data:`columns.STUDY`. Raises as load_study."""
    folder = path.parent if path.name == STATE_NAME else path
    if not folder.is_dir():
        raise ConfigError(f"{folder}: there is no such folder; studies lie in reports/runs/ab")
    state = StudyState.read(folder)
    compared = {one.number for pair in good_pairs(state.records) for one in pair}
    found = []
    for record in state.records:
        run = RunFolder((folder / RUNS / record.folder).absolute())
        if run.run_json.is_file():
            place = {"arm": record.arm, "pair": record.pair, "attempt": record.attempt}
            found.append((run, {**place, "counts": record.number in compared}))
    if not found:
        raise ConfigError(f"{folder}: no run of this study has ended; go on with it: omni-bench ab --resume {folder}")
    return found


# ---- Rows ----


def _frames(runs: Sequence[tuple[RunFolder, Row]], more: Sequence[Column]) -> RunFrames:
    rows: dict[str, list[Row]] = {name: [] for name in columns.FRAMES["run"]}
    for folder, place in runs:
        run = folder.read_run()
        first = {**place, "run": folder.path.name}
        rows["levels"] += [first | _level(level) for level in run["levels"]]
        for line in folder.read_utterances():
            rows["utterances"].append(first | {**line, "corrupted": is_corrupted(score_of(line))})
        for level in read_results(folder, run) if folder.requests_jsonl.is_file() else ():
            of_level = first | level_fields(level.concurrency)
            for request in level.requests:
                audio = None if request.audio is None else str(request.audio.relative_to(folder.path.resolve()))
                rows["requests"].append(of_level | _request(request) | {"audio": audio})
                rows["chunks"] += [of_level | one for one in _chunks(request)]
    frames = {name: _frame(rows[name], (*more, *of)) for name, of in columns.FRAMES["run"].items()}
    return RunFrames(**frames, folders={folder.path.name: folder.path for folder, _ in runs})


def _request(request: RequestResult) -> Row:
    timeline = request.timeline
    return {
        **vars(timeline),
        **{metric.name: request.metrics[metric.name] for metric in columns.REQUEST_METRICS},
        "valid": timeline.ok and not request.faults,
        "error_kind": timeline.error and timeline.error.kind,
        "error_message": timeline.error and timeline.error.message,
        "faults": " ".join(request.faults),
        "http_chunks": len(timeline.http_chunks),
        "audio_bytes": timeline.audio_bytes,
        **{name: getattr(request, name) for name in ("language", "text", "prompt_text", "ref_text")},
        **level_fields(timeline.concurrency),
    }


def _chunks(request: RequestResult) -> Iterator[Row]:
    timeline = request.timeline
    rate_hz = timeline.sample_rate_hz
    for index, (arrived_ns, samples) in enumerate(timeline.http_chunks):
        length = {"samples": samples, "audio_ms": None if rate_hz is None else 1000 * samples / rate_hz}
        yield {**_arrival(request, "audio", index, arrived_ns), **length}
    for index, arrived_ns in enumerate(timeline.text_arrived_ns):
        tokens = timeline.text_tokens[index] if timeline.text_tokens else None
        yield {**_arrival(request, "text", index, arrived_ns), "tokens": tokens}


def _arrival(request: RequestResult, kind: str, index: int, arrived_ns: int) -> Row:
    after_ms = (arrived_ns - request.timeline.started_ns) / 1e6
    name = {"request_id": request.request_id, "kind": kind, "index": index}
    return {**name, "arrived_ns": arrived_ns, "after_start_ms": after_ms}


def _level(level: Row) -> Row:
    accuracy, client = level["accuracy"] or {}, level["client"] or {}
    return {
        **level,
        "concurrency": None,
        "rate_hz": None,
        **level_fields(level_of(level)),
        "invalid_reasons": _codes(reasons_of(level)),
        **level_metrics(level, columns.LEVEL_METRICS),
        **{name: accuracy.get(name) for name in ("judge", "words", "edits")},
        **{f"client_{name}": client.get(name) for name in ("lag_p50_ms", "lag_p99_ms")},
    }


def level_metrics(level: Row, metrics: Iterable[Metric], figures: Sequence[str] = FIGURES) -> dict[str, Any]:
    """The values of a level of run.json, or of the history in that form; ``figures``: those of a distribution."""
    found = {}
    for metric in metrics:
        if metric.scope is Scope.REQUEST and metric.path is None:
            found |= {f"{metric.name}_{name}": metric.value_in(level, name) for name in figures}
        else:
            found[metric.name] = metric.value_in(level)
    return found


def _codes(reasons: Iterable[InvalidReason]) -> str:
    return " ".join(dict.fromkeys(reason.code for reason in reasons))


def _night(night: StoredRun, outcome: str | None) -> Row:
    own = {"invalid_reasons": _codes(night.reasons), "faults": " ".join(night.faults), "outcome": outcome}
    return {**vars(night), "commit": night.commit, **own}


def _night_level(night: StoredRun, level: StoredLevel) -> Row:
    of_night = {name: getattr(night, name) for name in ("run_id", "series", "scenario", "started_utc")}
    figures = level_metrics(vars(level), [one for one in columns.LEVEL_METRICS if one.name != "stalls"])
    return {**of_night, **vars(level), "invalid_reasons": _codes(level.reasons), **figures}


def _frame(rows: Sequence[Row], of: Sequence[Column]) -> pd.DataFrame:
    return pd.DataFrame({column.name: _series([row.get(column.name) for row in rows], column) for column in of})


def _series(values: list[Any], column: Column) -> pd.Series:
    if column.type == TEXT:  # a lone surrogate, which Arrow cannot hold, becomes its escape
        values = [None if one is None else str(one).encode("utf-8", "backslashreplace").decode() for one in values]
    if column.type == TIME:
        return pd.Series(pd.to_datetime(values, utc=True, errors="coerce").astype(column.type))
    return pd.Series(values, dtype=column.type)
