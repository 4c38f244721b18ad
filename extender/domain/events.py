"""Facts about one workload, in the past tense: the input of `lifecycle.machine.step`.

Adapters and controllers make them from watches, polls and the outcomes of commands. Every one may come late, twice, or
out of order; the machine decides what it still means. Node names are Kubernetes' own unless a field says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from extender.domain.jobs.cancelled import Cancelled
from extender.domain.jobs.devices import Device
from extender.domain.jobs.job import JobRequest, Mode, RequestDigests
from extender.domain.views import PodView


@dataclass(frozen=True, slots=True)
class MemberRef:
    """A Pod that belongs to a workload."""

    uid: str
    namespace: str
    name: str

    @classmethod
    def of(cls, pod: PodView) -> MemberRef:
        """Return the reference to this Pod."""
        return cls(pod.uid, pod.namespace, pod.name)

    @property
    def full_name(self) -> str:
        """Return namespace and name, as `PodView.full_name`."""
        return f"{self.namespace}/{self.name}"


class PodEnd(StrEnum):
    """The way in which a Pod ended for good (no container of it can still run)."""

    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    REMOVED = "Removed"


@dataclass(frozen=True, slots=True)
class PodWanted:
    """The workload's Pods need nodes, and this is their request to Slurm."""

    members: tuple[MemberRef, ...]
    request: JobRequest
    slots: tuple[int, ...] = ()
    """The slot of each member; empty: in their order."""

    cancelled: Cancelled | None = None
    """A cancel that the Pods record. It counts for a workload that had no request yet."""


@dataclass(frozen=True, slots=True)
class PodRefused:
    """The workload cannot be translated, or the site forbids its settings; `faults` are sentences for its author."""

    members: tuple[MemberRef, ...]
    faults: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CandidatesChanged:
    """The Kubernetes nodes that the workload may use, all other scheduling rules applied."""

    candidates: frozenset[str]
    computed: bool = False
    """The extender computed them, for Pods that kube-scheduler does not try; else kube-scheduler offers them now."""


@dataclass(frozen=True, slots=True)
class BindStarted:
    """A Binding is about to be sent for this member."""

    uid: str
    node: str


@dataclass(frozen=True, slots=True)
class BindFailed:
    """The Binding certainly did not happen."""

    uid: str
    text: str


@dataclass(frozen=True, slots=True)
class PodBound:
    """The member is bound. `job_id` is the one recorded with the Binding, `None`: the extender did not bind the Pod.

    `slurm_node` is recorded beside it: the node of the job for which it was bound there. `returned` is a Pod that was
    no member any more, with the slot that it had: a restored etcd shows it on its node again.
    """

    uid: str
    node: str
    job_id: int | None
    slurm_node: str = ""
    returned: tuple[MemberRef, int] | None = None


@dataclass(frozen=True, slots=True)
class PodEnding:
    """The member's deletion was requested; it may still run until its grace is over."""

    uid: str


@dataclass(frozen=True, slots=True)
class PodGone:
    """The member is over: finished, or removed after its grace."""

    uid: str
    how: PodEnd
    outcome: str = ""
    """See `pod_outcome`; "": not observed."""

    never: bool = False
    """The member was unknown, and there was no such Pod: its slot never had one."""


@dataclass(frozen=True, slots=True)
class EvictAnswered:
    """The answer to a request to end a member. `accepted` False: refused for now, or unknown."""

    uid: str
    accepted: bool
    text: str = ""
    budget: bool = False
    """A disruption budget holds it for now."""

    retry_after_s: float = 0.0
    """The delay that the API server asks for before a retry; 0.0: it gave none."""

    shortened: str = ""
    """If this request shortened the Pod's grace period: from what to what and why, as a sentence."""


@dataclass(frozen=True, slots=True)
class WakeAnswered:
    """The answer to recording the grant on a member; `accepted` False: to be repeated, and `text` says why."""

    uid: str
    accepted: bool
    text: str = ""


@dataclass(frozen=True, slots=True)
class CancelNoted:
    """The answer to writing a user's cancel on a member; `accepted` False: to be repeated."""

    uid: str
    accepted: bool


