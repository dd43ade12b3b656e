"""Ports, and small HTTP requests to a server."""

from __future__ import annotations

import contextlib
import http.server
import json
import socket
import threading
import time
from urllib.parse import quote

import pytest

from omni_bench.errors import TargetError
from omni_bench.records.api_key import ApiKey, without_key
from omni_bench.targets.probe import MAX_BODY_BYTES, check_port_free, free_port, get, url_of


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


@contextlib.contextmanager
def answering(send):
    """A server that lets ``send(connection)`` answer its one request; yields the URL."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()

        def serve():
            connection, _ = listener.accept()
            with connection, contextlib.suppress(OSError):
                connection.recv(65536)
                send(connection)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/health"
        thread.join(10)


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nX-Pad: ",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\nX-Pad: ",
    ],
    ids=["status", "headers", "body", "chunk size", "interim"],
)
def test_an_answer_that_comes_byte_by_byte_is_given_up(head):
    given_up = threading.Event()

    def drip(connection):
        connection.sendall(head)
        while not given_up.is_set():
            connection.sendall(b"0")
            time.sleep(0.02)

    with answering(drip) as url:
        started = time.monotonic()
        answer = get(url, 0.3)
        took_s = time.monotonic() - started
        given_up.set()
    assert answer.status is None and "took longer than 0.3 s" in answer.problem
    assert took_s < 3


def test_redirects_have_one_deadline_together():
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            time.sleep(0.2)
            self.send_response(302)
            self.send_header("Location", f"{self.path}x")
            self.end_headers()

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        started = time.monotonic()
        answer = get(f"http://127.0.0.1:{server.server_port}/", 0.5)
        server.shutdown()
    assert answer.status is None and "took longer" in answer.problem and time.monotonic() - started < 1.5


@pytest.mark.parametrize("body", [b"[" * 100_000, b"<html>", b"", b"\xff"])
def test_a_body_that_is_no_json_is_none(body):
    with answering(lambda connection: connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + body)) as url:
        answer = get(url, 5.0)
    assert answer.status == 200 and answer.body == body and answer.json() is None


@pytest.mark.parametrize("number", [b"1" * 10_000, b"NaN", b"-Infinity", b"1e999", b"%d" % 2**63, b"%d" % (2**64 - 1)])
def test_a_number_that_run_json_cannot_hold_costs_no_other(number):
    body = b'{"version": "1", "largest": %d, "limit": [%s]}' % (2**63 - 1, number)
    with answering(lambda connection: connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + body)) as url:
        assert get(url, 5.0).json() == {"version": "1", "largest": 2**63 - 1, "limit": [None]}


def test_a_key_that_is_repeated_is_hidden():
    text = 'sk-12345678/"+' + "é" * 2000
    key = ApiKey(text, "Authorization")
    said = {"you": f"Bearer {text}!", text: [f"{text[:9]}...", quote(text, safe=""), "sk-1234", 5]}
    hidden = {"you": "Bearer ***!", "***": ["***...", "***", "sk-1234", 5]}
    assert without_key(said, key) == hidden
    body = json.dumps(said).encode()  # with escapes
    with answering(lambda connection: connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + body)) as url:
        assert get(url, 5.0, key).json() == hidden
    with answering(lambda connection: connection.sendall(b"you sent sk-12345678\r\n")) as url:
        answer = get(url, 5.0, ApiKey("sk-12345678", "x-key"))
    assert "you sent ***" in answer.problem


def test_a_short_key_is_a_word_of_its_own():
    assert without_key(["text", "x", "x-y", "Bearer x"], ApiKey("x", "key")) == ["text", "***", "***-y", "Bearer ***"]
    assert without_key({"a": "b"}, None) == {"a": "b"}


def test_a_huge_body_is_read_in_part():
    with answering(lambda connection: connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + bytes(3 << 20))) as url:
        assert len(get(url, 5.0).body) == MAX_BODY_BYTES


@pytest.mark.parametrize(("header", "sent"), [("Authorization", "Bearer sk-1"), ("api-key", "sk-1")])
def test_the_key_goes_to_the_server_and_to_no_other(header, sent):
    """Health, models, version and metrics may want it as speech does; a redirect elsewhere does not get it."""
    seen = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            seen.append((self.server.server_port, self.headers.get(header)))
            if self.path == "/away":
                self.send_response(307)
                self.send_header("Location", f"http://127.0.0.1:{other.server_port}/here")
            else:
                self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    with (
        http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as one,
        http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as other,
    ):
        for server in (one, other):
            threading.Thread(target=server.serve_forever, daemon=True).start()
        for path in ("/health", "/away"):
            assert get(f"http://127.0.0.1:{one.server_port}{path}", 2.0, ApiKey("sk-1", header)).status == 200
        one.shutdown()
        other.shutdown()
    first, second = one.server_port, other.server_port
    assert seen == [(first, sent), (first, sent), (second, None)]
