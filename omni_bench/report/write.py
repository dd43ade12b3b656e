"""(Re)writes the report of a run from what the run left on disk."""

from __future__ import annotations

from pathlib import Path

from omni_bench.records.files import write_atomically
from omni_bench.records.run_folder import RunFolder
from omni_bench.records.stages import Tell, untold
from omni_bench.report.drawing import drawn
from omni_bench.report.evidence import render_evidence
from omni_bench.report.markdown import render_report
from omni_bench.report.page.lanes import in_flight_ns
from omni_bench.report.page.run_page import run_page
from omni_bench.report.utterances import Records
from omni_bench.terminal import say_aside

READING, WRITING, PAGE = "reading what the run has left", "writing report.md", "writing report.html"


def write_report(run_dir: RunFolder | str | Path, *, plots: bool = True, tell: Tell = untold) -> Path:
    """Write report.md, report.html, wer_evidence.md and plots/ of a finished run anew; the path of report.md.

    Reads run.json, the .jsonl files and the kept audio. With ``plots`` false none are drawn, and
    those that are there are left alone and linked; where drawing fails there are none. ``tell`` hears how far it is.
    Raises StoreError: not a run, an unfinished run, another schema version, a disk that cannot be written.
    """
    tell(READING, 0, 1)
    folder = run_dir if isinstance(run_dir, RunFolder) else RunFolder.open(run_dir)
    run = folder.read_run()
    requests = folder.read_requests() if folder.requests_jsonl.is_file() else []
    utterances = folder.read_utterances()
    hits = folder.read_lines(folder.cross_talk_jsonl)
    warmup = folder.read_lines(folder.warmup_jsonl)

    named = {path for line in (*requests, *utterances) if isinstance(path := line.get("audio"), str)}
    if lost := [path for path in named if not (folder.path / path).is_file()]:
        say_aside(f"warning: {folder.path}: {len(lost)} of {len(named)} recordings are not there, such as {min(lost)}")

    def draw() -> list[Path]:
        from omni_bench.report.cross_talk_plot import draw_cross_talk
        from omni_bench.report.plots import draw_plots  # matplotlib takes seconds to import

        draw_plots(run, folder.plots_dir, requests, tell)
        draw_cross_talk(run, hits, in_flight_ns([*requests, *warmup]), folder.plots_dir)
        return sorted(folder.plots_dir.glob("*.png"))

    wanted = plots and run["levels"]
    images = drawn(draw, str(folder.path)) if wanted else sorted(folder.plots_dir.glob("*.png"))
    tell(WRITING, 0, 1)
    parity, solo = folder.read_lines(folder.parity_jsonl), folder.read_lines(folder.solo_jsonl)
    records = Records(requests, utterances, hits, warmup, parity, solo)
    report = render_report(run, records, [f"plots/{path.name}" for path in images], folder.read_profile())
    evidence = render_evidence(run, utterances)
    if evidence is not None:
        write_atomically(folder.wer_evidence_md, lambda path: path.write_text(evidence, encoding="utf-8"))
    else:
        folder.wer_evidence_md.unlink(missing_ok=True)
    write_atomically(folder.report_md, lambda path: path.write_text(report, encoding="utf-8"))
    tell(PAGE, 0, 1)
    page = run_page(run, folder, records)
    write_atomically(folder.report_html, lambda path: path.write_text(page, encoding="utf-8", errors="replace"))
    tell(PAGE, 1, 1)
    return folder.report_md
