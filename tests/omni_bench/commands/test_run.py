"""The Hydra application: its own features, and what becomes of a job's end."""

from __future__ import annotations

import json
import logging
import os
import pickle
import signal
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from omegaconf import OmegaConf

from omni_bench.commands.cli import main
from omni_bench.commands.run import JobFailed, run_command
from omni_bench.errors import ConfigError, StoreError, TargetError
from omni_bench.run import orchestrate
from omni_bench.run.config.compose import compose


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """An empty current folder; and ``--info``, which ends the process in real life, leaves its logging on."""
    monkeypatch.chdir(tmp_path)
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    yield
    root.setLevel(level)
    root.handlers[:] = handlers


@pytest.fixture
def jobs(monkeypatch):
    """In the place of the orchestration: remembers its calls; ``ends`` are the exit codes or errors to come."""
    fake = SimpleNamespace(calls=[], ends=[])

    def run(config, run_dir, command, show, **_):
        fake.calls.append((config, run_dir, command))
        fake.show = show
        end = fake.ends.pop(0) if fake.ends else 0
        if isinstance(end, BaseException):
            raise end
        (run_dir / "run.json").write_text("{}")
        return SimpleNamespace(exit_code=end)

    monkeypatch.setattr(orchestrate, "run", run)
    return fake


def test_the_configuration_can_be_printed(capsys):
    assert run_command(["scenario=smoke", "--cfg", "job", "--resolve"]) == 0
    config = OmegaConf.create(capsys.readouterr().out)
    assert config.scenario.name == "smoke" and config.load.concurrency == [2] and "hydra" not in config
    assert list(Path().iterdir()) == []


def test_a_profile_has_a_short_name(capsys):
    assert run_command(["scenario=smoke", "profile=true", "--cfg", "job", "--package", "output"]) == 0
    assert "profile: true" in capsys.readouterr().out
    assert compose(["profile=true"]).output.profile and not compose([]).output.profile


def test_a_part_of_the_configuration_can_be_printed(capsys):
    assert run_command(["scenario=smoke", "--cfg", "job", "--package", "load"]) == 0
    assert "requests_per_level: 6" in capsys.readouterr().out
    assert run_command(["--cfg", "job", "--package", "nowhere"]) == 1


def test_the_help_shows_commands_groups_and_examples(capsys):
    assert run_command(["--help"]) == 0
    out = capsys.readouterr().out
    for expected in (
        "omni-bench run scenario=smoke",
        "omni-bench doctor",
        "target: command, external, reference",
        "asr.wer_limit=0.15 ",
    ):
        assert expected in out


@pytest.mark.parametrize("words", [["--resume"], ["--resume="], ["--resume", "a", "x=1"], ["x=1", "--resume", "a"]])
def test_resume_takes_a_folder_alone(words, tmp_path):
    with pytest.raises(ConfigError, match="takes the folder of a run and nothing else"):
        run_command(words)
    with pytest.raises(ConfigError, match="there is no such folder"):
        run_command(["--resume", "nowhere"])
    with pytest.raises(ConfigError, match=r"it has no \.spool/journal\.jsonl"):
        run_command([f"--resume={tmp_path}"])


def test_json_is_of_one_run(jobs, capsys):
    with pytest.raises(ConfigError, match="--json is of one run"):
        run_command(["-m", "--json", "scenario=smoke", "load.seed=1,2"])
    assert jobs.calls == []
    assert run_command(["--json", "scenario=smoke"]) == 0
    jobs.show({"valid": True}, None)
    assert json.loads(capsys.readouterr().out) == {"valid": True}
    assert jobs.calls[0][2] == ["omni-bench", "run", "scenario=smoke"]


@pytest.mark.parametrize("what", ["searchpath", "defaults", "config", "plugins"])
def test_hydras_info_works(what, capsys):
    assert run_command(["--info", what]) == 0
    assert capsys.readouterr().out.strip()


def test_a_job_gets_its_configuration_folder_and_command_line(jobs, capsys):
    assert run_command(["scenario=smoke", "load.requests_per_level=9"]) == 0
    ((config, run_dir, command),) = jobs.calls
    assert config.load.requests_per_level == 9
    assert run_dir.parent == Path("reports/runs/smoke").absolute() and (run_dir / ".hydra" / "config.yaml").is_file()
    assert command == ["omni-bench", "run", "scenario=smoke", "load.requests_per_level=9"]
    assert capsys.readouterr() == ("", "")


def test_the_program_is_as_before_afterwards(jobs, monkeypatch):
    monkeypatch.delenv("HYDRA_FULL_ERROR", raising=False)
    argv, handler = sys.argv, signal.getsignal(signal.SIGTERM)
    run_command(["scenario=smoke"])
    assert sys.argv is argv and signal.getsignal(signal.SIGTERM) is handler and "HYDRA_FULL_ERROR" not in os.environ


