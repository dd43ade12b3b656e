"""Small blocking HTTP GETs and port checks, used before and after the load phase only."""

from __future__ import annotations

import errno
import http.client
import os
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from omni_bench.errors import TargetError
from omni_bench.records.config import ClientConfig
from omni_bench.records.files import parse_json

MAX_BODY_BYTES = 1 << 20


# As the load client: straight to the server, past any proxy of the environment.
class _KeepKeyHome(urllib.request.HTTPRedirectHandler):
    """A server may send us elsewhere; it may not send the key there."""

    def redirect_request(self, req: Any, *more: Any) -> urllib.request.Request | None:
        new = super().redirect_request(req, *more)
        if new is not None and urlsplit(new.full_url)[:2] != urlsplit(req.full_url)[:2]:
            new.remove_header("Authorization")
        return new


_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}), _KeepKeyHome)


def key_of(client: ClientConfig) -> str | None:
    """The key that ``client.api_key_env`` names, None if there is none."""
    return None if client.api_key_env is None else os.environ.get(client.api_key_env)


@dataclass(frozen=True)
class ProbeAnswer:
    """An HTTP answer (``status``, body of at most 1 MiB), or why there was none (``problem``)."""

    status: int | None
    body: bytes
    problem: str | None

    @property
    def said(self) -> str:
        """For a sentence: "answers 503 (unhealthy)", "answers 404", "does not answer (connection refused)"."""
        if self.status is None:
            return f"does not answer ({self.problem})"
        return f"answers {self.status}{' (unhealthy)' if self.status >= 500 else ''}"

    def json(self) -> Any:
        """The body if the status is 200 and it is JSON that run.json can hold (no NaN, no huge integers), else None."""
        if self.status != 200:
            return None
        try:
            return parse_json(self.body)
        except (ValueError, RecursionError):  # deep nesting
            return None


def get(url: str, timeout_s: float, key: str | None = None) -> ProbeAnswer:
    """One GET, with the API ``key`` if there is one. Never raises: what went wrong is in ``problem``.

    ``timeout_s``: of every wait, and of the body as a whole, which a server may send byte by byte.
    """
    return _ask(urllib.request.Request, url, timeout_s, key)


def post(url: str, timeout_s: float, key: str | None = None) -> ProbeAnswer:
    """One POST without a body, as :func:`get`."""
    return _ask(partial(urllib.request.Request, method="POST", data=b""), url, timeout_s, key)


def _ask(make: Callable[..., urllib.request.Request], url: str, timeout_s: float, key: str | None) -> ProbeAnswer:
    try:
        request = make(url, headers={"Authorization": f"Bearer {key}"} if key else {})
        with _OPENER.open(request, timeout=timeout_s) as response:
            return ProbeAnswer(response.status, _read_body(response, timeout_s), None)
    except urllib.error.HTTPError as error:
        with error:
            return ProbeAnswer(error.code, b"", f"HTTP {error.code}")
    except urllib.error.URLError as error:
        return ProbeAnswer(None, b"", str(error.reason))
    except (OSError, http.client.HTTPException, ValueError) as error:
        return ProbeAnswer(None, b"", f"{type(error).__name__}: {error}")


def _read_body(response: http.client.HTTPResponse, timeout_s: float) -> bytes:
    """The body, or its first MiB. Raises TimeoutError."""
    body, deadline_s = bytearray(), time.monotonic() + timeout_s
    while len(body) < MAX_BODY_BYTES and (data := response.read1(MAX_BODY_BYTES - len(body))):
        body += data
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"the body took longer than {timeout_s:g} s")
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
