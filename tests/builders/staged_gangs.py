"""Gangs of annotated Pods on the real parts, and the moment between the grant of their job and their Bindings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from extender.domain.wellknown import GANG, GANG_MEMBERS, GANG_NODES, GANG_RANK, GANG_SIZE, GATE
from lab.site import PodRef, QueuedJob
from lab.topology import slurm_name
from tests.builders.stage import Stage

SAMPLE_S = 0.05

BARRIER_S = 2.0
"""The Bindings of a gang are one request each, and all of them are sent within this time."""


def gang(
    stage: Stage,
    name: str,
    size: int,
    *,
    ranks: Sequence[int] = (),
    gated: bool = False,
    cpus: int = 2,
    annotations: Mapping[str, str] | None = None,
    **options: Any,
) -> list[PodRef]:
    """Create the members of these `ranks`, or all of them. `gated`: behind the extender's scheduling gate."""
    said = {GANG: name, GANG_SIZE: str(size), **(annotations or {})}
    gates: dict[str, Any] = {"schedulingGates": [{"name": GATE}]} if gated else {}
    chosen = ranks or range(size)
    return [stage.pod(f"{name}-{rank}", annotations=said, cpus=cpus, **gates, **options) for rank in chosen]


def nodes_of(stage: Stage, pods: Sequence[PodRef]) -> list[str]:
    """Return the Node of each Pod; "" for one that is not bound, or does not exist."""
    names = {pod["metadata"]["uid"]: pod["spec"].get("nodeName", "") for pod in stage.site.pods(stage.namespace)}
    return [names.get(pod.uid, "") for pod in pods]


def all_bound(stage: Stage, pods: Sequence[PodRef], *, timeout_s: float = 60) -> list[str]:
    """Wait until every Pod is bound; the Node of each."""

    def check() -> list[str]:
        found = nodes_of(stage, pods)
        return found if all(found) else []

    return stage.site.wait_for(check, "every member is bound", timeout_s=timeout_s)


def assert_none_bound(stage: Stage, pods: Sequence[PodRef], seconds: float) -> None:
    """Hold for so long that no member is bound."""
    for _ in range(round(seconds / SAMPLE_S)):
        assert not any(nodes_of(stage, pods)), "a member was bound"
        stage.site.elapse(SAMPLE_S)


def assert_in_rank_order(stage: Stage, pods: Sequence[PodRef]) -> None:
    """Hold that all members are on the nodes of one job, each on that of its rank, and that their annotations say so.

    `pods` are in the order of ranks.
    """
    nodes = [slurm_name(node) for node in nodes_of(stage, pods)]
    (job,) = [one for one in stage.jobs() if one.state == "RUNNING"]
    assert stage.site.expand(job.node) == set(nodes)
    for rank, pod in enumerate(pods):
        said = (stage.site.read(pod) or {})["metadata"]["annotations"]
        assert (said[GANG_RANK], said[GANG_MEMBERS]) == (str(rank), str(len(pods)))
        assert said[GANG_NODES].split(",") == nodes


def granted(stage: Stage, pods: Sequence[PodRef]) -> QueuedJob:
    """Wait until Slurm has granted the one job of a gated gang, and no member has a gate any more."""

    def gates_open() -> bool:
        return not any((stage.site.read(pod) or {"spec": {}})["spec"].get("schedulingGates") for pod in pods)

    stage.site.wait_for(gates_open, "no member has a scheduling gate", timeout_s=60)
    (job,) = stage.jobs()
    assert job.state == "RUNNING"
    return job


def nodes_of_job(stage: Stage, job: QueuedJob) -> list[str]:
    """Return the Nodes of a job, by name."""
    names = {slurm_name(node.name): node.name for node in stage.site.topology.kube_nodes}
    return sorted(names[host] for host in stage.site.expand(job.node))


@contextmanager
def before_binding(stage: Stage, name: str, size: int, **options: Any) -> Iterator[tuple[list[PodRef], QueuedJob]]:
    """Create a gang whose job is granted and whose gates are open; kube-scheduler stands still during the block."""
    with stage.site.scheduler.frozen():
        pods = gang(stage, name, size, gated=True, **options)
        yield pods, granted(stage, pods)
