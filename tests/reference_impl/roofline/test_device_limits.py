"""Who else uses the device: nvidia-smi by a script in its place, the CPU by a process that works."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import psutil
import pytest
import torch

from reference_impl.roofline import device_limits
from reference_impl.roofline.device_limits import busy_share

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


@pytest.fixture
def smi(tmp_path, monkeypatch):
    """A function that sets what nvidia-smi does when it is asked about this process's GPU; of others it tells 99."""
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(uuid="aa-11"))
    monkeypatch.setenv("PATH", str(tmp_path))

    def answer(body):
        path = tmp_path / "nvidia-smi"
        path.write_text(
            f"#!{sys.executable}\nimport sys, time\n"
            "assert {'--query-gpu=utilization.gpu', '--format=csv,noheader,nounits'} <= set(sys.argv)\n"
            f"if '--id=GPU-aa-11' not in sys.argv:\n    print(99)\nelse:\n    {body}\n"
        )
        path.chmod(0o755)

    return answer


@pytest.mark.parametrize(
    ("body", "share"),
    [
        ("print(87)", 0.87),
        ("print(0)", 0.0),
        ("print('[N/A]')", None),
        ("print('No devices were found')", None),
        ("print(87); sys.exit(9)", None),
    ],
)
def test_what_nvidia_smi_tells_of_this_gpu(smi, body, share):
    smi(body)
    assert busy_share(CUDA) == share


def test_a_driver_that_hangs_tells_nothing(smi, monkeypatch):
    monkeypatch.setattr(device_limits, "QUERY_TIMEOUT_S", 0.2)
    smi("time.sleep(60)")
    assert busy_share(CUDA) is None


def test_without_nvidia_smi_nothing_is_known(smi):
    assert busy_share(CUDA) is None


def test_the_cpu_is_busy_while_another_process_works():
    with subprocess.Popen([sys.executable, "-c", "print(1, flush=True)\nwhile True: pass"], stdout=-1) as other:
        try:
            other.stdout.readline()
            assert 0.5 / psutil.cpu_count() <= busy_share(CPU) <= 1.0
        finally:
            other.kill()


def test_the_cpu_is_watched_while_this_process_waits(monkeypatch):
    """Without an interval psutil would tell of the time since it was imported: of this process's own start."""
    monkeypatch.setattr(psutil, "cpu_percent", lambda interval=None: 37.5 if interval else 100.0)
    assert busy_share(CPU) == 0.375
