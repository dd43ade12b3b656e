from __future__ import annotations

import socket

import pytest

from omni_bench.errors import TargetError
from omni_bench.targets.probe import check_port_free, free_port, get, url_of


@pytest.fixture
def taken_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_a_port_in_use_is_named(taken_port):
    with pytest.raises(TargetError, match=f"target.port={taken_port}: already in use on 127.0.0.1"):
        check_port_free("127.0.0.1", taken_port)


def test_a_free_port_can_be_bound():
    port = free_port("127.0.0.1")
    check_port_free("127.0.0.1", port)


def test_an_address_of_another_machine_is_refused():
    with pytest.raises(TargetError, match=r"target.host=192\.0\.2\.1"):
        free_port("192.0.2.1")


def test_urls():
    assert url_of("127.0.0.1", 80) == "http://127.0.0.1:80"
    assert url_of("0.0.0.0", 80) == "http://127.0.0.1:80"
    assert url_of("::1", 80) == "http://[::1]:80"
    assert url_of("::", 80) == "http://[::1]:80"


def test_no_answer_is_an_answer_with_a_problem():
    answer = get(f"http://127.0.0.1:{free_port('127.0.0.1')}/health", 1.0)
    assert answer.status is None and "refused" in answer.problem and answer.json() is None
