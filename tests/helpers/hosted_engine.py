"""A fake engine behind the socket of ``engine_process.py``, in a thread so that tests can look at both sides."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading

from reference_impl.remote import wire
from reference_impl.remote.client import RemoteEngine
from reference_impl.remote.process import EngineHost
from reference_impl.settings import ServerSettings


class HostThread:
    """Stands in for ``EngineProcess``: hosts ``engine`` at one end of a socket pair."""

    def __init__(self, engine):
        self.engine = engine
        self.ours, self._theirs = socket.socketpair()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        # as an exception ends a process, and with it its socket
        with contextlib.suppress(ConnectionError), self._theirs:
            EngineHost(self._theirs, lambda settings: self.engine, watchdog=lambda: None).run()

    def end(self, timeout_s: float = 0.0) -> str:
        self._thread.join(timeout_s)
        return "ended with its thread"

    def vanish(self) -> None:
        """As a process that is killed."""
        self._theirs.shutdown(socket.SHUT_RDWR)

    def say(self, data: bytes) -> None:
        """Bytes that the engine's side did not mean to send."""
        self._theirs.sendall(data)

    async def remote(self) -> RemoteEngine:
        """The HTTP process's side, attached to this event loop."""
        self.ours.sendall(wire.message(wire.START, ServerSettings().to_json().encode()))
        ready = await asyncio.to_thread(self.ours.recv, 2**16)
        kind, body = wire.take_message(bytearray(ready))
        assert kind == wire.READY
        engine = RemoteEngine(self, self.ours, wire.split_blob(body)[0])
        await engine.attach()
        return engine
