"""Solo against concurrent: what the parity check found, for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from omni_bench.foreign_text import escape_markdown
from omni_bench.records.level import Level, level_of, level_or_none, level_text
from omni_bench.report.format import NA, count, fixed, number, p_text, percent
from omni_bench.report.table import error_rate, level_header, markdown_table, parity_cell

MISMATCHES = 10
NEIGHBOURS = 6
_BY = {"codes": "codes", "pcm": "samples", "transcript": "transcripts"}


def parity_section(run: Mapping[str, Any], comparisons: Sequence[Mapping[str, Any]]) -> str | None:
    """The section, None if no level was checked. ``comparisons``: lines of parity.jsonl."""
    levels = [(level_of(level), level["parity"]) for level in run["levels"] if level.get("parity")]
    if not levels:
        return None
    _, any_level = levels[0]
    parts = [
        "The first requests of each level, sent once more alone after the levels, one after another, with the same "
        "body and seed.",
        _level_table(levels, level_header(run["levels"])),
        _repeatability(any_level),
        _words(levels),
        _mismatch_table(dict(levels), comparisons, error_rate(run)),
    ]
    return "\n\n".join(part for part in parts if part)


def place_of(first: Mapping[str, Any]) -> str:
    """Where two answers part: ``0.48 s (frame 6, codebook 3)``."""
    parts = []
    if first.get("first_frame") is not None:
        parts.append(f"frame {first['first_frame']}")
        codebook = first.get("first_codebook")
        parts.append("one has ended" if codebook is None else f"codebook {codebook}")
    elif first.get("first_sample") is not None:
        parts.append(f"sample {first['first_sample']}")
    if not parts:
        return NA
    return f"{fixed(first.get('at_s'), 2)} s ({', '.join(parts)})"


def _level_table(levels: Sequence[tuple[Level, Mapping[str, Any]]], header: str) -> str:
    headers = (header, "compared by", "equal", "bit for bit", "first difference", "in flight then", "McNemar")
    rows = []
    for concurrency, parity in levels:
        first = parity["first"]
        rows.append(
            [
                str(concurrency),
                _BY[parity["kind"]],
                parity_cell({"parity": parity}),
                NA if parity["exact"] is None else f"{parity['exact']}/{parity['answered']}",
                "none" if first is None else f"{escape_markdown(first['request_id'])} at {place_of(first)}",
                _neighbours(first["neighbours"] if first is not None else []),
                _mcnemar(parity),
            ]
        )
    note = (
        "equal: codes agree (and, where both recordings exist, the samples up to rounding); by samples: they agree up "
        "to rounding; by transcripts: not corrupted beside the same utterance alone. McNemar: utterances corrupted "
        "only in company / only alone, of those judged, and the exact two-sided p of that."
    )
    return f"{markdown_table(headers, rows, left=(1, 4, 5, 6))}\n\n{note}"


def _repeatability(parity: Mapping[str, Any]) -> str:
    repeats, differ = parity["repeats"], parity["repeats_differ"]
    claim = " It claims to be deterministic." if parity["deterministic"] else ""
    if parity["repeatable"] is None:
        return f"Whether the server repeats itself without company is not known: no request was answered twice.{claim}"
    if parity["repeatable"]:
        return f"The server repeats itself: {repeats} of {repeats} requests sent twice without company agree.{claim}"
    if parity["deterministic"]:
        return f"**Not repeatable**: {differ} of {repeats} requests sent twice without company differ.{claim}"
    return (
        f"**Not repeatable**: {differ} of {repeats} requests sent twice without company differ, so that other codes or "
        "samples in company prove nothing. Compared by transcripts only."
    )


def _words(levels: Sequence[tuple[Level, Mapping[str, Any]]]) -> str | None:
    """A caution where even the worst result could not be significant."""
    few = [parity["judged"] for _, parity in levels if 0 < parity["judged"] < 8]
    if not few:
        return None
    return f"With {min(few)} judged pairs McNemar's p cannot fall below {number(0.5 ** (min(few) - 1), 2)}."


def _mismatch_table(
    levels: Mapping[Level, Mapping[str, Any]], comparisons: Sequence[Mapping[str, Any]], rate: str
) -> str | None:
    """The first differences of all pairs that are mismatches, as the kind of their level has it."""
    found = [
        record
        for record in comparisons
        if level_or_none(record) in levels and is_mismatch_of(record, levels[level_of(record)])
    ]
    if not found:
        return None
    headers = (level_header(found), "request", "against", "parts at", "in flight then")
    headers += (f"{rate} between", "heard in company")
    rows = [
        [
            level_text(record, NA),
            escape_markdown(record["request_id"]),
            escape_markdown(record["solo_id"]),
            place_of(record),
            _neighbours(record["neighbours"]),
            percent(record["wer_between"]),
            NA if record["heard"] is None else escape_markdown(record["heard"]),
        ]
        for record in found[:MISMATCHES]
    ]
    intro = f"{len(found)} pairs differ; the first {len(rows)}." if len(found) > len(rows) else "The pairs that differ."
    return f"{intro} All are in parity.jsonl.\n\n{markdown_table(headers, rows, left=(1, 2, 3, 4, 6))}"


def is_mismatch_of(record: Mapping[str, Any], parity: Mapping[str, Any]) -> bool:
    """Whether a line of parity.jsonl is a mismatch, as ``parity`` of its level in run.json counts them."""
    if parity["kind"] == "transcript" and not record["repeat"]:
        return bool(record["worse"])
    return record["equal"] is False


def _mcnemar(parity: Mapping[str, Any]) -> str:
    if parity["mcnemar_p"] is None:
        return NA
    counts = f"{count(parity['worse'])} / {count(parity['worse_alone'])} of {count(parity['judged'])}"
    return f"{counts}, {p_text(parity['mcnemar_p'])}"


def _neighbours(neighbours: Sequence[Mapping[str, Any]]) -> str:
    if not neighbours:
        return "–"
    names = [f"{one['request_id']} ({one['prompt_id']})" for one in neighbours[:NEIGHBOURS]]
    more = [f"and {len(neighbours) - NEIGHBOURS} more"] if len(neighbours) > NEIGHBOURS else []
    return escape_markdown(", ".join([*names, *more]))
