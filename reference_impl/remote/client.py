"""The HTTP process's side of an engine in a process of its own (``remote/process.py``).

The event loop reads the socket itself: the audio of a step goes from one ``recv`` to the
clients' sockets without another thread. Nothing here loads PyTorch.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import queue
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from omni_bench import errors
from omni_bench.errors import EngineError, OmniBenchError
from omni_bench.subprocesses import child_env, module_command
from reference_impl.engine_api import (
    AudioChunk,
    Capabilities,
    EngineDead,
    EngineLike,
    EngineStats,
    Event,
    Failed,
    SpeechRequest,
)
from reference_impl.remote import wire
from reference_impl.settings import ServerSettings

log = logging.getLogger("reference_impl.remote.client")

STOP_TIMEOUT_S = 3.0  # then the engine's process is killed
KILL_TIMEOUT_S = 3.0  # then it is left alone
PROFILE_TIMEOUT_S = 300.0  # to write a large trace
_NOTHING_YET = replace(EngineStats(*[0] * len(fields(EngineStats))), alive=True)


class EngineProcess:
    """The process: started by :meth:`load`, gone after :meth:`end`. ``command`` takes the descriptor's number."""

    def __init__(self, command: Sequence[str] = ()):
        self._command = command or module_command("reference_impl.remote.process", "--fd")
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._ended = False

    def load(self, settings: ServerSettings) -> RemoteEngine:
        """Start it and wait until the engine is loaded. Blocks; one call.

        Raises what loading raised there (an OmniBenchError of the same class), and EngineError if
        the process ended without a message.
        """
        ours, theirs = socket.socketpair()
        # the audio of a step goes in one piece, as far as the system allows
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, wire.REPORT_BYTES)
        try:
            with theirs:
                self._start(theirs)
            ours.sendall(wire.message(wire.START, settings.to_json().encode()))
            kind, body = _first_message(ours)
        except (EOFError, ConnectionError):
            ours.close()
            raise EngineError(f"the engine's process {self.end(STOP_TIMEOUT_S)} while it loaded") from None
        except BaseException:
            ours.close()
            raise
        values, _ = wire.split_blob(body)
        if kind == wire.BROKEN:
            ours.close()
            self.end(STOP_TIMEOUT_S)
            raise _loading_error(values["error"])(values["message"])
        return RemoteEngine(self, ours, values)

    def _start(self, theirs: socket.socket) -> None:
        number = theirs.fileno()
        with self._lock:
            if self._ended:
                raise EngineError("the server is stopping")
            # until it has handlers of its own, Ctrl-C in the terminal must not end it with a traceback
            held = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
            try:
                self._process = subprocess.Popen(
                    [*self._command, str(number)], stdin=subprocess.DEVNULL, pass_fds=(number,), env=child_env()
                )
            except OSError as error:
                raise EngineError(f"the engine's process cannot be started: {error.strerror}") from None
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, held)

    def end(self, timeout_s: float = 0.0) -> str:
        """Wait for its end, after ``timeout_s`` by force -> how it ended. Thread-safe; again: the same."""
        with self._lock:
            self._ended = True
            process = self._process
        if process is None:
            return "was not started"
        try:
            code = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            if timeout_s:
                log.warning("the engine did not stop within %g s: its process is killed", timeout_s)
            process.kill()
            try:
                code = process.wait(KILL_TIMEOUT_S)
            except subprocess.TimeoutExpired:  # stuck in a driver
                return f"cannot be killed (process {process.pid})"
        return f"was killed by {_signal_name(-code)}" if code < 0 else f"ended with exit code {code}"


@dataclass(frozen=True)
class _Request:
    """A request that has not ended; ``taken`` resolves once the engine has queued it."""

    request_id: str
    on_event: Callable[[Event], None]
    taken: asyncio.Future[None]


