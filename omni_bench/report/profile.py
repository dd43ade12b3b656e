"""The tables of a profile: where the time of a frame goes, in one run and before and after."""

from __future__ import annotations

from collections.abc import Callable

from omni_bench.foreign_text import escape_markdown
from omni_bench.records.profile import RunProfile, Stage, Trace
from omni_bench.report.format import NA, number, percent, signed_percent
from omni_bench.report.table import markdown_table

NO_CLAIM = (
    "Traced requests are slower than others: they enter no figure of this report, and these are no claim of speed."
)


def profile_section(profile: RunProfile | None) -> str | None:
    """A table a trace, and where the files are; None without a profile."""
    if profile is None:
        return None
    parts = [f"{profile.completed} requests after the levels, {profile.concurrency} at a time. {NO_CLAIM}"]
    if profile.problem is not None:
        parts.append(f"Not whole: {escape_markdown(profile.problem)}.")
    for trace in profile.traces:
        unit, per = _per(profile, trace)
        rows = [
            [
                escape_markdown(stage.name),
                number(per(stage.calls)),
                number(per(stage.host_ms)),
                percent(stage.host_ms / trace.wall_ms if trace.wall_ms else None),
                *(number(per(one)) for one in (stage.device_ms, stage.launches, stage.syncs, stage.to_host)),
            ]
            for stage in trace.stages
        ]
        headers = ("stage", "calls", "host (ms)", "of the wall", "GPU (ms)", "launches", "host syncs", "copies to host")
        idle = (
            f", of which the GPU stood idle {number(per(trace.device_idle_ms))}"
            if trace.device_idle_ms is not None
            else ""
        )
        parts.append(
            f"{markdown_table(headers, rows, left=(0,))}\n\nAll figures a {unit}: {number(per(trace.wall_ms))} ms of "
            f"wall{idle}. [{escape_markdown(trace.file)}]({trace.file}) opens in Perfetto."
        )
    return "\n\n".join(parts)


def before_after_section(before: RunProfile | None, after: RunProfile | None) -> str | None:
    """The stages of two profiles side by side; None unless there are two with the same kind of trace."""
    if before is None or after is None or not before.traces or not after.traces:
        return None
    units, rows = set(), []
    first, second = _stages(before), _stages(after)
    for name in dict.fromkeys([*first, *second]):
        cells = []
        for figure in ("host_ms", "device_ms", "launches"):
            values = [_figure(side.get(name), figure) for side in (first, second)]
            cells.append(" → ".join(map(number, values)) if set(values) != {None} else NA)
            if figure == "host_ms":
                old, new = values
                cells.append(signed_percent(new / old - 1 if old and new is not None else None))
        rows.append([escape_markdown(name), *cells])
        units |= {stages[name][0] for stages in (first, second) if name in stages}
    table = markdown_table(("stage", "host (ms)", "change", "GPU (ms)", "launches"), rows, left=(0,))
    return f"### Where the time goes, a {' or '.join(sorted(units))}\n\n{table}\n\n{NO_CLAIM}"


def _stages(profile: RunProfile) -> dict[str, tuple[str, Callable[[float | None], float | None], Stage]]:
    return {stage.name: (*_per(profile, trace), stage) for trace in profile.traces for stage in trace.stages}


def _figure(entry: tuple[str, Callable[[float | None], float | None], Stage] | None, figure: str) -> float | None:
    return None if entry is None else entry[1](getattr(entry[2], figure))


def _per(profile: RunProfile, trace: Trace) -> tuple[str, Callable[[float | None], float | None]]:
    """What figures are divided by: the decode steps, or the audio where a server does not mark its steps."""
    count = trace.steps or profile.audio_s
    unit = "frame (a decode step of all requests in flight)" if trace.steps else "second of audio"
    return unit, lambda value: value / count if value is not None and count else None
