"""Assemble a cluster in memory: network, API server, Slurm, kube-scheduler and kubelets, and run extenders in it.

All traffic uses the in-memory network; all delays use the clock of the running loop.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar

import httpx

from extender.assembly import Assembly
from extender.assembly.in_flight_writes import InFlightWrites
from extender.assembly.io_context import IoContext, LoopClock, running_time
from extender.assembly.write_gate import WriteGate
from extender.config.document import ExtenderConfiguration
from extender.config.limits import Fences
from extender.config.load import parse
from extender.domain.nodes.fence_evidence import FenceProofs, FenceScript
from extender.domain.wellknown import FENCE_EVIDENCE
from extender.kube.connection import connect_plainly
from extender.kube.write_check import WriteCheck
from extender.server.active_role import living
from simulator.kube import rbac
from simulator.kube.app import ApiServerApp
from simulator.kube.kubelet import Kubelets
from simulator.kube.objects import Json, set_condition
from simulator.kube.resources import NAMESPACES, NODES, PODS
from simulator.kube.scheduler import SimScheduler
from simulator.kube.server import FakeApiServer
from simulator.kube.storage import ObjectKey, Snapshot
from simulator.network.aiohttp_connector import MemoryConnector
from simulator.network.asgi_server import serve
from simulator.network.httpcore_backend import http_transport
from simulator.network.killable import KillableNetwork
from simulator.network.memory import Network
from simulator.network.request_tap import RequestTap
from simulator.node_names import SLURMD_CONFIG, NodeNames, NodeNaming, names_for
from simulator.replicas.process_lock import LockHolder
from simulator.slurm.fence_scripts import FenceScripts
from simulator.slurm.job_lifecycle import Scripts, SimConfig
from simulator.slurm.records import ENDED, SimJob, SimNode, SimPartition
from simulator.slurm.release import NEWEST
from simulator.slurm.service import SimSlurm, simulated_slurm
from simulator.slurm.timers import EPOCH
from slurmclient import SlurmClient, StaticToken

CONFIG = """
apiVersion: slurm-extender.io/v1alpha1
kind: ExtenderConfiguration
slurm: {addresses: ["http://slurm:6820"], token: t, user: root}
http: {bind: "extender:8080"}
hooks: {bind: "extender:8000", url: "http://extender:8000", key: secret}
limits: {refreshRate: 2}
observability: {healthBind: "extender:8081", metricsBind: "extender:8082", debugBind: "extender:8083"}
"""
CLUSTER, SCHEDULER, HOOK_KEY = "cluster-1", "slurm", "secret"
YEARS_S = 1e9
NAMES = ("n1", "n2", "n3")
POLL_EVERY_S = 0.05
"""How often `until` checks its condition."""

HOOK_TIMEOUT_S = 60.0
"""Time-out of one call of the placeholder's script."""


def allow_everything(given: ExtenderConfiguration) -> ExtenderConfiguration:
    """Return the configuration with `*` for each list of allowed names that it does not set."""
    lists = ("partitions", "accounts", "qos", "reservations", "mcs_labels")
    anything = {key: ("*",) for key in lists if not getattr(given.jobs, key)}
    return given.model_copy(update={"jobs": given.jobs.model_copy(update=anything)})


def with_permanent_fence_evidence(given: ExtenderConfiguration) -> ExtenderConfiguration:
    """Return the configuration with evidence of fences that neither expires nor goes, unless it says otherwise."""
    if given.fences != Fences():
        return given
    return given.model_copy(update={"fences": Fences(evidence=YEARS_S, call_within=YEARS_S)})


class ConditionTimeout(AssertionError):
    """A condition did not become true in time."""


def three_nodes() -> list[SimNode]:
    """Return `n1` to `n3`, 8 CPUs each."""
    return [SimNode(name, cpus=8, memory_mb=64_000) for name in NAMES]


def two_partitions() -> list[SimPartition]:
    """Return `batch` for everything, and `urgent`, which preempts."""
    return [SimPartition("batch", default=True, priority_tier=1), SimPartition("urgent", priority_tier=10)]


