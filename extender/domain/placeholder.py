"""A placeholder: what is known of one workload and its job. Only `lifecycle` makes a new one from an old one."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from extender.domain.events import EndKind, MemberRef, PodEnd
from extender.domain.jobs.cancelled import Cancelled
from extender.domain.jobs.devices import Device
from extender.domain.jobs.job import JobRequest, Mode, Wishes


class State(StrEnum):
    """Where a workload stands between Kubernetes and Slurm."""

    ABSENT = "ABSENT"
    """No job is known and none can exist."""

    SUBMITTING = "SUBMITTING"
    """A request for a job was sent and not answered yet."""

    UNSURE = "UNSURE"
    """The job may or may not exist: a lost answer, or a start of the extender."""

    WAITING = "WAITING"
    """The job is pending in Slurm."""

    GRANTED = "GRANTED"
    """Slurm gave nodes; not every member is bound yet."""

    BOUND = "BOUND"
    """Every live member is bound to its node of the allocation."""

    LOST = "LOST"
    """The allocation is being taken away, or is gone, and a Pod is still there."""

    RELEASING = "RELEASING"
    """The job is to end; its end has not been seen."""

    REFUSED = "REFUSED"
    """Translation, Slurm or a person said no; nothing is tried until something changes."""

    GONE = "GONE"
    """Every member is over and so is the job; forgotten after a while."""


@dataclass(frozen=True, slots=True)
class Member:
    """One Pod of the workload."""

    ref: MemberRef
    node: str = ""
    """The Kubernetes node it is bound to."""

    job_id: int | None = None
    """The job that its Binding names; `None`: unbound, or bound by somebody else."""

    hint: int | None = None
    """A job that the Pod names without a proof, when it is taken up: where to look for the workload's, and no more."""

    slurm_node: str = ""
    """The node of that job for which it was bound there, as the Binding says."""

    binding: bool = False
    """A Binding was sent whose outcome has not been seen."""

    ending: bool = False
    """Its deletion was asked."""

    end: PodEnd | None = None
    """Set once no container of it can still run."""

    outcome: str = ""
    """How it ended, for the comment of its job."""

    @property
    def wanting(self) -> bool:
        """It still looks for a node."""
        return not (self.node or self.binding or self.ending or self.end)

    @property
    def placed(self) -> bool:
        """It runs, or may run, on a node."""
        return self.end is None and bool(self.node or self.binding)


