"""(Re)writes the report of a run from what the run left on disk."""

from __future__ import annotations

from pathlib import Path

from omni_bench.report.markdown import render_report
from omni_bench.store.files import write_atomically
from omni_bench.store.run_folder import RunFolder


def write_report(run_dir: RunFolder | str | Path, *, plots: bool = True) -> Path:
    """Write report.md and plots/*.png of a finished run anew; the path of report.md.

    Reads run.json, requests.jsonl and utterances.jsonl. With ``plots`` false none are drawn, and those that
    are there are left alone and linked. Raises StoreError: not a run, an unfinished
    run, another schema version, a disk that cannot be written.
    """
    folder = run_dir if isinstance(run_dir, RunFolder) else RunFolder.open(run_dir)
    run = folder.read_run()
    requests = folder.read_requests() if folder.requests_jsonl.is_file() else []
    utterances = folder.read_utterances()
    if plots and run["levels"]:
        from omni_bench.report.plots import draw_plots  # matplotlib takes seconds to import

        draw_plots(run, folder.plots_dir)
    images = sorted(folder.plots_dir.glob("*.png")) if folder.plots_dir.is_dir() else []
    report = render_report(run, utterances, requests, [f"plots/{path.name}" for path in images])
    write_atomically(folder.report_md, lambda path: path.write_text(report, encoding="utf-8"))
    return folder.report_md
