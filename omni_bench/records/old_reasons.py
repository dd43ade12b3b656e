"""Reasons of old files, which were sentences (run.json before 2.0, histories before version 3), as codes.

The one place that reads sentences, for files of those versions only: what is written now carries its codes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from omni_bench.records.invalid_reason import Code, Figure, InvalidReason
from omni_bench.records.level import level_or_none, level_title

_PATTERNS = tuple(
    (code, re.compile(pattern, re.DOTALL))
    for code, pattern in (
        (Code.SOLO_FAILED, r"(?P<failed>\d+) of (?P<sent>\d+) requests failed when sent alone \((?P<errors>.*)\)"),
        (Code.REQUESTS_FAILED, r"(?P<failed>\d+) of (?P<requests>\d+) requests failed \((?P<errors>.*)\)"),
        (Code.BENCH_FAILED, r"(?P<failed>\d+) of (?P<requests>\d+) requests failed$"),
        (Code.NONE_COMPLETED, r"no request was completed$"),
        (
            Code.INVALID_AUDIO,
            r"(?P<faulty>\d+) of (?P<requests>\d+) requests (?:have|gave) invalid audio \((?P<faults>.*)\)",
        ),
        (
            Code.INVALID_ANSWER,
            r"(?P<faulty>\d+) of (?P<requests>\d+) requests have an invalid answer \((?P<faults>.*)\)",
        ),
        (Code.WARMUP_FAILED, r"warm-up failed(?:: (?P<failed>\d+) of (?P<requests>\d+) requests \((?P<errors>.*)\))?"),
        (Code.CLIENT_LAG_UNKNOWN, r"client lag"),
        (
            Code.CLIENT_LATE,
            r"the client could not hold its schedule(?:.* (?P<p99_ms>[\d.]+) ms .* (?P<budget_ms>\S+) ms)?",
        ),
        (Code.CLIENT_LAG, r"the client(?:.* lagged (?P<p99_ms>[\d.]+) ms .* (?P<budget_ms>\S+) ms)?"),
        (Code.WER, r"(?P<rate>WER|CER)(?:.* is above asr.wer_limit=(?P<limit>\S+) )?"),
        (Code.PARITY_WORDS, r"parity: words are damaged in company, (?P<worse>\d+) .* (?P<worse_alone>\d+) alone "),
        (Code.PARITY_CORRUPTED, r"parity: (?P<corrupted>\d+) of (?P<judged>\d+) utterances are corrupted in company"),
        (Code.PARITY_REPEATS, r"parity: (?P<differ>\d+) of (?P<repeats>\d+) requests sent twice"),
        (Code.PARITY_DIFFERS, r"parity(?:: (?P<mismatches>\d+) of (?P<compared>\d+) answers differ)?"),
        (Code.CROSS_TALK, r"cross-talk"),
        (Code.NO_REQUESTS, r"no request was measured"),
        (Code.NO_LEVELS, r"no level was measured$"),
        (Code.NOT_MEASURED, r"not measured: (?P<levels>.*)"),
        (Code.JUDGING_UNFINISHED, r"judging did not finish: (?P<why>.*)"),
        (Code.INTERRUPTED_ALONE, r"the run was (?P<what>interrupted while .*)"),
        (Code.INTERRUPTED, r"the run was interrupted"),
        (Code.SERVER_BROKE, r"the server (?:died|ended|at) "),
        (Code.INTERNAL_ERROR, r"internal error: (?P<type>\w+): (?P<message>.*)"),
    )
)
_NO_REASON = "invalid"
"""What a run said of a level that gave no reason itself."""


def recognise(text: str, level: str | None = None) -> InvalidReason:
    """A sentence as a reason; ``unknown``, which blames the server, if no pattern fits."""
    for code, pattern in _PATTERNS:
        if match := pattern.match(text):
            figures = {name: _figure(value) for name, value in match.groupdict().items() if value is not None}
            return InvalidReason(code.value, code.blame.value, text, figures, level)
    return InvalidReason(Code.UNKNOWN.value, Code.UNKNOWN.blame.value, text, {}, level)


def reasons_of_a_run(texts: Iterable[str], levels: Mapping[str, Iterable[str]]) -> list[InvalidReason]:
    """The reasons of a whole run, in their order; ``levels``: by their titles, the sentences of each."""
    of_levels = {f"{title}: {text}": (text, title) for title, texts in levels.items() for text in (*texts, _NO_REASON)}
    return [recognise(*of_levels.get(text, (text, None))) for text in texts]


def upgrade(run: Any) -> Any:
    """A run.json of schema 1.x with codes in the place of sentences; anything else as it is.

    ``schema_version`` stays, so that :func:`as_written` can undo it.
    """
    if not _is_old(run) or not isinstance(run.get("levels"), list):
        return run
    levels, titles = [], {}
    for level in run["levels"]:
        texts = level.get("invalid_reasons") if isinstance(level, Mapping) else None
        if _are_texts(texts):
            name = level_or_none(level)
            if name is not None:
                titles[level_title(name)] = texts
            level = {**level, "invalid_reasons": [recognise(text).to_json() for text in texts]}
        levels.append(level)
    upgraded = {**run, "levels": levels}
    if _are_texts(run.get("invalid_reasons")):
        found = reasons_of_a_run(run["invalid_reasons"], titles)
        upgraded["invalid_reasons"] = [reason.to_json() for reason in found]
    return upgraded


def as_written(run: Mapping[str, Any]) -> Mapping[str, Any]:
    """The inverse of :func:`upgrade`: what stands in the file, by whose hash a history knows the run."""
    if not _is_old(run):
        return run
    return {
        **run,
        "invalid_reasons": _texts(run),
        "levels": [{**level, "invalid_reasons": _texts(level)} for level in run["levels"]],
    }


def _texts(record: Mapping[str, Any]) -> list[str]:
    return [str(InvalidReason.from_json(stored)) for stored in record["invalid_reasons"]]


def _is_old(run: Any) -> bool:
    version = run.get("schema_version") if isinstance(run, Mapping) else None
    return isinstance(version, str) and version.partition(".")[0] == "1"


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _figure(value: str) -> Figure:
    try:
        return int(value)
    except ValueError:
        pass
    try:
        return float(value) if math.isfinite(float(value)) else value
    except ValueError:
        return value
