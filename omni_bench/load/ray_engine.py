"""The load of one level on the nodes of a Ray cluster: ``python -m omni_bench.load.ray_engine``.

To :mod:`omni_bench.load.runner` it is one load worker: a job on stdin, events on stdout, audio in files. It has
load workers of its own on the nodes (:mod:`omni_bench.load.ray_node`), and Ray carries the job there, and lines and
audio back; it times nothing. Ray is in a process of its own because it ends its driver when the head of the cluster
dies, and takes its signals: the run must survive both. Each node is given its part of the plan beforehand; its workers
draw from one queue there. All stamps are put on this machine's clock (:mod:`omni_bench.load.clocks`).
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from omni_bench import __version__
from omni_bench.errors import OmniBenchError, shorten
from omni_bench.load.clients.responses import one_line
from omni_bench.load.clients.urls import is_on_this_machine
from omni_bench.load.clocks import Offset, bound_ns, measure, shifted
from omni_bench.load.events import (
    EngineFailed,
    LevelDone,
    LevelJob,
    LoadEvent,
    RequestFinished,
    WorkerError,
    read_event,
    read_job,
    write_message,
)
from omni_bench.load.ray_cluster import AUTO, LOCAL, Nodes
from omni_bench.load.ray_node import NodeLoad, Said, boot_id
from omni_bench.load.runner import LevelEvents
from omni_bench.load.shares import part, workers_for
from omni_bench.load.signals import HeldBackSignals
from omni_bench.records.plan import LevelPlan
from omni_bench.records.recording import NodeClock

CONNECT_S, CALL_S = 60.0, 30.0
PAYLOAD_BYTES = 256 << 20
"""Of a level's requests with their reference audio, which every node holds."""
STORE_BYTES = 100 << 20
"""Ray's object store of a cluster of our own; what does not fit goes to its disk."""
START_IN_NS = 100_000_000  # from "all are ready" to the start: for the word to reach every node
ORPHAN_GRACE_S = 15.0


class ClusterError(OmniBenchError):
    """The cluster, or a node of it, cannot be used."""


