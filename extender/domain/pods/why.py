"""Explain why a Pod waits: one sentence, the same in its condition, its Events, `/debug` and `kubectl slurm why`. Pure.

kube-scheduler never receives it (`domain/verdict`): a text that changes would make it retry the Pod. Numbers are
rounded, so that the sentence stays the same while nothing that matters changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum, unique

from extender.domain.gangs.membership import is_key_of_gang
from extender.domain.gangs.vacancies import kept_nodes
from extender.domain.job_outcomes.slurm_states import ReasonClass, reason_rule
from extender.domain.jobs.job import JobView
from extender.domain.placeholder import Placeholder
from extender.domain.states import (
    BoundState,
    GrantedState,
    LostState,
    RefusedState,
    ReleasingState,
    SubmittingState,
    UnsureState,
    WaitingState,
)

LONGEST = 1000
"""Characters of a sentence; an Event takes 1024 bytes, and a condition 32 kB."""

EXACT = 10
"""Up to so many earlier jobs are counted exactly; above, to one digit."""


@unique
class Cause(StrEnum):
    """Reasons of the condition, in the form that the API server wants (`metav1.Condition`)."""

    ALLOCATED = "Allocated"
    QUEUED = "SlurmJobQueued"
    UNAVAILABLE = "SlurmNodesUnavailable"
    LIMIT = "SlurmLimitReached"
    HELD = "SlurmJobHeld"
    IMPOSSIBLE = "SlurmJobUnsatisfiable"
    STARTING = "SlurmJobStarting"
    FAILURE = "SlurmJobStartFailed"
    UNKNOWN = "SlurmReasonUnknown"
    AWAY = "SlurmUnreachable"
    UNREAD = "SlurmNodesNotRead"
    SUBMITTING = "SlurmJobSubmitting"
    LOOKUP = "SlurmJobLookup"
    RETRYING = "SlurmRetrying"
    NO_NODE = "NoSuitableNode"
    NOT_OFFERED = "NoNodeOffered"
    OTHER_GATES = "OtherSchedulingGates"
    GANG_INCOMPLETE = "GangIncomplete"
    RESOURCE_CLAIM_MISSING = "ResourceClaimMissing"
    NO_POLICY = "SlurmPolicyUnusable"
    NOT_READ = "PodNotRead"
    INVALID = "InvalidSlurmSettings"
    REFUSED = "SlurmJobRejected"
    CANCELLED = "SlurmJobCancelled"
    BOUND_WITHOUT_SLURM = "BoundWithoutSlurm"
    UNMAPPED = "SlurmNodeNotMapped"
    NODE_KEPT = "SlurmNodeBusy"
    NODE_CHECKING = "SlurmNodeChecking"
    BINDING = "WaitingForBinding"
    ENDING = "AllocationEnding"
    LEAVING = "PodTerminating"


MEANINGS: Mapping[Cause, str] = {
    Cause.ALLOCATED: "Slurm has allocated a node, and the Pod is bound to it. The status of the condition is True",
    Cause.QUEUED: "The job waits in Slurm's queue",
    Cause.UNAVAILABLE: "The job waits for unavailable nodes or an unavailable partition",
    Cause.LIMIT: "A limit of the job's account, user or QOS has been reached",
    Cause.HELD: "The job is held; it waits until an administrator releases it (`scontrol release`)",
    Cause.IMPOSSIBLE: "Slurm reports that the job can never run as requested",
    Cause.STARTING: "Slurm prepares the nodes of the job",
    Cause.FAILURE: "An earlier start of the job failed",
    Cause.UNKNOWN: "Slurm reports a reason that this version does not know",
    Cause.AWAY: "Slurm does not answer",
    Cause.UNREAD: "Slurm's nodes and partitions have not been read yet",
    Cause.SUBMITTING: "The job is being submitted to Slurm",
    Cause.LOOKUP: "The extender checks whether the Pod already has a job: after a start, or after a lost answer",
    Cause.RETRYING: "The last attempt failed; it is retried after a pause",
    Cause.NO_NODE: "No node is large enough for the Pod, or none meets its selector, affinity and tolerations",
    Cause.NOT_OFFERED: "kube-scheduler has not offered any node for the Pod",
    Cause.OTHER_GATES: "The Pod has scheduling gates of other controllers, which have to be removed first",
    Cause.GANG_INCOMPLETE: "Other Pods of the gang do not exist yet, or another controller holds them",
    Cause.RESOURCE_CLAIM_MISSING: "A ResourceClaim of the Pod does not exist; the message says how it comes into being",
    Cause.NO_POLICY: "The site's policy cannot be used; no job is submitted until it is fixed",
    Cause.NOT_READ: "The Pod's request has not been read yet",
    Cause.INVALID: "The Pod's Slurm annotations are invalid",
    Cause.REFUSED: "Slurm or the site's policy rejected the job; change an annotation, or delete and recreate the Pod",
    Cause.CANCELLED: "A user cancelled the job; change an annotation, or delete and recreate the Pod",
    Cause.BOUND_WITHOUT_SLURM: "Another scheduler bound the Pod; Slurm does not account for it",
    Cause.UNMAPPED: "Slurm allocated a node for which Kubernetes has no Node",
    Cause.NODE_KEPT: "Slurm allocated a node that cannot be used yet",
    Cause.NODE_CHECKING: "Slurm allocated a node, and the extender verifies that it is free of earlier Pods",
    Cause.BINDING: "Slurm allocated a node, and kube-scheduler has to bind the Pod to it; all Pods of a gang at once",
    Cause.ENDING: "The Pod's allocation ends",
    Cause.LEAVING: "The Pod ends, and waits for nothing",
}

_OF_REASON = {
    ReasonClass.QUEUED: Cause.QUEUED,
    ReasonClass.UNAVAILABLE: Cause.UNAVAILABLE,
    ReasonClass.LIMIT: Cause.LIMIT,
    ReasonClass.HELD: Cause.HELD,
    ReasonClass.IMPOSSIBLE: Cause.IMPOSSIBLE,
    ReasonClass.STARTING: Cause.STARTING,
    ReasonClass.FAILURE: Cause.FAILURE,
    ReasonClass.UNKNOWN: Cause.UNKNOWN,
}

_IN_TURN = frozenset({"Priority", "Resources"})
"""Reasons with which the order of the queue is what matters."""


def cause_of_reason(means: ReasonClass) -> Cause:
    """Return the cause for a reason of Slurm."""
    return _OF_REASON[means]


@dataclass(frozen=True, slots=True)
class Why:
    """A cause and its sentence."""

    cause: Cause
    text: str

    @property
    def allocated(self) -> bool:
        """Return the status of the condition."""
        return self.cause is Cause.ALLOCATED


@dataclass(frozen=True, slots=True)
class QueuePosition:
    """The position of a waiting job in Slurm's queue, by its last read."""

    partition: str = ""
    reason: str = ""
    starts_at: float = 0.0
    """When Slurm's last backfill expects it to start, seconds since the epoch; 0.0: unknown."""

    before: int = 0
    """Jobs of this extender that wait in the same partition and are to start earlier."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Other causes of a wait. Texts are "" if there is none."""

    wall: float
    """Seconds since the epoch."""

    slurm_away: float | None = None
    """Since when Slurm has not answered, seconds since the epoch; 0.0: not since the start."""

    slurm_read: bool = True
    """Its nodes and partitions have been read."""

    policy_trouble: str = ""
    gates: tuple[str, ...] = ()
    """Scheduling gates of others on the Pod."""

    gated: bool = False
    """It has the extender's gate."""

    gang: str = ""
    """What its gang needs before a job is submitted, as a sentence."""

    missing_resource_claim: str = ""
    """Which ResourceClaim does not exist, and what to do."""

    place: QueuePosition | None = None


