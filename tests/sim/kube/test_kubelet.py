"""Kubelets of the simulation: Pods start, run, end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from simulator.kube.kubelet import FAIL_AFTER, RUN_FOR, Kubelets
from simulator.kube.server import FakeApiServer
from tests.builders.fake_api import LoopClock, running

pytestmark = pytest.mark.looptime


@asynccontextmanager
async def a_cluster(start_s: float = 1, stop_s: float = 1) -> AsyncIterator[tuple[FakeApiServer, Kubelets]]:
    server = FakeApiServer(LoopClock().wall)
    kubelets = Kubelets(server, start_s=start_s, stop_s=stop_s)
    async with running(kubelets.run()):
        yield server, kubelets


def phase(server: FakeApiServer, name: str = "p") -> str | None:
    pod = server.pod(name)
    return pod["status"]["phase"] if pod else None


async def test_a_bound_pod_runs_and_an_unbound_one_waits() -> None:
    async with a_cluster() as (server, _):
        server.add_pod("p", node="n1")
        server.add_pod("q")
        await asyncio.sleep(1.1)
        assert (phase(server, "p"), phase(server, "q")) == ("Running", "Pending")


async def test_a_deleted_pod_is_gone_once_its_containers_have_ended() -> None:
    async with a_cluster(stop_s=5) as (server, _):
        server.add_pod("p", node="n1", grace_s=30)
        await asyncio.sleep(2)
        server.delete_pod("p")
        await asyncio.sleep(4.9)
        assert phase(server) == "Running"
        await asyncio.sleep(0.2)
        assert phase(server) is None


async def test_containers_that_do_not_end_are_killed_after_the_grace() -> None:
    async with a_cluster(stop_s=3600) as (server, _):
        server.add_pod("p", node="n1", grace_s=30)
        await asyncio.sleep(2)
        server.delete_pod("p")
        await asyncio.sleep(29)
        assert phase(server) == "Running"
        await asyncio.sleep(1.1)
        assert phase(server) is None


@pytest.mark.parametrize(("annotation", "end"), [(RUN_FOR, "Succeeded"), (FAIL_AFTER, "Failed")])
async def test_a_pod_ends_by_itself_when_its_annotation_says_so(annotation: str, end: str) -> None:
    async with a_cluster() as (server, _):
        server.add_pod("p", node="n1", annotations={annotation: "10"})
        await asyncio.sleep(10.9)
        assert phase(server) == "Running"
        await asyncio.sleep(0.2)
        assert phase(server) == end


async def test_on_a_node_that_is_down_nothing_starts_and_nothing_ends() -> None:
    async with a_cluster() as (server, kubelets):
        server.add_pod("p", node="n1")
        await asyncio.sleep(2)
        kubelets.take_down("n1")
        server.add_pod("q", node="n1")
        server.delete_pod("p")
        await asyncio.sleep(3600)
        assert (phase(server, "p"), phase(server, "q")) == ("Running", "Pending")
        kubelets.bring_back("n1")
        await asyncio.sleep(2)
        assert (phase(server, "p"), phase(server, "q")) == (None, "Running")


async def test_a_pod_made_again_under_its_name_is_not_touched_by_what_was_due_for_the_first() -> None:
    async with a_cluster() as (server, _):
        server.add_pod("p", node="n1", annotations={RUN_FOR: "10"})
        await asyncio.sleep(2)
        server.delete_pod("p", grace_s=0)
        server.add_pod("p", node="n1")
        await asyncio.sleep(60)
        assert phase(server) == "Running"
