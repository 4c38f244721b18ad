"""Define the interfaces through which the engine and the controllers reach Slurm and Kubernetes.

Adapters return events or results; the only exceptions that cross a port are the ones defined here. Each adapter carries
a line that lets mypy check it against its protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Protocol

from extender.domain.cluster import SlurmNode, SlurmSnapshot
from extender.domain.devices.holders import DeviceHolders
from extender.domain.devices.pools import DevicePools
from extender.domain.devices.views import DeviceId, ResourceClaimAllocation, ResourceClaimView
from extender.domain.events import (
    CancelAnswered,
    Event,
    EvictAnswered,
    FollowAnswered,
    MemberRef,
    ShrinkAnswered,
    WakeAnswered,
)
from extender.domain.fair_shares import FairShares
from extender.domain.foreign_pods.foreign_pod import ForeignPodOrder
from extender.domain.gangs.context import ControllerView
from extender.domain.gangs.pod_groups import GroupStatus, PodGroupView
from extender.domain.job_outcomes.workload_end import WorkloadEnd
from extender.domain.jobs.job import JobOrder, JobRequest, JobView
from extender.domain.nodes.external_nodes import DesiredNode
from extender.domain.nodes.marks import NodePatch, Report
from extender.domain.pods.why import Why
from extender.domain.views import NodeView, OwnerReference, PodView


class PortError(Exception):
    """The other side could not be asked; nothing is known about the question. The text says what, where and why."""


class Clock(Protocol):
    """The only source of time."""

    def now(self) -> float:
        """Return seconds on a clock that never goes back; for durations and timers."""
        ...

    def wall(self) -> float:
        """Return seconds since the epoch; for display and for comparing with times that others wrote."""
        ...


@dataclass(frozen=True, slots=True)
class Updated:
    """`done` False: refused, with Slurm's words; `None`: unknown, or not now."""

    done: bool | None
    text: str = ""


class SlurmJobs(Protocol):
    """Placeholder jobs."""

    async def submit(self, order: JobOrder) -> Sequence[Event]:
        """Submit or allocate. Return `SubmitAccepted` (then events of the job), `SubmitRefused` or `SubmitUnknown`."""
        ...

    async def probe(
        self, name: str, workload: str, job_id: int | None, owner: int | None = None, hints: Sequence[int] = ()
    ) -> Sequence[JobView]:
        """Return the job `job_id`, live or ended; unless it lives, also every live job called `name`.

        Only such as are the workload's, whose jobs are made for the user `owner`. `hints` are read besides.
        Raises `PortError`.
        """
        ...

    async def read(self, job_id: int) -> JobView | None:
        """Return one job; `None`: slurmctld answered that it knows no such job. Raises `PortError`."""
        ...

    async def states(self, job_ids: Sequence[int] | None = None) -> Mapping[int, frozenset[str]]:
        """Return the state words of every job that slurmctld knows, or of those named. Raises `PortError`."""
        ...

    async def cancel(self, job_id: int) -> CancelAnswered:
        """End one job. Never raises; an unknown outcome is `job_ended=False`."""
        ...

    async def finish(self, job_id: int, exit_code: int) -> CancelAnswered:
        """Signal the script of a job to end by itself, and cancel a job without one. Never raises, as `cancel`."""
        ...

    async def comment(self, job_id: int, text: str, *, within_s: float | None = None) -> bool:
        """Replace the comment of a live job, within so many seconds. False: Slurm did not, or may not have.

        Never raises.
        """
        ...

    async def update(
        self,
        job_id: int,
        request: JobRequest,
        names: Set[str],
        excluded: tuple[str, ...] | None,
        marks: Mapping[str, str] = MappingProxyType({}),
    ) -> Updated:
        """Send a pending job these fields of a request, its excluded nodes unless `None`, and its marks by field.

        Never raises.
        """
        ...

    async def follow(self, job_id: int, excluded: tuple[str, ...]) -> FollowAnswered:
        """Replace the excluded nodes of a pending job. Never raises."""
        ...

    async def shrink(self, job_id: int, kept: tuple[str, ...]) -> ShrinkAnswered:
        """Have Slurm take back all nodes of a running job but these. Never raises."""
        ...


