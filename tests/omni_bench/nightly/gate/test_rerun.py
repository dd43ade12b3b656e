"""How the second run is made."""

from __future__ import annotations

import sys

import pytest
import run_factory as runs

from omni_bench.errors import ConfigError, StoreError
from omni_bench.nightly.gate.rerun import rerun_command, run_again
from omni_bench.nightly.history.records import Role
from omni_bench.records.run_folder import RunFolder

STORED = ("omni-bench", "run", "scenario=smoke", "hydra.run.dir=/old", "client.voice=it's", "load.trace_column=null")


def test_the_stored_command_in_another_folder(tmp_path):
    command = rerun_command(STORED, tmp_path / "out", None)
    assert command[0] == sys.executable and command[1:4] == ["-m", "omni_bench", "run"]
    assert command[4:] == ["scenario=smoke", "client.voice=it's", f"hydra.run.dir={tmp_path / 'out'}"]


def test_only_the_whole_default_of_a_removed_key_is_left_out(tmp_path):
    stored = ("omni-bench", "run", "asr.threads_per_worker=1", "asr.threads_per_worker=16")
    words = rerun_command(stored, tmp_path, None)
    assert "asr.threads_per_worker=16" in words and "asr.threads_per_worker=1" not in words


def test_a_command_of_ones_own(tmp_path):
    custom = "ssh 'other host' run --out={out}"
    assert rerun_command((), tmp_path, custom) == ["ssh", "other host", "run", f"--out={tmp_path}"]
    with pytest.raises(ConfigError, match=r"does not say \{out\}"):
        rerun_command(STORED, tmp_path, "make night")
    with pytest.raises(ConfigError, match="cannot be read as a command line: No closing quotation"):
        rerun_command(STORED, tmp_path, "make 'night {out}")


@pytest.mark.parametrize("stored", ((), ("vllm", "bench"), ("omni-bench", "run", "-m", "scenario=smoke")))
def test_what_cannot_be_run_again(stored, tmp_path):
    with pytest.raises(ConfigError, match="give --rerun a COMMAND"):
        rerun_command(stored, tmp_path, None)


COPY = "import shutil, sys; shutil.copytree(sys.argv[1], sys.argv[2])"


def test_the_run_that_a_command_leaves(tmp_path):
    RunFolder(tmp_path / "made").write_run(runs.make_run())
    custom = f"{sys.executable} -c '{COPY}' {tmp_path / 'made'} {{out}}"
    record = run_again((), tmp_path / "out", custom)
    assert record.role is Role.RERUN and record.scenario == "qwen3_tts"
    with pytest.raises(ConfigError, match="holds a run already"):
        run_again((), tmp_path / "out", custom)


def test_a_command_that_leaves_none_or_is_not_there(tmp_path):
    with pytest.raises(StoreError, match=r"left no run.json in .* \(exit code 3\)"):
        run_again((), tmp_path / "out", f"{sys.executable} -c 'raise SystemExit(3)' {{out}}")
    with pytest.raises(ConfigError, match="no program 'no-such-program'"):
        run_again((), tmp_path / "out", "no-such-program {out}")
