"""A placeholder: what is known of one workload and its job. Only `lifecycle` makes a new one from an old one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from extender.domain.events import EndKind, MemberRef, PodEnd
from extender.domain.gangs.layout import shared_devices
from extender.domain.jobs.cancelled import Cancelled
from extender.domain.jobs.devices import Device
from extender.domain.jobs.job import JobRequest, Mode, RequestDigests
from extender.domain.pods.allocation_record import GangPlace
from extender.domain.printable import shortened
from extender.domain.states import (
    AbsentState,
    Allocation,
    BoundState,
    GoneState,
    GrantedState,
    LostState,
    Payload,
    PlaceholderJob,
    RefusedState,
    ReleasingState,
    State,
    UnsureState,
    WaitingState,
)

__all__ = ["Member", "Placeholder", "State", "Timing", "validate"]

MOST_NAMED = 8
"""Members of a workload that are named, in lines of the log for example."""


@dataclass(frozen=True, slots=True)
class Member:
    """One Pod of the workload."""

    ref: MemberRef
    slot: int | None = None
    """Its place in the allocation, which is its rank; `None`: its place among the members."""

    node: str = ""
    """The Kubernetes node it is bound to."""

    job_id: int | None = None
    """The job that its Binding names; `None`: unbound, or not bound by the extender."""

    hint: int | None = None
    """A job that the Pod names without a proof, at a start: a place to search for the workload's job, and no more."""

    slurm_node: str = ""
    """The node of that job for which it was bound there, as the Binding says."""

    binding: bool = False
    """A Binding was sent whose outcome is not known yet."""

    ending: bool = False
    """Its deletion was requested."""

    end: PodEnd | None = None
    """Set once no container of it can still run."""

    outcome: str = ""
    """How it ended, for the comment of its job."""

    unknown: bool = False
    """It stands for a Pod that may run in this slot of the job, and that the API server did not show at a start."""

    @property
    def wanting(self) -> bool:
        """Return whether the member still needs a node."""
        return not (self.node or self.binding or self.ending or self.end or self.unknown)

    @property
    def placed(self) -> bool:
        """Return whether the member runs, or may run, on a node."""
        return self.end is None and bool(self.node or self.binding or self.unknown)


ABSENT = AbsentState()