def place_of(job: JobView, before: int) -> QueuePosition:
    """Return the position by this read of a pending job."""
    return QueuePosition(job.partition, job.reason, job.start_time, before)


def why(p: Placeholder, around: Surroundings) -> Why:
    """Return why the Pods of this workload wait, or that they do not."""
    found = _why(p, around)
    if len(found.text) > LONGEST:
        return Why(found.cause, f"{found.text[: LONGEST - 3]}...")
    return found


def _why(p: Placeholder, around: Surroundings) -> Why:
    match p.payload:
        case BoundState():
            kept = ", ".join(kept_nodes(p))
            more = f" Slurm keeps {kept} until the job ends, although no member is there." if kept else ""
            return Why(Cause.ALLOCATED, f"Slurm job {p.job_id} has {_nodes(p)} for the Pod.{more}")
        case LostState(end_text=text):
            return Why(Cause.ENDING, text or "The Pod's allocation in Slurm ends.")
        case RefusedState():
            return _refused(p)
        case GrantedState():
            return _granted(p, around)
        case _ if not p.wants:
            return Why(Cause.LEAVING, "The Pod is ending and needs no job.")
        case ReleasingState():
            said = f": {p.reason.rstrip('.')}" if p.reason else ""
            return Why(Cause.RETRYING, f"Slurm job {p.job_id} is being ended{said}. Another one is submitted then.")
        case WaitingState() as waiting:
            return _waiting(p, waiting, around)
        case UnsureState():
            job = f"Slurm job {p.job_id} still" if p.job_id is not None else "a Slurm job of the Pod already"
            known = f"Checking whether {job} exists before submitting a new one."
            return _if_answered(Why(Cause.LOOKUP, known), around)
        case SubmittingState():
            return _submitting(around)
        case _:
            return _absent(p, around)


