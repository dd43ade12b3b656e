"""Reads what a user names into records of the history."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from omni_bench.compare.load import read_json, run_paths
from omni_bench.compare.vllm_bench import group_results, merged, read_result
from omni_bench.errors import ConfigError, OmniBenchError
from omni_bench.nightly.history.records import Role, StoredRun, record_of_bench, record_of_run
from omni_bench.records.run_folder import RunFolder


def load_records(specs: Sequence[str]) -> list[StoredRun]:
    """The runs that arguments name.

    Each is a run folder, a folder of runs, a pattern, a JSON file of ``vllm bench serve --save-result``, or the
    files of one sweep of that program with commas between them. Raises ConfigError, StoreError.
    """
    found = []
    for one in load_each(specs):
        if isinstance(one, OmniBenchError):
            raise one
        found.append(one)
    return found


def load_each(specs: Sequence[str]) -> Iterator[StoredRun | OmniBenchError]:
    """The same one by one, with the error of what cannot be read in its place, so that the others are not lost."""
    for spec in specs:
        try:
            paths = _paths(spec)
        except OmniBenchError as error:
            yield error
            continue
        results = [path for path in paths if path.suffix == ".json"]
        for path in paths:
            if path.suffix != ".json":
                try:
                    yield load_record(str(path))
                except OmniBenchError as error:
                    yield error
        try:
            yield from _bench_runs(results) if results else ()
        except OmniBenchError as error:
            yield error


def load_record(path: str, role: Role = Role.NIGHT) -> StoredRun:
    """The finished run folder at ``path``. Raises StoreError."""
    return record_of_run(RunFolder.open(path).read_run(), path, role)


def _paths(spec: str) -> list[Path]:
    paths = [path for part in spec.split(",") if part.strip() for path in run_paths(part.strip())]
    if not paths:
        raise ConfigError(f"{spec!r} names no run; give a run folder, a folder of runs, a pattern, or a JSON file")
    return paths


def _bench_runs(paths: Sequence[Path]) -> list[StoredRun]:
    documents = {str(path): read_json(path) for path in paths}
    groups = group_results([read_result(document, where) for where, document in documents.items()])
    return [record_of_bench(merged(parts), [documents[part.source] for part in parts]) for parts in groups]
