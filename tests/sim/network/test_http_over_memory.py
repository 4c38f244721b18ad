"""uvicorn, httpx and aiohttp meet on the in-memory network, on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import httpx
import pytest
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse
from looptime import LoopTimeProxy

from simulator.network.aiohttp_connector import MemoryConnector
from simulator.network.asgi_server import serve
from simulator.network.httpcore_backend import http_transport
from simulator.network.memory import Network

pytestmark = pytest.mark.looptime

HOST, PORT = "service", 8080
URL = f"http://{HOST}:{PORT}"


def an_app() -> FastAPI:
    app = FastAPI()

    @app.post("/echo")
    async def echo(request: Request) -> dict[str, int]:
        return {"length": len(await request.body())}

    @app.get("/slow")
    async def slow() -> dict[str, str]:
        await asyncio.sleep(3600)
        return {"after": "an hour"}

    @app.get("/ticks")
    async def ticks() -> StreamingResponse:
        async def lines() -> AsyncIterator[bytes]:
            for number in range(3):
                await asyncio.sleep(10)
                yield f"{number}\n".encode()

        return StreamingResponse(lines())

    return app


async def test_httpx_reaches_an_app_served_in_memory(looptime: LoopTimeProxy) -> None:
    network = Network()
    async with (
        serve(network, an_app(), HOST, PORT),
        httpx.AsyncClient(transport=http_transport(network), base_url=URL) as client,
    ):
        answer = await client.post("/echo", content=b"x" * 1_000_000)
        assert answer.json() == {"length": 1_000_000}
        assert (await client.get("/slow", timeout=None)).json() == {"after": "an hour"}
        assert looptime == 3600
        assert network.connections(HOST, PORT) == 1
    await asyncio.sleep(0)
    assert network.connections(HOST, PORT) == 0


async def test_aiohttp_reaches_an_app_served_in_memory_and_streams(looptime: LoopTimeProxy) -> None:
    network = Network()
    async with (
        serve(network, an_app(), HOST, PORT),
        aiohttp.ClientSession(connector=MemoryConnector(network)) as session,
    ):
        async with session.post(f"{URL}/echo", data=b"abc") as answer:
            assert await answer.json() == {"length": 3}
        async with session.get(f"{URL}/ticks") as answer:
            seen = [(line, float(looptime)) async for line in answer.content]
        assert seen == [(b"0\n", 10), (b"1\n", 20), (b"2\n", 30)]


async def test_time_outs_are_the_clients_own(looptime: LoopTimeProxy) -> None:
    network = Network()
    async with (
        serve(network, an_app(), HOST, PORT),
        httpx.AsyncClient(transport=http_transport(network), base_url=URL) as client,
        aiohttp.ClientSession(connector=MemoryConnector(network)) as session,
    ):
        with pytest.raises(httpx.ReadTimeout):
            await client.get("/slow", timeout=5)
        assert looptime == 5
        with pytest.raises(asyncio.TimeoutError):
            await session.get(f"{URL}/slow", timeout=aiohttp.ClientTimeout(total=7))
        assert looptime == 12


async def test_refused_and_cut_connections_are_the_clients_own_errors() -> None:
    network = Network()
    async with (
        httpx.AsyncClient(transport=http_transport(network), base_url=URL) as client,
        aiohttp.ClientSession(connector=MemoryConnector(network)) as session,
    ):
        with pytest.raises(httpx.ConnectError):
            await client.get("/slow")
        with pytest.raises(aiohttp.ClientConnectorError):
            await session.get(f"{URL}/slow")
        async with serve(network, an_app(), HOST, PORT):
            network.cut_after(HOST, PORT, 10)
            with pytest.raises(httpx.ReadError):
                await client.post("/echo", content=b"x")
            network.cut_after(HOST, PORT, 10)
            with pytest.raises(aiohttp.ClientConnectionError):
                await session.post(f"{URL}/echo", data=b"x")


async def test_a_stalled_dial_times_out(looptime: LoopTimeProxy) -> None:
    network = Network()
    network.stall(HOST, PORT)
    async with (
        httpx.AsyncClient(transport=http_transport(network), base_url=URL) as client,
        aiohttp.ClientSession(connector=MemoryConnector(network)) as session,
    ):
        with pytest.raises(httpx.ConnectTimeout):
            await client.get("/slow", timeout=2)
        with pytest.raises(aiohttp.ConnectionTimeoutError):
            await session.get(f"{URL}/slow", timeout=aiohttp.ClientTimeout(sock_connect=3))
        assert looptime == 5
