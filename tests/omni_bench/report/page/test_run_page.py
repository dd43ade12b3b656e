"""report.html without a browser: what is in it, and that nothing foreign becomes markup."""

from __future__ import annotations

import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from heard_run import FAILED, SOURCE, VICTIM, make_heard_run

from omni_bench.report.page.recordings import Recordings, peaks
from omni_bench.report.write import write_report

OLD_RUNS = Path(__file__).parents[3] / "data" / "old_runs"


class Elements(HTMLParser):
    """The start tags of a page, and its text."""

    def __init__(self, text: str):
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.words.append(data)

    def classed(self, name: str) -> list[dict[str, str | None]]:
        return [values for _, values in self.tags if name in (values.get("class") or "").split()]


def page_of(folder) -> tuple[Elements, dict]:
    write_report(folder, plots=False)
    text = folder.report_html.read_text(encoding="utf-8")
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)[1]
    return Elements(text), json.loads(data)


def test_foreign_text_is_text_and_all_is_in_one_file(tmp_path):
    page, data = page_of(make_heard_run(tmp_path / "run"))
    tags = [tag for tag, _ in page.tags]
    assert tags.count("script") == 2 and "img" not in tags
    assert not [values for _, values in page.tags if any(name.startswith("on") for name in values)]
    sources = [values[name] for _, values in page.tags for name in ("src", "href", "action") if values.get(name)]
    assert sources.count("wer_evidence.md") == 1  # a file beside it, which the page does not need
    assert all(source.startswith(("#", "data:")) or source == "wer_evidence.md" for source in sources)
    assert all(one["src"].startswith("data:audio/flac;base64,") for one in data["audio"].values())
    words = "".join(page.words)
    assert "alert(2)" in words and "\x1b" not in words


def test_the_verdict_is_first_and_the_worst_has_all_that_it_is_compared_with(tmp_path):
    page, data = page_of(make_heard_run(tmp_path / "run"))
    words = " ".join("".join(page.words).split())
    order = [
        "FAULT INJECTED on purpose",
        "INVALID",
        "checks=parity",
        "TTFP p50",
        "worth hearing",
        "One bar a request",
        "Server log",
    ]
    places = [words.index(one) for one in order]
    assert places == sorted(places)
    cards = page.classed("card")
    assert [card["data-id"] for card in cards[:2]] == [VICTIM, FAILED]
    assert cards[0]["data-tags"].split("|") == ["cross-talk", "differs alone", "wrong words"]
    assert [card["data-tags"] for card in cards[2:]] == ["good"] * 3
    names = [one["data-name"] for one in page.classed("player")[:3]]
    assert names == [f"audio/{VICTIM}.wav", f"audio/solo-{VICTIM}.wav", f"audio/{SOURCE}.wav"]
    assert page.classed("player")[0]["data-mark"] == "0.25"
    assert data["hits"] == [[SOURCE, VICTIM]]
    (level,) = data["lanes"]
    assert len({one["lane"] for one in level["requests"]}) == 5 and len(level["requests"]) == 9
    assert [len(chart["levels"][0]["dots"]) for chart in data["distributions"]] == [8, 8, 8]
    assert [one["data-show"] for _, one in page.tags if "data-show" in one] == [VICTIM]


def test_a_good_run_is_green_and_has_no_matrix(tmp_path):
    page, _ = page_of(make_heard_run(tmp_path / "run", wrong=False))
    assert page.classed("valid") and not page.classed("invalid") and not page.classed("fault")
    assert not page.classed("matrix") and [card["data-tags"] for card in page.classed("card")] == ["good"] * 3


def test_without_a_judge_or_recordings_the_page_says_so(tmp_path):
    page, data = page_of(make_heard_run(tmp_path / "run", judge=False, audio=False))
    words = "".join(page.words)
    assert "Nothing was judged" in words and "no recording was kept" in words and not data["audio"]


@pytest.mark.parametrize("name", ["smoke", "neighbour_slot", "parity_words", "parity_corrupted"])
def test_old_runs_have_a_page(tmp_path, name):
    shutil.copytree(OLD_RUNS / name, tmp_path / name)
    folder = write_report(tmp_path / name, plots=False).parent
    page = Elements((folder / "report.html").read_text(encoding="utf-8"))
    assert page.classed("banner") and page.classed("ok" if name == "smoke" else "bad")


def test_recordings_beyond_the_limit_are_links_and_broken_ones_say_so(tmp_path):
    folder = make_heard_run(tmp_path / "run")
    (folder.path / "audio" / "broken.wav").write_bytes(b"no WAV")
    recordings = Recordings(folder.path, embedded_mb=0.05)
    names = [recordings.add(folder, f"audio/{one}.wav") for one in (SOURCE, VICTIM, "broken", "gone")]
    embedded, linked, broken, gone = (recordings.by_name[name] for name in names)
    assert embedded["src"].startswith("data:") and linked["src"] == f"audio/{VICTIM}.wav"
    assert linked["duration_s"] == pytest.approx(5 - 1 / 24, abs=1e-3) and len(linked["peaks"]) == 240
    assert "cannot be read" in broken["problem"] and "cannot be read" in gone["problem"]
    assert "outside" in recordings.by_name[recordings.add(folder, "../../etc/passwd")]["problem"]
    assert recordings.add(folder, None) is None


def test_peaks_are_of_full_scale():
    assert peaks(np.array([0, 0, -32768, 100], dtype=np.int16), 2) == [0, 1000]
    assert peaks(np.array([], dtype=np.int16)) == [0]