@dataclass(frozen=True, slots=True)
class Placeholder:
    """Everything the core remembers of a workload: here what every state needs, in `payload` what one state needs.

    Instants are seconds on the clock whose `now` is given to `lifecycle.machine.step`.
    """

    key: str
    payload: Payload = ABSENT
    title: str = ""
    """The readable part of the name under which a job of this workload is found again."""

    members: tuple[Member, ...] = ()
    """Some may have finished while others run; each has a slot, which decides which node of the allocation it takes."""

    request: JobRequest | None = None
    """What the Pods request now; `None` until they have been translated, or while `faults` say why they cannot be."""

    submitted_request: JobRequest | None = None
    """What the last attempt, or the job since its last update, requests."""

    found_request_digests: RequestDigests = ()
    """For a job that was found before its Pod was translated: its request as digests, from the mark of the job."""

    faults: tuple[str, ...] = ()
    refusal: str = ""
    """Why `submitted_request` is refused once its job has ended; dropped when the Pods request something else."""

    cancelled: Cancelled | None = None
    """A user's cancel of a job that asked for `request`; dropped when the Pods request something else."""

    candidates: frozenset[str] | None = None
    """Candidate nodes (Kubernetes); `None`: not known yet."""

    exclusions_changed: bool = False
    """Candidates or nodes changed since the excluded nodes were last sent to Slurm."""

    refused_nodes: frozenset[str] = frozenset()
    """Kubernetes nodes that were granted and could not be used."""

    fits_nowhere: bool = False
    """`submitted_request` fits on none of the present nodes: it is submitted again when they change."""

    attempt: int = 0
    """Counts submissions, refused ones included."""

    failures: int = 0
    """Consecutive attempts that failed; sets the back-off."""

    queue_next: bool = False
    """Slurm refused the immediate allocation: the next attempt is queued."""

    duplicate_jobs: frozenset[int] = frozenset()
    """Other live jobs of this workload; each is cancelled until its end is observed."""

    reason: str = ""
    """Why it waits or was refused, for users."""

    retry_at: float = 0.0
    """No attempt before this instant."""

    timer_at: float | None = None
    """When `TimerFired` is due."""

    reprobe_at: float | None = None
    """When to look once more for a job that a lost request may create late."""

    @property
    def state(self) -> State:
        """Return the state; `payload` is its data."""
        return self.payload.state

    @property
    def job(self) -> PlaceholderJob | None:
        """Return the placeholder job, or `None` in states without one."""
        return self.payload.job

    @property
    def job_id(self) -> int | None:
        """Return the id of the placeholder job."""
        job = self.payload.job
        return None if job is None else job.job_id

    @property
    def mode(self) -> Mode | None:
        """Return how the job exists in Slurm; `None`: no job, or not recorded."""
        job = self.payload.job
        return None if job is None else job.mode

    @property
    def slurm_nodes(self) -> tuple[str, ...]:
        """Return the nodes that Slurm gave the job, by Slurm's names."""
        job = self.payload.job
        return () if job is None else job.slurm_nodes

    @property
    def allocation(self) -> Allocation:
        """Return member UIDs and their Kubernetes nodes, sorted; empty in states without an allocation."""
        return self.payload.allocation

    @property
    def cleared(self) -> bool:
        """Return whether the workload is in GRANTED, and `/filter` may offer its nodes."""
        return isinstance(self.payload, GrantedState) and self.payload.cleared

    @property
    def outlives_job(self) -> bool:
        """Return whether the workload is in LOST, and its job has ended for good: its Pods are being ended."""
        return isinstance(self.payload, LostState) and not self.payload.job_alive

    @property
    def end_kind(self) -> EndKind | None:
        """Return why the allocation was taken away; `None` where it was not."""
        payload = self.payload
        return payload.end_kind if isinstance(payload, LostState | ReleasingState) else None

    @property
    def is_finished(self) -> bool:
        """Return whether every member has finished."""
        return bool(self.members) and all(member.end for member in self.members)

    @property
    def wants(self) -> bool:
        """Return whether some member still needs a node."""
        return any(member.wanting for member in self.members)

    @property
    def unsettled(self) -> bool:
        """Return whether some member needs a node, or a Binding of one is under way."""
        return any(member.wanting or member.binding for member in self.members)

    @property
    def placed(self) -> bool:
        """Return whether some member runs, or may run, on a node."""
        return any(member.placed for member in self.members)

    @property
    def job_occupied(self) -> bool:
        """Return whether some member runs, or may run, on the job of this workload."""
        return any(self.occupies_job(member) for member in self.members)

    def occupies_job(self, member: Member) -> bool:
        """Return whether the extender binds or bound this member, or it is on the node that its job was given.

        Any other member on a node is not the extender's to end.
        """
        return member.placed and (
            member.binding or member.job_id is not None or member.node == self.node_of(member.ref.uid)
        )

    @property
    def is_gang(self) -> bool:
        """Return whether the workload is a gang, even one of a single Pod: its key is not the UID of a Pod."""
        return any(member.ref.uid != self.key for member in self.members)

    @property
    def refs(self) -> tuple[MemberRef, ...]:
        """Return the members, as commands name them. Those that are unknown have no Pod that could be named."""
        return tuple(member.ref for member in self.members if not member.unknown)

    @property
    def outcome(self) -> str:
        """Return how the Pods ended, as a note for the job; "" before all of them have finished."""
        if not self.is_finished:
            return ""
        why = f" ({self.end_kind})" if self.end_kind is not None else ""
        return "; ".join(f"Pod {m.ref.full_name} {m.outcome}{why}" for m in self.members if m.outcome)

    @property
    def exit_code(self) -> int | None:
        """Return what the script of the job should exit with; `None` if its Pods did not end by themselves."""
        if not self.is_finished or any(member.ending or member.end is PodEnd.REMOVED for member in self.members):
            return None
        return 1 if any(member.end is PodEnd.FAILED for member in self.members) else 0

    @property
    def pod_names(self) -> str:
        """Return the members, for users: the first ones, and how many there are besides."""
        return shortened([ref.full_name for ref in self.refs], MOST_NAMED)

    def node_of(self, uid: str) -> str:
        """Return the Kubernetes node that Slurm gave this member, or ""."""
        return next((node for member, node in self.payload.allocation if member == uid), "")

    def slurm_node_of(self, uid: str) -> str:
        """Return the Slurm node of this member's slot, or ""."""
        slot = self.slot_of(uid)
        return "" if slot is None else self.slurm_node_of_slot(slot)

    def slurm_node_of_slot(self, slot: int) -> str:
        """Return the Slurm node of a slot, or ""."""
        job = self.payload.job
        if job is None or not job.slurm_nodes:
            return ""
        if not job.slots:
            return job.slurm_nodes[slot % len(job.slurm_nodes)]
        return job.slots[slot] if slot < len(job.slots) else ""

    def slot_of(self, uid: str) -> int | None:
        """Return the slot of a member, which is its rank; `None`: no such member."""
        member = self.member(uid)
        if member is None or member.slot is not None:
            return None if member is None else member.slot
        return next(slot for slot, other in self.by_slot if other.ref.uid == uid)

    def in_slot(self, slot: int) -> Member | None:
        """Return the member with this slot; one that has finished keeps it until a successor takes it."""
        return next((member for number, member in self.by_slot if number == slot), None)

    @property
    def by_slot(self) -> Iterator[tuple[int, Member]]:
        """Yield each member with its slot. A member that has finished keeps its slot until a successor takes it.

        Those without a slot of their own count through the slots that no other one has that is known.
        """
        taken = {member.slot for member in self.members if not member.unknown}
        left = (slot for slot in count() if slot not in taken)
        for member in self.members:
            yield next(left) if member.slot is None else member.slot, member

    @property
    def slots_used(self) -> int:
        """Return how many slots there are up to the last one with a member that is known."""
        return 1 + max((slot for slot, member in self.by_slot if not (member.end or member.unknown)), default=-1)

    @property
    def awaited_slots(self) -> frozenset[int]:
        """Return the slots in which a Pod may run that is not known."""
        return frozenset(slot for slot, member in self.by_slot if member.unknown and not member.end)

    @property
    def size(self) -> int:
        """Return how many slots the workload has."""
        request = self.submitted_request or self.request
        slots = 1 + max((slot for slot, _ in self.by_slot), default=0)
        return max(1 if request is None else request.members, slots)

    @property
    def stranded(self) -> tuple[Member, ...]:
        """Return the members that run, or may run, on nodes which Slurm took from the job."""
        job = self.payload.job
        if job is None or len(job.slots) < 2 or not job.slurm_nodes:
            return ()
        kept = frozenset(job.slurm_nodes)
        left = {slot for slot, node in enumerate(job.slots) if node and node not in kept}
        return tuple(member for slot, member in self.by_slot if slot in left and member.placed) if left else ()

    @property
    def is_stranded(self) -> bool:
        """Return whether members run on the job, and all of them on nodes which Slurm took from it."""
        stranded = {member.ref.uid for member in self.stranded}
        return self.job_occupied and {m.ref.uid for m in self.members if self.occupies_job(m)} <= stranded

    def has_node_for(self, slot: int) -> bool:
        """Return whether the job has the node of this slot, and is to keep it; True while its nodes are unknown."""
        job = self.payload.job
        if job is None or not job.slots:
            return True
        vacated = self.payload.vacated if isinstance(self.payload, BoundState) else ()
        return slot < len(job.slots) and job.slots[slot] in job.slurm_nodes and job.slots[slot] not in vacated

    def gang_place(self, uid: str) -> GangPlace | None:
        """Return the place of a member in its gang; `None`: the Pod is a workload of its own."""
        slot = self.slot_of(uid)
        return None if slot is None or self.key == uid else GangPlace(slot, self.size, self.key)

    def devices_of(self, uid: str) -> tuple[Device, ...]:
        """Return the devices that Slurm gave this member; none where it does not say, or there are none."""
        job, node = self.payload.job, self.slurm_node_of(uid)
        if job is None:
            return ()
        there = [slot for slot, name in enumerate(job.slots) if name == node]
        slot = self.slot_of(uid)
        place = there.index(slot) if slot in there else 0
        return shared_devices(dict(job.devices).get(node, ()), place, len(there))

    def member(self, uid: str) -> Member | None:
        """Return the member with this UID."""
        return next((member for member in self.members if member.ref.uid == uid), None)

    def has_slot(self, uid: str) -> bool:
        """Return whether this Pod is a member of a gang with a slot of its job."""
        member = self.member(uid)
        return member is not None and member.slot is not None


