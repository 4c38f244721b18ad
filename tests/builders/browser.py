"""Headless Chromium, driven through its own protocol (CDP) over one WebSocket."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

PROGRAM = "chromium"
START_S = 60.0
CALL_S = 60.0
FLAGS = (
    "--headless=new",
    "--no-sandbox",  # root in a container; the page is the extender's own
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--remote-debugging-port=0",
    "--hide-scrollbars",
)


class Browser:
    """One tab. Messages of its console and of its security policy are collected in `said`."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.said: list[str] = []
        self.requested: list[str] = []
        """Each address that the page asked for."""

    async def read(self) -> None:
        """Read what the browser sends, until it is closed."""
        async for message in self._socket:
            found = json.loads(message.data)
            match found.get("method"):
                case "Runtime.consoleAPICalled" | "Runtime.exceptionThrown" | "Log.entryAdded":
                    self.said.append(json.dumps(found["params"])[:500])
                case "Network.requestWillBeSent":
                    self.requested.append(found["params"]["request"]["url"])
                case None:
                    self._answers.pop(found["id"]).set_result(found)

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Call one method of the protocol."""
        number = next(self._numbers)
        self._answers[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": params})
        answer = await asyncio.wait_for(self._answers[number], CALL_S)
        assert "error" not in answer, (method, answer)
        found: dict[str, Any] = answer["result"]
        return found

    async def js(self, expression: str) -> Any:
        """Return the value of an expression in the page. The protocol evaluates it, whatever the page's policy is."""
        found = await self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    async def until(self, expression: str, within_s: float = 60.0) -> Any:
        """Return the value of an expression once it is true."""
        async with asyncio.timeout(within_s):
            while True:
                if value := await self.js(expression):
                    return value
                await asyncio.sleep(0.1)

    async def open(self, url: str) -> None:
        """Show a page."""
        await self.call("Page.navigate", url=url)
        await self.until("document.readyState === 'complete'")

    async def screenshot(self, path: Path) -> None:
        """Save what is shown as a PNG file."""
        found = await self.call("Page.captureScreenshot", format="png")
        await asyncio.to_thread(path.write_bytes, base64.b64decode(found["data"]))

    async def size(self, width: int, height: int, *, dark: bool = False) -> None:
        """Set the size of the window, and the theme that the user prefers."""
        await self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )
        theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.call("Emulation.setEmulatedMedia", features=[theme])


@asynccontextmanager
async def browser(folder: Path) -> AsyncIterator[Browser]:
    """Chromium with a profile in `folder`, until the end of the block."""
    program = shutil.which(PROGRAM)
    assert program, f"{PROGRAM} is not installed; `make prove-console` installs it"
    process = await asyncio.create_subprocess_exec(
        program,
        *FLAGS,
        f"--user-data-dir={folder}",
        "about:blank",
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with aiohttp.ClientSession() as session:
            port = await _port(folder / "DevToolsActivePort")
            async with session.get(f"http://127.0.0.1:{port}/json") as reply:
                (tab,) = [one for one in await reply.json() if one["type"] == "page"]
            async with session.ws_connect(tab["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                found = Browser(socket)
                reading = asyncio.create_task(found.read())
                for domain in ("Page", "Runtime", "Log", "Network"):
                    await found.call(f"{domain}.enable")
                yield found
                reading.cancel()
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


async def _port(file: Path) -> str:
    async with asyncio.timeout(START_S):
        while True:
            with contextlib.suppress(FileNotFoundError):
                if text := await asyncio.to_thread(file.read_text, encoding="utf-8"):
                    return text.splitlines()[0]
            await asyncio.sleep(0.05)
