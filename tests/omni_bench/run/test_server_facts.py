"""What run.json says of the server."""

from __future__ import annotations

from dataclasses import replace

import pytest
from timelines import make_timeline

from omni_bench.records.config import TargetConfig
from omni_bench.records.recording import LevelRecording
from omni_bench.run import server_facts
from omni_bench.run.server_facts import ServerFacts, target_facts, two_accounts
from omni_bench.targets.base import TargetInfo
from omni_bench.targets.server_metrics import Scrape, ServerSeries

INFO = TargetInfo("vllm_omni", "http://127.0.0.1:1", 0.1, ("vllm",), {}, None, version="0.30.0", commit="a" * 40)
VLLM = TargetConfig(kind="vllm_omni", model="m")


@pytest.mark.parametrize(
    ("config", "info", "version", "commit"),
    [
        (VLLM, INFO, "0.30.0", "a" * 40),
        (replace(VLLM, revision="b" * 40), INFO, "0.30.0", "b" * 40),
        (VLLM, replace(INFO, health={"version": "7", "commit": "c"}), "7", "c"),
        (VLLM, replace(INFO, health={"version": 7, "commit": ""}), "0.30.0", "a" * 40),
        (VLLM, replace(INFO, version=None, stated_version={"version": "0.29"}), "0.29", "a" * 40),
        (VLLM, replace(INFO, version=None, stated_version=["0.29"]), None, "a" * 40),
        (replace(VLLM, revision="b" * 40), None, None, "b" * 40),
        (VLLM, None, None, None),
    ],
)
def test_the_version_and_the_commit(config, info, version, commit):
    facts = target_facts(config, info, ServerFacts())
    assert (facts["kind"], facts["version"], facts["commit"]) == ("vllm_omni", version, commit)
    assert facts["conformance"] is None and facts["server_metrics"] is None
    assert (facts["description"] == {}) is (info is None)


def test_preemptions_are_said(monkeypatch):
    before, after = (
        Scrape({"vllm:num_preemptions": ServerSeries("counter", {"total": value})}) for value in (1.0, 4.0)
    )
    seen = ServerFacts(_scrape=before)
    monkeypatch.setattr(server_facts, "scrape", lambda *_: after)
    said = []
    seen.after(said.append)
    assert said == ["warning: the server put requests aside 3 times (its own count of preemptions)"]
    assert seen.metrics["series"] == {"vllm:num_preemptions": {"increase": 3.0}}
    assert seen.metrics.get("cut") is None
    seen.after(said.append, resumed=True)
    assert seen.metrics["cut"] == "they are of what was sent after --resume alone"


def test_without_a_first_reading_there_is_no_second(monkeypatch):
    monkeypatch.setattr(server_facts, "scrape", lambda *_: pytest.fail("asked"))
    seen = ServerFacts()
    seen.after(lambda *_: pytest.fail("said"))
    assert seen.metrics is None


def scraped(count, total):
    return Scrape({'vllm_omni:audio_ttfp_s{stage="1"}': ServerSeries("histogram", {"count": count, "sum": total})})


def recording():
    """One request of warm-up and two measured, of 10, 20 and 30 ms TTFP, and one that failed."""
    made = [
        make_timeline(
            f"r{n}", ended=100.0, chunks=((10.0 * n, 2400), (50.0, 2400)), failed="timeout" if n == 4 else None
        )
        for n in (1, 2, 3, 4)
    ]
    return LevelRecording(2, tuple(made[1:]), (made[0],), {}, None, False, False)


def test_the_two_accounts_are_of_the_same_requests():
    assert two_accounts(scraped(5, 1.0), scraped(8, 1.045), recording()) == [
        {
            "concurrency": 2,
            "metric": "ttfp_ms",
            "series": "vllm_omni:audio_ttfp_s",
            "server_count": 3,
            "server_mean": pytest.approx(15.0),
            "client_count": 3,
            "client_mean": pytest.approx(20.0),
        }
    ]
    assert two_accounts(scraped(5, 1.0), scraped(5, 1.0), recording()) == []


@pytest.mark.parametrize(("second", "asked"), [(scraped(8, 0.0), 1), (scraped(7, 0.0), 2)])
def test_a_server_that_has_not_counted_all_is_asked_once_more(second, asked, monkeypatch):
    answers = [second, scraped(8, 0.5)]
    monkeypatch.setattr(server_facts, "scrape", lambda *_: answers.pop(0))
    monkeypatch.setattr(server_facts.time, "sleep", lambda *_: None)
    seen = ServerFacts(_scrape=scraped(5, 0.0), _last=scraped(5, 0.0))
    seen.after_level(recording())
    assert len(answers) == 2 - asked and [one["server_count"] for one in seen.accounts] == [3]


def test_a_server_without_metrics_is_not_asked_at_every_level(monkeypatch):
    monkeypatch.setattr(server_facts, "scrape", lambda *_: pytest.fail("asked"))
    seen = ServerFacts(_last=Scrape({}, "HTTP 404"))
    seen.after_level(recording())
    assert seen.accounts == []
