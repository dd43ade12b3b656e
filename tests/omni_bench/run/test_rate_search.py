"""Open loops and rate searches through the whole of a run, with a made-up load phase."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from reasons import said

from omni_bench.compare.load import load_run
from omni_bench.errors import StoreError
from omni_bench.load.events import RequestFinished
from omni_bench.metrics.slo import Slo
from omni_bench.records.level import Rate, level_of
from omni_bench.records.recording import LevelRecording
from omni_bench.records.timeline import RequestError
from omni_bench.run import load_phase
from omni_bench.run.config.compose import compose
from omni_bench.run.orchestrate import run
from omni_bench.run.rate_search import search_record, slo_of
from omni_bench.run.rejudge import redraw

FAST = ("scenario=smoke", "output.plots=false", "asr=none", "checks.signal=false", "load.warmup_requests=2")
FAST += ("target.probe=false",)
S = 1_000_000_000


class Capacity:
    """In the place of run_level: requests start as planned, and are answered late or refused above ``limit_hz``."""

    def __init__(self, fake: Any, limit_hz: float) -> None:
        self.fake, self.limit_hz = fake, limit_hz
        self.client_limit_hz = float("inf")
        self.refuses = False
        self.dies = False
        self.begin_ns = 0

    def __call__(self, plan: Any, **arguments: Any) -> LevelRecording:
        on_event = arguments.pop("on_event")
        kept: list[Any] = []
        recording = self.fake(plan, on_event=kept.append, **arguments)
        due = {one.request_id: one.scheduled_offset_ns or 0 for one in (*plan.warmup, *plan.measured)}
        self.begin_ns += 1000 * S
        timed = {
            one.request_id: self._timed(one, due[one.request_id], plan)
            for one in (*recording.warmup, *recording.timelines)
        }
        for event in kept:
            timeline = getattr(event, "timeline", None)
            on_event(event if timeline is None else RequestFinished(timed[timeline.request_id]))
        return replace(
            recording,
            timelines=tuple(timed[one.request_id] for one in recording.timelines),
            warmup=tuple(timed[one.request_id] for one in recording.warmup),
            audio={name: path for name, path in recording.audio.items() if timed[name].ok},
        )

    def _timed(self, one: Any, due_ns: int, plan: Any) -> Any:
        over = isinstance(plan.concurrency, Rate) and plan.concurrency.hz > self.limit_hz
        late_ns = S // 2 if plan.concurrency > Rate(self.client_limit_hz) else 0
        move_ns = self.begin_ns + due_ns - one.scheduled_ns
        after_ns = 2 * S if over else 0
        if over and (self.refuses or self.dies) and not one.warmup:
            ended = one.started_ns + move_ns + 1
            return replace(
                one,
                scheduled_ns=one.scheduled_ns + move_ns,
                started_ns=one.started_ns + move_ns,
                headers_ns=None,
                first_byte_ns=None,
                first_audio_ns=None,
                ended_ns=None,
                failed_ns=ended,
                chunk_arrived_ns=(),
                chunk_bytes=(),
                http_status=503 if self.dies else 429,
                error=RequestError(
                    "http_status", "HTTP 503: the engine has stopped" if self.dies else "HTTP 429: full"
                ),
            )
        moves = {"scheduled_ns": move_ns, "started_ns": move_ns + late_ns, "headers_ns": move_ns + late_ns}
        moves |= dict.fromkeys(("first_byte_ns", "first_audio_ns", "ended_ns"), move_ns + late_ns + after_ns)
        moved = {name: getattr(one, name) + by for name, by in moves.items() if getattr(one, name) is not None}
        arrived = tuple(at_ns + move_ns + late_ns + after_ns for at_ns in one.chunk_arrived_ns)
        return replace(one, **moved, chunk_arrived_ns=arrived)


@pytest.fixture
def capacity(load: Any, target: Any, monkeypatch: pytest.MonkeyPatch) -> Capacity:
    found = Capacity(load, 5.0)
    monkeypatch.setattr(load_phase, "run_level", found)
    return found


def search_config(*more: str) -> Any:
    return compose([*FAST, "load=rate_search", "slo.ttfp_ms=150", "load.probe_requests=59", "load.probe_s=0", *more])


def stored(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "run.json").read_text())


def test_a_search_finds_what_the_server_holds_and_can_be_drawn_again(
    capacity: Capacity, tmp_path: Path, capsys: Any
) -> None:
    outcome = run(search_config("load.precision=0.1"), tmp_path / "run")
    search = outcome.run["rate_search"]
    assert search["converged"] and search["highest_hz"] <= 5.0 < search["lowest_failing_hz"]
    assert search["lowest_failing_hz"] <= 1.1 * search["highest_hz"]
    rates = [level["rate_hz"] for level in outcome.run["levels"]]
    assert rates == sorted(rates) and len(rates) == search["probes"] and {1.0, 2.0, 4.0, 8.0} <= set(rates)
    assert [level["probe"]["holds"] for level in outcome.run["levels"]] == [rate <= 5.0 for rate in rates]
    shown = capsys.readouterr()
    assert "Highest rate that holds" in shown.out and "8 req/s does not hold: p95 of TTFP" in shown.err
    report = (tmp_path / "run" / "report.md").read_text()
    assert "## Rate search" in report and "## Open loop" in report
    before = stored(tmp_path / "run")
    _, after = redraw(tmp_path / "run")
    assert after["levels"] == before["levels"] and after["rate_search"] == before["rate_search"]


def test_a_rate_that_the_server_refuses_does_not_spoil_the_answer(capacity: Capacity, tmp_path: Path) -> None:
    capacity.refuses = True
    outcome = run(search_config("load.precision=0.5"), tmp_path / "run")
    failing = [level for level in outcome.run["levels"] if not level["probe"]["holds"]]
    assert failing and not any(level["valid"] for level in failing)
    assert outcome.run["valid"] and outcome.run["rate_search"]["highest_hz"] <= 5.0


def test_a_server_that_breaks_down_is_no_answer(capacity: Capacity, tmp_path: Path, capsys: Any) -> None:
    capacity.dies = True
    outcome = run(search_config("load.precision=0.5"), tmp_path / "run")
    *held, broken = outcome.run["levels"]
    assert held and all(level["probe"]["holds"] for level in held)
    assert broken["probe"] is None and broken["completed"] == 0
    search = outcome.run["rate_search"]
    assert search["highest_hz"] == held[-1]["rate_hz"] and search["lowest_failing_hz"] is None
    assert not search["converged"] and not outcome.run["valid"]
    assert "the search ends here, at" in (told := capsys.readouterr().err) and "the engine has stopped" in told
    _, after = redraw(tmp_path / "run")
    assert after["rate_search"] == search


def test_bad_audio_spoils_it_at_any_rate(capacity: Capacity, tmp_path: Path) -> None:
    capacity.fake.spoil["r8-0003"] = b""
    outcome = run(search_config("load.precision=0.5"), tmp_path / "run")
    assert not outcome.run["valid"] and "8 req/s: 1 of 59 requests" in said(outcome.run)[0]


def test_an_invalid_level_is_not_the_highest_rate(capacity: Capacity, judge: Any, tmp_path: Path) -> None:
    """It holds, but is not understood: the record names no rate, and the report says what was found."""
    judge.mishears["r4-0003"] = "something else was said here"
    outcome = run(search_config("load.precision=1", "asr=whisper", "asr.wer_limit=0.001"), tmp_path / "run")
    found = {level["rate_hz"]: (level["probe"]["holds"], level["valid"]) for level in outcome.run["levels"]}
    assert found == {1.0: (True, True), 2.0: (True, True), 4.0: (True, False), 8.0: (False, True)}
    search = stored(tmp_path / "run")["rate_search"]
    assert (search["highest_hz"], search["lowest_failing_hz"], search["converged"]) == (None, 8.0, False)
    report = (tmp_path / "run" / "report.md").read_text()
    assert "Highest rate that holds: 4 req/s" in report and "8 req/s does not, which is within 100%" in report
    assert "But the level at 4 req/s is invalid: no claim." in report and "**4 req/s**" in report
    assert load_run(tmp_path / "run").facts.highest_rate == "n/a"
    _, after = redraw(tmp_path / "run")
    assert after["rate_search"] == search


def test_a_search_ends_where_the_client_cannot_follow(capacity: Capacity, tmp_path: Path, capsys: Any) -> None:
    capacity.limit_hz, capacity.client_limit_hz = 1000.0, 3.0
    outcome = run(search_config(), tmp_path / "run")
    assert [level["rate_hz"] for level in outcome.run["levels"]] == [1.0, 2.0, 4.0]
    assert not outcome.run["valid"] and "could not hold its schedule" in said(outcome.run)[0]
    assert "the search ends here" in capsys.readouterr().err


def test_the_limits_of_a_text_are_those_of_the_search_and_of_its_record() -> None:
    text = ("client=openai_chat_audio", "client.modalities=[text]", "slo.ttfp_ms=null", "slo=chat_text")
    config = search_config(*text, "slo.e2el_ms=900")
    assert slo_of(config.slo) == Slo(ttft_ms=450.0, tpot_ms=40.0, e2el_ms=900.0)
    levels = [{"rate_hz": hz, "valid": True, "probe": {"holds": hz < 3}} for hz in (1.0, 2.0, 4.0)]
    record = search_record(levels, config.load, config.slo)
    assert record is not None and (record["highest_hz"], record["lowest_failing_hz"]) == (2.0, 4.0)
    limits = {"ttfp_ms": None, "stall_s": None, "ttft_ms": 450.0, "tpot_ms": 40.0, "e2el_ms": 900.0}
    assert {name: record[name] for name in limits} == limits


def open_config(*more: str) -> Any:
    return compose([*FAST, "load=open_loop", "load.rate_hz=[2,1]", "load.requests_per_level=8", *more])


def test_an_open_loop_is_stored_by_its_rates_and_read_back(capacity: Capacity, tmp_path: Path) -> None:
    outcome = run(open_config("slo=interactive", "load.rotate_levels=1"), tmp_path / "run")
    assert outcome.run["valid"], said(outcome.run)
    levels = outcome.run["levels"]
    assert [level_of(level) for level in levels] == [Rate(2.0), Rate(1.0)]  # as configured, not as they ran
    assert [level["arrival"] for level in levels] == ["poisson", "poisson"] and outcome.run["rate_search"] is None
    assert all(level["concurrency"] == level["open_loop"]["peak_in_flight"] for level in levels)
    assert all(level["metrics"]["goodput"]["mean"] == 1.0 for level in levels)
    lines = [json.loads(line) for line in (tmp_path / "run" / "requests.jsonl").read_text().splitlines()]
    assert {(line["concurrency"], line["rate_hz"]) for line in lines} == {(None, 1.0), (None, 2.0)}
    assert {line["rate_hz"] for line in map(json.loads, (tmp_path / "run" / "warmup.jsonl").open())} == {1.0, 2.0}
    _, again = redraw(tmp_path / "run")
    assert again["levels"] == levels
    view = load_run(tmp_path / "run")
    assert [level.concurrency for level in view.levels] == [Rate(1.0), Rate(2.0)]
    assert {request.key.concurrency for request in view.requests or ()} == {Rate(1.0), Rate(2.0)}


def test_a_line_of_another_level_is_missed_by_name(capacity: Capacity, tmp_path: Path) -> None:
    run(open_config(), tmp_path / "run")
    path = tmp_path / "run" / "requests.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[0]["rate_hz"] = 3.0
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(StoreError, match="has 7 requests of 2 req/s"):
        redraw(tmp_path / "run")


def test_levels_that_were_not_reached_are_named(capacity: Capacity, target: Any, tmp_path: Path) -> None:
    def dies() -> None:
        target.alive = False

    capacity.fake.after["r2-0007"] = dies
    with pytest.raises(Exception, match="the server died during 2 req/s"):
        run(open_config(), tmp_path / "run")
    reasons = said(stored(tmp_path / "run"))
    assert any(reason == "not measured: 1 req/s" for reason in reasons), reasons


def test_with_a_judge_every_check_knows_the_level(capacity: Capacity, judge: Any, tmp_path: Path) -> None:
    config = open_config("asr=whisper")
    judge.mishears["r2-0001"] = "something else was said here"
    outcome = run(config, tmp_path / "run")
    assert [level["cross_talk"] is not None for level in outcome.run["levels"]] == [True, True]
    lines = [json.loads(line) for line in (tmp_path / "run" / "utterances.jsonl").read_text().splitlines()]
    assert {(line["concurrency"], line["rate_hz"]) for line in lines} == {(None, 1.0), (None, 2.0)}
    assert "| 2 req/s" in (tmp_path / "run" / "report.md").read_text()
    _, again = redraw(tmp_path / "run")
    assert again["levels"] == outcome.run["levels"]
