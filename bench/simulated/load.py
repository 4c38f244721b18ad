"""Measure many Pods at once against a Slurm or API server that is slow, refuses or throttles."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from extender.domain.wellknown import GATE
from simulator.cluster import SimCluster, in_background, simulated_cluster
from simulator.kube.faults import KubeFault
from simulator.slurm.faults import SlurmFault
from simulator.slurm.records import SimNode, SimPartition

USUAL_S = 0.005
"""What slurmrestd takes for an answer when all is well (4 ms to 12 ms on two cores)."""

PODS_PER_NODE = 50
"""A kubelet takes 110."""

LEAST_NODES = 8
LONGEST_S = 7200.0
SETTLE_S = 90.0
"""After the last Pod is placed, before anything is counted as lost: a lost answer is looked into for a minute."""


def nothing(_cluster: SimCluster) -> None:
    """Add no fault."""


def slow(cluster: SimCluster) -> None:
    """Delay each response of slurmrestd by one second."""
    cluster.slurm.restd.faults.add(SlurmFault.DELAY, seconds=1.0)


def refusing(cluster: SimCluster) -> None:
    """Refuse every second request to slurmrestd (EAGAIN)."""
    cluster.slurm.restd.faults.add(SlurmFault.REFUSE, number=11, every=2)


def throttling(cluster: SimCluster) -> None:
    """Answer every second write to the API server with 429 and `Retry-After: 1`."""
    for method in ("POST", "PATCH", "DELETE"):
        fault = KubeFault(method, code=429, reason="TooManyRequests", retry_after_s=1, times=None, every=2)
        cluster.kube.faults.add(fault)


def mute(cluster: SimCluster) -> None:
    """Never answer the creation of an Event."""
    cluster.kube.faults.add(KubeFault("POST", "/events", code=0, times=None))


DEGRADATIONS: dict[str, Callable[[SimCluster], None]] = {
    one.__name__: one for one in (nothing, slow, refusing, throttling, mute)
}


@dataclass(frozen=True, slots=True)
class LoadResult:
    """The result of a load test. Seconds are virtual time: the duration of requests and pauses, without computation.

    `half_placed_s`, `placed_s`: until half of the new Pods were bound, and all; `ended_s`: until the job of the last
    Pod that was deleted had ended; `placed_by_then`: new Pods that had a job by then. `slowest_call_s`: the slowest
    answer to kube-scheduler; `errors` are answers that it takes for a failure of the extender. `lost`: Pods without a
    job of their own, jobs without Pod.
    """

    half_placed_s: float
    placed_s: float
    ended_s: float
    placed_by_then: int
    slowest_call_s: float
    errors: int
    connections: int
    slurm_requests: int
    kube_writes: int
    """Neither Events nor conditions."""

    conditions: int
    """Writes of the condition that tells why a Pod waits."""

    events: int
    lost: int

    def shown(self) -> dict[str, Any]:
        """Return the fields for a report."""
        return {name: round(value, 3) for name, value in asdict(self).items()}


async def run_load_test(strain: Callable[[SimCluster], None], new: int, old: int = 0) -> LoadResult:
    """Create `new` Pods and delete `old` ones at the same time. Every second Pod has a scheduling gate."""
    count = max(LEAST_NODES, -(-(new + old) // PODS_PER_NODE))
    nodes = [SimNode(f"n{number}", cpus=-(-(new + old) // count), memory_mb=10**8) for number in range(count)]
    partitions = [SimPartition("batch", default=True)]
    async with simulated_cluster(SimCluster, nodes=nodes, partitions=partitions) as cluster, cluster.running():
        _add(cluster, "old", old)
        await cluster.until(lambda: len(cluster.bound_pods()) == old, "all old Pods are bound", LONGEST_S, 1.0)
        await asyncio.sleep(5)
        strain(cluster)
        cluster.slurm.restd.faults.add(SlurmFault.DELAY, seconds=USUAL_S)
        cluster.slurm.restd.requests.clear()
        cluster.kube.requests.clear()
        watch = _LoadMonitor(cluster, new, old)
        async with in_background(watch.run()):
            for number in range(old):
                cluster.kube.delete_pod(f"old-{number}", grace_s=1)
            _add(cluster, "new", new)
            await cluster.until(lambda: watch.finished, "all is done", LONGEST_S, 1.0)
        await asyncio.sleep(SETTLE_S)
        return watch.measured()


def _add(cluster: SimCluster, name: str, count: int) -> None:
    for number in range(count):
        gates = (GATE,) if number % 2 else ()
        cluster.kube.add_pod(f"{name}-{number}", cpu="1", memory="1Mi", gates=gates, grace_s=1)


class _LoadMonitor:
    """Measure the cluster from outside."""

    def __init__(self, cluster: SimCluster, new: int, old: int) -> None:
        self._cluster = cluster
        self._new, self._old = new, old
        self._began = asyncio.get_running_loop().time()
        self._connections = 0
        self._half_at = self._placed_at = self._ended_at = 0.0
        self._placed_by_then = 0

    @property
    def finished(self) -> bool:
        """Return whether all new Pods are bound and all old jobs have ended."""
        return bool(self._placed_at and self._ended_at)

    async def run(self) -> None:
        """Measure until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            for _ in range(10):
                await asyncio.sleep(0.02)
                self._connections = max(self._connections, self._cluster.network.connections("slurm", 6820))
            if self.finished:
                continue
            live = self._cluster.live_jobs()
            olds = sum(job.name.startswith("default/old-") for job in live)
            if not self._ended_at and not olds:
                self._ended_at, self._placed_by_then = loop.time(), len(live)
            bound = sum(name.startswith("new-") for name in self._cluster.bound_pods())
            if not self._half_at and bound >= self._new / 2:
                self._half_at = loop.time()
            if not self._placed_at and bound == self._new:
                self._placed_at = loop.time()

    def measured(self) -> LoadResult:
        """Return the measurements."""
        cluster = self._cluster
        jobs, pods = cluster.live_jobs(), cluster.bound_pods()
        names = {job.name.rpartition("-")[0] for job in jobs}
        lost = len({f"default/{pod}" for pod in pods} ^ names) + len(jobs) - len(names)
        writes = [one for one in cluster.kube.requests if one.method not in {"GET", ""}]
        events = sum("/events" in one.path for one in writes)
        conditions = sum(one.path.endswith("/status") for one in writes)
        return LoadResult(
            half_placed_s=self._half_at - self._began,
            placed_s=self._placed_at - self._began,
            ended_s=self._ended_at - self._began if self._old else 0.0,
            placed_by_then=self._placed_by_then if self._old else 0,
            slowest_call_s=cluster.scheduler.status.slowest_s,
            errors=sum(outcome.startswith("error") for _, outcome in cluster.scheduler.status.outcomes),
            connections=self._connections,
            slurm_requests=len(cluster.slurm.restd.requests),
            kube_writes=len(writes) - events - conditions,
            conditions=conditions,
            events=events,
            lost=lost,
        )
