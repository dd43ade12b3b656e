"""Server and client on cores of their own."""

from __future__ import annotations

import os

import pytest

from omni_bench.errors import ConfigError
from omni_bench.records.config import LoadConfig, RunConfig, TargetConfig
from omni_bench.report.markdown import _pinned
from omni_bench.run.config.validate_target import validate_target
from omni_bench.run.pinning import CorePinning, spare_cores


def moves(monkeypatch, usable, server_cores, spare=()):
    """Where the process was while the server, then the client started, and at the end."""
    seen = []
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: usable, raising=False)
    monkeypatch.setattr(os, "sched_setaffinity", lambda pid, cores: seen.append(list(cores)), raising=False)
    pinning = CorePinning(server_cores, spare)
    pinning.to_server()
    pinning.to_client()
    pinning.end()
    return seen


def test_the_server_has_the_last_cores_and_the_client_the_others(monkeypatch):
    assert moves(monkeypatch, {0, 1}, 1) == [[1], [0], [0, 1]]
    assert moves(monkeypatch, {2, 3, 6, 7}, 3) == [[3, 6, 7], [2], [2, 3, 6, 7]]


@pytest.mark.parametrize(("usable", "server_cores"), [({0}, 1), ({0, 1}, 2), ({0, 1}, 0), ({0, 1}, 5)])
def test_nothing_is_pinned_where_the_client_would_have_no_core_or_nobody_asks(monkeypatch, usable, server_cores):
    assert moves(monkeypatch, usable, server_cores) == []


def of(cores=2, kind="command", **load):
    defaults = {"kind": "closed_loop", "concurrency": [1, 64]}
    return RunConfig(target=TargetConfig(kind=kind, cores=cores), load=LoadConfig(**{**defaults, **load}))


@pytest.mark.parametrize(
    ("usable", "configs", "spare"),
    [
        (8, [of(), of()], (3, 4, 5)),
        (8, [of(), of(3)], (3, 4)),
        (16, [of(concurrency=[256])], (8, 9, 10, 11, 12, 13)),
        (16, [of(kind="reference", workers=2)], (4, 5, 6, 7, 8, 9, 10, 11, 12, 13)),
        (6, [of()], (3,)),
        (5, [of()], ()),
        (2, [of(1), of(1)], ()),
        (64, [of(), of(0)], ()),
        (64, [of(kind="external")], ()),
        (64, [of(engine="ray")], ()),
    ],
)
def test_cores_to_spare_are_those_that_nobody_is_given(usable, configs, spare, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(usable)), raising=False)
    assert spare_cores(configs) == spare


def test_the_client_leaves_them_alone(monkeypatch):
    assert moves(monkeypatch, set(range(6)), 2, (3,)) == [[4, 5], [0, 1, 2], [0, 1, 2, 3, 4, 5]]


def test_an_operating_system_that_pins_nothing_is_left_alone(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    CorePinning(1).to_client()


@pytest.mark.parametrize(
    "target",
    [TargetConfig(kind="reference", cores=-1), TargetConfig(kind="external", url="http://127.0.0.1:1", cores=1)],
)
def test_cores_that_cannot_be_given_are_refused(target):
    with pytest.raises(ConfigError, match=r"target\.cores"):
        validate_target(target)


@pytest.mark.parametrize(
    ("cores", "of", "words"),
    [(1, 2, " (1 for the server, 1 for the client)"), (1, 1, ""), (0, 2, ""), (None, 2, ""), (1, None, "")],
)
def test_the_report_says_who_had_how_many(cores, of, words):
    run = {"provenance": {"config": {"target": {"cores": cores}}, "hardware": {"cpu_cores": of}}}
    assert _pinned(run) == words
