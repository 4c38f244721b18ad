"""Floods of real connections: `/livez` is answered to another address all the while, and the held bytes stay bounded.

Attackers come from 127.0.0.2, the kubelet's probe from 127.0.0.1. Each flood is larger than a listener may be.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import httpx
import pytest
import trustme
import uvloop
from fastapi import APIRouter
from structlog.testing import capture_logs

from extender.config.serving import ServerTls
from extender.config.values import BindAddress
from extender.domain.verdict import Place
from extender.http import connections as bounds
from extender.http import hooks, server
from extender.http.admission import router as admission_router
from extender.http.app import LARGE_HELD, Endpoint, application, metrics_router
from extender.http.connections import ListenerConnections, ListenerLimits, ServedConnection
from extender.http.health import router as health_router
from extender.http.scheduling import router
from extender.http.server import serving
from extender.observability.metrics.registry import Metrics
from extender.observability.metrics.scrape import Sources
from tests.builders.complete_requests import COMPLETE
from tests.builders.flooder import ENDLESS, FLOODS, HANDSHAKES, HOLDING, Send, connected
from tests.builders.hook_services import CountedIndex, bound_pods, hook_service
from tests.builders.served_process import free_ports, served, written_config
from tests.builders.services import FakeScheduling, FakeServices, StillClock

TOP = Path(__file__).parents[2]
PROBES = 100
WITHIN_S = 5.0
"""The probe's own timeout: what takes longer is a failure of the kubelet's, as with the shipped Deployment."""

GENEROUS_S = 60.0
"""For a process to start, on a machine that has other work."""

SMALL = ListenerLimits(connections=60, per_address=40, held_bytes=512 * 1024, body_bytes=64 * 1024)
FLOOD = 80
"""Connections of an attacker: more than a listener takes."""


def endpoint(tls: ServerTls | None = None, index: CountedIndex | None = None) -> Endpoint:
    clock = StillClock()
    known = index or CountedIndex(iter(()))
    services = FakeServices(FakeScheduling(Place("n1")), hook_service(known))
    metrics = Metrics(clock)
    metrics.read_from(Sources(placeholders=lambda: known.all.values()))
    scheduling = router(services, metrics, clock, SMALL.body_bytes)
    admission = admission_router(["slurm"], None, SMALL.body_bytes, clock)
    big = APIRouter()

    @big.get("/big")
    async def answer() -> str:
        return "x" * 4_000_000

    shown = metrics_router(metrics, clock)
    health = health_router(lambda: True, lambda: [])
    app = application([scheduling, admission, health, big, hooks.router(services, metrics, 60.0), shown])
    return Endpoint(BindAddress("127.0.0.1", 0), app, tls, ("test",), bounds=SMALL)


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


HELD: list[int] = []
"""Bytes that the listener held after each part of a request."""


class WatchedConnections(ListenerConnections):
    """Records the bytes that are held."""

    def hold(self, connection: ServedConnection, size: int) -> bool:
        has_room = super().hold(connection, size)
        HELD.append(self.held)
        return has_room


async def flooded(send: Send, refused: set[str]) -> None:
    async with (
        serving([endpoint()], stop_within_s=0.1, refused=refused.add) as (at,),
        flood(at, send.__name__),
    ):
        for _ in range(PROBES):
            await probe(at)


@pytest.mark.parametrize("send", FLOODS, ids=lambda send: send.__name__)
def test_a_flood_does_not_keep_the_probe_waiting(send: Send, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "ListenerConnections", WatchedConnections)
    HELD.clear()
    refused: set[str] = set()
    with capture_logs() as logs, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(flooded(send, refused))
    assert not [line for line in logs if line["log_level"] in {"error", "critical"}]
    assert len(logs) <= 10, "lines of the log do not grow with the flood"
    assert max(HELD, default=0) <= SMALL.held_bytes
    if send in HOLDING:
        assert "too many bytes held" in refused


WORKLOADS = 3_000
AT_ONCE = SMALL.per_address
WALKS = 2
"""Two metrics are sums over all workloads. Time stands still, so that one text of `/metrics` serves every request."""


@pytest.mark.parametrize("name", COMPLETE)
def test_complete_requests_at_once_read_no_workload_and_do_not_keep_the_probe_waiting(name: str) -> None:
    index = CountedIndex(bound_pods(WORKLOADS))

    async def flooded_at_once() -> None:
        async with serving([endpoint(index=index)], stop_within_s=0.1) as (at,):
            for _ in range(3):
                async with AsyncExitStack() as held:
                    flood = [await held.enter_async_context(connected(at)) for _ in range(AT_ONCE)]
                    for _reader, writer in flood:
                        writer.write(COMPLETE[name])
                    await probe(at)
                    answers = [await reader.read() for reader, _writer in flood]
                assert all(re.match(rb"HTTP/1.1 (200|202|403) ", answer) for answer in answers)

    with capture_logs(), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(flooded_at_once())
    assert index.walks == (WALKS if name == "metrics" else 0)


@pytest.mark.parametrize("send", ENDLESS, ids=lambda send: send.__name__)
def test_what_has_no_end_is_refused_after_a_few_bytes(send: Send) -> None:
    async def sent() -> None:
        async with serving([endpoint()], stop_within_s=0.1) as (at,), connected(at) as (reader, writer):
            with pytest.raises(OSError):
                await send(reader, writer)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(sent())


@pytest.mark.parametrize("send", HANDSHAKES, ids=lambda send: send.__name__)
def test_handshakes_of_tls_do_not_keep_the_probe_waiting(tmp_path: Path, send: Send) -> None:
    authority = trustme.CA()
    pair = authority.issue_cert("127.0.0.1")
    (tmp_path / "tls.crt").write_bytes(b"".join(blob.bytes() for blob in pair.cert_chain_pems))
    (tmp_path / "tls.key").write_bytes(pair.private_key_pem.bytes())
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    files = ServerTls(certificate_file=str(tmp_path / "tls.crt"), key_file=str(tmp_path / "tls.key"))

    async def run() -> None:
        async with serving([endpoint(files)], stop_within_s=0.1) as (at,), flood(at, send.__name__):
            for _ in range(PROBES):
                async with asyncio.timeout(WITHIN_S):
                    reader, writer = await asyncio.open_connection(at.host, at.port, ssl=trusting)
                    writer.write(b"GET /livez HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
                    assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
                    writer.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())


BODIES = 200
BODY = 1024 * 1024
MEMORY = 128 * 2**20
"""Of both listeners at most: each holds half of that much of requests, for 200 MiB that are sent to it."""


def resident(process: asyncio.subprocess.Process) -> int:
    """The largest number of bytes that the process has had in memory."""
    status = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


async def ended_for_held_bytes(metrics: BindAddress) -> int:
    """The connections that the process has ended for the bytes that it held."""
    async with httpx.AsyncClient(timeout=GENEROUS_S) as http:
        text = (await http.get(f"http://{metrics}/metrics")).text
    counted = [line for line in text.splitlines() if not line.startswith("#") and "too many bytes held" in line]
    return sum(int(float(line.rpartition(" ")[2])) for line in counted)


async def test_a_process_takes_no_more_memory_than_its_listeners_may_hold(tmp_path: Path) -> None:
    main, hook, health, metrics = (BindAddress("127.0.0.1", port) for port in free_ports(4))
    body = (
        f"kubernetes: {{kubeconfig: {tmp_path}/kubeconfig}}\nhooks: {{allocationProofs: unsigned}}\n"
        f"http: {{bind: '{main}'}}\nadmission: {{bind: '{hook}'}}\n"
        f"observability: {{healthBind: '{health}', metricsBind: '{metrics}'}}\n"
    )
    async with served(written_config(tmp_path, body)) as process, AsyncExitStack() as held:
        log = asyncio.create_task(process.stderr.read() if process.stderr else asyncio.sleep(0))
        await answering(health)
        before = resident(process)
        for at, path in ((main, "/scheduler/filter"), (hook, "/admission/mutate")):
            lines = (f"POST {path} HTTP/1.1", "Host: h", "Content-Type: application/json")
            head = "\r\n".join((*lines, f"Content-Length: {2 * BODY}", "", ""))
            for _ in range(BODIES):
                with contextlib.suppress(OSError):
                    _, writer = await held.enter_async_context(connected(at))
                    writer.write(head.encode() + b"a" * BODY)
                    await writer.drain()
            await probe(health)
        fitting = LARGE_HELD // BODY
        async with asyncio.timeout(GENEROUS_S):
            while await ended_for_held_bytes(metrics) < 2 * (BODIES - fitting - 1):
                await probe(health)
        assert resident(process) - before < MEMORY + 32 * 2**20
        log.cancel()


async def answering(at: BindAddress) -> None:
    """Wait until the process listens."""
    async with asyncio.timeout(GENEROUS_S):
        while True:
            with contextlib.suppress(OSError):
                return await probe(at)
            await asyncio.sleep(0.1)


def test_every_phase_but_those_that_others_supervise_has_a_time() -> None:
    assert set(bounds.ConnectionPhase) - bounds.SECONDS.keys() == {
        bounds.ConnectionPhase.IDLE,
        bounds.ConnectionPhase.ANSWER,
    }