@dataclass(frozen=True, slots=True)
class Timing:
    """The waits of the lifecycle, in seconds."""

    settle: float = 60.0
    """How long after a request of unknown outcome its job may still appear (slurmctld may have been stalled)."""

    settle_at_start: float = 2.0
    """The same after a start: the requests of the process before were sent before it died."""

    probe: float = 1.0
    """Between two searches for the live jobs of a workload, until `settle` has passed."""

    retry_first: float = 1.0
    retry_most: float = 60.0
    cancel_retry: float = 2.0
    cancel_retry_most: float = 30.0
    first_read: float = 2.0
    """Until a job that was queued behind others is first read.

    The read only brings Slurm's reason for the Pod. If the job starts earlier, the poll of all job states reports it.
    """

    end_retry: float = 5.0
    end_retry_most: float = 60.0
    """Between two requests to end a Pod that is terminating: the first request may have set a long grace period."""

    eviction_deadline: float = 30.0
    """How long disruption budgets may hold a voluntary end."""

    kill_wait: float = 30.0
    """Slurm's own KillWait: the time between SIGTERM and SIGKILL for the processes of a job."""

    busy: float = 1.0
    refused_by_scheduler: float = 3.0
    """How long full lists must lack the granted node before it counts as refused."""

    not_offered: float = 150.0
    """How long kube-scheduler may not offer the granted node at all: with no feasible node it never asks."""

    doubt: float = 15.0
    """How long granted nodes may be without a Node, and a pending job called impossible, before the job is released.

    A new node appears in Slurm and in Kubernetes at different times; without its nodes a partition can run nothing.
    """

    forget: float = 60.0

    replace: float = 60.0
    """How long the job of a gang is kept for its next incarnation, where the gang says so."""


