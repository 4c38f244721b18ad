"""Floods of real connections: `/livez` is answered to another address all the while, and the memory stays bounded.

Attackers come from 127.0.0.2, the kubelet's probe from 127.0.0.1. Each flood is larger than a listener may be.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme
import uvloop
from fastapi import APIRouter
from structlog.testing import capture_logs

from extender.config.serving import ServerTls
from extender.config.values import BindAddress
from extender.domain.verdict import Place
from extender.http import connections as bounds
from extender.http.app import Endpoint, application
from extender.http.connections import ListenerLimits
from extender.http.health import router as health_router
from extender.http.scheduling import router
from extender.http.server import serving
from extender.observability.metrics.registry import Metrics
from tests.builders.flooder import ENDLESS, FLOODS, Send, connected, half_handshake
from tests.builders.services import FakeScheduling, FakeServices, StillClock

TOP = Path(__file__).parents[2]
PROBES = 100
WITHIN_S = 5.0
"""The probe's own timeout: what takes longer is a failure of the kubelet's, as with the shipped Deployment."""

SMALL = ListenerLimits(connections=60, per_address=40, held_bytes=512 * 1024, body_bytes=64 * 1024)
FLOOD = 80
"""Connections of an attacker: more than a listener takes."""


def endpoint(tls: ServerTls | None = None) -> Endpoint:
    clock = StillClock()
    scheduling = router(FakeServices(FakeScheduling(Place("n1"))), Metrics(clock), clock, SMALL.body_bytes)
    big = APIRouter()

    @big.get("/big")
    async def answer() -> str:
        return "x" * 4_000_000

    health = health_router(lambda: True, lambda: [])
    return Endpoint(BindAddress("127.0.0.1", 0), application([scheduling, health, big]), tls, ("test",), bounds=SMALL)


async def probe(at: BindAddress) -> None:
    async with asyncio.timeout(WITHIN_S):
        reader, writer = await asyncio.open_connection(at.host, at.port)
        writer.write(b"GET /livez HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
        said = await reader.read()
        writer.close()
    assert said.startswith(b"HTTP/1.1 200 "), said


@asynccontextmanager
async def flood(at: BindAddress, name: str) -> AsyncIterator[None]:
    """While inside, a process of its own floods this listener."""
    command = [sys.executable, "-m", "tests.builders.flooder", name, str(at.port), str(FLOOD)]
    process = await asyncio.create_subprocess_exec(*command, cwd=TOP, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"flooding\n"
        yield
    finally:
        process.kill()
        await process.wait()


async def flooded(send: Send) -> None:
    async with serving([endpoint()], stop_within_s=0.1) as (at,), flood(at, send.__name__):
        for _ in range(PROBES):
            await probe(at)


@pytest.mark.parametrize("send", FLOODS, ids=lambda send: send.__name__)
def test_a_flood_does_not_keep_the_probe_waiting(send: Send) -> None:
    with capture_logs() as logs, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(flooded(send))
    assert not [line for line in logs if line["log_level"] in {"error", "critical"}]
    assert len(logs) <= 10, "lines of the log do not grow with the flood"


@pytest.mark.parametrize("send", ENDLESS, ids=lambda send: send.__name__)
def test_what_has_no_end_is_refused_after_a_few_bytes(send: Send) -> None:
    async def sent() -> None:
        async with serving([endpoint()], stop_within_s=0.1) as (at,), connected(at) as (reader, writer):
            with pytest.raises(OSError):
                await send(reader, writer)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(sent())


def test_half_handshakes_of_tls_do_not_keep_the_probe_waiting(tmp_path: Path) -> None:
    authority = trustme.CA()
    pair = authority.issue_cert("127.0.0.1")
    (tmp_path / "tls.crt").write_bytes(b"".join(blob.bytes() for blob in pair.cert_chain_pems))
    (tmp_path / "tls.key").write_bytes(pair.private_key_pem.bytes())
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    files = ServerTls(certificate_file=str(tmp_path / "tls.crt"), key_file=str(tmp_path / "tls.key"))

    async def run() -> None:
        async with serving([endpoint(files)], stop_within_s=0.1) as (at,), flood(at, half_handshake.__name__):
            for _ in range(PROBES):
                async with asyncio.timeout(WITHIN_S):
                    reader, writer = await asyncio.open_connection(at.host, at.port, ssl=trusting)
                    writer.write(b"GET /livez HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
                    assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
                    writer.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())


def test_every_phase_but_those_that_others_watch_over_has_a_time() -> None:
    assert set(bounds.ConnectionPhase) - bounds.SECONDS.keys() == {
        bounds.ConnectionPhase.IDLE,
        bounds.ConnectionPhase.ANSWER,
    }
