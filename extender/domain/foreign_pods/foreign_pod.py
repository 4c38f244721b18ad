"""Pods that Slurm did not place, on nodes that it gives away: what of their node Slurm is to hold for them.

One external job for each such Pod, which has no process, holds its part of the node as long as the Pod exists. This
decides which Pods are foreign Pods, how large they are, whether such jobs are possible, and which job is a Pod's own.
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
    """Pods that Slurm is to hold nothing for: of which all is true that is said here; "" says nothing."""

    namespace: str = ""
    owner_kind: str = ""
    scheduler: str = ""

    def speaks_of(self, pod: PodView) -> bool:
        """Whether the Pod is one of those."""
        kind = pod.owner.kind if pod.owner is not None else ""
        asked = (
            (self.namespace, pod.namespace),
            (self.owner_kind, kind),
            (self.scheduler, pod.scheduler_name),
        )
        return all(wanted in {"", found} for wanted, found in asked)


@dataclass(frozen=True, slots=True)
class ForeignPodPolicy:
    """Select the foreign Pods. `schedulers` are ours; `daemons` whether Pods of DaemonSets and static ones are.

    `None` for `daemons`: on nodes with slurmd. Nodes without it are registered for what their daemons leave.
    """

    translation: TranslationPolicy
    schedulers: frozenset[str] = frozenset()
    ignored: tuple[ForeignPodRule, ...] = ()
    daemons: bool | None = None


@dataclass(frozen=True, slots=True)
class ForeignPod:
    """A Pod on a node that Slurm gives away. `pod` is `namespace/name`, `node` the Slurm node."""

    uid: str
    pod: str
    node: str
    amount: Amount

    @property
    def size(self) -> str:
        """The amount as one word, to compare with what a job was asked for."""
        gres = ",".join(f"{name}={count}" for name, count in sorted(self.amount.gres.items()))
        return f"{self.amount.cpus}/{self.amount.memory_mb}{'/' if gres else ''}{gres}"


@dataclass(frozen=True, slots=True)
class ForeignPodJob:
    """A live job of a foreign Pod. `runs` False: it waits, or has not been seen to run."""

    job_id: int
    node: str
    size: str
    runs: bool = False


def foreign_pod_of(pod: PodView, node: str, slurm: SlurmNode | None, policy: ForeignPodPolicy) -> ForeignPod | None:
    """What Slurm holds for this Pod on `node`; `None`: nothing. `slurm` is what Slurm says of the node, if known.

    A Pod that asks for nothing needs no job. One that asks for anything holds a CPU and a MiB at least: no job has
    less, and one that names no memory is given all of its node. Slurm cannot hold more than it believes the node has.
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
    asked = Amount(
        cpus_up(requests.get(CPU, 0)), mebibytes_up(requests.get(MEMORY, 0)), to_gres(requests, policy.translation).gres
    )
    if asked.nothing:
        return None
    if slurm is not None and slurm.size is not None:
        asked = at_most(asked, slurm.size)
    return ForeignPod(pod.uid, pod.full_name, node, Amount(max(1, asked.cpus), max(1, asked.memory_mb), asked.gres))


def why_none(picture: SlurmSnapshot, partition: str, qos: str) -> str:
    """Why no job can be had for any foreign Pod; "": they can.

    A job that may preempt is never asked for: Slurm preempts for an immediate allocation that it refuses, each time,
    and for one that it grants (`job_mgr.c`, `job_allocate`). Nobody's job ends for a Pod that Slurm did not place.
    """
    if not picture.features.external:
        return "this Slurm has no external jobs, which 25.05 has"
    names = picture.partition_names(partition)
    if not names:
        return "Slurm names no default partition, and foreignPods.partition none"
    if len(names) > 1 or names[0] not in picture.partitions:
        return f"Slurm has no partition {partition or names[0]}"
    if may_preempt(picture, names[0], qos):
        return (
            f"jobs of partition {names[0]}{f' with QOS {qos}' if qos else ''} may preempt others; "
            "foreignPods.partition must name one whose tier is above no other's, foreignPods.qos one that preempts none"
        )
    return ""


def own_and_duplicates(
    foreign_pod: ForeignPod, jobs: Iterable[ForeignPodJob]
) -> tuple[ForeignPodJob | None, tuple[ForeignPodJob, ...]]:
    """Which job is the foreign Pod's own, a running one if any; and which are too many, or hold something else."""
    right = [job for job in jobs if (job.node, job.size) == (foreign_pod.node, foreign_pod.size)]
    own = min(right, key=lambda job: (not job.runs, job.job_id), default=None)
    return own, tuple(job for job in jobs if job is not own)


@dataclass(frozen=True, slots=True)
class ForeignPodOptions:
    """What each job is asked for besides its size. "" and `None` say nothing."""

    partition: str = ""
    qos: str = ""
    account: str = ""
    reservation: str = ""
    priority: int | None = None


@dataclass(frozen=True, slots=True)
class ForeignPodOrder:
    """One request for a job. `immediate`: now or not at all; else it queues. No time limit but `minutes`."""

    foreign_pod: ForeignPod
    name: str
    mark: str
    options: ForeignPodOptions
    immediate: bool
    minutes: int | None = None
