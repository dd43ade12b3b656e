"""How well the judge hears by itself, and which voices fall out of line: the lines and tables about listening."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from omni_bench.foreign_text import escape_markdown
from omni_bench.records.level import level_of, level_text, short_title
from omni_bench.report.format import NA, count, fixed, percent
from omni_bench.report.table import by_characters, error_rate, level_header, markdown_table
from omni_bench.report.utterances import audio_link

SHOWN_OUTLIERS = 20


def own_error_line(run: Mapping[str, Any]) -> str | None:
    """What WER is to be read against; None without a judge, and for runs of before schema 1.2."""
    judge = run["provenance"]["judge"]
    if judge is None or "own_wer" not in judge:
        return None
    own = judge["own_wer"]
    if own is None:
        return f"The judge's own error is {NA} ({judge.get('own_wer_reason') or 'not measured'})."
    characters = by_characters(run)
    also = "" if characters else f" (CER {percent(own['cer'])})"
    units, rate = "characters" if characters else "words", error_rate(run)
    return (
        f"The judge alone errs {percent(own['wer'])}{also} on {own['utterances']} "
        f"reference recordings of the data set with {own['words']} {units}: read {rate} against that."
        + (f" Not heard: {'; '.join(unheard)}." if (unheard := judge.get("unheard_references")) else "")
    )


def voices_line(run: Mapping[str, Any]) -> str | None:
    """One line about the voices of a judged run; None without a judge, and for runs of before schema 1.2."""
    judge = run["provenance"]["judge"]
    if judge is None or "speaker_encoder" not in judge:
        return None
    if judge["speaker_encoder"] is None:
        return f"Voices: {NA}, not compared (checks.speaker_similarity=true does)."
    parts = []
    for level in run["levels"]:
        voices = level.get("voices") or {}
        parts.append(
            f"{short_title(level_of(level))}: {count(voices.get('outliers'))} of {count(voices.get('checked'))}"
        )
    return f"Voices out of line ({judge['speaker_encoder']}): {'; '.join(parts) or NA}."


def voices_section(run: Mapping[str, Any], utterances: Sequence[Mapping[str, Any]]) -> str | None:
    """The utterances whose voice falls out of line, the strangest first; None if voices were not compared."""
    judge = run["provenance"]["judge"]
    line = voices_line(run)
    if judge is None or line is None or judge.get("speaker_encoder") is None:
        return None
    strange = [record for record in utterances if record.get("voice_outlier") is True]
    strange.sort(key=_lowest)
    note = (
        "A soft sign that makes no run invalid. Cosines of speaker embeddings: the first second against the "
        "voice (the reference recording that was sent, else the median of the level), the whole against it, and the "
        "first second against the rest."
    )
    parts = [escape_markdown(line), note]
    if strange:
        rows = [
            [
                level_text(record, NA),
                escape_markdown(record.get("request_id", NA)),
                *(fixed(record.get(name), 3) for name in ("voice_onset", "voice_whole", "voice_onset_rest")),
                audio_link(record.get("audio")),
            ]
            for record in strange[:SHOWN_OUTLIERS]
        ]
        cosines = (f"speaker: {one}" for one in ("onset", "whole", "onset to rest"))
        headers = (level_header(strange), "request", *cosines, "audio")
        parts.append(markdown_table(headers, rows, left=(1, 5)))
    return "\n\n".join(parts)


def _lowest(record: Mapping[str, Any]) -> float:
    known = [record[name] for name in ("voice_onset", "voice_whole") if record.get(name) is not None]
    return min(known, default=1.0)