class Recorded(StrEnum):
    """The result of writing the end of a job into the accounting of Slurm."""

    DONE = "done"
    """The record shows it."""

    NOT_YET = "not yet"
    """slurmdbd does not know the end of the job yet, and would overwrite it."""

    FOREIGN = "foreign"
    """The record is of another job."""

    NOT_SERVED = "not served"
    """This Slurm has no slurmdbd, or cannot change records (before 25.11)."""

    REFUSED = "refused"
    """The owner of the token may not change records: it is no operator of slurmdbd."""


class JobRecords(Protocol):
    """Jobs as the accounting of Slurm keeps them."""

    async def record(self, end: WorkloadEnd) -> Recorded:
        """Write the end of a job, once slurmdbd knows that it ended. Raises `PortError`."""
        ...


class ForeignPodJobResult(StrEnum):
    """The result of a request for the job of a foreign Pod."""

    MADE = "made"
    """There is a job: it runs, or it waits where it was to queue."""

    NO_ROOM = "no room"
    """Not now: the node, or its partition, gives nothing at this moment."""

    REFUSED = "refused"
    """Not as requested, or not by this Slurm; or no answer came, and certainly nothing was done."""

    UNKNOWN = "unknown"
    """There may be a job."""


@dataclass(frozen=True, slots=True)
class ForeignPodJobAnswer:
    """The result, with a job or with Slurm's words."""

    result: ForeignPodJobResult
    job_id: int = 0
    text: str = ""


class SlurmForeignPods(Protocol):
    """Jobs of Pods that Slurm did not place."""

    async def hold(self, order: ForeignPodOrder) -> ForeignPodJobAnswer:
        """Ask for the job of a foreign Pod. Never raises."""
        ...

    async def find(self, name: str, job_ids: Iterable[int]) -> Sequence[JobView]:
        """Return every live job of this name, and of these ids those that Slurm knows. Raises `PortError`."""
        ...


ReasonAfter = Callable[[str], str]
"""Receives the reason of a drain of the extender that is about to be changed; returns the new one, "" for no change."""


class SlurmNodes(Protocol):
    """Slurm's nodes and partitions."""

    async def snapshot(self) -> SlurmSnapshot:
        """Return Nodes, partitions and features, read now. Raises `PortError`."""
        ...

    async def node(self, node: str) -> SlurmNode:
        """Return one node, read now. Raises `PortError`."""
        ...

    async def drain(self, node: str, reason: str, found: ReasonAfter = ...) -> None:
        """Start nothing more on the node. Raises `PortError`."""
        ...

    async def resume(self, node: str, found: ReasonAfter = ...) -> None:
        """Lift a drain, unless `found` returns a reason to keep it. Raises `PortError`, then too."""
        ...


class SlurmShares(Protocol):
    """Fair shares and limits of accounts."""

    async def fair_shares(self) -> FairShares:
        """Return those of all accounts and users, at most some seconds old. Raises `PortError`."""
        ...


class ExternalNodes(Protocol):
    """Nodes of Slurm that stand for Nodes of Kubernetes. Nothing raises; doing it twice does no harm."""

    async def create(self, node: DesiredNode) -> Updated:
        """Create the node. An existing node of that name is refused, whichever client created it."""
        ...

    async def change(self, node: DesiredNode, keys: Collection[str]) -> Updated:
        """Set these keys of the node to the desired values."""
        ...

    async def delete(self, name: str) -> Updated:
        """Delete a node. `None` also while jobs are on it; done where there is none of that name."""
        ...


class BindResult(StrEnum):
    """The result of a Binding."""

    BOUND = "bound"
    """The Pod is bound to the node asked for, by this call or an earlier one."""

    REFUSED = "refused"
    """It surely is not: gone, replaced, ending, gated, or bound to another node."""

    UNKNOWN = "unknown"
    """No answer; the Pod may be bound."""


