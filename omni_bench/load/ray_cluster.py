"""Whether a Ray cluster is there for the load (``load.engine=ray``), asked before a server is launched."""

from __future__ import annotations

import importlib.util
import re
import subprocess

import msgspec

from omni_bench.errors import ConfigError, OmniBenchError
from omni_bench.load.events import EngineFailed
from omni_bench.records.recording import NodeClock
from omni_bench.subprocesses import start_module

ENGINE = "omni_bench.load.ray_engine"
LOCAL, AUTO = "local", "auto"
CHECK_S = 150.0


class Nodes(msgspec.Struct, frozen=True, tag_field="event", tag="nodes"):
    """The nodes that would make the load."""

    nodes: tuple[NodeClock, ...]


def ray_arguments(address: str, workers: int | None) -> tuple[str, ...]:
    """The command line of :mod:`omni_bench.load.ray_engine`."""
    return ("--address", address, *(() if workers is None else ("--workers", str(workers))))


def check_address(address: str) -> None:
    """Raise ConfigError for what cannot be the address of a cluster."""
    if address not in (LOCAL, AUTO) and not re.fullmatch(r"[A-Za-z0-9_.:\[\]-]+:[0-9]{1,5}", address):
        raise ConfigError(
            f"load.ray_address={address!r}: valid: auto (the cluster that this machine is in), local (one for this "
            "run, on this machine), or HOST:PORT of the head, as `ray start --head` prints it"
        )


def find_nodes(address: str, workers: int | None) -> tuple[NodeClock, ...]:
    """The nodes of the cluster, with how exact their clocks are known.

    Raises ConfigError where the extra is missing, OmniBenchError for anything that keeps the cluster from being used.
    """
    check_address(address)
    if importlib.util.find_spec("ray") is None:
        raise ConfigError(
            "load.engine=ray: the package ray is not installed: pip install 'omni-bench[ray]' here and on every node"
        )
    process = start_module(ENGINE, *ray_arguments(address, workers), "--check", stderr=subprocess.PIPE)
    try:
        said, stderr = process.communicate(timeout=CHECK_S)
    except subprocess.TimeoutExpired:
        raise OmniBenchError(f"load.ray_address={address}: Ray did not answer within {CHECK_S:g} s") from None
    finally:
        process.kill()
        process.wait()
    try:
        found = msgspec.json.decode(said, type=Nodes | EngineFailed)
    except (msgspec.ValidationError, msgspec.DecodeError):
        end = stderr.decode("utf-8", errors="replace").strip()[-1000:]
        raise OmniBenchError(f"load.ray_address={address}: Ray failed; its stderr ends with:\n{end}") from None
    if isinstance(found, EngineFailed):
        raise OmniBenchError(found.message)
    return found.nodes
