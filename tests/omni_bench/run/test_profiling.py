"""The profile of a run: what is sent, what is asked of the server, and what is made of its files."""

from __future__ import annotations

import gzip
import json

import pytest
from timelines import make_timeline

from omni_bench.commands.compare import compare_command
from omni_bench.load.runner import LevelInterrupted
from omni_bench.records.level import Rate
from omni_bench.records.plan import LevelPlan, PlannedRequest
from omni_bench.records.prompt import Prompt
from omni_bench.records.recording import LevelRecording
from omni_bench.records.run_folder import RunFolder
from omni_bench.run import profiling
from omni_bench.run.config.compose import compose
from omni_bench.run.orchestrate import run
from omni_bench.run.profiling import profile_plan, profiled, take_profile
from omni_bench.targets.named_servers import VLLM_OMNI
from omni_bench.targets.probe import ProbeAnswer
from reference_impl.settings import PROFILE_VARIABLE

OK = ProbeAnswer(200, b"", None)
PROMPTS = {str(n): Prompt(str(n), "word " * n, None, None, "en") for n in range(1, 9)}
EVENT = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 0, "dur": 5000}


def planned(concurrency, count=8, offset=None):
    requests = (PlannedRequest(f"r{n}", str(n), {}, n, False, offset) for n in range(count, 0, -1))
    return LevelPlan(concurrency, (), tuple(requests))


def recording(plan):
    made = tuple(make_timeline(one.request_id, chunks=((10.0, 24000),)) for one in plan.measured)
    return LevelRecording(plan.concurrency, made, (), {}, None, False, False)


def test_the_shortest_requests_of_the_fullest_level():
    plan = profile_plan([planned(1), planned(4), planned(2)], PROMPTS)
    assert plan.concurrency == 4 and plan.warmup == ()
    assert [(one.request_id, one.prompt_id) for one in plan.measured] == [
        ("profile-0000", "1"), ("profile-0001", "2"), ("profile-0002", "3"), ("profile-0003", "4"),
    ]  # fmt: skip


def test_an_open_loop_is_profiled_as_a_closed_one():
    plan = profile_plan([planned(Rate(2.0), offset=7)], PROMPTS)
    assert plan.concurrency == 2 and [one.scheduled_offset_ns for one in plan.measured] == [None, None]


@pytest.fixture
def ask(monkeypatch, tmp_path):
    """take_profile with answers to order: (start, stop) -> profile; ``asked`` are the URLs."""
    asked = []
    monkeypatch.setattr(profiling, "SETTLE_S", 0.0)

    def take(start=OK, stop=OK, drive=recording):
        monkeypatch.setattr(profiling, "post", lambda url, *_: asked.append(url) or (start if "start" in url else stop))
        return take_profile(planned(2, 2), "http://s", tmp_path, drive), asked

    return take


def test_a_server_that_takes_no_trace_is_not_loaded_for_one(ask):
    profile, asked = ask(start=ProbeAnswer(404, b"", "HTTP 404"), drive=lambda plan: pytest.fail("driven"))
    assert profile.problem == "the server takes no trace: POST /start_profile answers 404" and profile.traces == ()
    assert asked == ["http://s/start_profile"]


def test_a_trace_that_does_not_come(ask):
    profile, _ = ask(stop=ProbeAnswer(500, b"", "HTTP 500"))
    assert profile.problem.endswith("POST /stop_profile answers 500 (unhealthy)")
    profile, asked = ask()
    assert "left no trace in profile/" in profile.problem and (profile.completed, profile.audio_s) == (2, 2.0)
    assert asked[-1] == "http://s/stop_profile"


def test_a_file_a_stage_and_one_that_cannot_be_read(ask, tmp_path):
    folder = tmp_path / "profile" / "2026_stage1_rank0"
    folder.mkdir(parents=True)
    (folder / "trace_rank0.json.gz").write_bytes(gzip.compress(json.dumps({"traceEvents": [EVENT]}).encode()))
    (folder / "cut.json.gz").write_bytes(gzip.compress(b"x" * 1000)[:20])
    profile, _ = ask()
    (trace,) = profile.traces
    assert trace.file == "profile/2026_stage1_rank0/trace_rank0.json.gz"
    assert [(stage.name, stage.host_ms) for stage in trace.stages] == [("stage 1", 5.0)]
    assert profile.problem == "profile/2026_stage1_rank0/cut.json.gz cannot be read: EOFError"
    folder = RunFolder(tmp_path)
    folder.write_profile(profile)
    assert folder.read_profile() == profile


