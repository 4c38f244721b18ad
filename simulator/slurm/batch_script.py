"""Act as the batch script of a placeholder on its node, without bash: the same calls at the same moments."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from enum import Enum

from extender.domain.wellknown import Hook
from simulator.slurm.records import SimJob

PostHook = Callable[[str, str], Awaitable[int]]
"""`await post(url, token)`: the HTTP status, 0 where there was no answer."""


class Signal(Enum):
    """A signal of slurmd to the script."""

    WARNING = "USR1"
    END = "TERM"
    SUCCEEDED = "USR2"
    """By the extender: the Pod ended well."""

    FAILED = "HUP"
    """By the extender: the Pod failed."""


async def run_placeholder(job: SimJob, signals: asyncio.Queue[Signal], post: PostHook) -> int:
    """Report the start, sleep, report warnings, and at the end wait for the Pod. Cancelling it is SIGKILL.

    The exit code: 1 where the Pod is said to have failed.
    """
    base = job.environment.get(Hook.URL, "").rstrip("/")
    token = job.environment.get(Hook.TOKEN, "")
    wait_s = float(job.environment.get(Hook.WAIT) or 20)
    url = f"{base}/hooks/jobs/{job.job_id}"
    if base:
        await post(f"{url}/started", token)
    while (signal := await signals.get()) is Signal.WARNING:
        if base:
            await post(f"{url}/teardown?wait=0", token)
    if signal is not Signal.END:
        return int(signal is Signal.FAILED)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wait_s
    while base and (left := deadline - loop.time()) > 0:
        if await post(f"{url}/teardown?wait={int(left) or 1}", token) in {200, 404}:
            break
        await asyncio.sleep(1.0)
    return 0
