"""report.html without a browser: what is in it, and that nothing foreign becomes markup."""

from __future__ import annotations

import itertools
import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import run_factory as runs
from heard_run import FAILED, HOSTILE, METRICS, SOURCE, TEXT, VICTIM, make_heard_run

from omni_bench.accuracy.wer import alignment, score_utterance
from omni_bench.records.invalid_reason import Code, invalid
from omni_bench.records.run_folder import RunFolder
from omni_bench.records.timeline_json import timeline_to_dict
from omni_bench.report.page.cards import MAX_CARDS, MAX_PAGE_TEXT, MAX_TEXT, Card, fitting
from omni_bench.report.page.lanes import MAX_REQUESTS, in_flight_ns, swim_lanes
from omni_bench.report.page.recordings import Recordings, peaks
from omni_bench.report.write import write_report
from omni_bench.run.document import utterance_record

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


def test_a_hostile_run_of_thousands_gives_a_page_that_opens_and_says_what_it_leaves_out(tmp_path):
    long = f"{HOSTILE}&\x1b" * 60
    levels, requests, slots = 120, 600, 150
    folder = RunFolder.create(tmp_path / "run")
    level = runs.make_level(1, 12)
    named = [{**level, "concurrency": number, "requests": requests} for number in range(1, levels + 1)]
    run = runs.make_run(levels=named, scenario=long, own=[invalid(Code.INTERRUPTED)] * 200)
    lines, heard, hits = [], [], []
    for number in range(requests):
        one = runs.timeline(f"c1-{number:04d}", start_ms=number, chunks=slots, gap_ms=1)
        faults = ["clicks"] if number > requests - 300 else []
        metrics = METRICS | {"ttfp_ms": float(number)}
        lines.append({**timeline_to_dict(one), "text": long, "language": "en", "metrics": metrics, "faults": faults})
        hit = {"victim": one.request_id, "source": "c1-0000", "kind": "target", "relation": long, "also": [long]}
        hit |= {"position": "whole", "heard": long, "words": long, "score": 20.0, "concurrency": 1, "audio": None}
        if number % 8 == 1:
            hits.append(hit)
        if number < 40:
            score = score_utterance(one.request_id, TEXT, f"{TEXT} {long}", "en")
            ops = [list(each) for each in alignment(score)]
            heard.append(utterance_record(score, concurrency=1, prompt_id=long, alignment=ops))
    folder.write_lines(folder.requests_jsonl, lines)
    folder.write_lines(folder.cross_talk_jsonl, hits)
    folder.write_utterances(heard)
    folder.write_run(run)
    page, data = page_of(folder)
    assert folder.report_html.stat().st_size < 4e6
    words = " ".join("".join(page.words).split())
    cards = len(page.classed("card"))
    clicked = {one["request_id"] for one in lines if one["faults"]}
    findings = len({hit["victim"] for hit in hits} | {one["request_id"] for one in heard} | clicked)
    assert f"{findings} of {requests} answers" in words
    assert (
        cards == MAX_CARDS
        and f"no room for the other {findings - cards}: they are in wer_evidence.md and requests.jsonl" in words
    )
    assert "20 more levels are left out of this page" in words
    assert "and 150 more: run.json" in words
    assert f"A table of {slots + 100} × {slots + 100} slots is too large for this page" in words
    first = data["lanes"][0]
    assert first["of"] == requests and len(first["requests"]) == 40 and first["chunks"] > 1000
    assert not any(bar["c"] for bar in first["requests"])
    dots = data["distributions"][0]["levels"][0]
    assert dots["of"] == requests - 299 and len(dots["dots"]) == 25
    assert np.median([value for _, value in dots["dots"]]) == pytest.approx(150, abs=1)


def test_long_texts_are_cut_and_cards_end_where_the_room_does():
    words, names = (("equal", "<" * 900, ""),) * 50, tuple(f"c1-{number}" for number in range(100))
    card = Card("r" * 500, "p", "c 1", "<" * 9000, "<" * 9000, words, "", ("t",) * 50, ("f" * 900,), (), names, ())
    kept = fitting(itertools.repeat(card, 1000))
    assert 0 < len(kept) < MAX_PAGE_TEXT / (4 * 3 * MAX_TEXT) + 1
    first = kept[0]
    assert len(first.text) == len(first.heard) == MAX_TEXT and first.text.endswith("...") and len(first.words) == 3
    assert len(first.neighbours) == 13 and first.neighbours[-1] == "and 88 more (parity.jsonl)"


def test_the_lanes_of_a_large_level_are_where_the_findings_are():
    lines = [runs.timeline(f"c1-{number:04d}", start_ms=number) for number in range(1000)]
    run = {"levels": [runs.make_level(1)]}
    records = [timeline_to_dict(one) for one in lines]
    (level,) = swim_lanes(run, records, [], {"c1-0700", "c1-0701", "c1-0100"})
    assert level["of"] == 1000 and len(level["requests"]) == MAX_REQUESTS
    shown = [bar["id"] for bar in level["requests"]]
    assert {"c1-0700", "c1-0701"} <= set(shown) and shown[0] == f"c1-{level['since']:04d}"
    assert swim_lanes(run, records, [])[0]["since"] == 0


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


def test_a_line_without_its_start_has_no_lane():
    lines = [{"request_id": name, "finished_ns": 3, "concurrency": 1} for name in "ab"]
    assert in_flight_ns([lines[0], lines[1] | {"started_ns": 1}]) == {1: {"b": (1, 3)}}
