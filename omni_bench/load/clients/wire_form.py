"""What a wire form is: everything that load worker, validation, chaos proxy, probe and recording must know of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from omni_bench.load.clients.exchange import RequestContext
from omni_bench.load.clients.http_stream import MakeDecoder, stream_http
from omni_bench.load.clients.speech_body import encode_json
from omni_bench.load.clients.units import Codec
from omni_bench.load.clients.urls import server_root
from omni_bench.records.timeline import Timeline

if TYPE_CHECKING:  # the load worker imports this module and must stay light
    from omni_bench.records.config import ClientConfig
    from omni_bench.records.prompt import Prompt


@dataclass(frozen=True)
class WireRecording:
    """An answer of the reference server that the tests keep: ``extra_body`` and ``modalities`` of the request.

    ``error``: the kind of failure that a client must see in it, None if it ends well.
    """

    extra_body: Mapping[str, Any] = field(default_factory=dict)
    modalities: tuple[str, ...] = ()
    error: str | None = None


@dataclass(frozen=True)
class WireForm:
    """One way of making a request, chosen by ``client.kind``. ``what``: a line for people.

    ``path``: of the endpoint, under the server's address. ``build_body``: from a prompt, the client's configuration and
    the seed to JSON values; ``encode``: from those to what is sent. An answer to a POST is of one of
    ``content_types`` and read by a ``decoder``; a WebSocket has neither, and ``converse`` makes its request.
    ``codec``: takes an answer apart for the chaos proxy, None if no fault of the wire can be injected.
    ``modalities``: what ``client.modalities`` can ask for; () if the form speaks the prompt's own text.
    ``own_keys``: keys of ``client.extra_body`` that other forms must not be given, and why.
    ``recordings``: by name, for scripts/record_wire_forms.py.
    """

    name: str
    what: str
    path: str
    build_body: Callable[[Prompt, ClientConfig, int | None], dict[str, Any]]
    content_types: tuple[str, ...] = ()
    decoder: MakeDecoder | None = None
    codec: Callable[[], Codec] | None = None
    converse: Callable[[RequestContext], Awaitable[tuple[Timeline, list[bytes]]]] | None = None
    encode: Callable[[dict[str, Any]], bytes] = encode_json
    modalities: tuple[str, ...] = ()
    own_keys: Mapping[str, str] = field(default_factory=dict)
    recordings: Mapping[str, WireRecording] = field(default_factory=dict)

    @property
    def defaults(self) -> dict[str, Any]:
        """Of the client's configuration."""
        return {"modalities": list(self.modalities)} if self.modalities else {}

    @property
    def is_socket(self) -> bool:
        """Whether it is a WebSocket, whose connection serves one request."""
        return self.converse is not None

    def url(self, base_url: str) -> str:
        """The endpoint of the server at ``base_url``."""
        return server_root(base_url) + self.path

    async def send(self, context: RequestContext) -> tuple[Timeline, list[bytes]]:
        """Make one request; returns its timeline, which carries any failure, and the audio reads, in order."""
        if self.converse is not None:
            return await self.converse(context)
        assert self.decoder is not None
        return await stream_http(context, self.content_types, self.decoder)