@dataclass(frozen=True, slots=True)
class BindAnswer:
    """The result and, unless bound, a sentence for kube-scheduler's log."""

    result: BindResult
    text: str = ""


class Pods(Protocol):
    """Writes to Pods. Every one names the UID as a precondition."""

    async def bind(
        self, member: MemberRef, node: str, annotations: Mapping[str, str], *, within_s: float | None = None
    ) -> BindAnswer:
        """POST the Binding, within so many seconds if they are given. Never raises."""
        ...

    async def wake(
        self, member: MemberRef, annotations: Mapping[str, str], *, wanted: Callable[[], bool] = lambda: True
    ) -> WakeAnswered:
        """Record the grant by these annotations, so that kube-scheduler tries the Pod again. Never raises."""
        ...

    async def ungate(self, member: MemberRef) -> bool:
        """Remove the scheduling gate of the extender, and nothing else. False: try again later. Never raises."""
        ...

    async def annotate(self, member: MemberRef, annotations: Mapping[str, str]) -> bool:
        """Write annotations, and nothing else. False: try again later. Never raises."""
        ...

    async def explain(self, member: MemberRef, why: Why, *, transition: bool, generation: int) -> bool:
        """Write the condition that says why the Pod waits. False: try again later. Never raises.

        `transition`: its status is another one than before. `generation` is the Pod's, of which it is said; 0: none.
        """
        ...

    async def report(self, member: MemberRef, kind: str, holds: bool | None, reason: str, text: str) -> bool:
        """Write a condition of the extender. False: try again later. Never raises."""
        ...

    async def end(
        self,
        member: MemberRef,
        reason: str,
        text: str,
        voluntary: bool,
        deadline: float | None = None,
        *,
        seen: PodView | None = None,
    ) -> EvictAnswered:
        """Set the condition that names the cause, then evict (`voluntary`) or delete. Never raises.

        The Pod has its own grace, but none beyond `deadline`, on the clock's `now`: also where it is ending already.
        `seen` is the Pod as the watch shows it: one that is not ending there need not be read.
        """
        ...


class PodReads(Protocol):
    """Pods as they are, whatever the mirror of them shows."""

    async def read(self, member: MemberRef) -> PodView | None:
        """Return one Pod; `None`: it surely is not there, or another has its name. Raises `PortError`."""
        ...


class KubeNodes(Protocol):
    """Writes to Kubernetes' Nodes. None of them touches another Node that has the name by now."""

    async def report(self, node: NodeView, report: Report) -> bool:
        """Write condition and annotation. False: try again later. Never raises."""
        ...

    async def mark(self, node: NodeView, change: NodePatch) -> bool:
        """Carry out all of it, if the Node still is as it was looked at. False: it is not, or later. Never raises."""
        ...


class NodeLeases(Protocol):
    """The Leases that kubelets renew as long as they live."""

    async def renewed(self, node: str) -> str:
        """Return when the Lease of a Node was renewed last, as kubelet wrote it; "": never. Raises `PortError`."""
        ...


class CheckpointStore(Protocol):
    """The checkpoints that Kubernetes has (`domain.jobs.checkpoint`)."""

    async def read(self) -> Mapping[str, int]:
        """Return the last number of each writer, as etcd has it now. Raises `PortError`."""
        ...

    async def begin(self, writer: str) -> None:
        """Write number 1 of a writer. Raises `PortError`."""
        ...

    async def advance(self, writer: str, number: int) -> bool:
        """Raise the number of a writer to this one; False: the number before it is not there. Raises `PortError`."""
        ...


class Owners(Protocol):
    """The controllers that created a Pod."""

    async def controllers(
        self, namespace: str, owner: OwnerReference, *, patient: bool = True
    ) -> tuple[ControllerView, ...]:
        """Return the controllers from `owner` up to the topmost readable one, and what is known of the one above it.

        `patient` False: request none of an API version of which one did not answer lately. Raises `PortError`.
        """
        ...


