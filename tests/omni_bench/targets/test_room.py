"""Whether a second server fits beside the first."""

from __future__ import annotations

import sys

import psutil
import pytest

from omni_bench.errors import TargetError
from omni_bench.targets import room as room_module
from omni_bench.targets.process import OutOfMemory, ServerProcess
from omni_bench.targets.room import FreeMemory, RoomCode, free_memory, room_beside

GIB = 2**30


def memory(ram=100, *, known=True, **gpus):
    return FreeMemory(
        None if ram is None else ram * GIB,
        {name: None if gib is None else gib * GIB for name, gib in gpus.items()},
        known,
    )


@pytest.mark.parametrize(
    ("before", "after", "first", "second", "code"),
    [
        (memory(100, a=80), memory(95, a=50), "a", "a", RoomCode.ENOUGH),
        (memory(100, a=80), memory(95, a=8), "a", "a", RoomCode.TOO_LITTLE_GPU_MEMORY),
        (memory(100, a=80), memory(95, a=40), "a", "a", RoomCode.TOO_LITTLE_GPU_MEMORY),
        (memory(100, a=80, b=80), memory(95, a=8, b=80), "ab", "ba", RoomCode.ENOUGH),
        (memory(100, a=80, b=80), memory(95, a=8, b=70), "ab", "ba", RoomCode.TOO_LITTLE_GPU_MEMORY),
        (memory(100, a=80, b=40), memory(95, a=8, b=40), "a", "b", RoomCode.TOO_LITTLE_GPU_MEMORY),
        (memory(100, a=1), memory(95, a=1), "a", "a", RoomCode.ENOUGH),
        (memory(100), memory(40), "", "", RoomCode.TOO_LITTLE_MEMORY),
        (memory(100, a=80), memory(40, a=None), "a", "a", RoomCode.TOO_LITTLE_MEMORY),
        (memory(100, a=80), memory(95, a=None), "a", "a", RoomCode.UNKNOWN),
        (memory(100), memory(95, known=False), "", "", RoomCode.UNKNOWN),
        (memory(None), memory(None), "", "", RoomCode.UNKNOWN),
    ],
)
def test_what_the_first_took_has_to_be_free_for_the_second(before, after, first, second, code):
    found = room_beside(before, after, list(first), list(second))
    assert found.code is code and found.too_little == code.startswith("too_little")


def test_the_text_has_both_figures():
    found = room_beside(memory(a=80), memory(a=8), ["a"], ["a"])
    assert found.text == "the first server took 72.0 GiB, and GPU a has 8.0 GiB left"


def test_a_container_has_less_than_its_machine(tmp_path, monkeypatch):
    monkeypatch.setattr(room_module, "CGROUP", tmp_path)
    monkeypatch.setattr(room_module, "free_gpu_bytes", lambda: None)
    machine = type("", (), {"available": 64 * GIB})
    monkeypatch.setattr(psutil, "virtual_memory", lambda: machine)
    assert free_memory().ram == 64 * GIB
    (tmp_path / "memory.current").write_text(f"{6 * GIB}\n")
    (tmp_path / "memory.stat").write_text(f"anon 1\ninactive_file {2 * GIB}\n")
    (tmp_path / "memory.max").write_text("max\n")
    assert free_memory().ram == 64 * GIB
    (tmp_path / "memory.max").write_text(f"{8 * GIB}\n")
    assert free_memory().ram == 4 * GIB


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("raise SystemExit('torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB')", OutOfMemory),
        (
            "raise SystemExit('ValueError: Free memory on device is less than desired GPU memory utilization')",
            OutOfMemory,
        ),
        ("import os; os.kill(os.getpid(), 9)", OutOfMemory),
        ("raise SystemExit('ValueError: no such model')", TargetError),
    ],
)
def test_a_server_that_ends_for_lack_of_memory_is_known(code, kind, tmp_path):
    process = ServerProcess([sys.executable, "-c", code], tmp_path / "server.log")
    process.launch()
    with pytest.raises(TargetError) as caught:
        process.wait_until_ready(lambda: "not yet", 60.0)
    process.stop()
    assert type(caught.value) is kind
