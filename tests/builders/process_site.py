"""A whole cluster in memory, and lives of the extender in it.

A simulated Slurm, API server, kube-scheduler and kubelets; every byte goes over the in-memory network, on virtual time.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from extender.assembly import Assembly
from extender.config.load import parse
from extender.domain.placeholder import Placeholder
from extender.kube.connection import connect_plainly
from extender.runtime import living
from extender.sim.aiohttp_connector import MemoryConnector
from extender.sim.asgi_server import serve
from extender.sim.httpcore_backend import http_transport
from extender.sim.kube.app import ApiServerApp
from extender.sim.kube.kubelet import Kubelets
from extender.sim.kube.objects import Json, set_condition
from extender.sim.kube.pods import pod_key
from extender.sim.kube.resources import EVENTS, NODES, PODS
from extender.sim.kube.server import FakeApiServer
from extender.sim.kube.storage import ObjectKey
from extender.sim.network import Network
from extender.sim.scheduler import SimScheduler
from extender.sim.slurm.cluster import SlurmSim, simulated_slurm
from extender.sim.slurm.lives import SimConfig
from extender.sim.slurm.records import ENDED, SimJob, SimNode, SimPartition
from extender.wires import LoopClock, Wires
from slurmclient import SlurmClient, StaticToken
from tests.builders.mortal_network import MortalNetwork

CONFIG = """
apiVersion: slurm-extender.io/v1alpha1
kind: ExtenderConfiguration
slurm: {addresses: ["http://slurm:6820"], token: t, user: root}
http: {bind: "extender:8080"}
hooks: {bind: "extender:8000", url: "http://extender:8000", key: secret}
limits: {refreshRate: 2}
observability: {healthBind: "extender:8081", metricsBind: "extender:8082", debugBind: "extender:8083"}
"""
EPOCH = 1_800_000_000.0
CLUSTER = "cluster-1"
NAMES = ("n1", "n2", "n3")


@dataclass
class Site:
    """What a test acts on."""

    kube: FakeApiServer
    slurm: SlurmSim
    network: Network
    scheduler: SimScheduler
    kubelets: Kubelets
    config: str = CONFIG
    extender: Assembly = field(init=False)

    def pod(self, name: str) -> Json:
        pod = self.kube.pod(name)
        assert pod is not None, f"no Pod {name}"
        return pod

    def uid(self, name: str) -> str:
        uid: str = self.pod(name)["metadata"]["uid"]
        return uid

    def node_of(self, name: str) -> str:
        """The node that a Pod is bound to, or ""."""
        pod = self.kube.pod(name)
        return pod["spec"].get("nodeName", "") if pod else ""

    def bound_pods(self) -> list[str]:
        """The names of the Pods that are on a node."""
        return [pod["metadata"]["name"] for pod in self.kube.storage.of(PODS) if pod["spec"].get("nodeName")]

    async def bound(self, name: str, within: float = 300.0) -> str:
        await self.until(lambda: bool(self.node_of(name)), f"a node for {name}", within)
        return self.node_of(name)

    async def gone(self, name: str, within: float = 300.0) -> None:
        await self.until(lambda: self.kube.pod(name) is None, f"the end of {name}", within)

    async def until(self, true: Callable[[], bool], what: str, within: float = 300.0) -> None:
        """Let virtual time pass until something is so."""
        loop = asyncio.get_running_loop()
        end = loop.time() + within
        while not true():
            if loop.time() > end:
                pytest.fail(f"not within {within} s: {what}\n{self.told()}")
            await asyncio.sleep(0.05)

    def told(self) -> str:
        engine = self.extender.engine
        return "\n".join(
            f"{p.key} {p.state}\n  " + "\n  ".join(engine.story(p.key).lines()) for p in engine.placeholders.values()
        )

    def placeholder(self, name: str) -> Placeholder:
        p = self.extender.engine.by_pod(self.uid(name))
        assert p is not None, f"no placeholder of {name}"
        return p

    def jobs(self) -> list[SimJob]:
        """Every job that Slurm still knows, but for refused immediate tries."""
        return [job for job in self.slurm.controller.known_jobs() if job.state != "FAILED"]

    def live_jobs(self) -> list[SimJob]:
        return [job for job in self.jobs() if job.state not in ENDED]

    def jobs_of(self, name: str) -> list[SimJob]:
        """Live jobs by the readable part of their name."""
        return [job for job in self.live_jobs() if job.name.rpartition("-")[0] == f"default/{name}"]

    def drained(self) -> list[str]:
        return [node.name for node in self.slurm.controller.nodes.values() if node.drained]

    def events(self, name: str) -> list[str]:
        """Reasons of the Events about an object."""
        return [item["reason"] for item in self.kube.storage.of(EVENTS) if item["regarding"]["name"] == name]

    def notes(self, name: str) -> list[str]:
        """Texts of the Events about an object."""
        return [item["note"] for item in self.kube.storage.of(EVENTS) if item["regarding"]["name"] == name]

    def edit_pod(self, name: str, edit: Callable[[Json], object]) -> None:
        self.kube.change(pod_key("default", name), lambda pod: (edit(pod), None)[1])

    def cordon(self, node: str, unschedulable: bool = True) -> None:
        self.kube.change(ObjectKey(NODES, "", node), lambda one: one["spec"].update(unschedulable=unschedulable))

    def delete_node(self, node: str) -> None:
        self.kube.storage.remove(ObjectKey(NODES, "", node))

    def report_ready(self, node: str, ready: bool) -> None:
        condition = {"type": "Ready", "status": "True" if ready else "Unknown", "reason": "Kubelet"}
        self.kube.change(
            ObjectKey(NODES, "", node), lambda one: set_condition(one["status"], condition, self.kube.wall())
        )

    async def fill(self, cpu: str = "8") -> None:
        """Let a Pod hold each node; `first-0` to `first-2`."""
        for number in range(len(NAMES)):
            self.kube.add_pod(f"first-{number}", cpu=cpu)
            await self.bound(f"first-{number}")

    async def get(self, port: int, path: str) -> httpx.Response:
        async with httpx.AsyncClient(transport=http_transport(self.network)) as client:
            return await client.get(f"http://extender:{port}{path}")

    async def post(self, path: str, token: str, timeout: float = 700.0) -> httpx.Response:  # noqa: ASYNC109
        """Call a hook."""
        async with httpx.AsyncClient(transport=http_transport(self.network), timeout=timeout) as client:
            shown = {"Authorization": f"Bearer {token}"} if token else {}
            return await client.post(f"http://extender:8000{path}", headers=shown)

    async def ask(self, path: str, body: Json) -> Json:
        """A question as kube-scheduler puts it."""
        async with httpx.AsyncClient(transport=http_transport(self.network)) as client:
            said: Json = (await client.post(f"http://extender:8080{path}", json=body)).json()
            return said

    async def ask_slurm(self, method: str, path: str, body: Json) -> Json:
        """A request of somebody else to slurmrestd."""
        async with httpx.AsyncClient(transport=http_transport(self.network)) as client:
            headers = {"X-SLURM-USER-TOKEN": "t"}
            answer = await client.request(method, f"http://slurm:6820/slurm/v0.0.43/{path}", json=body, headers=headers)
            said: Json = answer.json()
            return said

    async def submit_as_somebody_else(self, number: int = 0) -> int:
        job = {
            "name": f"somebody-elses-{number}",
            "current_working_directory": "/",
            "environment": ["PATH=/bin"],
            "script": "#!/bin/sh\nsleep 1000\n",
            "cpus_per_task": 1,
            "tasks": 1,
        }
        answer = await self.ask_slurm("POST", "job/submit", {"job": job})
        return int(answer["job_id"])

    async def metric(self, name: str) -> float:
        """The value of a metric without labels."""
        lines = (await self.get(8082, "/metrics")).text.splitlines()
        return next(float(line.split()[-1]) for line in lines if line.startswith(f"slurm_extender_{name} "))

    def wires(self, network: Network) -> Wires:
        return Wires(
            connect_plainly("http://kube:6443", lambda: "t", lambda: MemoryConnector(network)),
            SlurmClient(["http://slurm:6820"], StaticToken("t"), transport=http_transport(network)),
            LoopClock(self.kube.wall),
            random.Random(1),
            b"key",
            network.listen,
        )

    @asynccontextmanager
    async def running(self, *, ready: bool = True, changed: str = "") -> AsyncIterator[Assembly]:
        """One life of the extender, ended in good order. `changed` is put into its configuration."""
        wires = self.wires(self.network)
        try:
            async with living(parse(self.config + changed, "test"), wires, CLUSTER, validate=True) as self.extender:
                if ready:
                    await self.until(lambda: self.extender.ready, "readiness")
                yield self.extender
        finally:
            await wires.close()

    @asynccontextmanager
    async def dying(self) -> AsyncIterator[Callable[[], None]]:
        """One life of the extender that ends in the instant in which the given function is called, or at the end.

        Not a byte of it arrives anywhere after that instant, and it hears of nothing.
        """
        own = MortalNetwork(self.network)
        wires = self.wires(own)
        task: asyncio.Task[None] | None = None

        async def live(started: asyncio.Event) -> None:
            async with living(parse(self.config, "test"), wires, CLUSTER, validate=True) as self.extender:
                started.set()
                await asyncio.get_running_loop().create_future()

        def die() -> None:
            own.die()
            if task is not None:
                task.cancel()

        started = asyncio.Event()
        task = asyncio.create_task(live(started))
        try:
            await started.wait()
            await self.until(lambda: own.dead or self.extender.ready, "readiness")
            yield die
        finally:
            die()
            with suppress(asyncio.CancelledError):
                await task
            await wires.close()


@asynccontextmanager
async def working(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    task = asyncio.ensure_future(work)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@asynccontextmanager
async def a_site(*, slurm_config: SimConfig | None = None) -> AsyncIterator[Site]:
    """Three nodes of 8 CPUs, partitions `batch` and `urgent`; no extender yet."""
    network = Network()
    loop = asyncio.get_running_loop()
    began = loop.time()
    async with AsyncExitStack() as stack:
        kube = FakeApiServer(lambda: EPOCH + loop.time() - began)
        await stack.enter_async_context(serve(network, ApiServerApp(kube), "kube", 6443))

        async def post(url: str, token: str) -> int:
            async with httpx.AsyncClient(transport=http_transport(network), timeout=60) as client:
                try:
                    return (await client.post(url, headers={"Authorization": f"Bearer {token}"})).status_code
                except httpx.TransportError:
                    return 0

        slurm = await stack.enter_async_context(
            simulated_slurm(
                network,
                nodes=[SimNode(name, cpus=8, memory_mb=64_000) for name in NAMES],
                partitions=[
                    SimPartition("batch", default=True, priority_tier=1),
                    SimPartition("urgent", priority_tier=10),
                ],
                config=slurm_config,
                post_hook=post,
            )
        )
        for name in NAMES:
            kube.add_node(name)
        kubelets = Kubelets(kube)
        scheduler = SimScheduler(kube, network, "http://extender:8080/scheduler")
        await stack.enter_async_context(working(kubelets.run()))
        await stack.enter_async_context(working(scheduler.run()))
        yield Site(kube, slurm, network, scheduler, kubelets)
