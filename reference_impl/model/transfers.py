"""Small tables of numbers from the host to the device, without waiting for what runs there."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def use_device(device: torch.device) -> None:
    """Make a CUDA device this thread's own: kernels of Triton, events and synchronisation go to the current one."""
    if device.type == "cuda" and device.index is not None:
        torch.cuda.set_device(device)


def to_device(values: Any, device: torch.device) -> Tensor:
    """Numbers (nested lists, an array) as a tensor on ``device``.

    A plain copy to a GPU waits until everything before it on the stream is done, which in a
    server is a step of the whole batch; one from pinned memory does not, and PyTorch keeps that
    memory until the copy is over.
    """
    tensor = torch.as_tensor(values)
    if device.type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)