def _waiting(p: Placeholder, waiting: WaitingState, around: Surroundings) -> Why:
    if waiting.unread:
        text = f"Slurm job {p.job_id} was queued; the extender reads its reason soon."
        return _if_answered(Why(Cause.QUEUED, text), around)
    place = around.place or QueuePosition()
    rule = reason_rule(place.reason)
    cause, what = cause_of_reason(rule.means), p.reason or f"{rule.text} ({place.reason or 'None'})."
    text = f"Slurm job {p.job_id} waits: {what.rstrip('.')}."
    if waiting.doubted_since is not None and not p.reason:
        cause, nodes = Cause.UNMAPPED, ", ".join(p.slurm_nodes) or "a node"
        text = f"Slurm allocated {nodes} to job {p.job_id}, for which Kubernetes has no Node (yet)."
    said = [text]
    if place.partition:
        said.append(f"Partition: {place.partition}.")
    if place.reason in _IN_TURN and place.before:
        pods = "other Pod is" if place.before == 1 else "other Pods are"
        said.append(f"{_about(place.before)} {pods} ahead of it in this partition.")
    if place.starts_at > around.wall:
        said.append(f"Slurm expects it to start at {_rounded(place.starts_at, around.wall)}.")
    if around.missing_resource_claim:
        said.append(around.missing_resource_claim)
    return _if_answered(Why(cause, " ".join(said)), around)


def _submitting(around: Surroundings) -> Why:
    if not around.slurm_read:
        text = "Slurm's nodes and partitions have not been read yet; the job is submitted as soon as they are."
        return _if_answered(Why(Cause.UNREAD, text), around)
    return _if_answered(Why(Cause.SUBMITTING, "The job is being submitted to Slurm."), around)


