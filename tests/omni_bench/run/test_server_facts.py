"""What run.json says of the server."""

from __future__ import annotations

from dataclasses import replace

import pytest

from omni_bench.records.config import TargetConfig
from omni_bench.run import server_facts
from omni_bench.run.server_facts import ServerFacts, target_facts
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
    monkeypatch.setattr(server_facts, "scrape", lambda _: after)
    said = []
    seen.after(said.append)
    assert said == ["warning: the server put requests aside 3 times (its own count of preemptions)"]
    assert seen.metrics["series"] == {"vllm:num_preemptions": {"increase": 3.0}}


def test_without_a_first_reading_there_is_no_second(monkeypatch):
    monkeypatch.setattr(server_facts, "scrape", lambda _: pytest.fail("asked"))
    seen = ServerFacts()
    seen.after(lambda _: pytest.fail("said"))
    assert seen.metrics is None
