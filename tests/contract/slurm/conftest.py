"""Each test of this folder runs against two simulated releases and, where the lab can be built, two real ones."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from lab.slurm import Slurm
from simulator.slurm.batch_script import PostHook
from tests.builders.slurm_sites import NODES, LabSite, Site, lab_slurm, sim_site, until

OpenSite = Callable[..., AbstractAsyncContextManager[Site]]
"""`async with open_site(post_hook) as site`: a Slurm without jobs, with every node up."""


@pytest.fixture(scope="session")
def slurm_24_11() -> Iterator[Slurm]:
    with lab_slurm("24.11") as slurm:
        yield slurm


@pytest.fixture(scope="session")
def slurm_26_05() -> Iterator[Slurm]:
    with lab_slurm("26.05") as slurm:
        yield slurm


@pytest.fixture(
    params=[
        pytest.param(("sim", "24.11.5"), id="sim-24.11", marks=pytest.mark.looptime),
        pytest.param(("sim", "26.05.5"), id="sim-26.05", marks=pytest.mark.looptime),
        pytest.param(("lab", "slurm_24_11"), id="lab-24.11", marks=pytest.mark.lab),
        pytest.param(("lab", "slurm_26_05"), id="lab-26.05", marks=pytest.mark.lab),
    ]
)
def open_site(request: pytest.FixtureRequest) -> OpenSite:
    kind, which = request.param
    if kind == "sim":
        return lambda post_hook=None: sim_site(which, post_hook)
    slurm: Slurm = request.getfixturevalue(which)
    return lambda post_hook=None: _lab_site(slurm, post_hook)


@asynccontextmanager
async def _lab_site(slurm: Slurm, post_hook: PostHook | None) -> AsyncIterator[Site]:
    """The real cluster, put back in order afterwards."""
    async with _hook_server(post_hook) as hooks:
        site = LabSite(slurm, hooks)
        try:
            yield site
        finally:
            await _tidy(site)


async def _tidy(site: LabSite) -> None:
    listed = site.slurm.run("sinfo", "--noheader", "--Node", "--Format=NodeList:20,StateLong:30").splitlines()
    for node, state in sorted({(name, state) for name, state in map(str.split, listed)}):
        if node in NODES and state.startswith(("down", "drain")):
            site.resume(node)
    slurm_jobs = site.slurm.run("squeue", "--noheader", "--format=%A").split()
    if slurm_jobs:
        site.slurm.run("scancel", *slurm_jobs)

    async def left() -> str:
        return site.slurm.run("squeue", "--noheader")

    await until(left, lambda text: not text.strip(), "no job is left")
    site.slurm.wait_nodes_ready()


@asynccontextmanager
async def _hook_server(post_hook: PostHook | None) -> AsyncIterator[str]:
    """The hooks of the test on loopback, for the scripts of a real Slurm."""
    if post_hook is None:
        yield ""
        return
    answer: Callable[[str, str], Awaitable[int]] = post_hook

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.split("\r\n")
        headers = {key.lower(): value for key, value in (line.split(": ", 1) for line in lines if line)}
        token = headers.get("authorization", "").removeprefix("Bearer ")
        status = await answer(f"http://hooks{first.split(' ')[1]}", token)
        writer.write(f"HTTP/1.1 {status} Said\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