def test_an_invalid_run_is_exit_code_1_and_keeps_its_folder(jobs):
    jobs.ends = [1]
    assert run_command(["scenario=smoke"]) == 1
    assert len(list(Path("reports/runs/smoke").iterdir())) == 1


def test_a_failed_job_without_results_leaves_no_folder(jobs, capsys):
    jobs.ends = [TargetError("no server")]
    assert run_command(["scenario=smoke"]) == 3
    assert capsys.readouterr().err == "omni-bench: error: no server\n"
    assert list(Path("reports/runs/smoke").iterdir()) == []


def test_a_folder_of_the_users_own_is_never_removed(jobs, tmp_path):
    jobs.ends = [TargetError("no server")] * 2
    assert run_command(["scenario=smoke", f"hydra.run.dir={tmp_path}"]) == 3
    assert (tmp_path / ".hydra").is_dir(), "the current folder stays"
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "notes.txt").write_text("")
    assert run_command(["scenario=smoke", f"hydra.run.dir={mine}"]) == 3
    assert (mine / "notes.txt").exists()


def test_a_bug_leaves_its_traceback_in_the_run_folder(jobs, capsys):
    jobs.ends = [ZeroDivisionError("oops")]
    assert run_command(["scenario=smoke"]) == 3
    (traceback,) = Path("reports/runs/smoke").glob("*/traceback.txt")
    assert "ZeroDivisionError" in traceback.read_text() and str(traceback.absolute()) in capsys.readouterr().err


def test_a_multirun_goes_on_after_a_failure_and_tells_the_first(jobs, capsys):
    jobs.ends = [0, 1, TargetError("no server")]
    assert main(["run", "-m", "scenario=qwen3_tts_c1,qwen3_tts_c4,smoke"]) == 1
    assert [config.scenario.name for config, _, _ in jobs.calls] == ["qwen3_tts_c1", "qwen3_tts_c4", "smoke"]
    assert [run_dir.name for _, run_dir, _ in jobs.calls] == ["0_qwen3_tts_c1", "1_qwen3_tts_c4", "2_smoke"]
    assert len({run_dir.parent for _, run_dir, _ in jobs.calls}) == 1
    assert jobs.calls[2][2] == ["omni-bench", "run", "scenario=smoke"]
    err = capsys.readouterr().err
    assert "job 1: scenario=qwen3_tts_c4" in err and "omni-bench: error: no server" in err
    assert "a job of the multirun ended with exit code 1" in err and "Traceback" not in err


def test_an_interrupt_ends_the_whole_multirun(jobs, capsys):
    jobs.ends = [0, KeyboardInterrupt("2 finished requests are in x")]
    assert main(["run", "-m", "scenario=qwen3_tts_c1,qwen3_tts_c4,smoke"]) == 130
    assert len(jobs.calls) == 2
    assert "interrupted; 2 finished requests are in x" in capsys.readouterr().err


def test_a_bad_job_of_a_multirun_is_noticed_before_the_first(jobs, capsys):
    assert main(["run", "-m", "scenario=smoke,smok"]) == 2
    assert jobs.calls == [] and "did you mean 'smoke'" in capsys.readouterr().err


def test_sigterm_is_an_interrupt(jobs, monkeypatch, capsys):
    def killed(*_, **__):
        os.kill(os.getpid(), signal.SIGTERM)
        raise AssertionError("not reached")

    monkeypatch.setattr(orchestrate, "run", killed)
    assert run_command(["scenario=smoke"]) == 130
    assert "interrupted; by SIGTERM" in capsys.readouterr().err


def test_users_folders_are_found(jobs, tmp_path):
    (tmp_path / "mine" / "scenario").mkdir(parents=True)
    (tmp_path / "mine" / "scenario" / "own.yaml").write_text(
        "# @package _global_\ndefaults: [{override /asr: none}]\nscenario: {name: own}\nload: {concurrency: [3]}\n"
    )
    assert run_command(["--config-dir", "mine", "scenario=own"]) == 0
    ((config, _, command),) = jobs.calls
    assert config.load.concurrency == [3] and config.asr.kind == "none"
    assert command == ["omni-bench", "run", "--config-dir", "mine", "scenario=own"]


def test_job_failed_survives_the_way_back_from_another_process():
    error = pickle.loads(pickle.dumps(JobFailed(3)))
    assert error.exit_code == 3 and str(error) == "a job of the multirun ended with exit code 3"


def test_the_folder_of_a_finished_run_is_left_as_it_is(jobs, tmp_path):
    run_dir = tmp_path / "mine"
    assert run_command(["scenario=smoke", f"hydra.run.dir={run_dir}"]) == 0
    before = (run_dir / ".hydra" / "overrides.yaml").read_bytes()
    with pytest.raises(StoreError, match=r"already holds a run \(run\.json\)"):
        run_command(["scenario=smoke", "load.requests_per_level=9", f"hydra.run.dir={run_dir}"])
    assert (run_dir / ".hydra" / "overrides.yaml").read_bytes() == before and len(jobs.calls) == 1
