"""The requests that failed and the utterances that were understood worst, as evidence for people."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from omni_bench.accuracy.wer import UtteranceScore, alignment
from omni_bench.errors import shorten
from omni_bench.foreign_text import MAX_LINE_CHARS, escape_markdown
from omni_bench.records.convert import structure
from omni_bench.records.level import level_text
from omni_bench.report.format import NA, percent
from omni_bench.report.table import level_header, markdown_table

MARKS = "~~missing~~, **added**, ~~said~~ → **heard**"
_PLAIN_PATH = re.compile(r"[A-Za-z0-9._/-]+")


@dataclass(frozen=True)
class Records:
    """The lines of a run's files."""

    requests: Sequence[Mapping[str, Any]] = ()
    utterances: Sequence[Mapping[str, Any]] = ()
    hits: Sequence[Mapping[str, Any]] = ()
    warmup: Sequence[Mapping[str, Any]] = ()
    parity: Sequence[Mapping[str, Any]] = ()
    solo: Sequence[Mapping[str, Any]] = ()


def score_of(record: Mapping[str, Any]) -> UtteranceScore:
    """The score in a line of utterances.jsonl. Raises StoreError if a field is missing or has the wrong type."""
    return structure(record, UtteranceScore, f"utterance {shorten(repr(record.get('request_id', '?')), 80)}")


def by_damage(records: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Records with at least one error, the worst first: by WER, then by CER, then by the number of edits."""

    def damage(record: Mapping[str, Any]) -> tuple[float, float, int]:
        score = score_of(record)
        return (score.wer or 0.0, score.cer or 0.0, score.edits)

    return sorted((record for record in records if damage(record) > (0.0, 0.0, 0)), key=damage, reverse=True)


def utterance_table(
    records: Sequence[Mapping[str, Any]], limit: int, sources: Mapping[str, str] | None = None, rate: str = "WER"
) -> str:
    """The first ``limit`` records as a markdown table: words missing, added or changed, and the recording.

    ``sources``: request id -> whose words were heard in its output (cross-talk); a column more if there are any.
    ``rate``: what the error rate is called, CER where the words are characters.
    """
    whose = ("words of",) if sources else ()
    headers = (level_header(records), "request", rate, "S / D / I", "what was heard", *whose, "audio")
    rows = []
    for record in records[:limit]:
        score = score_of(record)
        line = alignment_markdown(score)
        if score.forced is not None:
            line = f"{escape_markdown(score.forced)}: {line}"
        rows.append(
            [
                level_text(record, NA),
                escape_markdown(score.request_id),
                percent(score.wer),
                f"{score.substitutions} / {score.deletions} / {score.insertions}",
                line,
                *([escape_markdown(sources.get(score.request_id, "–"))] if sources else []),
                audio_link(record.get("audio")),
            ]
        )
    return markdown_table(headers, rows, left=(1, *range(4, len(headers))))


def alignment_markdown(score: UtteranceScore) -> str:
    """The compared texts as one line of markdown, with :data:`MARKS`.

    Words are escaped, so that the line can stand in a table cell.
    """
    parts, length = [], 0
    for kind, wanted, heard in alignment(score):
        if length > MAX_LINE_CHARS:
            parts.append("...")
            break
        if kind == "equal":
            parts.append(_mark("", wanted))
        elif kind == "delete":
            parts.append(_mark("~~", wanted))
        elif kind == "insert":
            parts.append(_mark("**", heard))
        else:
            parts.append(f"{_mark('~~', wanted)} → {_mark('**', heard)}")
        length += len(parts[-1])
    return " ".join(parts)


def _mark(mark: str, words: str) -> str:
    text = escape_markdown(words)
    return f"{mark}{text}{mark}" if text else ""


def is_rejected(record: Mapping[str, Any]) -> bool:
    """True if a line of requests.jsonl is of a request that failed, or whose audio has faults."""
    return bool(record.get("error") or record.get("faults"))


def rejected_table(records: Sequence[Mapping[str, Any]], limit: int) -> str:
    """The first ``limit`` records as a markdown table: why each was rejected, and the recording if there is one."""
    headers = (level_header(records), "request", "prompt", "why", "audio")
    rows = []
    for record in records[:limit]:
        error = record.get("error")
        why = [f"{error['kind']}: {error['message']}"] if error else []
        faults = record.get("faults") or []
        why += [fault for fault in faults if fault != "shared_audio"]
        why += shared_stretches(record) if "shared_audio" in faults else []
        rows.append(
            [
                level_text(record, NA),
                escape_markdown(record.get("request_id", NA)),
                escape_markdown(record.get("prompt_id", NA)),
                escape_markdown(shorten("; ".join(why), 300)),
                audio_link(record.get("audio")),
            ]
        )
    return markdown_table(headers, rows, left=(1, 2, 3, 4))


def shared_stretches(record: Mapping[str, Any]) -> list[str]:
    """Which other requests have the same samples, and where: one sentence a source and stretch, or the name alone."""
    return [
        f"shared_audio: {stretch['duration_s']:.2f} s at {stretch['at_s']:.2f} s are the samples of "
        f"{stretch['source']} at {stretch['source_at_s']:.2f} s"
        for stretch in record.get("shared_audio") or ()
    ] or ["shared_audio"]


def audio_link(path: object) -> str:
    """A link to a recording of the run folder; its path as text if it has unusual characters."""
    if not isinstance(path, str) or not path:
        return "not kept"
    return f"[{path}]({path})" if _PLAIN_PATH.fullmatch(path) else escape_markdown(path)