@dataclass
class SimCluster:
    """The parts of a simulated cluster, and the extender that runs in it.

    `clock_error_s` is the error of the wall clock of the extender's machine. `rng` makes its random generator.
    """

    kube: FakeApiServer
    api: ApiServerApp
    slurm: SimSlurm
    network: Network
    scheduler: SimScheduler
    kubelets: Kubelets
    config: str = CONFIG
    rng: Callable[[], random.Random] = lambda: random.Random(1)  # noqa: S311
    clock_error_s: float = 0.0
    names: NodeNames = field(default_factory=NodeNames)
    lists_everything: bool = True
    """Allow any partition, account, QOS and reservation of which the configuration has no list."""

    fences_proven: ClassVar[bool] = False
    """Each Slurm node has evidence of a working fence from the start, whatever scripts run."""

    process_locks: dict[str, LockHolder] = field(default_factory=dict)
    """Which process held the lock of each place last."""

    extender: Assembly = field(init=False)
    fence: FenceScripts = field(init=False)

    def configured(self, changed: str = "") -> ExtenderConfiguration:
        """Return the configuration with `changed` appended."""
        given = parse(self.config + changed, "test")
        given = with_permanent_fence_evidence(given) if self.fences_proven else given
        return allow_everything(given) if self.lists_everything else given

    def node_of(self, name: str) -> str:
        """Return the Node that a Pod is bound to, "" for none."""
        pod = self.kube.pod(name)
        return pod["spec"].get("nodeName", "") if pod else ""

    def pods(self) -> list[Json]:
        """Return the Pods that Slurm places."""
        return [pod for pod in self.kube.storage.of(PODS) if pod["spec"]["schedulerName"] == SCHEDULER]

    def bound_pods(self) -> list[str]:
        """Return the names of the bound Pods."""
        return [pod["metadata"]["name"] for pod in self.pods() if pod["spec"].get("nodeName")]

    def jobs(self) -> list[SimJob]:
        """Return every job that Slurm has a record of, except rejected immediate allocations."""
        return [job for job in self.slurm.controller.known_jobs() if job.state != "FAILED"]

    def live_jobs(self) -> list[SimJob]:
        """Return the jobs that have not ended."""
        return [job for job in self.jobs() if job.state not in ENDED]

    def drained(self) -> list[str]:
        """Return the names of the drained Slurm nodes."""
        return [node.name for node in self.slurm.controller.nodes.values() if node.drained]

    async def restore_kube(self, snapshot: Snapshot, *, bump: bool = True) -> None:
        """Stop the API server, restore its storage from a backup, and start it.

        Without `bump` resource versions repeat; on return the version has passed all that were in use.
        """
        self.network.refuse("kube", 6443)
        self.network.cut("kube", 6443)
        await asyncio.sleep(1.0)  # every watch has ended
        used = self.kube.storage.version
        self.kube.storage.restore(snapshot, bump=bump)
        while self.kube.storage.version <= used:
            self.kube.change(ObjectKey(NAMESPACES, "", "default"), _beat)
        self.network.refuse("kube", 6443, refused=False)

    def cordon(self, node: str, unschedulable: bool = True) -> None:
        """Cordon a Node, or uncordon it."""
        self.kube.change(ObjectKey(NODES, "", node), lambda one: one["spec"].update(unschedulable=unschedulable))

    def delete_node(self, node: str) -> None:
        """Delete a Node from Kubernetes."""
        self.kube.storage.remove(ObjectKey(NODES, "", node))

    def report_ready(self, node: str, ready: bool) -> None:
        """Set the Ready condition of a Node as the node controller does."""
        condition = {"type": "Ready", "status": "True" if ready else "Unknown", "reason": "Kubelet"}
        self.kube.change(
            ObjectKey(NODES, "", node), lambda one: set_condition(one["status"], condition, self.kube.wall())
        )

    async def until(
        self, true: Callable[[], bool], what: str, within: float = 300.0, every: float = POLL_EVERY_S
    ) -> None:
        """Advance virtual time until a condition is true. Raises ConditionTimeout."""
        loop = asyncio.get_running_loop()
        end = loop.time() + within
        while not true():
            if loop.time() > end:
                raise ConditionTimeout(f"not within {within} s: {what}\n{self.histories()}")
            await asyncio.sleep(every)

    def histories(self) -> str:
        """Return the extender's history of each workload."""
        if not hasattr(self, "extender"):
            return "the extenders are processes of their own"
        engine = self.extender.engine
        return "\n".join(
            f"{p.key} {p.state}\n  " + "\n  ".join(engine.histories.of(p.key).lines())
            for p in engine.placeholders.all.values()
        )

    def client(self, timeout: float = 5.0) -> httpx.AsyncClient:
        """Return an HTTP client on the cluster's network."""
        return httpx.AsyncClient(transport=http_transport(self.network), timeout=timeout)

    def io_context(self, network: Network) -> IoContext:
        """Return the connections and clocks of one extender whose machine is on `network`."""
        rng = self.rng()
        write_gate, in_flight_writes = WriteGate(running_time), InFlightWrites()
        may = write_gate.may_write
        write_check = WriteCheck(may, lambda: write_gate.answer_within_s, shield=in_flight_writes.shield)
        return IoContext(
            connect_plainly("http://kube:6443", lambda: "t", lambda: MemoryConnector(network), write_check),
            SlurmClient(
                ["http://slurm:6820"],
                StaticToken("t"),
                dial=network.dial,
                rng=rng,
                may_write=may,
                shield=in_flight_writes.shield,
            ),
            LoopClock(lambda: self.kube.wall() + self.clock_error_s),
            rng,
            b"key",
            network.listen,
            write_gate,
            in_flight_writes,
            peers=http_transport(network),
        )

    @asynccontextmanager
    async def running(self, *, ready: bool = True, changed: str = "") -> AsyncIterator[Assembly]:
        """Run an extender and stop it in order. `changed` is appended to its configuration."""
        io_context = self.io_context(self.network)
        try:
            async with living(self.configured(changed), io_context, CLUSTER, validate=True) as self.extender:
                if ready:
                    await self.until(lambda: self.extender.ready, "readiness")
                yield self.extender
        finally:
            await io_context.close()

    @asynccontextmanager
    async def dying(self, *, ready: bool = True, tap: RequestTap | None = None) -> AsyncIterator[KillableExtender]:
        """Run an extender that can be killed at any instant; it is killed on leaving the block.

        After the kill it sends and receives nothing. `tap` is called with its requests.
        """
        own = KillableNetwork(self.network, tap)
        io_context = self.io_context(own)

        async def live(started: asyncio.Event) -> None:
            async with living(self.configured(), io_context, CLUSTER, validate=True) as self.extender:
                started.set()
                await asyncio.get_running_loop().create_future()

        started = asyncio.Event()
        life = KillableExtender(own, asyncio.create_task(live(started)))
        try:
            await started.wait()
            if ready:
                await self.until(lambda: own.dead or self.extender.ready, "readiness")
            yield life
        finally:
            life()
            with suppress(asyncio.CancelledError):
                await life.process
            await io_context.close()


