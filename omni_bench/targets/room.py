"""Whether a second server fits beside the first: what that one took of memory, and what is left."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import psutil

from omni_bench.targets.gpus import free_gpu_bytes, other_accelerator

SPARE = 0.05
"""Of what the first server took: the second is another build, and both take a little more under load."""
NOISE_BYTES = 64 * 2**20
"""Less than this may be anybody's."""
CGROUP = Path("/sys/fs/cgroup")
"""Of a container, with control groups of version 2."""


class RoomCode(StrEnum):
    """What is known of the place beside a server."""

    ENOUGH = "enough"
    UNKNOWN = "unknown"
    TOO_LITTLE_GPU_MEMORY = "too_little_gpu_memory"
    TOO_LITTLE_MEMORY = "too_little_memory"
    OUT_OF_MEMORY = "out_of_memory"
    """It was tried, and the second server ran out of memory at its start."""


@dataclass(frozen=True)
class Room:
    """``code`` decides, ``text`` is for people."""

    code: RoomCode
    text: str

    @property
    def too_little(self) -> bool:
        """Whether it is known that two do not fit."""
        return self.code not in (RoomCode.ENOUGH, RoomCode.UNKNOWN)


@dataclass(frozen=True)
class FreeMemory:
    """Bytes. ``ram``: None if unknown; ``gpus``: by UUID, a None where the driver does not say.

    ``gpus_known``: False if there may be accelerators of which nothing is known.
    """

    ram: int | None
    gpus: Mapping[str, int | None] = field(default_factory=dict)
    gpus_known: bool = True


def free_memory() -> FreeMemory:
    """What is free now."""
    gpus = free_gpu_bytes()
    return FreeMemory(_free_ram(), gpus or {}, gpus is not None or other_accelerator() is None)


def _free_ram() -> int:
    """What processes can still take: of the machine, or of the container if that is less."""
    available = psutil.virtual_memory().available
    with contextlib.suppress(OSError, ValueError):
        limit = int((CGROUP / "memory.max").read_text())  # "max" without one
        used = int((CGROUP / "memory.current").read_text())
        lines = (line.split() for line in (CGROUP / "memory.stat").read_text().splitlines())
        cached = sum(int(value) for name, value in lines if name == "inactive_file")  # given back when it is wanted
        available = min(available, limit - used + cached)
    return available


def room_beside(before: FreeMemory, after: FreeMemory, first: Sequence[str], second: Sequence[str]) -> Room:
    """Whether a second server like the first fits, by what was free ``before`` and ``after`` that one's start.

    ``first``, ``second``: UUIDs of the GPUs that each sees, in their order. The second is taken to need on its GPUs
    what the first took on its own, one by one, and :data:`SPARE` of it more.
    """
    unknown = [] if after.gpus_known else ["what accelerators have free"]
    for own, other in zip(first, second, strict=False):
        taken, free = _difference(before.gpus.get(own), after.gpus.get(own)), after.gpus.get(other)
        if taken is None or free is None:
            unknown.append(f"what GPU {other} has free")
        elif not _fits(taken, free):
            return Room(RoomCode.TOO_LITTLE_GPU_MEMORY, _text(taken, free, f"GPU {other} has"))
    taken = _difference(before.ram, after.ram)
    if taken is None or after.ram is None:
        unknown.append("how much memory is free")
    elif not _fits(taken, after.ram):
        return Room(RoomCode.TOO_LITTLE_MEMORY, _text(taken, after.ram, "this machine has"))
    if unknown:
        return Room(RoomCode.UNKNOWN, f"{' and '.join(dict.fromkeys(unknown))} is not known")
    return Room(RoomCode.ENOUGH, "")


def _difference(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else before - after


def _fits(taken: int, free: int) -> bool:
    return taken < NOISE_BYTES or free >= taken * (1 + SPARE)


def _text(taken: int, free: int, who: str) -> str:
    return f"the first server took {taken / 2**30:.1f} GiB, and {who} {free / 2**30:.1f} GiB left"
