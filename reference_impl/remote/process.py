"""The engine's own process: ``python -m reference_impl.remote.process --fd N``.

The HTTP process (``remote/client.py``) starts it with one end of a socket pair as descriptor N.
Here the engine has an interpreter lock of its own: no socket of a client is served between two
of its steps. What its threads report goes into a queue, from which one thread sends all that is
there in one message, usually the audio of a whole step. The process ends when the other end of
the pair is closed, so that no engine outlives a server that was killed.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import gc
import logging
import os
import queue
import signal
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from omni_bench.errors import EngineError, OmniBenchError
from reference_impl.engine_api import AudioChunk, EngineLike, EngineStats, Event, SpeechRequest
from reference_impl.remote import wire
from reference_impl.remote.wire import Item
from reference_impl.settings import ServerSettings

log = logging.getLogger("reference_impl.remote.process")

LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
REPORT_INTERVAL_S = 0.5  # counters that have changed are reported this often, if there is nothing else to report
STOP_LIMIT_S = 5.0  # an engine that takes longer to stop ends with its process
RECEIVE_BYTES = 2**18
# Audio waits for the interpreter lock while another thread runs Python for longer than this (CPython: 5 ms).
# benchmarks/http_overhead of commit 27d997a, --host-ms 3 --prefill-ms 4: first audio after 6 ms instead of 8.5.
SWITCH_INTERVAL_S = 0.0005
_LAST = Item(0, 0)


class Outbox:
    """The messages to send, and the thread that sends them."""

    def __init__(self, connection: socket.socket, stats: Callable[[], EngineStats], on_gone: Callable[[], None]):
        self._socket, self._stats, self._on_gone = connection, stats, on_gone
        self._reported: EngineStats | None = None
        self._items: queue.SimpleQueue[Item | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._send_all, name="send", daemon=True)
        self._thread.start()

    def put(self, item: Item | None) -> None:
        """Queue an item; None: report the counters. Returns at once."""
        self._items.put(item)

    def close(self) -> None:
        """Send what is queued and end the thread."""
        self._items.put(_LAST)
        self._thread.join()

    def _send_all(self) -> None:
        try:
            while self._send(self._take()):
                pass
        except OSError:
            pass  # the other side has gone
        except Exception:
            log.exception("the engine's process failed")
        finally:
            self._on_gone()

    def _take(self) -> list[Item | None]:
        """Wait for an item -> it and those queued after it, up to the size of a report."""
        items, size = [self._items.get()], 0
        with contextlib.suppress(queue.Empty):
            while size < wire.REPORT_BYTES and items[-1] is not _LAST:
                items.append(self._items.get_nowait())
                size += len(items[-1].payload) if items[-1] is not None else 0
        return items

    def _send(self, items: list[Item | None]) -> bool:
        """False after the last one."""
        events = [item for item in items if item is not None and item is not _LAST]
        # read after the events were taken: a request whose end is reported is counted as ended
        stats = self._stats()
        if events or stats != self._reported:
            self._socket.sendall(wire.report_message(stats, events))
            self._reported = stats
        return items[-1] is not _LAST


class EngineHost:
    """An engine at the far end of ``connection``; ``build`` makes it, in the thread of :meth:`run`.

    ``watchdog`` is called before the engine is told to stop.
    """

    def __init__(
        self, connection: socket.socket, build: Callable[[ServerSettings], EngineLike], watchdog: Callable[[], None]
    ):
        self._socket, self._build, self._watchdog = connection, build, watchdog
        self._engine: EngineLike | None = None
        self._outbox: Outbox | None = None
        self._names: dict[int, str] = {}  # number -> id of the requests in the engine
        self._settings: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._over = threading.Event()

    def run(self) -> int:
        """Load, serve until the other side goes, stop. Returns the exit code."""
        threading.Thread(target=self._receive_all, name="receive", daemon=True).start()
        try:
            engine = self._build(ServerSettings.from_json(self._settings.get()))
        except OmniBenchError as error:
            return self._broken(type(error).__name__, str(error), error.exit_code)
        except Exception as error:
            log.exception("the engine could not be loaded")
            message = f"the engine could not be loaded: {type(error).__name__}: {error}"
            return self._broken(EngineError.__name__, message, EngineError.exit_code)
        self._outbox = Outbox(self._socket, engine.stats, self._over.set)
        self._engine = engine
        # no report can come before this: nothing is submitted yet
        self._socket.sendall(wire.json_message(wire.READY, describe(engine)))
        while not self._over.wait(REPORT_INTERVAL_S):
            self._outbox.put(None)
        self._watchdog()
        engine.stop()
        self._outbox.close()
        return 0

    def _broken(self, error: str, message: str, exit_code: int) -> int:
        self._socket.sendall(wire.json_message(wire.BROKEN, {"error": error, "message": message}))
        return exit_code

    def _receive_all(self) -> None:
        buffer = bytearray()
        try:
            while data := self._socket.recv(RECEIVE_BYTES):
                buffer += data
                while (taken := wire.take_message(buffer)) is not None:
                    self._obey(*taken)
        except ConnectionError:
            pass  # the other side was killed
        except Exception:
            log.exception("the engine's process failed")
        finally:
            if self._engine is None:
                os._exit(EngineError.exit_code)  # the engine that is being loaded is no longer needed
            self._over.set()

    def _obey(self, kind: int, body: bytes) -> None:
        if kind == wire.SUBMIT:
            self._submit(*wire.read_submit(body))
        elif kind == wire.CANCEL:
            name = self._names.get(wire.read_cancel(body))
            if name is not None:
                self._engine.cancel(name)
        elif kind == wire.PROFILE:  # it takes seconds, in which requests come and go
            threading.Thread(target=self._profile, args=(bool(body[0]),), daemon=True).start()
        elif kind == wire.START:
            self._settings.put(body.decode())
        else:
            raise EngineError(f"a message of kind {kind} for the engine")

    def _profile(self, on: bool) -> None:
        said = ""
        try:
            self._engine.profile(on)
        except Exception as error:
            log.exception("no trace")
            said = str(error) or type(error).__name__
        self._outbox.put(Item(0, wire.PROFILED, 0, said.encode(errors="backslashreplace")))

    def _submit(self, number: int, request: SpeechRequest) -> None:
        outbox = self._outbox

        def on_event(event: Event) -> None:
            if not isinstance(event, AudioChunk):
                self._names.pop(number, None)
            outbox.put(wire.event_item(number, event))

        self._names[number] = request.request_id
        try:
            self._engine.submit(request, on_event)
        except Exception as error:
            self._names.pop(number, None)
            if not isinstance(error, EngineError):
                log.exception("%s: the engine failed to take it", request.request_id)
            outbox.put(wire.refusal_item(number, error))
        else:
            outbox.put(Item(number, wire.TAKEN))


def describe(engine: EngineLike) -> dict[str, Any]:
    """What the HTTP process needs to know of the engine once it is loaded."""
    return {
        "model_name": engine.model_name,
        "voices": list(engine.voices),
        "sample_rate_hz": engine.sample_rate_hz,
        "capabilities": asdict(engine.capabilities),
        "fault": engine.fault,
        "description": engine.describe(),
    }


def host_engine(descriptor: int, build: Callable[[ServerSettings], EngineLike]) -> None:
    """The process: host the engine that ``build`` makes on the socket ``descriptor``, and exit. Does not return."""
    # the HTTP process gets the same signals and ends this one in order
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT, signal.SIGTERM))
    logging.basicConfig(level=logging.INFO, format=LOG_FORMAT)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    code = EngineError.exit_code
    try:
        code = EngineHost(socket.socket(fileno=descriptor), lambda settings: _settled(build(settings)), _end_soon).run()
    except ConnectionError:
        pass  # the server was killed while the engine was loading
    except Exception:
        log.exception("the engine's process ended")
    sys.stdout.flush()
    sys.stderr.flush()
    # a thread that hangs in PyTorch or in a driver is not waited for
    os._exit(code)


def _settled(engine: EngineLike) -> EngineLike:
    """Leave what loading made to no later collection: over the 300 000 objects of PyTorch one takes 0.1 s and more."""
    gc.collect()
    gc.freeze()
    return engine


def _end_soon() -> None:
    # counted in C: it also ends a process whose interpreter is stuck
    faulthandler.dump_traceback_later(STOP_LIMIT_S, exit=True)


def _build_engine(settings: ServerSettings) -> EngineLike:
    from reference_impl.build import build_engine  # PyTorch: only once the socket is listened to

    return build_engine(settings)


def main(argv: Sequence[str] | None = None) -> None:
    """The command line. Does not return."""
    parser = argparse.ArgumentParser(
        prog="python -m reference_impl.remote.process",
        description="The engine of the reference server, which starts this process itself.",
    )
    parser.add_argument("--fd", type=int, required=True, help="the socket to the HTTP process, inherited")
    host_engine(parser.parse_args(argv).fd, _build_engine)


if __name__ == "__main__":
    main()