def _absent(p: Placeholder, around: Surroundings) -> Why:
    if around.missing_resource_claim:
        return Why(Cause.RESOURCE_CLAIM_MISSING, around.missing_resource_claim)
    if around.gang:
        return Why(Cause.GANG_INCOMPLETE, around.gang)
    if around.gates:
        gates = ", ".join(around.gates)
        text = f"Waiting for other scheduling gates to be removed: {gates}."
        return Why(Cause.OTHER_GATES, text)
    if p.request is None and around.policy_trouble:
        text = f"The site's policy cannot be used, so no job is submitted: {around.policy_trouble}"
        return Why(Cause.NO_POLICY, f"{text.rstrip('.')}.")
    if p.request is None or (p.candidates is None and around.gated):
        return Why(Cause.NOT_READ, "The Pod's request has not been read yet.")
    if p.candidates is None:
        text = "No node has been offered by kube-scheduler; if there is none, its own Events name the reason."
        return Why(Cause.NOT_OFFERED, text)
    if p.fits_nowhere or not p.candidates:
        return Why(Cause.NO_NODE, p.reason or "No node is large enough for this Pod.")
    if p.failures:
        said = f"{p.reason.rstrip('.')}. " if p.reason else ""
        return _if_answered(Why(Cause.RETRYING, f"{said}The submission is retried after a pause."), around)
    return _submitting(around)


def _granted(p: Placeholder, around: Surroundings) -> Why:
    has = f"Slurm allocated {_nodes(p)} to job {p.job_id}"
    if around.missing_resource_claim:
        return Why(Cause.RESOURCE_CLAIM_MISSING, f"{has}. {around.missing_resource_claim}")
    if p.cleared:
        if is_key_of_gang(p.key):
            text = f"{has}; no Pod of the gang is bound before kube-scheduler has accepted each on its node."
            return Why(Cause.BINDING, text)
        return Why(Cause.BINDING, f"{has}; kube-scheduler has to bind the Pod.")
    if p.reason:
        return Why(Cause.NODE_KEPT, f"{has}, which cannot be used yet: {p.reason}")
    return Why(Cause.NODE_CHECKING, f"{has}; verifying that it is free of earlier Pods.")


def _refused(p: Placeholder) -> Why:
    if p.cancelled is not None:
        return Why(Cause.CANCELLED, p.cancelled.text)
    if p.faults:
        return Why(Cause.INVALID, f"Invalid Slurm annotations: {' '.join(p.faults)}")
    if p.placed:
        return Why(
            Cause.BOUND_WITHOUT_SLURM, "The Pod was bound without a Slurm allocation; Slurm does not account for it."
        )
    return Why(Cause.REFUSED, p.reason or "The job was rejected.")


def _if_answered(found: Why, around: Surroundings) -> Why:
    """Return the same while Slurm answers; else since when it does not, with the previous reason."""
    if around.slurm_away is None:
        return found
    since = f"since {_instant(around.slurm_away)}" if around.slurm_away else "since the extender was started"
    return Why(Cause.AWAY, f"Slurm has not answered {since}. Before that: {found.text}")


def _nodes(p: Placeholder) -> str:
    return ", ".join(sorted({node for _, node in p.allocation})) or "a node"


def _about(count: int) -> str:
    if count <= EXACT:
        return str(count)
    digits = 10 ** (len(str(count)) - 1)
    return f"About {round(count / digits) * digits}"


FARTHEST = 100 * 366 * 86400.0


def _rounded(at: float, now: float) -> str:
    """Round to 5 minutes within an hour, to an hour within a day, else to a day. Slurm knows years beyond 9999."""
    if at - now > FARTHEST:
        return "a time more than a hundred years from now"
    step = 300 if at - now <= 3600 else 3600 if at - now <= 86400 else 86400
    to = -(-int(at) // step) * step
    return f"about {_instant(to)}" if step < 86400 else f"about {datetime.fromtimestamp(to, UTC):%Y-%m-%d}"


def _instant(at: float) -> str:
    return f"{datetime.fromtimestamp(int(at), UTC):%Y-%m-%d %H:%M:%S}Z".replace(":00Z", "Z")
