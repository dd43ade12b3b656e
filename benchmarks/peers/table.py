"""The rows of benchmarks/peers: figures of each system, their ratios to ours, and the Markdown table."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from omni_bench.foreign_text import escape_markdown
from omni_bench.report.format import NA, fixed
from omni_bench.report.table import markdown_table

OURS = "ours"
LABELS = {OURS: "ours", "qwen_tts": "qwen-tts", "faster_qwen3_tts": "faster-qwen3-tts"}
WANTED = {"qwen_tts": 20.0, "faster_qwen3_tts": 4.0}
"""How many times slower than ours a peer is to be, by issue 5 of this project."""

WHOLE = "gives back a whole utterance, so its first audio comes with its last"
HEADERS = (
    "model",
    "system",
    "mode",
    "utterances",
    "ms a frame",
    "RTF",
    "RTF × ours",
    "wanted",
    "TTFP p50 (ms)",
    "TTFP × ours",
    "peak (GB)",
)


def figures(system: str, result: Mapping[str, Any]) -> dict[str, Any]:
    """One row from what a system's process said of one model and mode; an error stays one.

    ``ms_per_frame`` and ``rtf`` are of the median utterance, ``ttfp_ms`` is None (with a note) where nothing is
    streamed. Raises ValueError for times that are not positive.
    """
    named = {"system": system, "model": result["model"], "mode": result.get("mode")}
    if "error" in result:
        return {**named, "error": result["error"]}
    times = [*result["wall_s"], *(result["first_s"] or [])]
    if not result["wall_s"] or not all(math.isfinite(time) and time > 0 for time in times):
        raise ValueError(f"{system}, {result['model']}, {result['mode']}: times must be above 0 s, not {times}")
    frame_s = median(result["wall_s"]) / result["frames"]
    streamed = result["first_s"] is not None
    return {
        **named,
        "frames": result["frames"],
        "ms_per_frame": frame_s * 1e3,
        "rtf": frame_s * result["frame_rate_hz"],
        "ttfp_ms": median(result["first_s"]) * 1e3 if streamed else None,
        "ttfp_note": None if streamed else WHOLE,
        "peak_gb": result["peak_gb"],
        "ready_s": result["ready_s"],
        "warm_up_s": result["warm_up_s"],
        "wall_s": result["wall_s"],
        "first_s": result["first_s"],
    }


def with_ratios(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Every row that has figures, with those of its model divided by ours (None where ours are missing)."""
    ours = {row["model"]: row for row in rows if row["system"] == OURS and "error" not in row}
    return [
        dict(row)
        if "error" in row
        else {
            **row,
            "rtf_ratio": _ratio(row, ours.get(row["model"]), "rtf"),
            "ttfp_ratio": _ratio(row, ours.get(row["model"]), "ttfp_ms"),
        }
        for row in rows
    ]


def _ratio(row: Mapping[str, Any], ours: Mapping[str, Any] | None, name: str) -> float | None:
    if ours is None or row[name] is None or ours[name] is None:
        return None
    return row[name] / ours[name]


def understand(output: str, models: Sequence[str], why: str | None) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What a system's process wrote -> what is installed, its results.

    ``why`` the process ended before it was done (None: it was not asked to) becomes the ``error`` of every model
    that it had not finished. A last line that was cut off is no result.
    """
    lines = [json.loads(line) for line in output.split("\n")[:-1]]
    about = next((line["about"] for line in lines if "about" in line), {})
    done = {line["done"] for line in lines if "done" in line}
    results = [line for line in lines if "model" in line]
    left = [model for model in models if model not in done]
    return about, results + [{"model": model, "error": why or "its process ended before this"} for model in left]


def render(rows: Sequence[Mapping[str, Any]]) -> str:
    """The table, and under it why a cell is n/a or a row has no figures."""
    table = markdown_table(HEADERS, [_cells(row) for row in rows], left=(0, 1, 2))
    notes = dict.fromkeys(
        f"{LABELS[row['system']]}, {row['mode']}: {row['ttfp_note']}." for row in rows if row.get("ttfp_note")
    )
    failed = dict.fromkeys(
        f"{LABELS[row['system']]}, {', '.join(filter(None, (row['model'], row['mode'])))}: {row['error']}"
        for row in rows
        if "error" in row
    )
    return "\n".join([table, "", *(f"- {escape_markdown(note)}" for note in (*notes, *failed))]).rstrip() + "\n"


def _cells(row: Mapping[str, Any]) -> list[str]:
    named = [f"`{row['model']}`", LABELS[row["system"]], row["mode"] or NA]
    if "error" in row:
        return [*named, *[NA] * (len(HEADERS) - len(named))]
    wanted = WANTED.get(row["system"])
    return [
        *named,
        str(len(row["wall_s"])),
        fixed(row["ms_per_frame"], 2),
        fixed(row["rtf"], 4),
        fixed(row["rtf_ratio"], 2),
        NA if wanted is None else f"≥ {wanted:g}",
        fixed(row["ttfp_ms"], 1),
        fixed(row["ttfp_ratio"], 2),
        fixed(row["peak_gb"], 1),
    ]


def document(results: Mapping[str, Any]) -> str:
    """The table with the cards, the versions and the command that gave it."""
    lines = [render(results["rows"])]
    for system, about in results["systems"].items():
        packages = ", ".join(f"{name} {version}" for name, version in about.get("packages", {}).items())
        known = f"{about['device']}; Python {about['python']}; {packages}" if packages else "nothing is known of it"
        lines.append(f"- {LABELS[system]}: {escape_markdown(known)}; {about['took_s']:.0f} s in all")
    lines += [
        "",
        f"One utterance at a time, {results['frames']} frames each; medians, after a short utterance that is not "
        "counted. Random weights, no HTTP; the audio of every system ends up in host memory.",
        *(["Small models: this shows that everything runs, not how fast."] if results["tiny"] else []),
        "",
        f"    {results['command']}",
        "",
    ]
    return "\n".join(lines)
