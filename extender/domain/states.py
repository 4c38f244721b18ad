"""The states of a workload, and the data that each of them carries.

A field that has a meaning in one state only belongs to that state's payload, so that no other state can hold it. Data
that outlives a change of state is a field of `Placeholder`. Instants are seconds on the clock whose `now` is given to
`lifecycle.machine.step`; 0.0 stands for an unknown one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from extender.domain.events import EndKind, Unshrinkable
from extender.domain.jobs.devices import Device
from extender.domain.jobs.job import JobRequest, Mode


class State(StrEnum):
    """The state of a workload between Kubernetes and Slurm."""

    ABSENT = "ABSENT"
    """No job is known and none can exist."""

    SUBMITTING = "SUBMITTING"
    """A request for a job was sent and is not answered yet."""

    UNSURE = "UNSURE"
    """The job may or may not exist: an answer was lost, or the extender has just started."""

    WAITING = "WAITING"
    """The job is pending in Slurm."""

    GRANTED = "GRANTED"
    """Slurm allocated nodes; not every member is bound yet."""

    BOUND = "BOUND"
    """Every live member is bound to its node of the allocation; or none is left, and the job is kept (`kept_until`)."""

    LOST = "LOST"
    """Slurm takes the allocation away, or has done so, and a member still runs on it."""

    RELEASING = "RELEASING"
    """The job is being cancelled; its end has not been observed."""

    REFUSED = "REFUSED"
    """The translation, Slurm or a user rejected the request; no job is submitted before it changes."""

    GONE = "GONE"
    """Every member has finished and so has the job; the workload is forgotten after a while."""


Allocation = tuple[tuple[str, str], ...]
"""Member UID and Kubernetes node, sorted."""


@dataclass(frozen=True, slots=True)
class PlaceholderJob:
    """A placeholder job, as far as it is known."""

    job_id: int
    mode: Mode | None = None
    """How the job exists in Slurm; `None`: a start found the job, and its mode is not recorded."""

    excluded_sent: tuple[str, ...] = ()
    """The excluded nodes (Slurm's names) that were last sent to Slurm."""

    slurm_nodes: tuple[str, ...] = ()
    """The nodes that Slurm gave the job, by Slurm's names."""

    slots: tuple[str, ...] = ()
    """The Slurm node of each slot as it was given, by rank; "" for a slot without one. Also nodes that the job gave up
    since, which `slurm_nodes` lacks."""

    devices: tuple[tuple[str, tuple[Device, ...]], ...] = ()
    """The devices that Slurm gave the job on each of them, where Slurm names devices."""

    unshrinkable: Unshrinkable | None = None
    """Slurm refused to take back nodes of it while it runs, and one Event has reported that."""

    rejected_update: JobRequest | None = None
    """A request that the job could not be changed to. It is not sent again, and one Event has reported it."""


class JobUpdate(StrEnum):
    """A request to change a pending job. One at a time is sent, or an older one could arrive last."""

    EXCLUDED_NODES = "excluded nodes"
    SETTINGS = "settings"


@dataclass(frozen=True, slots=True)
class AbsentState:
    """Payload of ABSENT."""

    state: ClassVar[State] = State.ABSENT
    job: ClassVar[PlaceholderJob | None] = None
    allocation: ClassVar[Allocation] = ()


@dataclass(frozen=True, slots=True)
class SubmittingState:
    """Payload of SUBMITTING."""

    state: ClassVar[State] = State.SUBMITTING
    job: ClassVar[PlaceholderJob | None] = None
    allocation: ClassVar[Allocation] = ()


@dataclass(frozen=True, slots=True)
class UnsureState:
    """Payload of UNSURE."""

    state: ClassVar[State] = State.UNSURE
    allocation: ClassVar[Allocation] = ()

    job: PlaceholderJob | None = None
    """The job that the Pods name, if they name one."""

    sure_at: float = 0.0
    """An empty probe that was sent before this instant proves nothing."""

    empty_probes: int = 0
    """Consecutive probes that found no job."""

    failed_probes: int = 0
    """Probes that Slurm did not answer; sets the back-off."""


@dataclass(frozen=True, slots=True)
class WaitingState:
    """Payload of WAITING."""

    state: ClassVar[State] = State.WAITING
    allocation: ClassVar[Allocation] = ()

    job: PlaceholderJob
    unread: bool = False
    """The job queues behind others, and Slurm's reason has not been read yet."""

    reads: int = 0
    """Reads that did not show that reason; sets the back-off."""

    doubted_since: float | None = None
    """Since when Slurm says that the job is impossible, or that it runs on nodes for which Kubernetes has no Node."""

    update: JobUpdate | None = None
    """The update that was sent and is not answered yet."""


@dataclass(frozen=True, slots=True)
class GrantedState:
    """Payload of GRANTED."""

    state: ClassVar[State] = State.GRANTED

    job: PlaceholderJob
    allocation: Allocation
    cleared: bool = False
    """The kubelet would admit every member and no terminating Pod is in the way: `/filter` may offer the node."""

    missing_since: float | None = None
    """When kube-scheduler's full lists of nodes began to lack a granted node."""

    offered_at: float | None = None
    """When kube-scheduler last offered the granted nodes, or could first have done so."""

    limit_at: float | None = None
    """When to check whether the Pods have to end because of the job's time limit."""

    failed_wakes: int = 0
    """Consecutive failures to write the grant on a Pod; sets the back-off."""

    successors: bool = False
    """All members were bound once: those that want a node came later."""


@dataclass(frozen=True, slots=True)
class BoundState:
    """Payload of BOUND."""

    state: ClassVar[State] = State.BOUND

    job: PlaceholderJob
    allocation: Allocation
    limit_at: float | None = None
    """As in `GrantedState`."""

    updating: bool = False
    """A change of the job's settings was sent and is not answered yet."""

    vacated: tuple[str, ...] = ()
    """Slurm nodes that are being returned: no successor gets them. Kept until a read shows the job without them."""

    returned: bool = False
    """Slurm accepted the return of `vacated`."""

    taken_at: float = 0.0
    """When it became known that Slurm took nodes from the job with members on them; 0.0: no such member is left."""

    end_repeats: int = 0
    """How often the end of these members was requested again; sets the back-off."""

    failed: tuple[str, ...] = ()
    """Those among the nodes that Slurm took from the job that it took because they failed."""

    kept_until: float = 0.0
    """Until when the job is kept for the next incarnation of a gang whose members have all ended; 0.0: some run."""

    doubted_since: float | None = None
    """Since when a kept job lacks nodes for the Pods of that incarnation."""


@dataclass(frozen=True, slots=True)
class LostState:
    """Payload of LOST."""

    state: ClassVar[State] = State.LOST

    job: PlaceholderJob | None
    allocation: Allocation
    end_kind: EndKind
    """Why Slurm takes the allocation away."""

    end_text: str
    lost_at: float
    """When this became known."""

    ends_at: float = 0.0
    """When Slurm ends the job, as it announced; 0.0: it announced nothing."""

    job_alive: bool = False
    """slurmctld still has the job, as far as is known."""

    repeats: int = 0
    """How often the Pods' end was requested again; sets the back-off."""


@dataclass(frozen=True, slots=True)
class ReleasingState:
    """Payload of RELEASING."""

    state: ClassVar[State] = State.RELEASING
    allocation: ClassVar[Allocation] = ()

    job: PlaceholderJob
    cancels: int = 0
    """How often the cancel was repeated; sets the back-off."""

    end_kind: EndKind | None = None
    """Why the allocation was taken away, if the workload comes from LOST."""

    ends_at: float = 0.0
    """As in `LostState`."""


@dataclass(frozen=True, slots=True)
class RefusedState:
    """Payload of REFUSED."""

    state: ClassVar[State] = State.REFUSED
    job: ClassVar[PlaceholderJob | None] = None
    allocation: ClassVar[Allocation] = ()

    unrecorded: frozenset[str] = frozenset()
    """After a user's cancel: UIDs of the members whose Pods do not bear its annotation yet."""


@dataclass(frozen=True, slots=True)
class GoneState:
    """Payload of GONE."""

    state: ClassVar[State] = State.GONE
    job: ClassVar[PlaceholderJob | None] = None
    allocation: ClassVar[Allocation] = ()


Payload = (
    AbsentState
    | SubmittingState
    | UnsureState
    | WaitingState
    | GrantedState
    | BoundState
    | LostState
    | ReleasingState
    | RefusedState
    | GoneState
)
