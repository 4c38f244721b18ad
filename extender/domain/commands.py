"""Commands of the state machine. The engine executes them, and their outcomes come back as events.

Equal commands are queued once. Their hash leaves out fields that are costly to hash: a request has 33 fields.
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

    `hints` are jobs that Pods name without a proof: they are read too, and count only with the mark of this workload.
    """

    title: str
    job_id: int | None = None
    hints: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ReadJob:
    """Read the job now; its state comes back as events."""

    job_id: int


@dataclass(frozen=True, slots=True)
class FollowCandidates:
    """Send the excluded nodes of a pending job to Slurm; `excluded_sent` are those that were sent last."""

    job_id: int
    request: JobRequest = field(hash=False)
    candidates: frozenset[str] = field(hash=False)
    excluded_sent: tuple[str, ...] = field(hash=False)
    mode: Mode | None = None
    """How the job exists; it cannot change any more."""


@dataclass(frozen=True, slots=True)
class UpdateJob:
    """Change the job from its submitted request to what the Pods request now. The command is idempotent."""

    job_id: int
    was: JobRequest = field(hash=False)
    request: JobRequest = field(hash=False)
    candidates: frozenset[str] | None = field(hash=False)
    excluded_sent: tuple[str, ...] = field(hash=False)
    mode: Mode | None = None


@dataclass(frozen=True, slots=True)
class ShrinkJob:
    """Return nodes of the running job to Slurm: it keeps these alone. The command is idempotent."""

    job_id: int
    kept: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CancelJob:
    """End the job. The command is idempotent."""

    job_id: int
    why: str
    note: str = ""
    """Appended to the comment of the job first, unless it is there already."""

    exit_code: int | None = None
    """Let the job's script exit by itself with this code. `None`, or a job without a script: cancel the job."""


@dataclass(frozen=True, slots=True)
class WakePod:
    """Record the grant on the member and make kube-scheduler try it again.

    `again`: the grant is on the member already, and something else has to change.
    """

    member: MemberRef
    node: str
    job_id: int
    again: bool = False


@dataclass(frozen=True, slots=True)
class NoteCancelled:
    """Write on the member that a user cancelled the job for which it waited."""

    member: MemberRef
    cancelled: Cancelled = field(hash=False)


@dataclass(frozen=True, slots=True)
class EndPod:
    """Request the end of the member from Kubernetes; `kind` says why, `voluntary` whether disruption budgets apply.

    It should be gone at `by`, on the clock of the steps; 0.0: no deadline.
    """

    member: MemberRef
    kind: EndKind
    text: str
    voluntary: bool
    by: float = 0.0


@dataclass(frozen=True, slots=True)
class Announce:
    """Report to the Pod's users. `reason` is a CamelCase word of `wellknown.Reason`, `text` a sentence."""

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
    | ShrinkJob
    | CancelJob
    | WakePod
    | NoteCancelled
    | EndPod
    | Announce
)
