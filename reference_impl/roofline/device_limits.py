"""What this device really does: copy bandwidth and matrix product rate, in a second; whether others use it."""

from __future__ import annotations

import itertools
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable

import psutil
import torch

from reference_impl.roofline.cost_model import Limits

COPY_BYTES = {"cuda": 1 << 30, "cpu": 1 << 28}
"""Far larger than any cache."""
MATRIX = {"cuda": 8192, "cpu": 1024}
REPEATS = 10
CPU_WATCHED_S = 0.5
QUERY_TIMEOUT_S = 5.0


def measure_limits(device: torch.device, dtype: torch.dtype) -> Limits:
    """Copy bandwidth (bytes read and written a second) and the rate of a square matrix product in ``dtype``.

    Medians of ten; on a CPU with PyTorch's present number of threads.
    """
    return Limits(bytes_per_s=_copy_bytes_per_s(device), flop_per_s=_product_flop_per_s(device, dtype))


def busy_share(device: torch.device) -> float | None:
    """Share of ``device`` in use, 0 to 1; None if unknown.

    Call it before this process uses the device, to measure the use by others alone.

    CUDA: the share of the last moment (up to a second) in which a kernel ran, by ``nvidia-smi``. CPU: the share of
    all cores, over half a second.
    """
    if device.type == "cuda":
        uuid = getattr(torch.cuda.get_device_properties(device), "uuid", None)  # not in every build of PyTorch
        return None if uuid is None else _gpu_busy_share(str(uuid))
    return psutil.cpu_percent(CPU_WATCHED_S) / 100


def _gpu_busy_share(uuid: str) -> float | None:
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    # by UUID: nvidia-smi numbers the GPUs otherwise than CUDA, and knows nothing of CUDA_VISIBLE_DEVICES
    command = [program, f"--id=GPU-{uuid}", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=QUERY_TIMEOUT_S, check=False, errors="replace"
        )
    except (OSError, subprocess.SubprocessError):
        return None
    answer = done.stdout.strip()
    return int(answer) / 100 if done.returncode == 0 and answer.isdecimal() else None  # [N/A] with MIG


def _copy_bytes_per_s(device: torch.device) -> float:
    count = COPY_BYTES[device.type]
    source = torch.empty(count, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * count / _median_s(lambda: target.copy_(source), device)


def _product_flop_per_s(device: torch.device, dtype: torch.dtype) -> float:
    size = MATRIX[device.type]
    left, right = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
    return 2.0 * size**3 / _median_s(lambda: left @ right, device)


def _median_s(work: Callable[[], object], device: torch.device) -> float:
    """Median seconds of ``work`` after two warm-up calls; on CUDA between events of its stream."""
    for _ in range(2):
        work()
    if device.type != "cuda":
        times = []
        for _ in range(REPEATS):
            begun = time.perf_counter()
            work()
            times.append(time.perf_counter() - begun)
        return statistics.median(times)
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(REPEATS + 1)]
    marks[0].record()
    for mark in marks[1:]:
        work()
        mark.record()
    torch.cuda.synchronize(device)
    return statistics.median(first.elapsed_time(second) / 1e3 for first, second in itertools.pairwise(marks))
