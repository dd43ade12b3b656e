"""A real browser without a window, driven by the DevTools protocol: Chromium, where there is one."""

from __future__ import annotations

import asyncio
import base64
import itertools
import os
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def find_browser() -> str | None:
    """The path of a Chromium; None if there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Page:
    """One page. ``problems``: what its console complained of; ``requested``: all addresses that it asked for."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, session: str):
        self._socket, self._session = socket, session
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.problems: list[str] = []
        self.requested: list[str] = []

    async def listen(self) -> None:
        async for message in self._socket:
            event = message.json()
            if event.get("id") in self._waiting:
                self._waiting.pop(event["id"]).set_result(event)
                continue
            values = event.get("params", {})
            match event.get("method"):
                case "Network.requestWillBeSent":
                    self.requested.append(values["request"]["url"])
                case "Runtime.exceptionThrown":
                    self.problems.append(str(values["exceptionDetails"]))
                case "Runtime.consoleAPICalled" if values["type"] in ("error", "warning", "assert"):
                    self.problems.append(str(values["args"]))
                case "Log.entryAdded" if values["entry"]["level"] in ("error", "warning"):
                    self.problems.append(values["entry"]["text"])

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        number = next(self._numbers)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        message = {"id": number, "method": method, "params": params}
        await self._socket.send_json(message | ({"sessionId": self._session} if self._session else {}))
        found = await asyncio.wait_for(answer, 30)
        assert "error" not in found, (method, found["error"])
        return found["result"]

    async def open(self, path: Path, *, width: int = 1200, height: int = 900, dark: bool = False) -> None:
        """Load ``path`` in a window of CSS pixels, and wait until it is there."""
        phone = width < 600
        await self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.call("Emulation.setEmulatedMedia", features=[scheme])
        await self.call("Page.navigate", url=path.absolute().as_uri())
        await self.until("document.readyState === 'complete' && location.protocol === 'file:'")

    async def js(self, expression: str) -> Any:
        """The value of an expression; a promise is waited for."""
        found = await self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True, userGesture=True
        )
        assert "exceptionDetails" not in found, (expression, found["exceptionDetails"])
        return found["result"].get("value")

    async def until(self, condition: str, limit_s: float = 20) -> None:
        """Wait until the expression is true."""
        for _ in range(int(limit_s / 0.05)):
            if await self.js(condition):
                return
            await asyncio.sleep(0.05)
        raise AssertionError(f"not within {limit_s} s: {condition}")

    async def key(self, key: str) -> None:
        """Press a letter."""
        for kind in ("keyDown", "keyUp"):
            await self.call("Input.dispatchKeyEvent", type=kind, key=key, text=key if kind == "keyDown" else "")

    async def picture(self, path: Path) -> None:
        """The window as PNG."""
        shot = await self.call("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(shot["data"]))


@asynccontextmanager
async def browser_page(profile: Path) -> AsyncIterator[Page]:
    """A page of a new browser whose files are in ``profile``."""
    options = ["--headless=new", "--remote-debugging-port=0", f"--user-data-dir={profile}", "--no-first-run"]
    options += ["--disable-gpu", "--mute-audio", "--disable-background-networking", "--disable-component-update"]
    options += ["--no-sandbox"] if os.geteuid() == 0 else []
    browser = await asyncio.create_subprocess_exec(
        find_browser(), *options, "about:blank", stderr=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL
    )
    try:
        address = None
        while address is None:
            said = await asyncio.wait_for(browser.stderr.readline(), 60)
            assert said, "the browser ended"
            address = re.search(rb"DevTools listening on (ws://\S+)", said)
        drain = asyncio.create_task(browser.stderr.read())
        async with aiohttp.ClientSession() as http, http.ws_connect(address[1].decode(), max_msg_size=0) as socket:
            page = Page(socket, "")
            listener = asyncio.create_task(page.listen())
            target = (await page.call("Target.createTarget", url="about:blank"))["targetId"]
            page._session = (await page.call("Target.attachToTarget", targetId=target, flatten=True))["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network"):
                await page.call(f"{domain}.enable")
            yield page
            listener.cancel()
        drain.cancel()
    finally:
        browser.kill()
        await browser.wait()
