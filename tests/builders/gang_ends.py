"""Ends of gangs on the real parts, in a site where gangs get nodes with a working fence alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from extender.domain.wellknown import FENCE_EVIDENCE, GANG, GANG_SIZE
from lab.pods import required_affinity
from lab.preemption_sites import PartitionSet
from lab.site import PodRef, QueuedJob, Site
from tests.builders.ends import TIME_LIMIT
from tests.builders.stage import MODE, PARTITION

DOWN_REASON = "looked at"
EVIDENCE_WITHIN_S = 90.0


class GangEnd(StrEnum):
    """Name a cause of the end of a gang, or of a part of it."""

    CANCEL = "an administrator cancels the job"
    PREEMPT = "native jobs of a higher tier preempt the job"
    LIMIT = "time limit of the job"
    NODE_DOWN = "an administrator sets one of the nodes DOWN"
    SHRINK = "a member succeeds, and its node leaves the job"
    TAKEN = "an administrator takes a node from the job"

    @property
    def keeps_the_others(self) -> bool:
        """Return whether one member alone ends, that of the last rank."""
        return self in {GangEnd.SHRINK, GangEnd.TAKEN}


CAUSES = {
    GangEnd.CANCEL: "cancelled",
    GangEnd.PREEMPT: "was preempted",
    GangEnd.LIMIT: "time limit",
    GangEnd.NODE_DOWN: "lost a node",
}
"""Text in the Event of each member, by the end of the whole gang."""


def forget_fences(site: Site, nodes: Sequence[str]) -> None:
    """Let the extender know of no call of a fence script on these nodes, as in a new installation."""
    site.stop_extender()
    for node in nodes:
        site.patch_node(node, {"metadata": {"annotations": {FENCE_EVIDENCE: None}}})
    site.start_extender()


def has_evidence(site: Site, node: str) -> bool:
    """Return whether the Node bears the evidence of a working fence."""
    found = site.kube.api("GET", f"/api/v1/nodes/{node}")[1]
    return bool(found["metadata"].get("annotations", {}).get(FENCE_EVIDENCE))


def prove_fences(site: Site, nodes: Sequence[str], mode: str, partition: str, namespace: str, **spec: Any) -> None:
    """Let a job of one Pod end on each of these nodes, and wait until the fence script there has called.

    `spec`: of the Pods.
    """
    said = {MODE: mode, PARTITION: partition}
    pods = [
        site.pod(
            f"first-{node}",
            namespace,
            annotations=said,
            affinity=required_affinity("kubernetes.io/hostname", [node]),
            **spec,
        )
        for node in nodes
        if not has_evidence(site, node)
    ]
    for pod in pods:
        site.bound(pod, timeout_s=60)
        site.delete(pod)
    for pod in pods:
        site.gone(pod, timeout_s=60)
    site.wait_for(
        lambda: all(has_evidence(site, node) for node in nodes),
        "every fence script has called",
        timeout_s=EVIDENCE_WITHIN_S,
    )


def fenced_gang(
    site: Site,
    end: GangEnd,
    size: int,
    mode: str,
    partition: str,
    namespace: str,
    ranks: Sequence[int] = (),
    **spec: Any,
) -> list[PodRef]:
    """Create the members of these `ranks` of a gang, or all of them, with a time limit where that is to end it.

    `spec`: of the Pods.
    """
    limit = {TIME_LIMIT: "1"} if end is GangEnd.LIMIT else {}
    said = {MODE: mode, PARTITION: partition, GANG: "ring", GANG_SIZE: str(size), **limit}
    return [site.pod(f"ring-{rank}", namespace, annotations=said, **spec) for rank in ranks or range(size)]


def jobs_of(site: Site, namespace: str) -> list[QueuedJob]:
    """Return the live placeholder jobs of a namespace."""
    return [job for job in site.squeue() if job.name.startswith(f"{namespace}/")]


def begin(site: Site, end: GangEnd, job: QueuedJob, own: PartitionSet) -> None:
    """Let an end begin that does not begin by itself."""
    *others, last = sorted(site.expand(job.node), key=own.nodes.index)
    if end is GangEnd.CANCEL:
        site.slurm.run("scancel", str(job.job_id))
    elif end is GangEnd.NODE_DOWN:
        site.slurm.run("scontrol", "update", f"nodename={last}", "state=down", f"reason={DOWN_REASON}")
    elif end is GangEnd.TAKEN:
        status, answer = site.slurm.rest("POST", f"job/{job.job_id}", {"required_nodes": others})
        assert status == 200, answer


def assert_one_cause(site: Site, end: GangEnd, pods: Sequence[PodRef]) -> Mapping[str, str]:
    """Hold that every member has an Event with this cause, and with no other. Return the texts by Pod."""
    causes = {pod.name: site.event(pod, "SlurmAllocationLost", timeout_s=60) for pod in pods}
    assert len(set(causes.values())) == 1, causes
    assert CAUSES[end] in causes[pods[0].name].lower(), causes
    return causes
