"""Scenarios from the command line, small, against one bundled server that already runs.

Its batch shape is fixed (``reference.deterministic``), so that the same request gives the same codes alone and in
company.
"""

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
CLOSED = (*SMALL, "load.concurrency=[1]", "load.warmup_per_slot=0")


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
    target = ReferenceTarget(
        TargetConfig(kind="reference"), ServerSettings(threads=1, max_batch=4, deterministic=True, device="cpu"), log
    )
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


def test_text_and_speech_of_a_chat_are_measured_and_understood(tmp_path, monkeypatch, server):
    monkeypatch.chdir(tmp_path)
    judge = ("asr.model=tiny.en", "asr.device=cpu", "asr.workers=1")
    overrides = ("target=external", f"target.url={server[0]}", *CLOSED, *judge, "load.concurrency=[2]")
    run, _ = run_scenario(tmp_path, "qwen3_omni_text_audio", *overrides)
    (level,) = run["levels"]
    assert (level["completed"], level["failed"], level["invalid"]) == (4, 0, {})
    assert level["accuracy"]["wer"] <= 0.2
    ttft, ttfp = (level["metrics"][name]["p50"] for name in ("ttft_ms", "ttfp_ms"))
    assert 0 < ttft < ttfp < level["metrics"]["e2el_ms"]["p50"]


def test_the_deterministic_server_answers_alone_as_in_company(tmp_path, monkeypatch, server, capsys):
    monkeypatch.chdir(tmp_path)
    locale = tmp_path / "data" / "en"
    locale.mkdir(parents=True)
    texts = ("Good morning.", "Come in.", "It is late.", "Hello.")
    (locale / "meta.lst").write_text("".join(f"p{i}|||{text}\n" for i, text in enumerate(texts)))
    overrides = ["target=external", f"target.url={server[0]}", "checks=parity", "checks.parity_requests=3", "asr=none"]
    overrides += ["dataset=seed_tts", f"dataset.root={tmp_path / 'data'}", "dataset.locale=en"]
    overrides += ["load.concurrency=[4]", "load.requests_per_level=4", "load.requests_per_slot=1"]
    overrides += ["load.warmup_per_slot=0", "load.lag_budget_ms=10000", "output.plots=false"]
    main(["run", "scenario=smoke", *overrides])
    (run_dir,) = (tmp_path / "reports" / "runs" / "smoke").iterdir()
    captured = capsys.readouterr()
    parity = json.loads((run_dir / "run.json").read_text())["levels"][0]["parity"]
    assert (parity["kind"], parity["compared"], parity["mismatches"]) == ("codes", 3, 0), captured.err
    assert (parity["deterministic"], parity["repeatable"], parity["repeats"]) == (True, True, 2)
    assert parity["exact"] == 3, "the samples too, bit for bit"
    codes = [json.loads(line) for line in (run_dir / "codes.jsonl").read_text().splitlines()]
    assert len(codes) == 3 + 5 and all(record["codebooks"] == 16 and record["frames"] > 3 for record in codes)
    company = [json.loads(line) for line in (run_dir / "requests.jsonl").read_text().splitlines()]
    starts = max(record["started_ns"] for record in company)
    assert starts < min(record["ended_ns"] for record in company), "all four were in flight together"
    assert "parity" not in captured.out.partition("no performance claim")[2]
