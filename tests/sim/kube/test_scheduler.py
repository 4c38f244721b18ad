"""The tiny kube-scheduler treats an extender as the real one does."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest
from fastapi import FastAPI, Response

from simulator.kube import pods
from simulator.kube.objects import Json
from simulator.kube.resources import NODES
from simulator.kube.scheduler import SimScheduler
from simulator.kube.server import FakeApiServer
from simulator.kube.storage import ObjectKey
from simulator.network.asgi_server import serve
from simulator.network.memory import Network
from tests.builders.fake_api import LoopClock, running

pytestmark = pytest.mark.looptime

HOST, PORT = "extender", 8888


@dataclass
class ToyExtender:
    """Answers as it is told: `node` is its choice; without one it rejects; `error` and `code` are faults."""

    server: FakeApiServer
    node: str = ""
    error: str = ""
    code: int = 200
    bind_error: str = ""
    filters: list[tuple[float, str, list[str]]] = field(default_factory=list)

    def app(self) -> FastAPI:
        app = FastAPI()

        @app.post("/scheduler/filter")
        async def filter_nodes(body: dict[str, Any], response: Response) -> dict[str, Any]:
            now = asyncio.get_running_loop().time()
            self.filters.append((now, body["Pod"]["metadata"]["name"], body["NodeNames"]))
            response.status_code = self.code
            if self.error:
                return {"Error": self.error}
            if not self.node:
                return {"NodeNames": [], "FailedAndUnresolvableNodes": {body["NodeNames"][0]: "waiting for Slurm"}}
            return {"NodeNames": [self.node]}

        @app.post("/scheduler/bind")
        async def bind(body: dict[str, str]) -> dict[str, str]:
            if self.bind_error:
                return {"Error": self.bind_error}
            binding = {
                "metadata": {"name": body["PodName"], "uid": body["PodUID"]},
                "target": {"kind": "Node", "name": body["Node"]},
            }
            key = pods.pod_key(body["PodNamespace"], body["PodName"])
            pods.bind(self.server.storage, key, binding, self.server.wall())
            return {"Error": ""}

        return app

    @property
    def times(self) -> list[float]:
        return [round(at, 1) for at, _, _ in self.filters]


@asynccontextmanager
async def a_cluster() -> AsyncIterator[tuple[FakeApiServer, ToyExtender, SimScheduler]]:
    network, server = Network(), FakeApiServer(LoopClock().wall)
    extender = ToyExtender(server)
    scheduler = SimScheduler(server, network, f"http://{HOST}:{PORT}/scheduler")
    server.add_node("n1")
    server.add_node("n2", labels={"disk": "ssd"})
    server.add_node("cordoned", unschedulable=True)
    server.add_node("dead", ready=False)
    async with serve(network, extender.app(), HOST, PORT), running(scheduler.run()):
        yield server, extender, scheduler


def node_of(server: FakeApiServer, name: str = "p") -> str:
    pod = server.pod(name)
    assert pod is not None
    return str(pod["spec"].get("nodeName", ""))


async def test_a_pod_is_filtered_once_and_bound_where_the_extender_says() -> None:
    async with a_cluster() as (server, extender, scheduler):
        extender.node = "n2"
        server.add_pod("p")
        await asyncio.sleep(1)
        assert node_of(server) == "n2"
        assert [names for _, _, names in extender.filters] == [["n1", "n2"]]
        assert scheduler.status.outcomes == [("p", "bound to n2")]


async def test_pods_of_others_and_gated_pods_are_not_tried() -> None:
    async with a_cluster() as (server, extender, _):
        server.add_pod("foreign", scheduler="default-scheduler")
        server.add_pod("gated", gates=["g"])
        await asyncio.sleep(60)
        assert extender.filters == []


async def test_an_ungated_pod_is_tried_at_once() -> None:
    async with a_cluster() as (server, extender, _):
        extender.node = "n1"
        server.add_pod("p", gates=["g"])
        await asyncio.sleep(60)
        server.change(pods.pod_key("default", "p"), lambda pod: pod["spec"].pop("schedulingGates"))
        await asyncio.sleep(0.1)
        assert node_of(server) == "n1"


async def test_a_node_selector_narrows_the_list() -> None:
    async with a_cluster() as (server, extender, _):
        server.add_pod("p", node_selector={"disk": "ssd"})
        await asyncio.sleep(0.1)
        assert extender.filters[0][2] == ["n2"]


async def test_a_rejected_pod_is_tried_twice_and_then_rests() -> None:
    async with a_cluster() as (server, extender, _):
        server.add_pod("p")
        await asyncio.sleep(120)
        assert extender.times == [0, 1]
        pod = server.pod("p")
        assert pod is not None
        [condition] = pod["status"]["conditions"]
        assert condition["reason"] == "Unschedulable"
        assert condition["message"] == "0/2 nodes are available: waiting for Slurm."


async def test_a_rejected_pod_comes_back_when_a_node_or_itself_changes() -> None:
    async with a_cluster() as (server, extender, _):
        server.add_pod("p")
        await asyncio.sleep(100)

        def annotate(obj: Json) -> None:
            obj["metadata"]["annotations"] = {"a": "b"}

        server.change(pods.pod_key("default", "p"), annotate)
        await asyncio.sleep(100)
        server.change(ObjectKey(NODES, "", "n1"), annotate)
        await asyncio.sleep(100)
        assert extender.times == [0, 1, 100, 200]


async def test_an_error_comes_back_on_a_timer_that_no_event_shortens() -> None:
    async with a_cluster() as (server, extender, _):
        extender.error = "Slurm cannot be reached"
        server.add_pod("p")
        for _ in range(20):
            await asyncio.sleep(1)
            server.add_node(f"new-{asyncio.get_running_loop().time()}")
        assert extender.times == [0, 1, 3, 7, 15]


async def test_with_a_seed_each_back_off_is_drawn_no_shorter_than_the_real_one_and_the_same_again() -> None:
    async def times(seed: int) -> list[float]:
        async with a_cluster() as (server, extender, scheduler):
            scheduler.rng = random.Random(seed)
            began, extender.error = asyncio.get_running_loop().time(), "Slurm cannot be reached"
            server.add_pod("p")
            await asyncio.sleep(40)
            return [at - began for at, _, _ in extender.filters[:5]]

    drawn = await times(1)
    assert await times(1) == pytest.approx(drawn, abs=0.01)
    assert await times(2) != pytest.approx(drawn, abs=0.01)
    waits = [later - earlier for earlier, later in pairwise(drawn)]
    assert all(least < wait <= 1.5 * least + 0.01 for least, wait in zip((1, 2, 4, 8), waits, strict=True)), waits


async def test_an_answer_other_than_200_and_an_unknown_node_are_errors() -> None:
    async with a_cluster() as (server, extender, scheduler):
        extender.code = 500
        server.add_pod("p")
        await asyncio.sleep(0.1)
        assert "code 500" in scheduler.status.outcomes[0][1]
        extender.code, extender.node = 200, "elsewhere"
        await asyncio.sleep(1)
        assert "not in the list" in scheduler.status.outcomes[1][1]


async def test_a_binding_that_fails_begins_a_new_cycle() -> None:
    async with a_cluster() as (server, extender, _):
        extender.node, extender.bind_error = "n1", "no"
        server.add_pod("p")
        await asyncio.sleep(0.5)
        extender.bind_error = ""
        await asyncio.sleep(1)
        assert node_of(server) == "n1"
        assert extender.times == [0, 1]
