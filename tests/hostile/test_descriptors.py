"""A process with few descriptors: its listeners share them, and the probe is answered in a flood of connections."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from extender.config.load import parse
from extender.config.values import BindAddress
from extender.http.app import Endpoint, Services, endpoints
from extender.http.connections import DEFAULT_BOUNDS
from extender.http.server import CannotListen
from extender.observability.metrics.registry import Metrics
from extender.server.descriptors import LEAST, within_limit
from tests.builders.flooder import ATTACKER
from tests.builders.served_process import HEAD, free_ports, served, written_config
from tests.builders.services import FakeServices, StillClock

GENEROUS_S = 60.0
PROBE_S = 5.0
DESCRIPTORS = 800
FLOOD = 900
ELECTING = "leaderElection: {enabled: true}\n"


def listeners(body: str = "", limit: int = 10**6) -> dict[str, Endpoint]:
    """The endpoints of a configuration, within a number of descriptors, by their first name."""
    config = parse(f"{HEAD}slurm: {{token: hush}}\nhooks: {{bind: ':8000'}}\n{body}", "c.yaml")
    clock = StillClock()
    services = Services(FakeServices(), Metrics(clock), clock)
    return {one.names[0]: one for one in within_limit(config, endpoints(config, services), limit)}


def connections(body: str = "", limit: int = 10**6) -> dict[str, int]:
    return {name: one.bounds.connections for name, one in listeners(body, limit).items()}


def test_enough_descriptors_leave_every_limit_as_it_is_configured() -> None:
    assert connections(limit=5000) == connections()
    assert connections()["http.bind"] == 2048


@pytest.mark.parametrize("body", ["", ELECTING, f"{ELECTING}admission: {{bind: ':8443'}}\n"])
@pytest.mark.parametrize("limit", [1024, 2048, 4000])
def test_the_connections_of_all_listeners_stay_below_the_descriptors(limit: int, body: str) -> None:
    found = connections(body, limit)
    forwarded = sum(found[name] for name in ("http.bind", "hooks.bind")) if body else 0
    outgoing = 100 + 8
    assert sum(found.values()) + forwarded + outgoing < limit
    assert found["observability.healthBind"] == DEFAULT_BOUNDS.connections
    assert min(found.values()) >= LEAST


def test_no_address_may_have_more_connections_than_its_listener_and_each_may_have_one() -> None:
    for limit in (900, 1024, 3000):
        for one in listeners(limit=limit).values():
            assert 1 <= one.bounds.per_address <= one.bounds.connections


def test_probes_keep_their_connections_at_an_address_that_they_share() -> None:
    found = connections("observability: {healthBind: '127.0.0.1:8080'}\n", 1024)
    assert found["http.bind"] > DEFAULT_BOUNDS.connections


def test_calls_that_are_forwarded_count_twice_at_an_address_that_probes_share() -> None:
    found = connections(f"{ELECTING}observability: {{healthBind: '127.0.0.1:8080'}}\n", 2048)
    assert sum(found.values()) + found["http.bind"] + found["hooks.bind"] + 108 < 2048


@pytest.mark.parametrize(
    "body",
    ["", "http: {connections: 100}\ngangs: {largest: 50}\nobservability: {healthBind: '127.0.0.1:8080'}\n"],
)
def test_descriptors_that_do_not_suffice_for_any_listener_end_the_start_with_a_sentence(body: str) -> None:
    with pytest.raises(CannotListen, match=r"may open 300 descriptors, and needs \d+: raise its hard limit"):
        connections(body, 300)


async def logged(process: asyncio.subprocess.Process, event: str, times: int = 1) -> dict[str, Any]:
    """Wait for the last of so many lines of the log with this name."""
    assert process.stderr is not None
    async with asyncio.timeout(GENEROUS_S):
        async for line in process.stderr:
            with contextlib.suppress(ValueError):
                said: dict[str, Any] = json.loads(line)
                times -= said.get("msg") == event
                if not times:
                    return said
    raise AssertionError(f"no line {event}")


async def probe(at: BindAddress) -> None:
    async with asyncio.timeout(PROBE_S):
        reader, writer = await asyncio.open_connection(at.host, at.port)
        writer.write(b"GET /livez HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
        said = await reader.read()
        writer.close()
    assert said.startswith(b"HTTP/1.1 200 "), said


async def test_more_connections_than_descriptors_do_not_keep_the_probe_waiting(tmp_path: Path) -> None:
    main, health, metrics, debug = free_ports(4)
    body = (
        f"kubernetes: {{kubeconfig: {tmp_path}/kubeconfig}}\nhooks: {{allocationProofs: unsigned}}\n"
        f"http: {{bind: '127.0.0.1:{main}'}}\nobservability: {{healthBind: '127.0.0.1:{health}', "
        f"metricsBind: '127.0.0.1:{metrics}', debugBind: '127.0.0.1:{debug}'}}\n"
    )
    held: list[asyncio.StreamWriter] = []
    async with served(written_config(tmp_path, body), DESCRIPTORS) as process:
        reduced = await logged(process, "connections_reduced")
        assert reduced["limit"] == DESCRIPTORS
        await logged(process, "listening", times=4)
        log = asyncio.create_task(logged(process, "none"))  # so that the process never waits for its reader
        try:
            for number in range(FLOOD):
                with contextlib.suppress(OSError):
                    _, writer = await asyncio.open_connection("127.0.0.1", main, local_addr=(ATTACKER, 0))
                    held.append(writer)
                if number % 50 == 0:
                    await probe(BindAddress("127.0.0.1", health))
            assert len(held) > DESCRIPTORS
            for _ in range(20):
                await probe(BindAddress("127.0.0.1", health))
        finally:
            log.cancel()
            for writer in held:
                writer.transport.abort()
