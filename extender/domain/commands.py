"""Commands of the state machine. The engine executes them, and their outcomes come back as events.

Equal commands are queued once. They are hashed by what tells them apart at little cost: a request has 33 fields.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from extender.domain.events import EndKind, MemberRef
from extender.domain.jobs.cancelled import Cancelled
from extender.domain.jobs.job import JobRequest, Mode


@dataclass(frozen=True, slots=True)
class SubmitJob:
    """Make a job for this attempt. `queue`: do not try an immediate allocation again."""

    attempt: int
    request: JobRequest = field(hash=False)
    candidates: frozenset[str] = field(hash=False)
    queue: bool = False


@dataclass(frozen=True, slots=True)
class ProbeJob:
    """Find every live job of this workload. `job_id` is a recorded one, to be read as well.

    `hints` are jobs that Pods name without a proof: they are read too, and must prove themselves whose they are.
    """

    title: str
    job_id: int | None = None
    hints: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ReadJob:
    """Read the job now and tell its state."""

    job_id: int


@dataclass(frozen=True, slots=True)
class FollowCandidates:
    """Tell the waiting job which nodes to avoid now; `told` is what it was told last."""

    job_id: int
    request: JobRequest = field(hash=False)
    candidates: frozenset[str] = field(hash=False)
    told: tuple[str, ...] = field(hash=False)
    mode: Mode | None = None
    """How the job exists; it cannot change any more."""


@dataclass(frozen=True, slots=True)
class UpdateJob:
    """Change the job from what it was asked to what the Pod asks now. Harmless when repeated."""

    job_id: int
    was: JobRequest = field(hash=False)
    request: JobRequest = field(hash=False)
    candidates: frozenset[str] | None = field(hash=False)
    told: tuple[str, ...] = field(hash=False)
    mode: Mode | None = None


@dataclass(frozen=True, slots=True)
class CancelJob:
    """End the job. Harmless when repeated."""

    job_id: int
    why: str
    note: str = ""
    """Appended to the comment of the job first, unless it is there already."""

    exit_code: int | None = None
    """Let a script end by itself: 0 well, else as failed. `None`, or where no script is: cancel the job."""


@dataclass(frozen=True, slots=True)
class WakePod:
    """Record the grant on the member and make kube-scheduler look at it again.

    `again`: the grant is on the member already, and something else has to change.
    """

    member: MemberRef
    node: str
    job_id: int
    again: bool = False


@dataclass(frozen=True, slots=True)
class NoteCancelled:
    """Write on the member that a person cancelled the job for which it waited."""

    member: MemberRef
    cancelled: Cancelled = field(hash=False)


@dataclass(frozen=True, slots=True)
class EndPod:
    """Ask Kubernetes to end the member; `kind` says why, `voluntary` whether disruption budgets apply.

    It should be gone at `by`, on the clock of the steps; 0.0: nothing presses.
    """

    member: MemberRef
    kind: EndKind
    text: str
    voluntary: bool
    by: float = 0.0


@dataclass(frozen=True, slots=True)
class Announce:
    """Tell the Pod's people. `reason` is a CamelCase word of `wellknown.Reason`, `text` a sentence."""

    members: tuple[MemberRef, ...]
    reason: str
    text: str
    warning: bool = False
    details: tuple[str, ...] = field(default=())


Command = (
    SubmitJob
    | ProbeJob
    | ReadJob
    | FollowCandidates
    | UpdateJob
    | CancelJob
    | WakePod
    | NoteCancelled
    | EndPod
    | Announce
)