@dataclass(frozen=True, slots=True)
class Placeholder:
    """Everything the core remembers of a workload. Instants are seconds on the clock whose `now` is given to `step`."""

    key: str
    state: State = State.ABSENT
    title: str = ""
    """The readable part of the name under which a job of this workload is found again."""

    members: tuple[Member, ...] = ()
    request: JobRequest | None = None
    """What the workload asks now; `None` until it has been translated, or while `faults` say why it cannot be."""

    asked: JobRequest | None = None
    """What the last attempt asked."""

    found_wishes: Wishes = ()
    """What the mark of a job says that was found before its Pod was translated: what `asked` differs in follows."""

    faults: tuple[str, ...] = ()
    refusal: str = ""
    """Why what was asked is refused once its job has ended; forgotten when the Pod asks for something else."""

    cancelled: Cancelled | None = None
    """A person's cancel of the job of what is asked; forgotten when the Pod asks for something else."""

    note_owed: frozenset[str] = frozenset()
    """While REFUSED for it: UIDs of the members on which that has not been written yet."""

    candidates: frozenset[str] | None = None
    """Kubernetes nodes that the workload may use; `None`: not known yet."""

    refused_nodes: frozenset[str] = frozenset()
    """Kubernetes nodes that were granted and could not be used."""

    fits_nowhere: bool = False
    """What was asked last fits on none of the nodes that there are: it is asked again when they change."""

    attempt: int = 0
    """Counts submissions, refused ones included."""

    failures: int = 0
    """Consecutive attempts that came to nothing; sets the back-off."""

    queue: bool = False
    """The immediate try was refused: the next attempt is queued."""

    job_id: int | None = None
    job_alive: bool = False
    """slurmctld still has the job, as far as is known."""

    mode: Mode | None = None
    """How the job exists in Slurm; `None`: a start found it, and nobody remembers."""

    told: tuple[str, ...] = ()
    """Slurm nodes that the job was told to avoid."""

    follow_owed: bool = False
    """Candidates or nodes changed since the job was last told which nodes to avoid."""

    following: bool = False
    """The job is being told now; one request at a time, or an older one could arrive last."""

    updating: JobRequest | None = None
    """What the job is being changed to."""

    declined: JobRequest | None = None
    """What the job was not changed to, and what has been said about it."""

    allocation: tuple[tuple[str, str], ...] = ()
    """Member UID and Kubernetes node, sorted."""

    slurm_nodes: tuple[str, ...] = ()
    devices: tuple[tuple[str, tuple[Device, ...]], ...] = ()
    """What of each of them the job was given, where Slurm says which devices."""

    cleared: bool = False
    """kubelet would admit every member and nothing ended is in the way: the node may be handed out."""

    missing_since: float | None = None
    """When a full list of kube-scheduler's first lacked the granted node."""

    offered_at: float | None = None
    """While the granted node may be handed out: when kube-scheduler last offered it, or could first have done so."""

    limit_at: float | None = None
    """While its Pods run: when to look whether they have to be told to end because of the job's time limit."""

    unread: bool = False
    """While WAITING: the job queues behind others, and why it waits has not been read yet."""

    doubted_since: float | None = None
    """While WAITING: since when its job has nodes for which Kubernetes has no Node, or is said to be impossible."""

    duplicate_jobs: frozenset[int] = frozenset()
    """Other live jobs of this workload; each is cancelled until its end is seen."""

    reason: str = ""
    """Why it waits or was refused, for people."""

    end_kind: EndKind | None = None
    """Why the allocation is being taken away."""

    end_text: str = ""
    ends_at: float = 0.0
    """When Slurm ends the job, as it announced, on the clock of the steps; 0.0: it announced nothing."""

    lost_at: float = 0.0
    """When the allocation was first known to go."""

    sure_at: float = 0.0
    """While UNSURE: the instant before which an empty probe proves nothing."""

    empties: int = 0
    """Consecutive empty probes."""

    retry_at: float = 0.0
    """No attempt before this instant."""

    wake_at: float | None = None
    """When `TimerFired` is wanted."""

    tries: int = 0
    """How often what the present state owes was asked for."""

    reprobe_at: float | None = None
    """When to look once more for a job that a lost request may have made late."""

    @property
    def over(self) -> bool:
        """Every member is over."""
        return bool(self.members) and all(member.end for member in self.members)

    @property
    def wants(self) -> bool:
        """Some member still looks for a node."""
        return any(member.wanting for member in self.members)

    @property
    def placed(self) -> bool:
        """Some member runs, or may run, on a node."""
        return any(member.placed for member in self.members)

    @property
    def charged(self) -> bool:
        """Some member runs, or may run, on the account of a job of this workload."""
        return any(self.charges(member) for member in self.members)

    def charges(self, member: Member) -> bool:
        """Whether we bound this member or are binding it, or somebody bound it to the node that its job was given.

        Any other member on a node is not ours to end.
        """
        ours = member.binding or member.job_id is not None or member.node == self.node_of(member.ref.uid)
        return member.placed and ours

    @property
    def refs(self) -> tuple[MemberRef, ...]:
        """The members, as commands name them."""
        return tuple(member.ref for member in self.members)

    @property
    def outcome(self) -> str:
        """How its Pods ended, as a note for the job; "" before all of them are over."""
        if not self.over:
            return ""
        why = f" ({self.end_kind})" if self.end_kind is not None else ""
        return "; ".join(f"Pod {m.ref.full_name} {m.outcome}{why}" for m in self.members if m.outcome)

    @property
    def exit_code(self) -> int | None:
        """What the script of the job should end with: `None` where its Pods did not end by themselves."""
        if not self.over or any(member.ending or member.end is PodEnd.REMOVED for member in self.members):
            return None
        return 1 if any(member.end is PodEnd.FAILED for member in self.members) else 0

    @property
    def pod_names(self) -> str:
        """The members, for people."""
        return ", ".join(ref.full_name for ref in self.refs)

    def node_of(self, uid: str) -> str:
        """The Kubernetes node that Slurm gave this member, or ""."""
        return dict(self.allocation).get(uid, "")

    def slurm_node_of(self, uid: str) -> str:
        """The Slurm node of this member's turn, or ""."""
        turn = next((index for index, member in enumerate(self.members) if member.ref.uid == uid), None)
        return self.slurm_nodes[turn % len(self.slurm_nodes)] if turn is not None and self.slurm_nodes else ""

    def devices_of(self, uid: str) -> tuple[Device, ...]:
        """The devices that Slurm gave this member; none where it does not say, or there are none."""
        return dict(self.devices).get(self.slurm_node_of(uid), ())

    def member(self, uid: str) -> Member | None:
        """The member with this UID."""
        return next((member for member in self.members if member.ref.uid == uid), None)


