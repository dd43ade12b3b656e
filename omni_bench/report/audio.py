"""What the samples of all answers of a level show together: the table, and which checks claim nothing of this voice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omni_bench.foreign_text import escape_markdown
from omni_bench.records.level import level_of, level_text, short_title
from omni_bench.report.format import NA, fixed, percent, probability
from omni_bench.report.table import level_header, markdown_table


def not_held_lines(run: Mapping[str, Any]) -> list[str]:
    """One line a check that claims nothing in some level, as the voice itself does what it looks for."""
    found: dict[str, list[str]] = {}
    for level in run["levels"]:
        audio = level.get("audio") or {}
        for name, answers in (audio.get("not_held") or {}).items():
            found.setdefault(name, []).append(f"{answers} of {level['completed']} at {short_title(level_of(level))}")
    what = {
        "dropout": "dropout is not checked: the voice itself falls silent within a sample",
        "shared_audio": "shared_audio and repeated_audio are not checked: the voice itself speaks equal samples",
    }
    return [
        f"{what.get(name, f'{name} is not checked')} (answers: {', '.join(where)})" for name, where in found.items()
    ]


def audio_section(run: Mapping[str, Any]) -> str | None:
    """The figures of every level; None if no signal was checked, and for runs of before schema 2.2."""
    levels = [level for level in run["levels"] if level.get("audio") and level["audio"]["answers"]]
    if not levels:
        return None
    rows = []
    for level in levels:
        audio, rate = level["audio"], level["audio"]["wrong_rate"]
        counts = [f"{audio[name]} ({probability(audio[p])})" for name, p in (("cut", "cut_p"), ("others", "other_p"))]
        quiet = percent(audio.get("quiet_share"))
        factors = NA if rate is None else f"{rate['made_at_hz']} Hz"
        cells = [
            str(audio["answers"]),
            fixed(audio["f0_hz"], 0),
            *counts,
            probability(audio["splice_p"]),
            " / ".join(fixed(audio.get(name), 2) for name in ("before_s", "after_s")),
            quiet,
            factors,
        ]
        rows.append([level_text(level, NA), *cells])
    headers = (
        "answers",
        "pitch (Hz)",
        "stop at full level (p)",
        "other voice (p)",
        "splices (p)",
        "silence before / after (s)",
        "no speech",
        "made at",
    )
    note = (
        "All answers of a level taken together. Stop at full level: answers that are cut off in the middle of speech. "
        "Other voice: answers in another voice than the rest. Splices: places where samples are missing, of which p "
        "alone is given. p: how often sound speech looks at least as bad by chance, n/a if it was not tested; a level "
        "is invalid at one in a million. Silence before and after the speech: medians; TTFP ends before the first, and "
        "TTFA (in All figures) after it. No speech: share of the audio at the ends of an answer and in its pauses "
        "(median), which RTF and audio/s take for output; voices that pad their answers have up to 40 %. Made at: "
        "another sample rate, if pitch, formants and pace against the "
        "reference recordings agree on one; n/a if they do not."
    )
    lines = [f"> {escape_markdown(line[0].upper() + line[1:])}." for line in not_held_lines(run)]
    return "\n\n".join([markdown_table((level_header(run["levels"]), *headers), rows), *lines, note])
