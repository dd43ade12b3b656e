"""A server in a thread of the test process."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from omni_bench.targets.null_server import serving


@contextlib.contextmanager
def in_a_thread(server: Any) -> Iterator[str]:
    """Serve what ``server.application()`` makes on a free port of 127.0.0.1; its address."""
    started, state = threading.Event(), {}

    async def run() -> None:
        state["loop"], state["stop"] = asyncio.get_running_loop(), asyncio.Event()
        async with serving(server) as port:
            state["url"] = f"http://127.0.0.1:{port}"
            started.set()
            await state["stop"].wait()

    thread = threading.Thread(target=lambda: asyncio.run(run()), daemon=True)
    thread.start()
    assert started.wait(20)
    try:
        yield state["url"]
    finally:
        state["loop"].call_soon_threadsafe(state["stop"].set)
        thread.join(20)
