"""The folder that is timed is one that `omni-bench report` takes, with answers that are worth checking."""

from benchmarks.after_load import make_folder
from omni_bench.run.rebuild import rebuild


def test_a_small_one(tmp_path):
    make_folder(tmp_path / "run", 5, 1.0, 4.0, plots=False)
    stages = []
    folder, run = rebuild(tmp_path / "run", lambda stage, done, total: stages.append((stage, done, total)))
    (level,) = run["levels"]
    assert level["requests"] == level["completed"] == 5 and level["audio"]["answers"] == 5
    assert level["metrics"]["ttfp_ms"]["p50"] > 0 and not level["invalid"].get("unchecked")
    assert folder.report_html.is_file()
    assert ("checking the answers of 4 req/s", 5, 5) in stages and stages[-1] == ("writing report.html", 1, 1)
