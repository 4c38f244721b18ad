"""Decide which part of a node Slurm has to hold for Pods that it did not place.

One external job for each such Pod, without a process, holds its part of the node as long as the Pod exists. This module
selects the foreign Pods, computes their sizes, checks that such jobs are possible, and finds the job of each Pod.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from extender.domain.amount import Amount, at_most
from extender.domain.cluster import SlurmNode, SlurmSnapshot
from extender.domain.pods.requests import CPU, MEMORY, pod_requests
from extender.domain.policy.site import TranslationPolicy
from extender.domain.quantity import cpus_up, mebibytes_up
from extender.domain.rules import may_preempt
from extender.domain.translation.gres import to_gres
from extender.domain.views import PodView

DAEMONS = frozenset({"DaemonSet", "Node"})
"""Kinds of owners whose Pods belong to their Node: of DaemonSets, and static ones, whose owner is the Node itself."""


@dataclass(frozen=True, slots=True)
class ForeignPodRule:
    """Select Pods that need no job. A Pod must match every field that is set; `None` matches any."""

    namespace: str | None = None
    owner_kind: str | None = None
    scheduler: str | None = None

    def speaks_of(self, pod: PodView) -> bool:
        """Return whether the rule selects this Pod."""
        kind = pod.owner.kind if pod.owner is not None else ""
        selectors = (
            (self.namespace, pod.namespace),
            (self.owner_kind, kind),
            (self.scheduler, pod.scheduler_name),
        )
        return all(wanted in {None, found} for wanted, found in selectors)


@dataclass(frozen=True, slots=True)
class ForeignPodPolicy:
    """Select the foreign Pods. Pods of `schedulers` are placed by Slurm and are none.

    `daemons`: Pods of DaemonSets and static Pods are foreign Pods; `None`: only on nodes with slurmd, since nodes
    without slurmd are registered without the part of their daemons.
    """

    translation: TranslationPolicy
    schedulers: frozenset[str] = frozenset()
    ignored: tuple[ForeignPodRule, ...] = ()
    daemons: bool | None = None


@dataclass(frozen=True, slots=True)
class ForeignPod:
    """Hold a Pod on a node that Slurm allocates. `pod` is `namespace/name`, `node` the Slurm node."""

    uid: str
    pod: str
    node: str
    amount: Amount

    @property
    def size(self) -> str:
        """Return the amount as one word, to compare with the size in the mark of a job."""
        gres = ",".join(f"{name}={count}" for name, count in sorted(self.amount.gres.items()))
        return f"{self.amount.cpus}/{self.amount.memory_mb}{'/' if gres else ''}{gres}"


@dataclass(frozen=True, slots=True)
class ForeignPodJob:
    """Hold a live job of a foreign Pod. `runs` False: it waits, or has not been seen to run."""

    job_id: int
    node: str
    size: str
    runs: bool = False


def foreign_pod_of(pod: PodView, node: str, slurm: SlurmNode | None, policy: ForeignPodPolicy) -> ForeignPod | None:
    """Return the part of `node` that Slurm has to hold for this Pod; `None`: nothing. `slurm`: the node, if known.

    A Pod that requests nothing needs no job. One that requests anything holds at least a CPU and a MiB: no job has
    less, and a job that names no memory gets all of its node. The amount is cut to the node's size in Slurm.
    """
    if pod.scheduler_name in policy.schedulers or not pod.node_name or pod.finished:
        return None
    if any(rule.speaks_of(pod) for rule in policy.ignored):
        return None
    if pod.of_its_node:  # and no other: nodes without slurmd are registered for what these leave
        external = slurm is not None and slurm.external
        if not (policy.daemons if policy.daemons is not None else not external):
            return None
    try:
        requests = pod_requests(pod)
    except ValueError:  # the API server lets no such Pod in
        return None
    size = Amount(
        cpus_up(requests.get(CPU, 0)), mebibytes_up(requests.get(MEMORY, 0)), to_gres(requests, policy.translation).gres
    )
    if size.nothing:
        return None
    if slurm is not None and slurm.size is not None:
        size = at_most(size, slurm.size)
    return ForeignPod(pod.uid, pod.full_name, node, Amount(max(1, size.cpus), max(1, size.memory_mb), size.gres))


def why_none(slurm: SlurmSnapshot, partition: str, qos: str) -> str:
    """Return why jobs of foreign Pods are impossible; "": they are possible.

    A job that may preempt is never requested: Slurm preempts for an immediate allocation that it refuses, each time,
    and for one that it grants (`job_mgr.c`, `job_allocate`). No job ends for a Pod that Slurm did not place.
    """
    if not slurm.features.external:
        return "this Slurm release has no external jobs; they need 25.05"
    names = slurm.partition_names(partition)
    if not names:
        return "Slurm has no default partition, and foreignPods.partition is not set"
    if len(names) > 1 or names[0] not in slurm.partitions:
        return f"Slurm has no partition {partition or names[0]}"
    if may_preempt(slurm, names[0], qos):
        return (
            f"jobs of partition {names[0]}{f' with QOS {qos}' if qos else ''} may preempt others; "
            "foreignPods.partition must name one whose tier is above no other's, foreignPods.qos one that preempts none"
        )
    return ""


def own_and_duplicates(
    foreign_pod: ForeignPod, jobs: Iterable[ForeignPodJob]
) -> tuple[ForeignPodJob | None, tuple[ForeignPodJob, ...]]:
    """Return the job of the foreign Pod, a running one if any, and its duplicate jobs or jobs of another size."""
    right = [job for job in jobs if (job.node, job.size) == (foreign_pod.node, foreign_pod.size)]
    own = min(right, key=lambda job: (not job.runs, job.job_id), default=None)
    return own, tuple(job for job in jobs if job is not own)


@dataclass(frozen=True, slots=True)
class ForeignPodOptions:
    """Hold the settings of each job besides its size. "" and `None`: not set."""

    partition: str = ""
    qos: str = ""
    account: str = ""
    reservation: str = ""
    priority: int | None = None


@dataclass(frozen=True, slots=True)
class ForeignPodOrder:
    """Hold one request for a job. `immediate`: now or not at all; else it queues. No time limit but `minutes`."""

    foreign_pod: ForeignPod
    name: str
    mark: str
    options: ForeignPodOptions
    immediate: bool
    minutes: int | None = None