class DeviceCache(Protocol):
    """ResourceClaims, ResourceSlices and DeviceClasses, as last seen. All are absent where no device is configured."""

    @property
    def pools(self) -> DevicePools:
        """Return the devices that drivers publish."""
        ...

    @property
    def holders(self) -> DeviceHolders:
        """Return the ResourceClaims that hold devices."""
        ...

    def resource_claim(self, namespace: str, name: str) -> ResourceClaimView | None:
        """Return a ResourceClaim by its name."""
        ...

    def class_of(self, resource: str) -> str:
        """Return the DeviceClass that offers an extended resource; "" for none."""
        ...

    def class_config(self, device_class: str) -> tuple[str, ...]:
        """Return the entries of `spec.config` of a DeviceClass, each as JSON."""
        ...

    async def passed(self, uid: str, version: str, within_s: float) -> bool:
        """Wait until the watch has shown a ResourceClaim in this version, or a later one. False: it did not in time."""
        ...


class ResourceClaims(Protocol):
    """Writes to ResourceClaims. Each names UID and resource version, and does nothing if the object has changed."""

    async def read(self, namespace: str, name: str) -> ResourceClaimView | None:
        """Return a ResourceClaim as it is now; `None`: there is none of this name. Raises `PortError`."""
        ...

    async def allocate(
        self, resource_claim: ResourceClaimView, allocation: ResourceClaimAllocation, reserve_for: MemberRef | None
    ) -> ResourceClaimView:
        """Replace the allocation, and reserve the ResourceClaim for a Pod unless `None`. Raises `PortError`."""
        ...

    async def release(self, resource_claim: ResourceClaimView) -> None:
        """Remove the allocation and the finalizer. Raises `PortError`."""
        ...

    async def remind(self, resource_claim: ResourceClaimView, device: DeviceId) -> None:
        """Allocate a device once more, to a reminder of the ResourceClaim that holds it. Raises `PortError`."""
        ...

    async def remove(self, reminder: ResourceClaimView) -> None:
        """Delete a reminder. Raises `PortError`."""
        ...


class StatusResult(StrEnum):
    """Name the outcome of a write of a PodGroup's status."""

    WRITTEN = "written"
    CONFLICT = "conflict"
    """Another controller owns a field of it. Nothing was written."""

    GONE = "gone"
    """The PodGroup is not there, or another one has its name. Nothing was written."""

    FAILED = "failed"
    """Nothing is known to be written: try again later."""


@dataclass(frozen=True, slots=True)
class StatusAnswer:
    """The outcome of a write of a PodGroup's status. `text`: what the API server said."""

    result: StatusResult
    text: str = ""


class PodGroupStatuses(Protocol):
    """Writes the status of PodGroups, and takes no field over from another controller."""

    async def write(self, group: PodGroupView, status: GroupStatus) -> StatusAnswer:
        """Write the status of this very PodGroup. Never raises."""
        ...


@dataclass(frozen=True, slots=True)
class Announcement:
    """One Kubernetes Event about one object. `kind` is `Pod` or `Node`."""

    kind: str
    namespace: str
    name: str
    uid: str
    reason: str
    text: str
    warning: bool = False


class Announcer(Protocol):
    """Publishes Events for users. Rate-limited and aggregated; never delays work."""

    def announce(self, announcement: Announcement) -> None:
        """Queue it. Never blocks, never raises."""
        ...


class PodCache(Protocol):
    """Every Pod of the cluster, or of the namespaces that are read, as last seen."""

    @property
    def synced(self) -> bool:
        """Return whether the first complete list has been read."""
        ...

    def get(self, uid: str) -> PodView | None:
        """Return one Pod."""
        ...

    def may_exist(self, uid: str) -> bool:
        """Return whether such a Pod may exist, also one that could not be read. False: there is none."""
        ...

    def on_node(self, node: str) -> Sequence[PodView]:
        """Return Pods bound to a Kubernetes node that are not over."""
        ...
