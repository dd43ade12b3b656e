"""What nvidia-smi says, by a script in its place."""

from __future__ import annotations

import sys

import pytest

from omni_bench.records.config import RunConfig, TargetConfig
from omni_bench.targets import command as command_module
from omni_bench.targets import gpus, preflight
from omni_bench.targets.create import TARGETS
from omni_bench.targets.gpus import Gpu, free_gpu_bytes, gpu_processes, left_behind, visible_gpus
from omni_bench.targets.named_servers import VLLM_OMNI as TARGET

CARDS = "0, GPU-aaaa, NVIDIA H100 80GB HBM3\\n1, GPU-bbbb, NVIDIA H100 80GB HBM3\\n"
FIRST, SECOND = Gpu("0", "GPU-aaaa", "NVIDIA H100 80GB HBM3"), Gpu("1", "GPU-bbbb", "NVIDIA H100 80GB HBM3")


@pytest.fixture
def smi(tmp_path, monkeypatch):
    """A function that sets what nvidia-smi answers."""

    def answer(cards=CARDS, processes="", code=0):
        script = (
            f"#!{sys.executable}\nimport sys\n"
            f"print('{cards}' if '--query-gpu' in sys.argv[1] else '{processes}', end='')\nsys.exit({code})\n"
        )
        path = tmp_path / "nvidia-smi"
        path.write_text(script)
        path.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path))

    return answer


@pytest.mark.parametrize(
    ("listed", "seen"),
    [
        (None, [FIRST, SECOND]),
        ("1", [SECOND]),
        ("1,0", [SECOND, FIRST]),
        ("GPU-bb", [SECOND]),
        ("", []),
        ("-1", []),
        ("0,7,1", [FIRST]),
        (" 0 , 1 ", [FIRST, SECOND]),
    ],
)
def test_the_gpus_that_a_process_sees(listed, seen, smi):
    smi()
    assert visible_gpus({} if listed is None else {"CUDA_VISIBLE_DEVICES": listed}) == seen


def test_no_nvidia_smi_is_not_no_gpu(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert visible_gpus({}) is None and gpu_processes() is None and left_behind(None) == {}


def test_a_driver_that_does_not_answer(smi):
    smi(code=9)
    assert visible_gpus({}) is None and gpu_processes() is None


def test_free_memory_of_the_gpus(smi):
    smi(cards="GPU-aaaa, 81079 MiB\\nGPU-bbbb, [N/A]\\n")
    assert free_gpu_bytes() == {"GPU-aaaa": 81079 * 2**20, "GPU-bbbb": None}
    smi(code=9)
    assert free_gpu_bytes() is None


def test_processes_on_the_gpus(smi):
    smi(processes="12, GPU-aaaa\\n[N/A], GPU-bbbb\\n34, GPU-bbbb\\n")
    assert gpu_processes() == {12: "GPU-aaaa", 34: "GPU-bbbb"}


def test_only_what_came_and_stays_is_left_behind(smi, monkeypatch):
    monkeypatch.setattr(gpus, "RELEASE_WAIT_S", 0.1)
    smi(processes="12, GPU-aaaa\\n34, GPU-bbbb\\n")
    assert left_behind({12: "GPU-aaaa"}) == {34: "GPU-bbbb"}
    assert left_behind({12: "GPU-aaaa", 34: "GPU-bbbb", 56: "GPU-aaaa"}) == {}


def test_memory_that_is_being_released_is_waited_for(monkeypatch):
    answers = iter([{5: "GPU-aaaa"}, {5: "GPU-aaaa"}, {}])
    monkeypatch.setattr(gpus, "gpu_processes", lambda: next(answers))
    assert left_behind({}) == {}


def test_a_process_that_stays_on_a_gpu_is_told_after_the_stop(fake_environment, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(command_module, "gpu_processes", lambda: {1: "GPU-aaaa"})
    monkeypatch.setattr(
        command_module, "left_behind", lambda before: {7: "GPU-bbbb"} if before == {1: "GPU-aaaa"} else {}
    )
    target = TARGET.create(RunConfig(target=fake_environment.target("vllm_omni")), tmp_path / "server.log")
    target.start()
    target.stop()
    assert "since its launch came to stay: process 7 on GPU-bbbb" in capsys.readouterr().err
    target.stop()
    assert capsys.readouterr().err == "", "it is said once"


def gpu_finding(**changes):
    config = TargetConfig(kind="command", command="sh {port}", **changes)
    return next(finding for finding in TARGETS[config.kind].findings(RunConfig(target=config)) if finding.what == "GPU")


def test_enough_gpus(smi):
    smi()
    found = gpu_finding(gpus=2)
    assert (found.state, found.detail[:31]) == ("ok", "2 GPUs needed, 2 visible: 0 NVI")
    assert gpu_finding(devices=["1"]).detail == "1 GPU needed, 1 visible: 1 NVIDIA H100 80GB HBM3"


def test_too_few_gpus(smi):
    smi()
    found = gpu_finding(gpus=3)
    assert found.state == "PROBLEM" and "target=command needs 3 GPUs, and there are 2: 0 NVIDIA H100" in found.detail
    found = gpu_finding(devices=["0", "5"])
    assert found.state == "PROBLEM" and "needs 2 GPUs, and there are 1 within CUDA_VISIBLE_DEVICES=0,5" in found.detail


def test_no_gpu_at_all(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(preflight, "other_accelerator", lambda: None)
    found = gpu_finding(gpus=1)
    assert found.state == "PROBLEM" and "nvidia-smi shows none here; target.gpus=0 is for a server" in found.detail
    monkeypatch.setattr(preflight, "other_accelerator", lambda: "an AMD GPU")
    assert gpu_finding(gpus=1).state == "note"


def test_a_server_that_needs_none_is_not_asked():
    config = TargetConfig(kind="command", command="sh {port}")
    assert "GPU" not in [finding.what for finding in TARGETS[config.kind].findings(RunConfig(target=config))]