@dataclass(frozen=True, slots=True)
class NodeRefused:
    """Kubernetes does not let a member use the node that Slurm gave it."""

    node: str
    text: str
    later: str = ""
    """The UID of a member that came when others ran already, and these continue without it; "": the gang starts."""


@dataclass(frozen=True, slots=True)
class SubmitAccepted:
    """Slurm made a job for this attempt; `excluded` are the Slurm nodes that it excludes."""

    attempt: int
    job_id: int
    excluded: tuple[str, ...] = ()
    mode: Mode | None = None
    """The mode of the placeholder job, if it was decided for this attempt."""

    behind: bool = False
    """It was queued behind others, or Slurm had no room at that time."""


@dataclass(frozen=True, slots=True)
class SubmitRefused:
    """Slurm made no job. `permanent`: a retry without a change is useless. `queue`: only "now" was refused."""

    attempt: int
    permanent: bool
    text: str
    number: int = 0
    """Slurm's own error number; 0: the extender refused."""

    queue: bool = False
    nowhere: bool = False
    """No present node can ever hold it; nothing was sent to Slurm."""


@dataclass(frozen=True, slots=True)
class SubmitUnknown:
    """The request may or may not have been executed.

    `sent` false: it was not even sent, since the workload has a job from before. What that one requests its mark says.
    """

    attempt: int
    text: str
    sent: bool = True


@dataclass(frozen=True, slots=True)
class JobFound:
    """One live job with this workload's mark."""

    job_id: int
    attempt: int
    running: bool
    excluded: tuple[str, ...] = ()
    older: bool = False
    """An earlier leader made it, perhaps before the Lease was deleted: its epoch is another."""

    request_digests: RequestDigests = ()
    """Its request as digests, from its mark; empty: not known."""

    certain: bool = True
    """No other client can have created it (`ownership.is_certain`). Another job is kept if there is no such job."""

    left: tuple[tuple[MemberRef, int], ...] = ()
    """Unknown members with their slots: Pods of the gang may run on the job that the API server does not show."""


@dataclass(frozen=True, slots=True)
class ProbeAnswered:
    """Every live job of the workload's name that carries its mark; empty: Slurm had none."""

    jobs: tuple[JobFound, ...]
    requested_at: float | None = field(default=None, compare=False)
    """When Slurm was asked, on the clock of the steps; `None`: just now. An answer may take long."""


@dataclass(frozen=True, slots=True)
class ProbeFailed:
    """Slurm did not answer."""

    text: str


@dataclass(frozen=True, slots=True)
class JobWaiting:
    """The job is pending, for Slurm's reason."""

    job_id: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class JobGranted:
    """The job runs: member UID -> Kubernetes node. `unmapped` are granted Slurm nodes without a Kubernetes Node."""

    job_id: int
    allocation: Mapping[str, str] = field(default_factory=dict)
    slurm_nodes: tuple[str, ...] = ()
    unmapped: tuple[str, ...] = ()
    lacking: str = ""
    """A sentence, if the job holds less than the workload needs; its owner may shrink a pending job."""

    due_in: float | None = None
    """Seconds until the Pods have to end because of the time limit; `None`: the job has none."""

    devices: Mapping[str, tuple[Device, ...]] = field(default_factory=dict)
    """The devices that it was given, by Slurm node."""

    slots: tuple[str, ...] = ()
    """As in `states.PlaceholderJob`."""

    failed: tuple[str, ...] = ()
    """Nodes that the job had, and that Slurm reports as DOWN."""


class EndKind(StrEnum):
    """The cause for which a job can no longer be used; `job_outcomes.slurm_states` maps Slurm's states here."""

    CANCELLED = "cancelled"
    """A user or a program ended it on purpose."""

    PREEMPTED = "preempted"
    TIME_LIMIT = "time limit"
    NODE_FAILURE = "node failure"
    FAILED = "failed"
    """It ended by itself, or could not be started."""

    IMPOSSIBLE = "impossible"
    """Slurm says that it can never run as requested."""

    REQUEUED = "requeued"
    SUSPENDED = "suspended"
    REVOKED = "revoked"
    VANISHED = "vanished"
    """slurmctld does not know it, in two polls."""

    NODE_TAKEN = "node taken"
    """Slurm took nodes from the job, which runs on the others."""