@dataclass(frozen=True, slots=True)
class KillableExtender:
    """An extender that a call of this object kills. `process` ends earlier if the extender fails."""

    network: KillableNetwork
    process: asyncio.Task[None]

    def __call__(self) -> None:
        """Kill the process, as SIGKILL."""
        self.network.die()
        self.process.cancel()


ClusterT = TypeVar("ClusterT", bound=SimCluster)


@asynccontextmanager
async def simulated_cluster(
    kind: type[ClusterT],
    *,
    nodes: Sequence[SimNode] | None = None,
    partitions: Iterable[SimPartition] | None = None,
    slurm_config: SimConfig | None = None,
    release: str = NEWEST,
    fence_key: str = "",
    fence_only_on: frozenset[str] | None = None,
    more: Callable[[Scripts], Scripts] = lambda scripts: scripts,
    naming: NodeNaming = NodeNaming.SAME,
    allocatable: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
) -> AsyncIterator[ClusterT]:
    """Run a cluster without an extender, with the RBAC rules of the shipped manifests. `naming` names the Nodes.

    `allocatable` maps a Slurm node to the allocatable resources of its Node, where they differ from the default.

    With `fence_key`, the site key, slurm.conf names the fence scripts, or the Epilog of the nodes `fence_only_on`
    alone; `more` adds scripts of the site.
    """
    nodes = three_nodes() if nodes is None else nodes
    network = Network()
    loop = asyncio.get_running_loop()
    began = loop.time()
    async with AsyncExitStack() as stack:
        kube = FakeApiServer(lambda: EPOCH + loop.time() - began)
        kube.rbac = rbac.shipped()
        api = ApiServerApp(kube)
        await stack.enter_async_context(serve(network, api, "kube", 6443))

        async def post(url: str, token: str) -> int:
            async with httpx.AsyncClient(transport=http_transport(network), timeout=HOOK_TIMEOUT_S) as client:
                try:
                    return (await client.post(url, headers={"Authorization": f"Bearer {token}"})).status_code
                except httpx.TransportError:
                    return 0

        fence = FenceScripts("http://extender:8000", fence_key, post, lambda: slurm.controller, fence_only_on)
        slurm = await stack.enter_async_context(
            simulated_slurm(
                network,
                release=release,
                nodes=nodes,
                partitions=two_partitions() if partitions is None else partitions,
                config=slurm_config,
                post_hook=post,
                scripts=more(fence.scripts if fence_key else Scripts()),
                epoch=EPOCH - began,  # one wall clock for both
            )
        )
        names = names_for(naming, [node.name for node in nodes])
        for node in nodes:
            _add_node(kube, node, names, allocatable.get(node.name, {}))
            if kind.fences_proven:
                prove_fence(kube, names.kube(node.name), node.name)
        kubelets = Kubelets(kube)
        scheduler = SimScheduler(kube, network, "http://extender:8080/scheduler")
        await stack.enter_async_context(in_background(kubelets.run()))
        await stack.enter_async_context(in_background(scheduler.run()))
        cluster = kind(kube, api, slurm, network, scheduler, kubelets)
        cluster.fence, cluster.names = fence, names
        if naming is NodeNaming.SLURMD:
            cluster.config += SLURMD_CONFIG
        yield cluster


