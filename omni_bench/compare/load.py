"""Reads stored runs into :class:`RunView`, and finds them by what a user types."""

from __future__ import annotations

import glob
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from omni_bench.accuracy.wer import is_corrupted
from omni_bench.compare.keys import comparability_keys, order_of, settings_of, versions_of
from omni_bench.compare.stats.length_guard import UtteranceKey
from omni_bench.compare.views import OMNI_BENCH, LevelView, RequestView, RunFacts, RunView
from omni_bench.compare.vllm_bench import group_results, merged, read_result
from omni_bench.errors import ConfigError, StoreError, shorten
from omni_bench.metrics.definitions import METRICS
from omni_bench.records.files import os_errors_as_store_errors
from omni_bench.records.invalid_reason import nothing_compared, reasons_of
from omni_bench.records.level import Level, Rate, level_of, level_title
from omni_bench.records.run_folder import RunFolder
from omni_bench.report.format import NA, hardware_name, injected_faults, stated_fault, target_name
from omni_bench.report.table import error_rate
from omni_bench.report.utterances import score_of
from omni_bench.run.level_result import LevelResult
from omni_bench.run.stored_results import read_results

MAX_JSON_BYTES = 512 * 2**20
STUDY_NAME = "ab.json"
"""What tells the folder of a study of ``omni-bench ab`` from others."""
_GLOB = frozenset("*?[")


def load_arm(spec: str) -> list[RunView]:
    """The runs that one argument names, in order.

    ``spec``: a run folder, its run.json, a folder of runs (by name, which is by time), a
    pattern, a JSON file of ``vllm bench serve --save-result``, or several of these with commas between them.
    Raises ConfigError if there is nothing, or the same run twice; StoreError for what cannot be read.
    """
    paths = [path for part in spec.split(",") if part.strip() for path in run_paths(part.strip())]
    if not paths:
        raise ConfigError(f"{spec!r} names no run; give a run folder, a folder of runs, a pattern, or a comma list")
    seen = Counter(path.resolve() for path in paths)
    twice = [str(path) for path, times in seen.items() if times > 1]
    if twice:
        raise ConfigError(f"{spec!r}: {twice[0]} is listed twice; a run counts once")
    results = [path for path in paths if path.suffix == ".json"]
    folders = [path for path in paths if path.suffix != ".json"]
    if results and folders:
        raise ConfigError(f"{spec!r}: mixes run folders ({folders[0]}) with results of vllm bench ({results[0]})")
    if results:
        return [merged(parts) for parts in group_results([found for path in results for found in _results_in(path)])]
    return [load_run(path) for path in folders]


def load_run(path: str | Path) -> RunView:
    """One run folder of omni-bench. Raises StoreError if it is none, did not finish, or is damaged."""
    folder = RunFolder.open(path)
    run = folder.read_run()
    results = read_results(folder, run) if folder.requests_jsonl.is_file() else None
    if results is not None:
        run = {**run, "levels": [_with_tails(*both) for both in zip(run["levels"], results, strict=True)]}
    return view_of(run, str(path), results and _requests(folder, results))


def _with_tails(level: dict[str, Any], result: LevelResult) -> dict[str, Any]:
    """A level with the metrics of its tail, which it does not have by itself before schema 2.3."""
    missing = {metric.name for metric in METRICS.values() if metric.tail} - level["metrics"].keys()
    if not missing:
        return level
    found = result.summary().metrics_json()
    return {**level, "metrics": {**level["metrics"], **{name: found[name] for name in missing}}}


def view_of(run: Mapping[str, Any], source: str, requests: Sequence[RequestView] | None = None) -> RunView:
    """The view of a run.json (valid by its schema). ``requests``: None without per-request data."""
    provenance = run["provenance"]
    prompts, judge, target = provenance["prompts"], provenance["judge"], provenance["target"]
    search = run.get("rate_search")
    measured = sorted(run["levels"], key=level_of)
    if search is not None:  # beyond the limit, a server that refuses is what the search was after, and no measurement
        measured = [level for level in measured if (level.get("probe") or {}).get("holds")]
    levels = tuple(map(_level, measured))
    shown = {level_title(level.concurrency) for level in levels}
    hardware = hardware_name(run)
    return RunView(
        source=source,
        kind=OMNI_BENCH,
        started_utc=run["started_utc"],
        why=tuple(reason for reason in reasons_of(run) if reason.level not in shown),
        keys=comparability_keys(run),
        settings=settings_of(run),
        versions=versions_of(run),
        order=order_of(run),
        levels=levels,
        requests=None if requests is None else tuple(requests),
        facts=RunFacts(
            target=" ".join([target_name(run), *([target["version"]] if target["version"] else [])]),
            hardware=hardware,
            on_gpu=any(gpu["name"] == hardware for gpu in provenance["hardware"]["gpus"]),
            prompts=f"{prompts['dataset']} ({prompts['locale']}), {prompts.get('measured', prompts['count'])} prompts, "
            f"sha256 {(prompts['sha256'] or 'n/a')[:12]}",
            judge=judge["name"] if judge else None,
            rate=error_rate(run) if judge else None,
            highest_rate=None if search is None else _highest(search),
            faults=tuple(injected_faults(run)),
            stated_faults=() if (said := stated_fault(run)) is None else (said,),
            command=tuple(provenance["command"]),
        ),
    )


def _highest(search: Mapping[str, Any]) -> str:
    return NA if search["highest_hz"] is None else str(Rate(search["highest_hz"]))