class RemoteEngine(EngineLike, asyncio.Protocol):
    """Implements :class:`reference_impl.engine_api.EngineLike` over the socket.

    The event loop of :meth:`attach` reads the socket and passes the events on; in its thread, use
    :meth:`submit_async`.
    """

    def __init__(self, process: EngineProcess, connection: socket.socket, ready: dict[str, Any]):
        self._process, self._socket = process, connection
        self.model_name: str = ready["model_name"]
        self.voices: tuple[str, ...] = tuple(ready["voices"])
        self.sample_rate_hz: int = ready["sample_rate_hz"]
        self.fault: str | None = ready["fault"]
        can = {name: tuple(v) if isinstance(v, list) else v for name, v in ready["capabilities"].items()}
        self.capabilities = Capabilities(**can)
        self._description: dict[str, Any] = {**ready["description"], "engine_process": True}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._transport: asyncio.WriteTransport | None = None
        self._buffer = bytearray()
        self._numbers = itertools.count()
        self._open: dict[int, _Request] = {}
        self._number_of: dict[str, int] = {}
        self._profiled: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._stats = _NOTHING_YET
        self._stopping = False

    async def attach(self) -> None:
        """See :meth:`EngineLike.attach`: that event loop then reads the socket."""
        self._loop = asyncio.get_running_loop()
        await self._loop.create_unix_connection(lambda: self, sock=self._socket)

    async def submit_async(self, request: SpeechRequest, on_event: Callable[[Event], None]) -> None:
        """See :meth:`EngineLike.submit_async`."""
        if self._transport is None or self._stopping or not self._stats.alive:
            raise EngineDead("the engine has stopped")
        number = next(self._numbers) % (wire.MAX_NUMBER + 1)
        data = wire.submit_message(number, request)
        opened = _Request(request.request_id, on_event, asyncio.get_running_loop().create_future())
        self._open[number] = opened
        self._number_of[request.request_id] = number
        self._transport.write(data)
        try:
            await opened.taken
        except asyncio.CancelledError:
            self._cancel(request.request_id)
            raise

    def submit(self, request: SpeechRequest, on_event: Callable[[Event], None]) -> None:
        """See :meth:`EngineLike.submit`; from any thread but the event loop's, which would wait for itself."""
        if self._loop is None or self._loop.is_closed():
            raise EngineDead("the engine has stopped")
        asyncio.run_coroutine_threadsafe(self.submit_async(request, on_event), self._loop).result()

    def cancel(self, request_id: str) -> None:
        """See :meth:`EngineLike.cancel`."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._cancel, request_id)

    def _cancel(self, request_id: str) -> None:
        number = self._number_of.get(request_id)
        if number is not None and self._transport is not None and not self._stopping:
            self._transport.write(wire.cancel_message(number))

    def profile(self, on: bool) -> None:
        """See :meth:`EngineLike.profile`; not from the event loop's thread."""
        if self._loop is None or self._transport is None:
            raise EngineDead("the engine has stopped")
        self._loop.call_soon_threadsafe(self._transport.write, wire.message(wire.PROFILE, bytes([on])))
        try:
            said = self._profiled.get(timeout=PROFILE_TIMEOUT_S)
        except queue.Empty:
            said = f"the engine's process did not answer within {PROFILE_TIMEOUT_S:g} s"
        if said:
            raise EngineError(said)

    def stats(self) -> EngineStats:
        """As of the last report, which comes at least twice a second."""
        return self._stats

    def describe(self) -> dict[str, Any]:
        """The engine's own description, and that it has a process of its own."""
        return self._description

    def stop(self) -> None:
        """Let the engine end, or kill its process; running requests get :class:`Failed`. Blocks."""
        self._stopping = True
        with contextlib.suppress(OSError):  # already closed: the process has ended
            self._socket.shutdown(socket.SHUT_WR)
        self._process.end(STOP_TIMEOUT_S)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See :class:`asyncio.Protocol`."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """See :class:`asyncio.Protocol`. An error in here ends the connection."""
        self._buffer += data
        while (message := wire.take_message(self._buffer)) is not None:
            kind, body = message
            if kind != wire.REPORT:
                raise EngineError(f"a message of kind {kind} from the engine")
            self._stats, items = wire.read_report(body)
            for item in items:
                self._pass_on(item)

    def _pass_on(self, item: wire.Item) -> None:
        if item.kind == wire.PROFILED:
            self._profiled.put(item.payload.decode())
            return
        request = self._open.get(item.number)
        if request is None:
            return  # the end came before the message that it was taken
        if item.kind == wire.REFUSED:
            self._close(item.number)
            if not request.taken.done():
                request.taken.set_exception(wire.read_refusal(item))
            return
        if not request.taken.done():
            request.taken.set_result(None)
        if item.kind == wire.TAKEN:
            return
        event = wire.read_event(item)
        if not isinstance(event, AudioChunk):
            self._close(item.number)
        request.on_event(event)

    def _close(self, number: int) -> None:
        self._number_of.pop(self._open.pop(number).request_id, None)

    def connection_lost(self, exc: Exception | None) -> None:
        """The process has ended, or sent something invalid: open requests fail."""
        self._transport = None
        self._profiled.put("the engine has ended")
        failed = list(self._open.values())
        self._open.clear()
        self._number_of.clear()
        counts = {"running": 0, "waiting": 0, "failed_total": self._stats.failed_total + len(failed)}
        self._stats = replace(self._stats, alive=False, **counts)
        if not self._stopping:
            threading.Thread(target=self._tell_end, name="engine-ended", daemon=True).start()
        for request in failed:
            if not request.taken.done():
                request.taken.set_exception(EngineDead("the engine has ended"))
            request.on_event(Failed("the engine has ended"))

    def _tell_end(self) -> None:
        log.error("the engine's process %s", self._process.end(STOP_TIMEOUT_S))


def _first_message(connection: socket.socket) -> tuple[int, bytes]:
    """Wait for a whole message. Raises EOFError if the other side closes before."""
    buffer = bytearray()
    while (message := wire.take_message(buffer)) is None:
        # no byte more than the first message: the event loop reads the next ones
        data = connection.recv(wire.missing_bytes(buffer))
        if not data:
            raise EOFError
        buffer += data
    return message


def _loading_error(name: str) -> type[OmniBenchError]:
    """The class of errors that is called ``name``, in the tree that both processes know."""
    found = getattr(errors, name, None)
    return found if isinstance(found, type) and issubclass(found, OmniBenchError) else EngineError


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"