def _beat(obj: Json) -> None:
    """Change an object that no client reads, to raise the resource version."""
    counts = obj["metadata"].setdefault("annotations", {})
    counts["beat"] = str(int(counts.get("beat", "0")) + 1)


def _add_node(kube: FakeApiServer, node: SimNode, names: NodeNames, more: Mapping[str, str]) -> None:
    gpus = sum(count for name, count in node.gres.items() if name.partition(":")[0] == "gpu")
    kube.add_node(names.kube(node.name), gpus=gpus, labels=names.labels(node.name), more=more)
    if slurmd := names.slurmd(node.name):
        kube.create(slurmd)


def prove_fence(
    kube: FakeApiServer, name: str, slurm_node: str, scripts: Iterable[FenceScript] = (FenceScript.EPILOG,)
) -> None:
    """Write the evidence on a Node that these scripts of its Slurm node call."""

    def edit(node: Json) -> None:
        proofs = FenceProofs([HOOK_KEY.encode()], CLUSTER, SCHEDULER)
        text = proofs.written(node["metadata"]["uid"], slurm_node, dict.fromkeys(scripts, kube.wall()))
        node["metadata"].setdefault("annotations", {})[FENCE_EVIDENCE] = text

    kube.change(ObjectKey(NODES, "", name), edit)


@asynccontextmanager
async def in_background(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run a coroutine in the background until the block is left."""
    task = asyncio.ensure_future(work)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