def _level(level: Mapping[str, Any]) -> LevelView:
    why = reasons_of(level) or nothing_compared(level["accuracy"])
    return LevelView(level_of(level), level["requests"], why, level["metrics"], level["accuracy"])


def _requests(folder: RunFolder, results: Sequence[LevelResult]) -> list[RequestView]:
    """The requests of a run with what the judge made of them."""
    utterances = folder.read_utterances()
    scores = {score.request_id: score for score in map(score_of, utterances)}
    recordings = {one["request_id"]: one.get("audio") for one in utterances}
    views = []
    seen: Counter[tuple[Level, str, int | None]] = Counter()
    for level in results:
        for request in level.requests:
            timeline = request.timeline
            twin = (level.concurrency, timeline.prompt_id, timeline.seed)
            good = timeline.ok and not request.faults
            score = scores.get(request.request_id)
            views.append(
                RequestView(
                    key=UtteranceKey(*twin, occurrence=seen[twin]),
                    audio_s=request.metrics["audio_s"] if good else None,
                    e2el_ms=request.metrics["e2el_ms"] if good else None,
                    corrupted=is_corrupted(score) if score is not None else None,
                    edits=score.edits if score is not None and score.wer is not None else None,
                    words=score.reference_words if score is not None and score.wer is not None else None,
                    text=score.reference if score is not None else None,
                    heard=score.hypothesis if score is not None else None,
                    audio=recordings.get(request.request_id),
                )
            )
            seen[twin] += 1
    return views


def run_paths(part: str) -> list[Path]:
    """Run folders and result files that one part of an argument (no commas) names. Raises ConfigError, StoreError."""
    if _GLOB & set(part) and not Path(part).exists():
        found = [path for name in sorted(glob.glob(part)) for path in _expanded(Path(name), part)]
        if not found:
            raise ConfigError(f"{part!r}: no run fits the pattern")
        return found
    if not Path(part).exists():
        raise ConfigError(f"{part!r}: there is no such file or folder")
    return _expanded(Path(part), part)


def _expanded(path: Path, part: str) -> list[Path]:
    study = path.parent if path.name == STUDY_NAME else path
    if (study / STUDY_NAME).is_file():
        raise ConfigError(
            f"{part!r}: {study} is a study of omni-bench ab: its table is {study / 'compare.md'}, and its runs are "
            f"{study / 'runs'}/*-before and *-after; omni-bench ab --resume {study} prints the table again"
        )
    if path.name == "run.json" and path.is_file():
        return [path.parent]
    if path.is_file():
        if path.suffix != ".json":
            raise ConfigError(f"{part!r}: {path} is neither a run folder nor a JSON file of vllm bench serve")
        return [path]
    if is_run(path):
        return [path]
    with os_errors_as_store_errors("read", path):
        inside = sorted(path.iterdir())
    found = [child for child in inside if child.is_dir() and is_run(child)]
    found = found or [child for child in inside if child.is_file() and child.suffix == ".json"]
    if not found:
        raise ConfigError(f"{part!r}: {path} is not a run folder and holds none")
    return found


def is_run(path: Path) -> bool:
    """Whether ``path`` is a run folder, finished or not."""
    return (path / "run.json").is_file() or (path / "requests.jsonl").is_file()


def _results_in(path: Path) -> list[RunView]:
    """The results in one file: several, if they were appended (``--append-result``), or a list of them."""
    values = read_json_values(path)
    if len(values) == 1 and isinstance(values[0], list) and values[0]:
        values = values[0]
    names = [str(path)] if len(values) == 1 else [f"{path}, result {number}" for number in range(1, len(values) + 1)]
    return [read_result(value, name) for name, value in zip(names, values, strict=True)]


def read_json(path: Path) -> Any:
    """The one value of :func:`read_json_values`. Raises StoreError if there are more."""
    values = read_json_values(path)
    if len(values) != 1:
        raise StoreError(f"{path} holds {len(values)} JSON values, one behind the other; one is expected")
    return values[0]


def read_json_values(path: Path) -> list[Any]:
    """The JSON values of a file of bounded size, one or more with white space between them (vllm issue 17028).

    A number that is not finite is None. Raises StoreError.
    """
    with os_errors_as_store_errors("read", path):
        size = path.stat().st_size
        if size > MAX_JSON_BYTES:
            raise StoreError(f"{path} has {size} bytes; a result of vllm bench has at most {MAX_JSON_BYTES}")
        data = path.read_bytes()
    decoder = json.JSONDecoder(parse_int=_integer, parse_float=_finite, parse_constant=_finite)
    values, at = [], 0
    try:
        text = data.decode("utf-8-sig").strip()
        while at < len(text) or not values:
            value, at = decoder.raw_decode(text, at)
            values.append(value)
            while at < len(text) and text[at].isspace():
                at += 1
        return values
    except (ValueError, RecursionError) as error:
        which = f", result {len(values) + 1} of it" if values else ""
        cut = "; it is cut off there" if isinstance(error, json.JSONDecodeError) and _is_cut(error) else ""
        raise StoreError(f"{path}{which} is not JSON: {error}{cut}") from error


def _is_cut(error: json.JSONDecodeError) -> bool:
    """Whether the text ended before the value did: at the place of the error, or in the string that begins there."""
    return error.pos >= len(error.doc.rstrip()) or error.msg.startswith("Unterminated string")


def _integer(text: str) -> int:
    if len(text) > 20 or abs(int(text)) >= 2**63:
        raise ValueError(f"{shorten(text, 40)} is an integer of more than 64 bits")
    return int(text)


def _finite(text: str) -> float | None:
    return float(text) if math.isfinite(float(text)) else None
