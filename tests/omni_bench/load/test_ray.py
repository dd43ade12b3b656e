"""A level that is spread over the nodes of a Ray cluster, two of them on this machine."""

import importlib.util
import os
import signal
import threading
from collections import Counter

import psutil
import pytest
from sent import drive

from omni_bench.errors import OmniBenchError
from omni_bench.load.events import RequestFinished, RequestStarted
from omni_bench.load.ray_cluster import find_nodes
from omni_bench.load.runner import LevelBroken, LevelInterrupted

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="the extra ray is not installed"),
]


@pytest.fixture(scope="module")
def two_nodes():
    """A cluster of two nodes with two cores each: its address, and the cluster."""
    os.environ.update(RAY_USAGE_STATS_ENABLED="0")
    from ray.cluster_utils import Cluster

    small = {"num_cpus": 2, "object_store_memory": 80 << 20, "node_ip_address": "127.0.0.1"}
    cluster = Cluster(initialize_head=True, head_node_args={**small, "include_dashboard": False})
    try:
        cluster.add_node(**small)
        yield cluster.address, cluster
    finally:
        cluster.shutdown()


def test_two_nodes_are_as_one(two_nodes, fault_server, make_plan, client_config, tmp_path):
    plan = make_plan(7, 23, warmup_per_slot=2)
    events = []
    with fault_server({"c7-0003": "cut"}) as (server, url):
        recording = drive(plan, url, client_config, tmp_path, events.append, workers=3, ray_address=two_nodes[0])
    assert server.seen == Counter(r.request_id for r in plan.warmup + plan.measured)
    assert server.peak_in_flight == 7
    assert [t.request_id for t in recording.timelines] == [r.request_id for r in plan.measured]
    assert [t.request_id for t in recording.timelines if not t.ok] == ["c7-0003"]
    assert set(recording.audio) == {r.request_id for r in plan.measured}
    assert recording.audio["c7-0000"].read_bytes() == server.chunk * 4
    assert recording.lag.workers == 3 and [node.workers for node in recording.lag.nodes] == [2, 1]
    assert len({t.scheduled_ns for t in recording.timelines[:7]}) == 1  # one start on both nodes
    for node in recording.lag.nodes:  # two processes of one machine: one clock, and yet measured
        assert node.one_machine and node.offset_ms == 0 and 0 < node.error_ms < 25
    assert sum(isinstance(event, RequestFinished) for event in events) == 37


def test_ctrl_c_stops_all_nodes(two_nodes, fault_server, make_plan, client_config, tmp_path):
    hanging = {f"c4-{number:04d}": "hang" for number in range(4, 8)}
    started = set()

    def on_event(event):
        if isinstance(event, RequestStarted) and event.request_id in hanging:
            started.add(event.request_id)
            if len(started) == 4:
                os.kill(os.getpid(), signal.SIGINT)

    with fault_server(hanging) as (_, url), pytest.raises(LevelInterrupted) as raised:
        drive(make_plan(4, 8, 0), url, client_config, tmp_path, on_event, workers=2, ray_address=two_nodes[0])
    recording = raised.value.recording
    assert Counter(t.error.kind if t.error else "ok" for t in recording.timelines) == {"ok": 4, "cancelled": 4}
    assert _load_workers() == []


def _load_workers():
    """Those of this test: files run side by side, and all that a process starts has its environment."""
    ours = os.environ.get("PYTEST_XDIST_WORKER")
    return [
        one.pid
        for one in psutil.process_iter(["cmdline", "environ"])
        if "omni_bench.load.worker" in (one.info["cmdline"] or ())
        and (one.info["environ"] or {}).get("PYTEST_XDIST_WORKER") == ours
    ]


def test_nodes_are_found_and_what_is_not_there_is_told(two_nodes):
    assert [node.workers for node in find_nodes(two_nodes[0], None)] == [1, 1]
    with pytest.raises(OmniBenchError, match=r"127.0.0.1:1: no Ray cluster can be joined.*ray start --head"):
        find_nodes("127.0.0.1:1", None)


def test_a_node_that_dies_ends_the_level_and_keeps_what_is_finished(
    two_nodes, fault_server, make_plan, client_config, tmp_path
):
    cluster = two_nodes[1]
    (node,) = cluster.worker_nodes
    hanging = {f"c6-{number:04d}": "hang" for number in range(6, 12)}
    started = set()

    def on_event(event):
        if isinstance(event, RequestStarted) and event.request_id in hanging:
            started.add(event.request_id)
            if len(started) == 6:  # all that were sent first have ended
                threading.Thread(target=cluster.remove_node, args=(node, False)).start()

    with fault_server(hanging) as (_, url), pytest.raises(LevelBroken, match=r"node 127\.0\.0\.1 was lost") as raised:
        drive(make_plan(6, 12, 0), url, client_config, tmp_path, on_event, workers=3, ray_address=two_nodes[0])
    recording = raised.value.recording
    assert Counter(t.error.kind if t.error else "ok" for t in recording.timelines) == {"ok": 6, "cancelled": 6}
    assert "--resume" in str(raised.value)
    assert {name for name, path in recording.audio.items() if path.stat().st_size} >= {f"c6-{i:04d}" for i in range(6)}
