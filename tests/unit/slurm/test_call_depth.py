"""How many functions lie between a command for Slurm and the socket."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import extender.slurm
import slurmclient
from extender.domain.events import SubmitAccepted
from extender.slurm.jobs import SlurmrestdJobs
from simulator.network.memory import MemoryTransport
from slurmclient.connection import Connection
from tests.builders.job_orders import an_allocation
from tests.builders.loop_clock import LoopClock
from tests.builders.slurm_sites import sim_site

pytestmark = pytest.mark.looptime

MOST_FRAMES = 10
PACKAGES = (str(Path(slurmclient.__file__).parent), str(Path(extender.slurm.__file__).parent))


class StackRecorder:
    """Records the functions of both packages that are on the stack when a request is written."""

    def __init__(self) -> None:
        self.stacks: list[list[str]] = []

    def sends(self, data: bytes) -> bool:
        del data
        frame, found = sys._getframe(), list[str]()
        while frame is not None:
            if frame.f_code.co_filename.startswith(PACKAGES):
                found.append(f"{Path(frame.f_code.co_filename).name}: {frame.f_code.co_qualname}")
            frame = frame.f_back  # type: ignore[assignment]
        self.stacks.append(found)
        return True

    def receives(self, data: bytes) -> bool:
        del data
        return True


async def test_a_submission_reaches_the_socket_within_ten_functions() -> None:
    recorder = StackRecorder()
    async with sim_site("26.05.5") as site:

        async def dial(
            protocol_factory: Callable[[], Connection], host: str, port: int, /
        ) -> tuple[asyncio.BaseTransport, Connection]:
            transport, protocol = await site.network.dial(protocol_factory, host, port)
            assert isinstance(transport, MemoryTransport)
            transport.gate = recorder
            return transport, protocol

        async with site.client(dial=dial) as client:
            await client.negotiate()
            recorder.stacks.clear()
            (made,) = await SlurmrestdJobs(client, LoopClock()).submit(an_allocation())
    assert isinstance(made, SubmitAccepted)
    (stack,) = recorder.stacks
    assert len(stack) <= MOST_FRAMES, stack
