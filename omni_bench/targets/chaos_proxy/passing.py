"""What the proxy knows of HTTP: which requests are speech, of which wire form, and what is passed on of headers."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from functools import cache

import aiohttp
from aiohttp import web
from multidict import CIMultiDict

from omni_bench.errors import OmniBenchError
from omni_bench.load.clients.responses import parse_content_type
from omni_bench.load.clients.wire_form import WireForm
from omni_bench.load.clients.wire_forms import FORMS

log = logging.getLogger("omni_bench.targets.chaos_proxy")

MAX_BODY_BYTES = 64 * 1024 * 1024  # requests may carry reference audio
CONNECT_TIMEOUT_S = 10.0
# RFC 9110, section 7.6.1: what belongs to one connection. Lengths and codings are made anew.
_OF_ONE_CONNECTION = frozenset(
    ("connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade")
)
MADE_ANEW = frozenset(("host", "content-length", "expect"))
_OF_A_HANDSHAKE = "sec-websocket-"


@cache
def _forms() -> tuple[WireForm, ...]:
    """Every wire form whose answers can be taken apart."""
    usable = FORMS.usable().values()
    for problem in usable:
        if isinstance(problem, OmniBenchError):
            log.warning("%s", problem)
    return tuple(form for form in usable if isinstance(form, WireForm) and form.codec is not None)


def forms_of_request(request: web.Request) -> list[WireForm]:
    """The wire forms that a request for speech can be of; [] for any other. Those of a POST differ in their answers."""
    upgrades = request.headers.get("Upgrade", "").strip().lower() == "websocket"
    socket = request.method == "GET" and upgrades
    if not socket and request.method != "POST":
        return []
    return [form for form in _forms() if form.path == request.path and form.is_socket == socket]


def form_of_answer(forms: Iterable[WireForm], answer: aiohttp.ClientResponse) -> WireForm | None:
    """Which of ``forms`` an answer is of; None for what is not this proxy's to damage, such as an error.

    Only streams of samples and of events are, and none that is compressed.
    """
    if answer.status != 200 or answer.headers.get("Content-Encoding", "identity").lower() != "identity":
        return None
    mime = parse_content_type(answer.headers.get("Content-Type", "application/octet-stream"))[0]
    return next((form for form in forms if mime in form.content_types), None)


def to_pass_on(headers: Mapping[str, str], without: frozenset[str]) -> CIMultiDict[str]:
    """Headers for the other side: all but those of one connection, those it lists, and ``without``."""
    named: CIMultiDict[str] = CIMultiDict(headers)
    listed = {name.strip().lower() for value in named.getall("Connection", []) for name in value.split(",")}
    left_out = _OF_ONE_CONNECTION | listed | without
    return CIMultiDict(
        (name, value)
        for name, value in named.items()
        if name.lower() not in left_out and not name.lower().startswith(_OF_A_HANDSHAKE)
    )


def is_chunked(answer: aiohttp.ClientResponse) -> bool:
    """Whether the body comes in HTTP chunks."""
    return "chunked" in answer.headers.get("Transfer-Encoding", "").lower()


def request_id(request: web.Request) -> str:
    """The client's id for a log line: nothing unprintable, not endless."""
    return ascii(request.headers.get("x-request-id", "without an id"))[1:-1][:80]


def error_response(status: int, message: str, code: str) -> web.Response:
    """An error object in OpenAI's form."""
    kind = "server_error" if status >= 500 else "invalid_request_error"
    return web.json_response({"error": {"message": message, "type": kind, "code": code}}, status=status)


def bad_gateway(request: web.Request, error: Exception) -> web.Response:
    """The server behind does not answer."""
    log.warning("%s %s: the server behind does not answer: %s", request.method, request.path_qs[:80], error)
    return error_response(
        502, f"the server behind the proxy of injected faults does not answer: {error}", "bad_gateway"
    )


def hang_up(request: web.Request) -> None:
    """Send what was written, then close without the end of the stream."""
    if request.transport is not None:
        request.transport.close()
