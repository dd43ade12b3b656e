"""report.html of a comparison: both recordings of a prompt, what is worse after first, and the pairs as dots."""

from __future__ import annotations

import json
import re

from heard_run import FAILED, HOSTILE, VICTIM, make_heard_run

from omni_bench.commands.compare import compare_command


def test_a_comparison_can_be_heard(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_heard_run(tmp_path / "runs" / "good", wrong=False)
    make_heard_run(tmp_path / "runs" / "bad")
    assert compare_command("runs/good", "runs/bad", out="study", force=True) == 1
    page = (tmp_path / "study" / "report.html").read_text(encoding="utf-8")
    assert HOSTILE not in page and page.count("<script") == 2 and "FAULT INJECTED on purpose" in page
    assert re.findall(r'data-tags="([^"]*)"', page) == ["worse after", *["good"] * 3]
    first = page[page.index('<article class="card"') :].partition("</article>")[0]
    assert f"{VICTIM}, pair 1" in first
    assert re.findall(r'data-name="([^"]*)"', first) == [f"../runs/{arm}/audio/{VICTIM}.wav" for arm in ("good", "bad")]
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])
    assert all(one["src"].startswith("data:audio/flac") for one in data["audio"].values()) and len(data["audio"]) == 8
    assert FAILED not in page.partition('id="pairs"')[0]  # before has no such request to compare it with
    for chart in data["distributions"]:
        assert [[dot[0] for dot in arm["dots"]] for arm in chart["levels"]] == [["pair 1"], ["pair 1"]]
