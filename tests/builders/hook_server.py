"""A hook server on loopback for scripts that a real bash runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

TOKEN = "0123456789abcdef"


@dataclass
class HookServer:
    """Answer each path with the next status of its list, then always with the last; 200 without a list."""

    statuses: dict[str, list[int]] = field(default_factory=dict)
    requests: asyncio.Queue[tuple[str, str]] = field(default_factory=asyncio.Queue)
    url: str = ""

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines if line)
        method, target, _ = first.split(" ")
        assert method == "POST"
        self.requests.put_nowait((target, headers.get("authorization", "")))
        left = self.statuses.get(target.partition("?")[0].rpartition("/")[2], [200])
        status = left.pop(0) if len(left) > 1 else left[0]
        writer.write(f"HTTP/1.1 {status} Said\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    async def next(self, process: asyncio.subprocess.Process) -> str:
        """Return the target of the next request, which `process` must live to send; its token must be right."""
        arrives = asyncio.ensure_future(self.requests.get())
        ends = asyncio.ensure_future(process.wait())
        await asyncio.wait((arrives, ends), return_when=asyncio.FIRST_COMPLETED)
        ends.cancel()
        assert arrives.done(), f"the script ended with {process.returncode} and said nothing more"
        target, authorization = arrives.result()
        assert authorization == f"bearer {TOKEN}"
        return target


@asynccontextmanager
async def hooks(**statuses: list[int]) -> AsyncIterator[HookServer]:
    server = HookServer(statuses)
    listening = await asyncio.start_server(server.answer, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    async with listening:
        yield server
