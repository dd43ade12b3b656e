"""Small blocking HTTP GETs and port checks, used before and after the load phase only."""

from __future__ import annotations

import errno
import http.client
import io
import socket
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from omni_bench.errors import TargetError
from omni_bench.records.api_key import ApiKey, without_key
from omni_bench.records.files import parse_foreign_json

MAX_BODY_BYTES = 1 << 20


class _KeepKeyHome(urllib.request.HTTPRedirectHandler):
    """A server may send us elsewhere; it may not send the key there."""

    def redirect_request(self, req: Any, *more: Any) -> urllib.request.Request | None:
        new = super().redirect_request(req, *more)
        if new is not None and urlsplit(new.full_url)[:2] != urlsplit(req.full_url)[:2]:
            new.headers.clear()  # ours hold nothing else
        return new


class _Deadline:
    """The end of a whole exchange, over all its redirects: a socket's own timeout is of every single wait."""

    def __init__(self, timeout_s: float):
        self._end_s = time.monotonic() + timeout_s

    def left_s(self) -> float:
        """Raises TimeoutError if nothing is left."""
        left_s = self._end_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("timed out")
        return left_s

    def opener(self) -> urllib.request.OpenerDirector:
        """As the load client: straight to the server, past any proxy of the environment."""
        deadline = self

        class Http(urllib.request.HTTPHandler):
            def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
                return self.do_open(partial(deadline.connection, http.client.HTTPConnection), req)

        class Https(urllib.request.HTTPSHandler):
            def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
                return self.do_open(partial(deadline.connection, http.client.HTTPSConnection), req)

        return urllib.request.build_opener(urllib.request.ProxyHandler({}), _KeepKeyHome, Http, Https)

    def connection(self, kind: type[http.client.HTTPConnection], host: str, **more: Any) -> http.client.HTTPConnection:
        """One whose answer is read up to the deadline."""
        connection = kind(host, **{**more, "timeout": self.left_s()})
        connection.response_class = self._response  # type: ignore[assignment]
        return connection

    def _response(self, sock: socket.socket, *more: Any, **named: Any) -> http.client.HTTPResponse:
        response = http.client.HTTPResponse(sock, *more, **named)
        response.fp = io.BufferedReader(_Limited(response.fp.detach(), sock, self))
        return response


class _Limited(io.RawIOBase):
    """What comes over ``sock``, until a deadline."""

    def __init__(self, raw: io.RawIOBase, sock: socket.socket, deadline: _Deadline):
        self._raw, self._sock, self._deadline = raw, sock, deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(self._deadline.left_s())
        return self._raw.readinto(buffer)

    def close(self) -> None:
        if not self.closed:
            self._raw.close()
        super().close()


def key_advice(status: int | None, key: ApiKey | None) -> str:
    """What to do about a refusal for want of a key (401, 403), empty for any other status."""
    if status not in (401, 403):
        return ""
    if key:
        return (
            "it wants a key (other than the one that client.api_key_env names, or in another header than "
            f"{key.header}: client.api_key_header=NAME)"
        )
    return "it wants a key (name the variable that holds it: client.api_key_env=NAME)"


@dataclass(frozen=True)
class ProbeAnswer:
    """An HTTP answer (``status``, body of at most 1 MiB), or why there was none (``problem``).

    Without the ``key`` that it was asked with.
    """

    status: int | None
    body: bytes
    problem: str | None
    key: ApiKey | None = None

    @property
    def said(self) -> str:
        """For a sentence: "answers 503 (unhealthy)", "answers 404", "does not answer (connection refused)"."""
        if self.status is None:
            return f"does not answer ({self.problem})"
        return f"answers {self.status}{' (unhealthy)' if self.status >= 500 else ''}"

    def text(self) -> str:
        """The body as UTF-8."""
        return without_key(self.body.decode("utf-8", errors="replace"), self.key)

    def json(self) -> Any:
        """The body if the status is 200 and it is JSON, else None.

        A number that run.json cannot hold (NaN, an infinity, an integer of more than 64 bits) is null in it.
        """
        if self.status != 200:
            return None
        try:
            return without_key(parse_foreign_json(self.body), self.key)
        except (ValueError, RecursionError):  # deep nesting
            return None


def get(url: str, timeout_s: float, key: ApiKey | None = None) -> ProbeAnswer:
    """One GET, with the API ``key`` if there is one. Never raises: what went wrong is in ``problem``.

    ``timeout_s``: of all of it, from the connection to the last byte, however slowly the server sends.
    """
    return _ask("GET", url, timeout_s, key)


def post(url: str, timeout_s: float, key: ApiKey | None = None) -> ProbeAnswer:
    """One POST without a body, as :func:`get`."""
    return _ask("POST", url, timeout_s, key)


def _ask(method: str, url: str, timeout_s: float, key: ApiKey | None) -> ProbeAnswer:
    deadline = _Deadline(timeout_s)
    try:
        request = urllib.request.Request(
            url,
            method=method,
            data=b"" if method == "POST" else None,
            headers=key.headers if key else {},
        )
        with deadline.opener().open(request, timeout=timeout_s) as response:
            return ProbeAnswer(response.status, _read_body(response), None, key)
    except urllib.error.HTTPError as error:
        with error:
            return ProbeAnswer(error.code, b"", f"HTTP {error.code}", key)
    except urllib.error.URLError as error:
        problem = str(error.reason)
    except TimeoutError:
        problem = f"the answer took longer than {timeout_s:g} s"
    except (OSError, http.client.HTTPException, ValueError) as error:
        problem = f"{type(error).__name__}: {error}"
    return ProbeAnswer(None, b"", without_key(problem, key), key)


def _read_body(response: http.client.HTTPResponse) -> bytes:
    """The body, or its first MiB. Raises TimeoutError."""
    body = bytearray()
    while len(body) < MAX_BODY_BYTES and (data := response.read1(MAX_BODY_BYTES - len(body))):
        body += data
    return bytes(body)


def check_port_free(host: str, port: int) -> None:
    """Raise TargetError if ``host:port`` cannot be bound, saying why. Port 0 is any free one."""
    with socket.socket(_family(host), socket.SOCK_STREAM) as probe:
        # As servers do: connections of an earlier server in TIME_WAIT are no obstacle.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise TargetError(
                    f"target.port={port}: already in use on {host}; stop that server, choose another port, "
                    "or use target.port=0 for a free one"
                ) from None
            raise TargetError(
                f"cannot bind target.host={host}, target.port={port}: {error.strerror or error}"
            ) from None


def free_port(host: str) -> int:
    """A TCP port that is free at the moment. Raises TargetError if ``host`` cannot be bound."""
    with socket.socket(_family(host), socket.SOCK_STREAM) as probe:
        try:
            probe.bind((host, 0))
        except OSError as error:
            raise TargetError(f"cannot bind target.host={host}: {error.strerror or error}") from None
        return probe.getsockname()[1]


def url_of(host: str, port: int) -> str:
    """The URL a client on this machine uses for a server bound to ``host:port``."""
    reachable = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{reachable}]:{port}" if ":" in reachable else f"http://{reachable}:{port}"


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
