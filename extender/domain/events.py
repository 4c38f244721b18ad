"""Facts about one workload, in the past tense: the input of `lifecycle.machine.step`.

Adapters and controllers make them from watches, polls and the outcomes of commands. Every one may come late, twice, or
out of order; the machine decides what it still means. Node names are Kubernetes' own unless a field says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from extender.domain.jobs.devices import Device
from extender.domain.jobs.job import JobRequest, Mode, Wishes


@dataclass(frozen=True, slots=True)
class MemberRef:
    """A Pod that belongs to a workload."""

    uid: str
    namespace: str
    name: str

    @property
    def full_name(self) -> str:
        """As `PodView.full_name`."""
        return f"{self.namespace}/{self.name}"


class PodEnd(StrEnum):
    """How a Pod came to be really gone (no container of it can still run)."""

    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    REMOVED = "Removed"


@dataclass(frozen=True, slots=True)
class PodWanted:
    """The workload's Pods want a place, and this is what they ask of Slurm."""

    members: tuple[MemberRef, ...]
    request: JobRequest


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
    """By us, for Pods that kube-scheduler does not try; else it offers these nodes now."""


@dataclass(frozen=True, slots=True)
class BindStarted:
    """A Binding is about to be sent for this member."""

    uid: str
    node: str


@dataclass(frozen=True, slots=True)
class BindFailed:
    """The Binding surely did not happen."""

    uid: str
    text: str


@dataclass(frozen=True, slots=True)
class PodBound:
    """The member is bound. `job_id` is the one recorded with the Binding, `None` where somebody else bound the Pod.

    `slurm_node` is recorded beside it: the node of the job for which it was bound there.
    """

    uid: str
    node: str
    job_id: int | None
    slurm_node: str = ""


@dataclass(frozen=True, slots=True)
class PodEnding:
    """The member's deletion was asked; it may still run until its grace is over."""

    uid: str


@dataclass(frozen=True, slots=True)
class PodGone:
    """The member is over: finished, or removed after its grace."""

    uid: str
    how: PodEnd
    outcome: str = ""
    """See `pod_outcome`; "" where nobody saw it."""


@dataclass(frozen=True, slots=True)
class EvictAnswered:
    """What came of asking Kubernetes to end a member. `accepted` False: refused for now, or unknown."""

    uid: str
    accepted: bool
    text: str = ""
    budget: bool = False
    """A disruption budget holds it for now."""

    retry_after_s: float = 0.0
    """When the API server wants to be asked again; 0.0: it did not say."""

    shortened: str = ""
    """Where the Pod got less than its grace by this request: from what to what and why, as a sentence."""


@dataclass(frozen=True, slots=True)
class WakeAnswered:
    """What came of recording the grant on a member; `accepted` False: it has to be asked again, and `text` says why."""

    uid: str
    accepted: bool
    text: str = ""


@dataclass(frozen=True, slots=True)
class CancelNoted:
    """What came of writing a person's cancel on a member; `accepted` False: it has to be asked again."""

    uid: str
    accepted: bool


@dataclass(frozen=True, slots=True)
class NodeRefused:
    """Kubernetes does not let a member use the node that Slurm gave it."""

    node: str
    text: str


@dataclass(frozen=True, slots=True)
class SubmitAccepted:
    """Slurm made a job for this attempt; `excluded` are the Slurm nodes it was told to avoid."""

    attempt: int
    job_id: int
    excluded: tuple[str, ...] = ()
    mode: Mode | None = None
    """How the placeholder exists, where that was decided for this attempt."""

    behind: bool = False
    """It was queued where others wait before it, or Slurm had no room just now."""


@dataclass(frozen=True, slots=True)
class SubmitRefused:
    """Slurm made no job. `permanent`: asking again without a change is useless. `queue`: only "now" was refused."""

    attempt: int
    permanent: bool
    text: str
    number: int = 0
    """Slurm's own error number, 0 where the refusal is ours."""

    queue: bool = False
    nowhere: bool = False
    """Of the nodes that there are now none can ever hold it; Slurm was not asked."""


@dataclass(frozen=True, slots=True)
class SubmitUnknown:
    """The request may or may not have been carried out."""

    attempt: int
    text: str


@dataclass(frozen=True, slots=True)
class JobFound:
    """One live job with this workload's mark."""

    job_id: int
    attempt: int
    running: bool
    excluded: tuple[str, ...] = ()
    older: bool = False
    """A leader before this one made it, and perhaps before somebody deleted the Lease: its epoch is another."""

    wishes: Wishes = ()
    """What it was asked for, by its mark; empty: not known."""


@dataclass(frozen=True, slots=True)
class ProbeAnswered:
    """Every live job of the workload's name that carries its mark; empty: none was there when it was asked."""

    jobs: tuple[JobFound, ...]
    asked_at: float | None = field(default=None, compare=False)
    """When that was, on the clock of the steps; `None`: just now. An answer may be long on its way."""


@dataclass(frozen=True, slots=True)
class ProbeFailed:
    """Slurm could not be asked."""

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
    """What the job was given less of than the workload needs, as a sentence; a pending job's owner may change it."""

    due_in: float | None = None
    """Seconds until the Pods have to be told to end because of the time limit; `None`: it has none."""

    devices: Mapping[str, tuple[Device, ...]] = field(default_factory=dict)
    """Which devices it was given, by Slurm node."""


class EndKind(StrEnum):
    """Why a job is no longer ours to use; `outcomes` maps Slurm's states here."""

    CANCELLED = "cancelled"
    """Somebody or something ended it on purpose."""

    PREEMPTED = "preempted"
    TIME_LIMIT = "time limit"
    NODE_FAILURE = "node failure"
    FAILED = "failed"
    """It ended by itself, or could not be started."""

    IMPOSSIBLE = "impossible"
    """Slurm says that it can never run as asked."""

    REQUEUED = "requeued"
    SUSPENDED = "suspended"
    REVOKED = "revoked"
    VANISHED = "vanished"
    """slurmctld does not know it, on two polls."""


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
    """Slurm gave it up for want of a node that could ever hold it; others may come."""


@dataclass(frozen=True, slots=True)
class CancelAnswered:
    """What came of a cancel. `over`: Slurm says the job has already ended or does not exist."""

    job_id: int
    over: bool
    text: str = ""


@dataclass(frozen=True, slots=True)
class FollowAnswered:
    """What came of telling a waiting job its new exclusions; `None`: it could not be told, ask again later."""

    job_id: int
    excluded: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class UpdateAnswered:
    """What came of changing a waiting job to `request`. `done` `None`: nobody knows, or not now; ask again.

    False: it stays as it was, for the reason in `text`. `excluded`: the nodes that it is told to avoid now.
    """

    job_id: int
    request: JobRequest
    done: bool | None
    text: str = ""
    excluded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AllocationFits:
    """kubelet would admit every member on its granted node, and no ended Pod is in the way."""


@dataclass(frozen=True, slots=True)
class AllocationBusy:
    """Something that is about to leave is still in the way."""

    text: str


@dataclass(frozen=True, slots=True)
class AllocationMisfits:
    """kubelet would refuse a member on `node`."""

    node: str
    text: str


@dataclass(frozen=True, slots=True)
class PictureChanged:
    """Slurm's nodes or partitions, or their mapping to Nodes, changed: exclusions may have to follow."""


@dataclass(frozen=True, slots=True)
class TimerFired:
    """The instant that the placeholder asked to be woken at has passed."""


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
    | AllocationFits
    | AllocationBusy
    | AllocationMisfits
    | PictureChanged
    | TimerFired
)