@dataclass(frozen=True, slots=True)
class Timing:
    """The waits of the lifecycle, in seconds."""

    settle: float = 60.0
    """How long after a request of unknown outcome its job may still appear (slurmctld may have been stalled)."""

    settle_at_start: float = 2.0
    """The same after a start: the requests of the process before were handed over before it died."""

    probe: float = 1.0
    retry_first: float = 1.0
    retry_most: float = 60.0
    cancel_retry: float = 2.0
    cancel_retry_most: float = 30.0
    first_look: float = 2.0
    """How long after a job was queued behind others it is first read: until then only its Pod's reason would be told.

    Many start before; the states of all jobs tell when.
    """

    end_retry: float = 5.0
    end_retry_most: float = 60.0
    """Between two requests to end a Pod that is ending: whoever began that may have given it a long grace."""

    eviction_deadline: float = 30.0
    """How long disruption budgets may hold a voluntary end."""

    kill_wait: float = 30.0
    """Slurm's own: how long it gives its processes between SIGTERM and SIGKILL."""

    busy: float = 1.0
    refused_by_scheduler: float = 3.0
    """How long full lists must lack the granted node before it counts as refused."""

    unclaimed: float = 150.0
    """How long kube-scheduler may not offer the granted node at all: with no feasible node it never asks."""

    doubt: float = 15.0
    """How long granted nodes may be without a Node, and a waiting job said to be impossible, before a job is given up.

    A new node shows itself in Slurm and in Kubernetes one by one; without its nodes a partition can run nothing.
    """

    forget: float = 60.0


def validate(p: Placeholder) -> None:
    """Hold the invariants of one placeholder; raises AssertionError naming the broken one."""
    owes_timer = {State.UNSURE, State.RELEASING, State.LOST}
    looks_again = p.doubted_since is not None or p.unread
    has_job = {State.WAITING, State.GRANTED, State.BOUND, State.RELEASING}
    if (p.state in owes_timer or p.duplicate_jobs or looks_again) and p.wake_at is None:
        raise AssertionError(f"{p.key}: {p.state} without a timer")
    if p.state in has_job and p.job_id is None:
        raise AssertionError(f"{p.key}: {p.state} without a job id")
    if p.state is State.GRANTED and not p.allocation:
        raise AssertionError(f"{p.key}: GRANTED without an allocation")
    if p.state is State.GONE and (p.job_id is not None or not p.over):
        raise AssertionError(f"{p.key}: GONE with a job or a live member")
    if p.cleared and p.state not in {State.GRANTED, State.BOUND}:
        raise AssertionError(f"{p.key}: a node may be handed out in {p.state}")
    if p.state is State.GONE and p.wake_at is None:
        raise AssertionError(f"{p.key}: GONE and never forgotten")
    if p.state in {State.ABSENT, State.RELEASING, State.REFUSED} and p.charged:
        raise AssertionError(f"{p.key}: {p.state} with a member on the account of its job")
    if p.state in {State.BOUND, State.LOST} and not p.charged:
        raise AssertionError(f"{p.key}: {p.state} with no member on the account of its job")
    _validate_words(p)
    if p.state is State.REFUSED and p.job_alive:
        raise AssertionError(f"{p.key}: REFUSED with a live job")
    if p.following and p.state is not State.WAITING:
        raise AssertionError(f"{p.key}: exclusions are told to a job in {p.state}")
    if p.doubted_since is not None and p.state is not State.WAITING:
        raise AssertionError(f"{p.key}: doubts about a waiting job in {p.state}")
    if p.job_id is not None and p.job_id in p.duplicate_jobs:
        raise AssertionError(f"{p.key}: job {p.job_id} is its own duplicate")


def _validate_words(p: Placeholder) -> None:
    """What a person said, and what a job is told."""
    if p.updating is not None and (p.state not in {State.WAITING, State.BOUND} or p.following):
        raise AssertionError(f"{p.key}: a job is changed in {p.state}, or while it is told exclusions")
    if p.unread and p.state is not State.WAITING:
        raise AssertionError(f"{p.key}: a waiting job is to be read in {p.state}")
    if p.note_owed and (p.state is not State.REFUSED or p.cancelled is None):
        raise AssertionError(f"{p.key}: a cancel is to be written down in {p.state}")
    if p.state is State.SUBMITTING and p.cancelled is not None and p.cancelled.speaks_of(p.asked):
        raise AssertionError(f"{p.key}: what a person cancelled is submitted")
