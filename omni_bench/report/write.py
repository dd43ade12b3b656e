"""(Re)writes the report of a run from what the run left on disk."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from omni_bench.records.files import write_atomically
from omni_bench.records.level import Level, level_of
from omni_bench.records.run_folder import RunFolder
from omni_bench.report.drawing import drawn
from omni_bench.report.evidence import render_evidence
from omni_bench.report.markdown import render_report


def write_report(run_dir: RunFolder | str | Path, *, plots: bool = True) -> Path:
    """Write report.md, wer_evidence.md and plots/*.png of a finished run anew; the path of report.md.

    Reads run.json, requests.jsonl, utterances.jsonl and parity.jsonl. With ``plots`` false none are drawn, and
    those that are there are left alone and linked; where drawing fails there are none. Raises StoreError: not a run,
    an unfinished run, another schema version, a disk that cannot be written.
    """
    folder = run_dir if isinstance(run_dir, RunFolder) else RunFolder.open(run_dir)
    run = folder.read_run()
    requests = folder.read_requests() if folder.requests_jsonl.is_file() else []
    utterances = folder.read_utterances()
    hits = folder.read_lines(folder.cross_talk_jsonl)
    warmup = folder.read_lines(folder.warmup_jsonl)

    def draw() -> list[Path]:
        from omni_bench.report.cross_talk_plot import draw_cross_talk
        from omni_bench.report.plots import draw_plots  # matplotlib takes seconds to import

        draw_plots(run, folder.plots_dir)
        draw_cross_talk(run, hits, _in_flight_ns([*requests, *warmup]), folder.plots_dir)
        return sorted(folder.plots_dir.glob("*.png"))

    wanted = plots and run["levels"]
    images = drawn(draw, str(folder.path)) if wanted else sorted(folder.plots_dir.glob("*.png"))
    parity = folder.read_lines(folder.parity_jsonl)
    pictures = [f"plots/{path.name}" for path in images]
    report = render_report(run, utterances, requests, pictures, parity, hits, folder.read_profile())
    evidence = render_evidence(run, utterances)
    if evidence is not None:
        write_atomically(folder.wer_evidence_md, lambda path: path.write_text(evidence, encoding="utf-8"))
    else:
        folder.wer_evidence_md.unlink(missing_ok=True)
    write_atomically(folder.report_md, lambda path: path.write_text(report, encoding="utf-8"))
    return folder.report_md


def _in_flight_ns(records: Iterable[Mapping[str, Any]]) -> dict[Level, dict[str, tuple[int, int]]]:
    """When each request was in flight, by concurrency and request id, from lines of requests.jsonl and warmup.jsonl."""
    in_flight: dict[Level, dict[str, tuple[int, int]]] = {}
    for record in records:
        ends = (record.get(name) for name in ("finished_ns", "ended_ns", "failed_ns"))
        finished_ns = next((end for end in ends if end is not None), None)
        if finished_ns is not None:
            level = in_flight.setdefault(level_of(record), {})
            level[record["request_id"]] = (record["started_ns"], finished_ns)
    return in_flight