@dataclass(frozen=True, slots=True)
class JobEnding:
    """The job still runs but Slurm has announced its end, in `ends_in` seconds; `None` where unknown."""

    job_id: int
    kind: EndKind
    ends_in: float | None = None


@dataclass(frozen=True, slots=True)
class JobEnded:
    """The job is over, or its nodes were taken from it. `alive`: its record still lives (suspended, requeued)."""

    job_id: int
    kind: EndKind
    text: str = ""
    alive: bool = False
    nowhere: bool = False
    """No present node could ever hold it; others may be added."""


@dataclass(frozen=True, slots=True)
class CancelAnswered:
    """The answer to a cancel. `job_ended`: it is signalled, or had already ended, or does not exist."""

    job_id: int
    job_ended: bool
    text: str = ""


@dataclass(frozen=True, slots=True)
class FollowAnswered:
    """The answer to sending the excluded nodes of a pending job; `None`: not possible now, to be repeated."""

    job_id: int
    excluded: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class UpdateAnswered:
    """The answer to changing a job to `request`. `done` `None`: unknown, or not possible now; to be repeated.

    False: it stays as it was, for the reason in `text`. `excluded`: the nodes that it excludes now.
    """

    job_id: int
    request: JobRequest
    done: bool | None
    text: str = ""
    excluded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodesVacated:
    """No member needs these nodes of the job any more, by Slurm's names: Slurm may have them back.

    `forbidden`: it takes back no nodes of any job that runs, as the site has configured it.
    """

    slurm_nodes: tuple[str, ...]
    forbidden: bool = False


class Unshrinkable(StrEnum):
    """Say for what Slurm refused to take back nodes of a running job."""

    JOB = "this job"
    SITE = "every job"


@dataclass(frozen=True, slots=True)
class ShrinkAnswered:
    """The answer to returning nodes of a running job. `done` `None`: unknown; False: refused, as `text` says."""

    job_id: int
    done: bool | None
    text: str = ""
    refused_for: Unshrinkable = Unshrinkable.JOB


@dataclass(frozen=True, slots=True)
class AllocationFits:
    """kubelet would admit every member on its granted node, and no terminating Pod is in the way."""


@dataclass(frozen=True, slots=True)
class AllocationBusy:
    """A terminating Pod is still in the way."""

    text: str


@dataclass(frozen=True, slots=True)
class AllocationMisfits:
    """kubelet would refuse a member on `node`."""

    node: str
    text: str


@dataclass(frozen=True, slots=True)
class AllocationUnfenced:
    """A granted node lost its fence, and the job has no script that holds it."""

    text: str


@dataclass(frozen=True, slots=True)
class SlurmSnapshotChanged:
    """Slurm's nodes or partitions, or their mapping to Nodes, changed: the excluded nodes may change."""


@dataclass(frozen=True, slots=True)
class TimerFired:
    """The instant of `Placeholder.timer_at` has passed."""


Event = (
    PodWanted
    | PodRefused
    | CandidatesChanged
    | BindStarted
    | BindFailed
    | PodBound
    | PodEnding
    | PodGone
    | EvictAnswered
    | WakeAnswered
    | CancelNoted
    | NodeRefused
    | SubmitAccepted
    | SubmitRefused
    | SubmitUnknown
    | ProbeAnswered
    | ProbeFailed
    | JobWaiting
    | JobGranted
    | JobEnding
    | JobEnded
    | CancelAnswered
    | FollowAnswered
    | UpdateAnswered
    | NodesVacated
    | ShrinkAnswered
    | AllocationFits
    | AllocationBusy
    | AllocationMisfits
    | AllocationUnfenced
    | SlurmSnapshotChanged
    | TimerFired
)