def test_ctrl_c_is_of_no_level(ask):
    def drive(plan):
        raise LevelInterrupted(recording(plan))

    with pytest.raises(KeyboardInterrupt) as caught:
        ask(drive=drive)
    assert not isinstance(caught.value, LevelInterrupted)


def test_a_launched_server_is_told_where_traces_go(tmp_path):
    words = ["target=vllm_omni", "client.model=M", "+target.stage_overrides={1: {max_num_seqs: 4}}"]
    config = compose(words)
    target = profiled(config, tmp_path).target
    traces = str(tmp_path / "profile")
    assert target.env[PROFILE_VARIABLE] == traces and PROFILE_VARIABLE not in config.target.env
    command = VLLM_OMNI.server.arguments(target, 1)
    overrides = json.loads(command[command.index("--stage-overrides") + 1])
    assert (
        overrides["0"]["profiler_config"]["torch_profiler_dir"] == f"{traces}/stage0"
        and overrides["1"]["max_num_seqs"] == 4
    )
    assert "profiler_config" in overrides["1"] and config.target.stage_overrides == {1: {"max_num_seqs": 4}}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_bundled_server_is_profiled(tmp_path, capsys):
    fast = ("scenario=smoke", "asr=none", "checks.signal=false", "output.plots=false", "load.lag_budget_ms=10000")
    short = ("dataset=random", "dataset.min_words=1", "dataset.max_words=1", "dataset.allow_repeats=true")
    few = ("load.concurrency=[1]", "load.requests_per_level=2", "load.warmup_per_slot=1", "output.profile=true")
    outcome = run(compose([*fast, *short, *few]), tmp_path / "run", quiet=True)
    assert outcome.run["valid"], "the traced requests are of no level"
    assert outcome.run["levels"][0]["requests"] == 2
    profile = RunFolder.open(tmp_path / "run").read_profile()
    assert profile.problem is None and profile.completed == 2 and profile.audio_s > 0
    (trace,) = profile.traces
    stages = {stage.name: stage for stage in trace.stages}
    assert {"predictor", "talker", "sampling", "Code2Wav", "prefill", "host gaps"} <= set(stages)
    assert stages["talker"].calls == stages["predictor"].calls == trace.steps > 5
    assert stages["sampling"].calls >= 16 * trace.steps, "15 codes of the predictor and one of the talker"
    assert stages["talker"].launches is None and trace.device_idle_ms is None, "no GPU"
    assert str(tmp_path) not in (tmp_path / "run" / "run.json").read_text()
    report = (tmp_path / "run" / "report.md").read_text()
    assert "## Profile: where the time goes" in report and "(profile/trace.json.gz) opens in Perfetto" in report
    with gzip.open(tmp_path / "run" / "profile" / "trace.json.gz") as file:
        assert any(event.get("name") == "omni:talker" for event in json.load(file)["traceEvents"])
    compare_command(str(tmp_path / "run"), str(tmp_path / "run"), out=None, force=False, for_pr=True)
    assert "Where the time goes, a frame" in capsys.readouterr().out


@pytest.mark.parametrize("correlation", [7, [7]])
def test_whatever_is_in_a_file_the_run_goes_on(ask, tmp_path, correlation):
    (tmp_path / "profile").mkdir()
    packed = bytearray(gzip.compress(json.dumps([EVENT] * 1000).encode()))
    packed[20:40] = bytes(20)
    (tmp_path / "profile" / "broken.json.gz").write_bytes(packed)
    launch = EVENT | {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "args": {"correlation": correlation}}
    kernel = launch | {"cat": "kernel", "name": "k"}
    (tmp_path / "profile" / "odd.json").write_text(json.dumps({"traceEvents": [EVENT, launch, kernel]}))
    profile, _ = ask()
    assert profile.problem == "profile/broken.json.gz cannot be read: error"
    (trace,) = profile.traces
    assert trace.file == "profile/odd.json" and len(trace.stages) >= 1