@contextmanager
def cluster(address: str) -> Iterator[Any]:
    """The module ray, connected. Raises ClusterError."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it would tell its makers
    os.environ.setdefault("RAY_NUM_REDIS_GET_RETRIES", "3")  # of connecting, up to 10 s each
    if _is_loopback(address):  # else it looks for the cluster at this machine's address in the network
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    import ray

    quiet = {"log_to_driver": False, "configure_logging": False}
    own = {
        "include_dashboard": False,
        "object_store_memory": STORE_BYTES,
        "num_cpus": len(os.sched_getaffinity(0)),
        "_node_ip_address": "127.0.0.1",
    }
    try:
        _reach(address)
        ray.init(address=address, **quiet, **(own if address == LOCAL else {}))
    except Exception as error:  # of many kinds, by version
        raise no_cluster(address, str(error)) from None
    try:
        yield ray
    finally:
        ray.shutdown()


def no_cluster(address: str, why: str) -> ClusterError:
    """The error of a cluster that cannot be joined."""
    return ClusterError(
        f"load.ray_address={address}: no Ray cluster can be joined ({shorten(one_line(why), 300)}). Start one with "
        "`ray start --head --include-dashboard=false`, and `ray start --address=HEAD:6379` on every other machine; "
        "this machine must be one of them. Or set load.ray_address=local, or load.engine=local"
    )


def _current_cluster() -> Path:
    """Where Ray keeps the address of the cluster that was started on this machine last."""
    return Path(os.environ.get("RAY_TMPDIR") or tempfile.gettempdir()) / "ray" / "ray_current_cluster"


def _is_loopback(address: str) -> bool:
    if address == AUTO:
        with suppress(OSError):
            address = os.environ.get("RAY_ADDRESS") or _current_cluster().read_text(encoding="ascii")
    return address == LOCAL or is_on_this_machine(f"http://{address}")


def _reach(address: str) -> None:
    """Raise OSError at once where nobody listens: Ray would try for minutes."""
    if address not in (LOCAL, AUTO):
        host, _, port = address.rpartition(":")
        socket.create_connection((host.strip("[]"), int(port)), timeout=10.0).close()


class Node:
    """One node of the cluster: an actor on it, its clock, and a thread that listens to its workers."""

    def __init__(self, ray: Any, facts: dict[str, Any], workers: int) -> None:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        self._ray = ray
        self.address: str = facts["NodeManagerAddress"]
        self.workers = [NodeWorker(self, number) for number in range(workers)]
        self.lost: str | None = None
        here = NodeAffinitySchedulingStrategy(facts["NodeID"], soft=False)
        cpus = min(workers, int(facts["Resources"]["CPU"]))
        actor = ray.remote(NodeLoad).options(num_cpus=cpus, max_concurrency=8, max_restarts=0, scheduling_strategy=here)
        self._actor = actor.remote()
        self._facts = self._actor.facts.remote()
        self._thread: threading.Thread | None = None

    def check(self) -> None:
        """Wait until it is there, and align its clock. Raises ClusterError."""
        try:
            facts = self._ray.get(self._facts, timeout=CONNECT_S)
        except Exception as error:
            raise ClusterError(
                f"node {self.address} gives no load process ({_short(error)}): omni-bench {__version__} with its "
                "extra ray must be installed on it, and a core be free (`ray status`)"
            ) from None
        if facts["version"] != __version__:
            raise ClusterError(
                f"node {self.address} has omni-bench {facts['version']}, this machine {__version__}: install the same"
            )
        self._measured = [self._align()]
        first = self._measured[0]
        self.one_machine = facts["boot_id"] is not None and facts["boot_id"] == boot_id()
        self.offset_ns = 0 if self.one_machine else first.offset_ns

    def align_again(self) -> None:
        """Once more, to know how the clock has drifted; a node that is gone has no say."""
        with suppress(ClusterError):
            self._measured.append(self._align())

    def clock(self) -> NodeClock:
        """What the record says of it."""
        error_ns = bound_ns(self.offset_ns, self._measured)
        return NodeClock(self.address, len(self.workers), self.offset_ns / 1e6, error_ns / 1e6, self.one_machine)

    def _align(self) -> Offset:
        return measure(lambda: int(self.call("now")), time.perf_counter_ns)

    def call(self, method: str, *arguments: Any) -> Any:
        """A method of its :class:`NodeLoad`. Raises ClusterError."""
        try:
            return self._ray.get(getattr(self._actor, method).remote(*arguments), timeout=CALL_S)
        except Exception as error:
            raise ClusterError(
                f"node {self.address} was lost ({_short(error)}): look at `ray status` and at that machine; "
                "omni-bench run --resume goes on without what it had not finished"
            ) from None

    def tell(self, method: str, *arguments: Any) -> None:
        """A method of its :class:`NodeLoad`, without waiting."""
        if self.lost is None:
            getattr(self._actor, method).remote(*arguments)

    def listen(self, lines: queue.SimpleQueue[tuple[Any, bytes]], spool_dir: Path) -> None:
        """Begin to put what its workers say into ``lines``, and their audio into ``spool_dir``."""

        def work() -> None:
            running = set(self.workers)
            try:
                while running:
                    for said in self.call("poll"):
                        worker = self.workers[said.worker]
                        if said.line == b"":
                            worker.status, worker.stderr = said.status, said.stderr
                            running.discard(worker)
                        lines.put((worker, self._received(said, spool_dir)))
            except ClusterError as error:
                self.lost = str(error)
                for worker in running:
                    lines.put((worker, b""))

        self._thread = threading.Thread(target=work, daemon=True)
        self._thread.start()

    def _received(self, said: Said, spool_dir: Path) -> bytes:
        if not said.line.endswith(b"\n"):
            return said.line
        event: LoadEvent | None = None
        if said.audio is not None or self.offset_ns:
            event = read_event(said.line)
        if said.audio is not None and isinstance(event, RequestFinished):
            path = spool_dir / f"{event.timeline.request_id}.pcm"
            try:
                spool_dir.mkdir(parents=True, exist_ok=True)
                path.write_bytes(said.audio)
            except OSError as error:
                return write_message(WorkerError(f"cannot write the audio of a request to {path}: {error}"))
        if not self.offset_ns:
            return said.line
        if isinstance(event, RequestFinished):
            event = msgspec.structs.replace(event, timeline=shifted(event.timeline, -self.offset_ns))
        elif isinstance(event, LevelDone):
            window = {name: getattr(event, name) - self.offset_ns for name in ("window_start_ns", "window_end_ns")}
            event = msgspec.structs.replace(event, **window)
        else:
            return said.line
        return write_message(event)

    def close(self) -> None:
        """Leave nothing on the node."""
        with suppress(ClusterError):
            if self.lost is None:
                self.call("close")
        with suppress(Exception):
            self._ray.kill(self._actor)


class NodeWorker:
    """A load process on a node, as :class:`~omni_bench.load.process.WorkerProcess` is one here."""

    def __init__(self, node: Node, number: int) -> None:
        self._node, self._number = node, number
        self.status: int | None = None
        self.stderr = ""

    def send(self, message: dict[str, Any]) -> None:
        if "start_ns" in message:
            message = {**message, "start_ns": message["start_ns"] + self._node.offset_ns}
        self._node.tell("send", self._number, message)

    def wait(self, timeout_s: float) -> int | None:
        return self.status

    def stderr_tail(self) -> str:
        return self.stderr

    def why_ended(self, status: int | None) -> str:
        lost = self._node.lost
        return lost or f"a load worker on node {self._node.address} ended early, with status {status}; {self.stderr}"

    def terminate(self) -> None:
        self._node.tell("terminate", self._number)

    def kill(self) -> None:
        self._node.tell("kill", self._number)


def _short(error: BaseException) -> str:
    said = one_line(str(error))
    return f"{type(error).__name__}{': ' * bool(said)}{shorten(said, 300)}"


def join(ray: Any, plan: LevelPlan | None, workers: int | None) -> list[Node]:
    """The nodes that take part in ``plan`` (None: in any), with their clocks aligned. Raises ClusterError.

    Nodes without a core (``ray start --num-cpus=0``) are left out: so a server's own machine can be.
    """
    alive = [one for one in ray.nodes() if one["Alive"] and one["Resources"].get("CPU", 0) >= 1]
    alive.sort(key=lambda one: (one["NodeManagerAddress"], one["NodeID"]))
    if not alive:
        raise ClusterError("no node of the Ray cluster has a core: start one without --num-cpus=0")
    cores = sum(int(one["Resources"]["CPU"]) for one in alive)
    count = len(alive) if workers is None else workers
    if plan is not None:
        if workers is None:
            count = max(count, workers_for(plan, None, cores))
        count = workers_for(plan, count, cores)
    used = alive[:count]
    nodes = [Node(ray, facts, part(count, index, len(used))) for index, facts in enumerate(used)]
    for node in nodes:
        node.check()
    return nodes


def drive(
    job: LevelJob,
    address: str,
    workers: int | None,
    emit: Callable[[LoadEvent], None],
    begun: Callable[[], None] = lambda: None,
) -> None:
    """Do the level; what the nodes say is told as that of one worker. ``begun`` is called once the cluster is joined.

    Raises ClusterError.
    """
    payload = write_message(job)
    if len(payload) > PAYLOAD_BYTES:
        raise ClusterError(
            f"the requests of the level are {len(payload) >> 20} MiB, and at most {PAYLOAD_BYTES >> 20} MiB are sent "
            "to every node: lower load.requests_per_level, or send references as files (client.reference_form=file)"
        )
    signals, everyone = HeldBackSignals(), []
    _obey(signals, everyone)
    with cluster(address) as ray, ExitStack() as stack:
        begun()
        nodes = join(ray, job.plan, workers)
        for node in nodes:
            stack.callback(node.close)
        far = [node.address for node in nodes if not node.one_machine]
        if far and is_on_this_machine(job.url):
            raise ClusterError(
                f"the server's address {job.url} is this machine's own, and node {far[0]} is another: let the server "
                "listen on an address that the nodes reach, and name it (target=external target.url=http://HOST:PORT)"
            )
        everyone += [worker for node in nodes for worker in node.workers]
        _stop_at_signals(signals)  # Ray has put its own handlers there
        packed = ray.put(payload)
        for index, node in enumerate(nodes):
            problem = node.call("start", packed, index, len(nodes), len(node.workers))
            if problem is not None:
                raise ClusterError(f"node {node.address}: {problem}")
        lines: queue.SimpleQueue[tuple[Any, bytes]] = queue.SimpleQueue()
        for node in nodes:
            node.listen(lines, Path(job.spool_dir))

        def told(event: LoadEvent) -> None:
            if isinstance(event, LevelDone) and event.lag is not None:
                for node in nodes:
                    node.align_again()
                lag = replace(event.lag, nodes=tuple(node.clock() for node in nodes))
                event = msgspec.structs.replace(event, lag=lag)
            emit(event)

        level = LevelEvents(job.plan, told, None, len(everyone), START_IN_NS)
        level.listen(everyone, lines, signals)
        if level.broken is not None:
            raise ClusterError(level.broken)


def _obey(signals: HeldBackSignals, workers: Sequence[NodeWorker]) -> None:
    """Pass on what comes on stdin, from a thread; stop when it ends."""

    def read() -> None:
        for line in sys.stdin.buffer:
            for worker in workers:
                worker.send(json.loads(line))
        signals.received = True  # the parent is gone
        time.sleep(ORPHAN_GRACE_S)
        os._exit(3)

    threading.Thread(target=read, daemon=True).start()


def _stop_at_signals(signals: HeldBackSignals) -> None:
    def stop(*_: object) -> None:
        signals.received = True

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)


def main() -> int:
    """Run one job from stdin; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--address", required=True)
    parser.add_argument("--workers", type=int)
    parser.add_argument("--check", action="store_true", help="say which nodes there are, and do nothing")
    arguments = parser.parse_args()
    events = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # a stray print must not end up between the events

    def emit(event: LoadEvent | Nodes) -> None:
        with suppress(OSError):  # the parent is gone; its end of stdin ends this process
            events.write(msgspec.json.encode(event) + b"\n" if isinstance(event, Nodes) else write_message(event))

    def give_up() -> None:
        emit(EngineFailed(str(no_cluster(arguments.address, f"it did not answer within {CONNECT_S:g} s"))))
        os._exit(1)

    watchdog = threading.Timer(CONNECT_S, give_up)
    watchdog.daemon = True
    watchdog.start()
    try:
        if arguments.check:
            with cluster(arguments.address) as ray:
                watchdog.cancel()
                nodes = join(ray, None, arguments.workers)
                emit(Nodes(tuple(node.clock() for node in nodes)))
            return 0
        line = sys.stdin.buffer.readline()
        if not line.endswith(b"\n"):
            return 3  # the parent died before it had written the job
        drive(read_job(line), arguments.address, arguments.workers, emit, watchdog.cancel)
    except OmniBenchError as error:
        emit(EngineFailed(str(error)))
        return 1
    return 0


if __name__ == "__main__":
    os._exit(main())  # past the thread that waits for stdin, whose lock would abort an orderly end
