"""The floor of every concurrency, and how near measured levels come to it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from omni_bench.metrics.definitions import METRICS
from omni_bench.report.format import NA, fixed, percent
from omni_bench.report.table import markdown_table
from reference_impl.model.config import ModelConfig
from reference_impl.roofline.cost_model import Limits, count_weights, frame_cost

SCHEMA_VERSION = "1.0"
HEADERS = (
    "c",
    "talker (ms)",
    "predictor (ms)",
    "Code2Wav (ms)",
    "floor (ms a frame)",
    "RTF floor",
    "audio/s ceiling",
    "RTF p50",
    "of floor",
    "share of the floor",
    "audio/s",
    "share of the ceiling",
)


@dataclass(frozen=True)
class Measured:
    """What a concurrency was found to do: median RTF of a request, audio seconds a second; None if unknown."""

    rtf_p50: float | None
    audio_per_s: float | None


@dataclass(frozen=True)
class Row:
    """One concurrency. Shares are floor over measured RTF, and measured over ceiling of audio/s; None if unmeasured."""

    concurrency: int
    talker_ms: float
    predictor_ms: float
    code2wav_ms: float
    floor_ms: float
    rtf_floor: float
    audio_per_s_ceiling: float
    rtf_p50: float | None
    rtf_share: float | None
    audio_per_s: float | None
    audio_per_s_share: float | None


@dataclass(frozen=True)
class Roofline:
    """The rows with what they rest on. ``context``: positions behind each request; ``device``: as it names itself."""

    model: str
    device: str
    dtype: str
    context: int
    chunk_frames: int
    limits: Limits
    rows: tuple[Row, ...]
    source: str | None = None  # what was measured; None: nothing

    def to_json(self) -> dict[str, Any]:
        """roofline.json."""
        return {"schema_version": SCHEMA_VERSION, **asdict(self)}


def roofline(
    config: ModelConfig,
    limits: Limits,
    *,
    device: str,
    dtype: str,
    element_bytes: int,
    context: int,
    chunk_frames: int,
    concurrency: Sequence[int],
    measured: Mapping[int, Measured] | None = None,
    source: str | None = None,
) -> Roofline:
    """Floors at each of ``concurrency``, with what was ``measured`` there beside them; ``source``: where and how."""
    weights, found = count_weights(config), measured or {}
    rows = []
    for batch in concurrency:
        cost = frame_cost(
            config, weights, batch=batch, context=context, chunk_frames=chunk_frames, element_bytes=element_bytes
        )
        floor, ceiling = cost.rtf_floor(limits), cost.audio_per_s_ceiling(limits)
        here = found.get(batch, Measured(None, None))
        rtf, audio_per_s = here.rtf_p50, here.audio_per_s
        rows.append(
            Row(
                concurrency=batch,
                talker_ms=1e3 * cost.talker.seconds(limits),
                predictor_ms=1e3 * cost.predictor.seconds(limits),
                code2wav_ms=1e3 * cost.code2wav.seconds(limits),
                floor_ms=1e3 * cost.floor_s(limits),
                rtf_floor=floor,
                audio_per_s_ceiling=ceiling,
                rtf_p50=rtf,
                rtf_share=floor / rtf if rtf else None,
                audio_per_s=audio_per_s,
                audio_per_s_share=audio_per_s / ceiling if audio_per_s is not None else None,
            )
        )
    return Roofline(config.name, device, dtype, context, chunk_frames, limits, tuple(rows), source)


def of_run(levels: Sequence[Mapping[str, Any]]) -> dict[int, Measured]:
    """The closed-loop levels of a run.json. Invalid ones count as unmeasured: they make no performance claim."""
    return {
        level["concurrency"]: Measured(METRICS["rtf"].value_in(level), METRICS["audio_per_s_steady"].value_in(level))
        for level in levels
        if level["valid"] and level.get("rate_hz") is None
    }


def cells(row: Row) -> list[str]:
    """The figures of a concurrency for people, under :data:`HEADERS`."""
    parts = [fixed(value, 3) for value in (row.talker_ms, row.predictor_ms, row.code2wav_ms, row.floor_ms)]
    return [
        str(row.concurrency),
        *parts,
        fixed(row.rtf_floor, 4),
        fixed(row.audio_per_s_ceiling, 0 if row.audio_per_s_ceiling >= 100 else 2),
        fixed(row.rtf_p50, 4),
        NA if row.rtf_p50 is None else f"{row.rtf_p50 / row.rtf_floor:.2f} x",
        percent(row.rtf_share),
        fixed(row.audio_per_s, 2),
        percent(row.audio_per_s_share),
    ]


def table_of(found: Roofline) -> str:
    """The table as markdown: a column a concurrency, so that it fits into a terminal."""
    columns = [cells(row) for row in found.rows]
    rows = [[name, *values] for name, *values in zip(HEADERS, *columns, strict=True)]
    return markdown_table(rows[0], rows[1:], left=(0,))


def note_of(found: Roofline) -> str:
    """What the table rests on."""
    limits = found.limits
    return (
        f"{found.model}, {found.dtype}, on {found.device}: {limits.bytes_per_s / 1e12:.3g} TB/s of copy traffic and "
        f"{limits.flop_per_s / 1e12:.3g} TFLOP/s of matrix products, measured here; {found.context} positions of "
        f"context, Code2Wav reads its weights once in {found.chunk_frames} frames. The floor counts every weight once "
        "a pass and nothing else: no launches, no gaps. audio/s of a run: in its steady state "
        f"(audio_per_s_steady). {NA}: not measured." + (f" Measured: {found.source}." if found.source else "")
    )
