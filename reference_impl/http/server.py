"""The life of the server process: bind, load the engine, serve, and end cleanly."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import signal
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from aiohttp import web

from omni_bench.errors import EngineError, OmniBenchError, TargetError
from omni_bench.subprocesses import LISTENING_ON, wait_for_end
from reference_impl.engine_api import EngineLike
from reference_impl.http.app import SERVICE, create_app
from reference_impl.http.service import SpeechService
from reference_impl.settings import DEFAULT_CHAT_TOKEN_MS

log = logging.getLogger("reference_impl.http.server")

T = TypeVar("T")
ENGINE_STOP_TIMEOUT_S = 4.0
CONNECTIONS_TIMEOUT_S = 2.0
BACKLOG = 1024  # a load client opens its whole pool at once


def serve(
    engine_factory: Callable[[], EngineLike],
    host: str,
    port: int,
    parent_pid: int | None = None,
    chat_token_ms: float = DEFAULT_CHAT_TOKEN_MS,
) -> None:
    """Serve until SIGTERM, SIGINT, or the end of process ``parent_pid``. Call from the main thread.

    The port is bound first; until ``engine_factory`` (run in a thread) returns, /health
    answers 503 "loading". ``chat_token_ms``: see :func:`reference_impl.http.app.create_app`. Raises
    TargetError if the port cannot be bound, ConfigError for a ``chat_token_ms`` out of range, and
    what ``engine_factory`` raises (anything but an OmniBenchError as EngineError).
    """
    app = create_app(chat_token_ms=chat_token_ms)
    asyncio.run(_serve(app, engine_factory, host, port, parent_pid))


async def _serve(
    app: web.Application, engine_factory: Callable[[], EngineLike], host: str, port: int, parent_pid: int | None
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _request_stop, stop, signal.Signals(number).name)
    runner = web.AppRunner(app, shutdown_timeout=CONNECTIONS_TIMEOUT_S)
    await runner.setup()
    watching = asyncio.create_task(_watch_parent(parent_pid, stop)) if parent_pid is not None else None
    try:
        await _listen(runner, host, port)
        await _run(app[SERVICE], engine_factory, stop)
    finally:
        if watching:
            watching.cancel()
        await _stop_engine(app[SERVICE])
        await runner.cleanup()


def _request_stop(stop: asyncio.Event, reason: str) -> None:
    if not stop.is_set():
        log.info("stopping: %s", reason)
        stop.set()


async def _listen(runner: web.AppRunner, host: str, port: int) -> None:
    try:
        await web.TCPSite(runner, host, port, backlog=BACKLOG).start()
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
        raise TargetError(
            f"cannot listen on host {host!r}, port {port}: {reason}; choose another --port (0: any free one) or --host"
        ) from None
    if not all(ipaddress.ip_address(address[0]).is_loopback for address in runner.addresses):
        log.warning("other machines can reach this server, and it checks no API key")
    for address in runner.addresses:
        shown = f"[{address[0]}]" if ":" in address[0] else address[0]
        log.info("%shttp://%s:%d", LISTENING_ON, shown, address[1])


async def _run(service: SpeechService, engine_factory: Callable[[], EngineLike], stop: asyncio.Event) -> None:
    """Load the engine, then wait for the end."""
    loading = _in_daemon_thread(engine_factory, "load-engine")
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((loading, stopping), return_when=asyncio.FIRST_COMPLETED)
        if not loading.done():
            return
        try:
            engine = loading.result()
        except OmniBenchError:
            raise
        except Exception as error:
            log.exception("the engine could not be loaded")
            raise EngineError(f"the engine could not be loaded: {type(error).__name__}: {error}") from error
        await engine.attach()
        service.set_engine(engine)
        log.info("ready: model %s, voices %s", engine.model_name, ", ".join(engine.voices))
        await stopping
    finally:
        stopping.cancel()


async def _stop_engine(service: SpeechService) -> None:
    """Running requests fail, which ends their streams; an engine that hangs is abandoned."""
    service.status = "stopping"
    if service.engine is None:
        return
    stopping = _in_daemon_thread(service.engine.stop, "stop-engine")
    done, _ = await asyncio.wait((stopping,), timeout=ENGINE_STOP_TIMEOUT_S)
    if not done:
        log.warning("the engine did not stop within %g s", ENGINE_STOP_TIMEOUT_S)
    elif stopping.exception():
        log.error("the engine did not stop cleanly", exc_info=stopping.exception())


def _in_daemon_thread(function: Callable[[], T], name: str) -> asyncio.Future[T]:
    """Run ``function`` where neither the event loop nor the end of the process waits for it."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(method: Callable[[Any], None], value: Any) -> None:
        if not future.done():
            method(value)

    def run() -> None:
        try:
            outcome = (future.set_result, function())
        except Exception as error:
            outcome = (future.set_exception, error)
        try:
            loop.call_soon_threadsafe(settle, *outcome)
        except RuntimeError:
            if not loop.is_closed():  # closed: the server has stopped meanwhile
                raise

    threading.Thread(target=run, name=name, daemon=True).start()
    return future


async def _watch_parent(pid: int, stop: asyncio.Event) -> None:
    """Request the stop once process ``pid`` is gone."""
    await wait_for_end(pid)
    _request_stop(stop, f"the parent process {pid} is gone")
