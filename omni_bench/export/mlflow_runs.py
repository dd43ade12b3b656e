"""Runs and studies as runs of MLflow (the extra ``mlflow``), by its own client."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from omni_bench.compare.ab.state import STATE_NAME, StudyState
from omni_bench.errors import ConfigError, StoreError, shorten
from omni_bench.export.frames import level_metrics, study_runs
from omni_bench.metrics.definitions import METRICS
from omni_bench.metrics.metric import Scope
from omni_bench.nightly.history.records import record_of_run
from omni_bench.records.level import level_name, level_of
from omni_bench.records.run_folder import RunFolder

INSTALL = "pip install 'omni-bench[mlflow]'"
QUIET = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2", "GIT_PYTHON_REFRESH": "quiet"}
"""Settings of its client, unless the environment has others: nothing is sent elsewhere, a dead server is soon said."""
RUN_FILES = ("run.json", "report.html", "report.md", "wer_evidence.md", "plots")
STUDY_FILES = ("ab.json", "compare.json", "compare.md", "compare.csv", "report.html", "plots")
_BATCH = 100
_LONGEST = 5000  # of a value; its limits are 6,000 for parameters and 8,000 for tags
_FIGURES = ("mean", "p50", "p90", "p95", "p99")


def log_run(folder: RunFolder, uri: str) -> tuple[str, bool]:
    """Log a run into the experiment $MLFLOW_EXPERIMENT_NAME, else that of its scenario's name.

    Its id there, and False if it was there already, which changes nothing. Raises ConfigError without the extra,
    StoreError for a server that is not there or refuses.
    """
    run = folder.read_run()
    with _client(uri) as client:
        return _log(client, _experiment(client, run), folder, run, {})


def log_study(path: Path, uri: str) -> tuple[str, bool]:
    """The same for a study: a run with its comparison, and its runs below it. What is there already stays."""
    folder = path.parent if path.name == STATE_NAME else path
    state, runs = StudyState.read(folder), study_runs(path)
    with _client(uri) as client:
        first = runs[0][0].read_run()
        experiment = _experiment(client, first)
        name = f"{first['scenario']} ab {state.started_utc}"
        parent = _find(client, experiment, "omni_bench.study", name)
        is_new = parent is None
        if parent is None:
            parent = client.create_run(experiment, run_name=name, tags={"omni_bench.study": name}).info.run_id
        ending = state.ending
        outcome = "not ended" if ending is None else ending.outcome or ending.why or "no comparison"
        client.set_tag(parent, "omni_bench.outcome", shorten(outcome, _LONGEST))
        client.set_tag(parent, "omni_bench.command", shorten(" ".join(state.command), _LONGEST))
        for run_folder, place in runs:
            tags = {f"omni_bench.{key}": str(value) for key, value in place.items()}
            more = {**tags, "mlflow.parentRunId": parent}
            is_new |= _log(client, experiment, run_folder, run_folder.read_run(), more)[1]
        _artifacts(client, parent, folder, STUDY_FILES)
        client.set_terminated(parent, "FINISHED")
        return parent, is_new


@contextmanager
def _client(uri: str) -> Iterator[Any]:
    try:
        password = urlsplit(uri).password
    except ValueError:  # its words may repeat a password
        raise ConfigError("--mlflow: that is no address, such as http://HOST:5000") from None
    if password and uri.startswith("http"):
        raise ConfigError(
            "--mlflow: a password does not belong into an address; set MLFLOW_TRACKING_USERNAME and "
            "MLFLOW_TRACKING_PASSWORD"
        )
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    try:
        from mlflow.exceptions import MlflowException
        from mlflow.tracking import MlflowClient
    except ImportError as error:
        raise ConfigError(f"--mlflow needs MLflow's client ({error}): {INSTALL}") from None
    try:
        yield MlflowClient(tracking_uri=uri)
    except (MlflowException, OSError) as error:  # those of requests are OSErrors
        said = " ".join(str(error).split())
        if password:
            said, uri = said.replace(password, "***"), uri.replace(password, "***")
        raise StoreError(
            f"--mlflow {uri}: {shorten(said, 500)}; name a server that runs (http://HOST:5000); files of its own such "
            "as sqlite:///mlflow.db need the whole package: pip install mlflow"
        ) from error


def _experiment(client: Any, run: Mapping[str, Any]) -> str:
    name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or run["scenario"]
    found = client.get_experiment_by_name(name)
    return client.create_experiment(name) if found is None else found.experiment_id


def _find(client: Any, experiment: str, tag: str, value: str) -> str | None:
    quoted = value.replace("'", "")
    found = client.search_runs([experiment], f"tags.`{tag}` = '{quoted}'", max_results=1)
    return found[0].info.run_id if found else None


def _log(
    client: Any, experiment: str, folder: RunFolder, run: Mapping[str, Any], tags: Mapping[str, str]
) -> tuple[str, bool]:
    from mlflow.entities import Metric, Param, RunTag

    record = record_of_run(run, folder.path.name)
    there = _find(client, experiment, "omni_bench.run_id", record.run_id)
    if there is not None:
        return there, False
    started_ms = round(datetime.fromisoformat(run["started_utc"]).timestamp() * 1000)
    name = f"{run['scenario']} {folder.path.name}"
    own = client.create_run(experiment, started_ms, {"mlflow.source.name": "omni-bench", **tags}, name).info.run_id
    said = {
        "omni_bench.valid": str(run["valid"]).lower(),
        "omni_bench.invalid_reasons": "; ".join(map(str, record.reasons)),
        "omni_bench.faults": " ".join(record.faults),
        "omni_bench.target": record.target,
        "omni_bench.hardware": record.hardware,
        "omni_bench.commit": record.commit or "",
        "omni_bench.version": run["provenance"]["harness"]["version"],
        "omni_bench.command": " ".join(record.command),
    }
    metrics = [Metric(key, value, started_ms, 0) for key, value in metrics_of(run).items()]
    params = [Param(key, value) for key, value in _params(run["provenance"]["config"]).items()]
    for some in _parts(metrics):
        client.log_batch(own, metrics=some)
    for some in _parts(params):
        client.log_batch(own, params=some)
    client.log_batch(own, tags=[RunTag(key, shorten(value, _LONGEST)) for key, value in said.items() if value])
    _artifacts(client, own, folder.path, RUN_FILES)
    ended_ms = None if run["duration_s"] is None else started_ms + round(1000 * run["duration_s"])
    client.set_terminated(own, "FINISHED" if run["valid"] else "FAILED", ended_ms)
    client.set_tag(own, "omni_bench.run_id", record.run_id)  # at the end: what was cut short is not taken for whole
    return own, True


def metrics_of(run: Mapping[str, Any]) -> dict[str, float]:
    """Figures by "c16/ttfp_ms_p50"; a missing one has no key. Of an invalid level only what its checks counted."""
    found: dict[str, float | None] = {}
    for level in run["levels"]:
        name = level_name(level_of(level))
        for key in ("requests", "completed", "faulty", "failed"):
            found[f"{name}/{key}"] = level.get(key)
        shown = [metric for metric in METRICS.values() if level["valid"] or metric.scope is Scope.CHECK]
        found |= {f"{name}/{key}": value for key, value in level_metrics(level, shown, _FIGURES).items()}
    return {key: float(value) for key, value in found.items() if value is not None}


def _params(config: Mapping[str, Any]) -> dict[str, str]:
    """``group.key``: its value, as JSON where it is no text."""
    found = {}
    for group, keys in config.items():
        for key, value in keys.items() if isinstance(keys, Mapping) else ():
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            found[f"{group}.{key}"] = shorten(text, _LONGEST)
    return found


def _artifacts(client: Any, run_id: str, folder: Path, names: Sequence[str]) -> None:
    for name in names:
        path = folder / name
        if path.is_dir():
            client.log_artifacts(run_id, str(path), name)
        elif path.is_file():
            client.log_artifact(run_id, str(path))


def _parts(entries: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for at in range(0, len(entries), _BATCH):
        yield entries[at : at + _BATCH]
