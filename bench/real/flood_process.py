"""The process that floods, seen from the one that measures: its commands, and its end."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from bench.real.jobs import LATE_S

ENDS_S = 30.0
"""After its input is closed it has so long to end."""

Json = dict[str, Any]


class FloodProcess:
    """Send commands to `bench.real.flood`, one at a time."""

    def __init__(self, process: Process) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    async def attack(self, scheduler: str) -> None:
        """Begin to flood with Pods of this scheduler."""
        await self._command(f"attack {scheduler}")

    async def halt(self) -> Json:
        """End the flood; return what it did."""
        return await self._command("halt")

    async def clear(self) -> set[str]:
        """Delete its Pods; return the nodes that they had."""
        return set((await self._command("clear"))["nodes"])

    async def answer(self) -> Json:
        """Read one answer. Raise RuntimeError if the process has ended, TimeoutError if it is silent."""
        assert self._process.stdout is not None
        async with asyncio.timeout(LATE_S):
            line = await self._process.stdout.readline()
        if not line:
            raise RuntimeError("the process that floods has ended; its standard error says why")
        told: Json = json.loads(line)
        return told

    async def _command(self, line: str) -> Json:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())
        await self._process.stdin.drain()
        return await self.answer()


@asynccontextmanager
async def flood_process(kubeconfig: str, namespace: str, program: Sequence[str] = ()) -> AsyncIterator[FloodProcess]:
    """Start the process and wait until it watches; it has ended when the block is left."""
    command = program or [sys.executable, "-m", "bench.real.flood"]
    process = await asyncio.create_subprocess_exec(*command, kubeconfig, namespace, stdin=PIPE, stdout=PIPE)
    assert process.stdin is not None
    try:
        flood = FloodProcess(process)
        await flood.answer()
        yield flood
    finally:
        process.stdin.close()
        try:
            async with asyncio.timeout(ENDS_S):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