def validate(p: Placeholder) -> None:
    """Check the invariants that the types of the payloads cannot state; raise AssertionError naming the broken one."""
    payload = p.payload
    timed = isinstance(payload, UnsureState | ReleasingState | LostState | GoneState)
    reads_again = isinstance(payload, WaitingState) and (payload.doubted_since is not None or payload.unread)
    if (timed or reads_again or p.duplicate_jobs) and p.timer_at is None:
        raise AssertionError(f"{p.key}: {p.state} without a timer")
    if isinstance(payload, GrantedState) and not payload.allocation and not p.is_gang:  # a gang may await a read
        raise AssertionError(f"{p.key}: GRANTED without an allocation")
    if isinstance(payload, GoneState) and not p.is_finished:
        raise AssertionError(f"{p.key}: GONE with a live member")
    if isinstance(payload, AbsentState | ReleasingState | RefusedState) and p.job_occupied:
        raise AssertionError(f"{p.key}: {p.state} with a member that runs on its job")
    kept_until = payload.kept_until if isinstance(payload, BoundState) else 0.0
    if isinstance(payload, BoundState | LostState) and not p.job_occupied:
        if not kept_until:
            raise AssertionError(f"{p.key}: {p.state} with no member that runs on its job")
        if p.timer_at is None or p.timer_at > kept_until:
            raise AssertionError(f"{p.key}: {p.state}, kept without a timer")
    if isinstance(payload, RefusedState) and payload.unrecorded and p.cancelled is None:
        raise AssertionError(f"{p.key}: a cancel that did not happen is to be recorded")
    if p.state is State.SUBMITTING and p.cancelled is not None and p.cancelled.speaks_of(p.submitted_request):
        raise AssertionError(f"{p.key}: a request that a user cancelled is submitted")
    if p.job_id is not None and p.job_id in p.duplicate_jobs:
        raise AssertionError(f"{p.key}: job {p.job_id} is its own duplicate")
