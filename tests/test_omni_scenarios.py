"""The scenarios for omni chat and for the variants of Qwen3-TTS, small, against the bundled server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from omni_bench.commands.cli import main
from omni_bench.records.config import TargetConfig
from omni_bench.records.schema import validate_run
from omni_bench.targets.reference import ReferenceTarget
from reference_impl.settings import ServerSettings

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
# A busy machine is no failure of the product.
SMALL = ("load.requests_per_level=2", "load.lag_budget_ms=10000", "output.plots=false")
CLOSED = (*SMALL, "load.concurrency=[1]", "load.warmup_per_slot=1")


def run_scenario(folder: Path, scenario: str, *overrides: str) -> tuple[dict, list[dict]]:
    """run.json and the lines of requests.jsonl of ``omni-bench run``, in this process: its own takes seconds more."""
    assert main(["run", f"scenario={scenario}", *overrides]) == 0
    (run_folder,) = (folder / "reports" / "runs" / scenario).iterdir()
    run = json.loads((run_folder / "run.json").read_text())
    validate_run(run, "run.json")
    assert run["valid"], run["invalid_reasons"]
    return run, [json.loads(line) for line in (run_folder / "requests.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """(address, log) of one bundled server for all scenarios below, as a server that already runs."""
    log = tmp_path_factory.mktemp("server") / "server.log"
    target = ReferenceTarget(TargetConfig(kind="reference"), ServerSettings(threads=1, max_batch=4), log)
    info = target.start()
    yield info.base_url, log
    target.stop()


@pytest.mark.parametrize(
    ("scenario", "overrides", "ignored"),
    [
        ("qwen3_omni_text", CLOSED, ()),
        ("qwen3_omni_random", (*CLOSED, "asr=none", "dataset.min_words=2", "dataset.max_words=6"), ()),
        ("qwen3_omni_rates", (*SMALL, "asr=none", "load.rate_hz=[2]", "load.warmup_requests=1"), ()),
        ("qwen3_tts_base", (*CLOSED, "asr=none"), ("ref_audio", "ref_text")),
        ("qwen3_tts_voicedesign", (*CLOSED, "asr=none"), ("instructions",)),
    ],
)
def test_a_scenario_runs_against_a_server_that_already_runs(
    tmp_path, monkeypatch, server, scenario, overrides, ignored
):
    monkeypatch.chdir(tmp_path)
    url, log = server
    run, lines = run_scenario(tmp_path, scenario, "target=external", f"target.url={url}", *overrides)
    (level,) = run["levels"]
    assert (level["completed"], level["failed"], level["invalid"]) == (2, 0, {})
    assert len(lines) >= 2
    spoken = level["metrics"]["audio_s"]["mean"]
    if scenario == "qwen3_omni_text":
        assert spoken is None and level["metrics"]["ttfp_ms"]["p50"] is None
        assert level["metrics"]["ttft_ms"]["p50"] > 0
    else:
        assert spoken > 0.3
    for field in ignored:  # what the voice cannot follow is taken, and said once
        assert log.read_text().count(f"{field} is ignored") == 1
