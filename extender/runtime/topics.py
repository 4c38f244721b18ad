"""Define the events of the event bus: informers, the engine and polls publish them, controllers subscribe.

Each names a change, with the value before and after where both are known; `None` stands for an object that does not
exist. Events of the state machine of a placeholder are another thing: `domain.events`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from extender.domain.devices.views import ResourceClaimView
from extender.domain.gangs.context import GroupRef
from extender.domain.job_outcomes.workload_end import WorkloadEnd
from extender.domain.jobs.job import JobView
from extender.domain.placeholder import Placeholder
from extender.domain.views import DeviceClassView, NamespaceView, NodeView, PodView


@dataclass(frozen=True, slots=True)
class PodChanged:
    """The watch brought a change of a Pod."""

    old: PodView | None
    new: PodView | None


@dataclass(frozen=True, slots=True)
class PodsAbsent:
    """A complete list lacks these Pods, and no watch reported their deletion."""

    pods: Sequence[PodView]


@dataclass(frozen=True, slots=True)
class PodsAdopted:
    """Every Pod that was there at the start is known to the engine."""


@dataclass(frozen=True, slots=True)
class DeferredPodsAdopted:
    """These Pods were there at the start, and are known to the engine only now."""

    pods: Sequence[PodView]


@dataclass(frozen=True, slots=True)
class PodRemoved:
    """A Pod of this workload does not exist any more; its processes may."""

    workload: str
    pod: PodView


@dataclass(frozen=True, slots=True)
class PodFiltered:
    """kube-scheduler tries to place a Pod, and asks which of its nodes it may use."""

    namespace: str
    uid: str


@dataclass(frozen=True, slots=True)
class NodeChanged:
    """The watch brought a change of a Node."""

    old: NodeView | None
    new: NodeView | None


@dataclass(frozen=True, slots=True)
class NamespaceChanged:
    """The watch brought a change of a Namespace."""

    old: NamespaceView | None
    new: NamespaceView | None


@dataclass(frozen=True, slots=True)
class DeviceClassChanged:
    """The watch brought a change of a DeviceClass."""

    old: DeviceClassView | None
    new: DeviceClassView | None


@dataclass(frozen=True, slots=True)
class ResourceClaimChanged:
    """The watch brought a change of a ResourceClaim."""

    old: ResourceClaimView | None
    new: ResourceClaimView | None


@dataclass(frozen=True, slots=True)
class PodGroupChanged:
    """A PodGroup appeared, is gone, or asks for another number of members."""

    group: GroupRef


@dataclass(frozen=True, slots=True)
class PolicyChanged:
    """Another policy of the site is in force, or the set of partitions that are open to all users has changed."""


@dataclass(frozen=True, slots=True)
class PolicyFileRead:
    """A changed policy file was read. `trouble`: what is wrong with it; "": it is in force again."""

    trouble: str


@dataclass(frozen=True, slots=True)
class PlaceholderChanged:
    """A step of the state machine changed a placeholder."""

    before: Placeholder
    after: Placeholder


@dataclass(frozen=True, slots=True)
class PlaceholderForgotten:
    """A workload is over, and nothing is remembered of it."""

    key: str


@dataclass(frozen=True, slots=True)
class MembersCovered:
    """The mark of a workload's job names a checkpoint that covers every member."""

    key: str


@dataclass(frozen=True, slots=True)
class MembersUnknown:
    """A gang was adopted whose job may have Pods that the API server does not show."""

    key: str


@dataclass(frozen=True, slots=True)
class JobMissing:
    """The Slurm job of a workload with running Pods is missing, or `missing` is False: it is there again."""

    key: str
    missing: bool


@dataclass(frozen=True, slots=True)
class MassDeletionConfirmed:
    """An administrator confirmed that what is missing is gone: what is held back for it may be ended."""


@dataclass(frozen=True, slots=True)
class JobStatesPolled:
    """Slurm returned the state words of every job that it knows."""

    states: Mapping[int, frozenset[str]]


@dataclass(frozen=True, slots=True)
class JobEndSeen:
    """The states of all jobs say that this job is over; the job itself was not read yet."""

    job_id: int


@dataclass(frozen=True, slots=True)
class JobStatesAnswered:
    """Slurm returned which placeholder jobs lived at `requested_at`. `every`: the request covered all of them."""

    requested_at: float
    living: Set[int]
    every: bool


@dataclass(frozen=True, slots=True)
class SlurmAnswersAgain:
    """A poll was answered after one that was not."""


@dataclass(frozen=True, slots=True)
class JobStatesWanted:
    """A grant waits until it is known whether these jobs live."""

    jobs: Set[int]


@dataclass(frozen=True, slots=True)
class NonPlaceholderJobRead:
    """A job that is no placeholder job is read now although nothing is known to have happened to it."""


@dataclass(frozen=True, slots=True)
class UnmarkedJobRead:
    """A job was read that bears no mark of a placeholder."""

    job: JobView


@dataclass(frozen=True, slots=True)
class NativeJobsChanged:
    """Other jobs than before run on this Slurm node, beside placeholder jobs."""

    slurm_node: str


@dataclass(frozen=True, slots=True)
class SnapshotChanged:
    """The nodes of either side were read again, or mapped to each other."""


@dataclass(frozen=True, slots=True)
class DrainFound:
    """A Slurm node bears a drain of this extender: a process before this one may have made it."""

    slurm_node: str
    reason: str


@dataclass(frozen=True, slots=True)
class WorkloadEnded:
    """A placeholder job was ended because its Pods are over. The same end may be published again."""

    end: WorkloadEnd
