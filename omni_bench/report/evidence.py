"""wer_evidence.md: every utterance that differs from its text, the worst first, for people to read and hear."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from omni_bench.foreign_text import escape_markdown
from omni_bench.records.level import level_or_none, level_title
from omni_bench.report.format import NA, fixed, percent
from omni_bench.report.judge import own_error_line
from omni_bench.report.table import by_characters
from omni_bench.report.utterances import MARKS, alignment_markdown, audio_link, by_damage, score_of


def render_evidence(run: Mapping[str, Any], utterances: Sequence[Mapping[str, Any]]) -> str | None:
    """The file as markdown; None if the run was not judged or every word was heard.

    ``utterances``: lines of utterances.jsonl. Raises StoreError for one that lacks a field.
    """
    damaged = by_damage(utterances)
    if not run["provenance"]["judge"] or not damaged:
        return None
    parts = [
        f"# What was heard: {escape_markdown(run['scenario'])}",
        f"{len(damaged)} of {len(utterances)} utterances differ from their text, the worst first. {MARKS}. "
        f"The judge is {escape_markdown(run['provenance']['judge']['name'])}; both texts are compared without case, "
        "punctuation and spelling variants.",
        own_error_line(run),
        *(_entry(number, record, by_characters(run)) for number, record in enumerate(damaged, start=1)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def edits_text(record: Mapping[str, Any]) -> str:
    """``S 1, D 2, I 0``: words changed, missing and added."""
    score = score_of(record)
    return f"S {score.substitutions}, D {score.deletions}, I {score.insertions}"


def _level(record: Mapping[str, Any]) -> str:
    level = level_or_none(record)
    return f"concurrency {NA}" if level is None else level_title(level)


def _entry(number: int, record: Mapping[str, Any], characters: bool) -> str:
    score = score_of(record)
    why = f" ({escape_markdown(score.forced)})" if score.forced is not None else ""
    rates = f"{'CER' if characters else 'WER'} {percent(score.wer)}{why}"
    if not characters:
        rates += f", CER {percent(score.cer)}"
    facts = [
        f"{rates}, {edits_text(record)} of {score.reference_words} {'characters' if characters else 'words'}",
        f"{_level(record)}, prompt {escape_markdown(record.get('prompt_id', NA))}, "
        f"audio {audio_link(record.get('audio'))}",
        f"mean log probability {fixed(record.get('avg_logprob'), 3)}, "
        f"no speech {fixed(record.get('no_speech_prob'), 3)}",
    ]
    if record.get("voice_outlier"):
        facts.append(
            f"voice out of line: onset {fixed(record.get('voice_onset'), 3)}, "
            f"whole {fixed(record.get('voice_whole'), 3)}"
        )
    lines = [
        f"## {number}. {escape_markdown(score.request_id)}",
        "",
        alignment_markdown(score) or NA,
        "",
        *(f"- {fact}" for fact in facts),
        f"- text: {escape_markdown(score.reference) or NA}",
        f"- heard: {escape_markdown(score.hypothesis) or NA}",
    ]
    return "\n".join(lines)
