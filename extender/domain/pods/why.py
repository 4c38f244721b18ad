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
from extender.domain.printable import enumerated
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
    JOB_QUEUED = "SlurmJobQueued"
    NODES_UNAVAILABLE = "SlurmNodesUnavailable"
    LIMIT_REACHED = "SlurmLimitReached"
    JOB_HELD = "SlurmJobHeld"
    JOB_UNSATISFIABLE = "SlurmJobUnsatisfiable"
    JOB_STARTING = "SlurmJobStarting"
    JOB_START_FAILED = "SlurmJobStartFailed"
    REASON_UNKNOWN = "SlurmReasonUnknown"
    SLURM_UNREACHABLE = "SlurmUnreachable"
    NODES_NOT_READ = "SlurmNodesNotRead"
    JOB_SUBMITTING = "SlurmJobSubmitting"
    JOB_LOOKUP = "SlurmJobLookup"
    RETRYING = "SlurmRetrying"
    NO_SUITABLE_NODE = "NoSuitableNode"
    NO_NODE_OFFERED = "NoNodeOffered"
    OTHER_SCHEDULING_GATES = "OtherSchedulingGates"
    GANG_INCOMPLETE = "GangIncomplete"
    RESOURCE_CLAIM_MISSING = "ResourceClaimMissing"
    POLICY_UNUSABLE = "SlurmPolicyUnusable"
    POD_NOT_READ = "PodNotRead"
    INVALID_SLURM_SETTINGS = "InvalidSlurmSettings"
    JOB_REJECTED = "SlurmJobRejected"
    JOB_CANCELLED = "SlurmJobCancelled"
    BOUND_WITHOUT_SLURM = "BoundWithoutSlurm"
    NODE_NOT_MAPPED = "SlurmNodeNotMapped"
    NODE_BUSY = "SlurmNodeBusy"
    NODE_CHECKING = "SlurmNodeChecking"
    WAITING_FOR_BINDING = "WaitingForBinding"
    ALLOCATION_ENDING = "AllocationEnding"
    POD_TERMINATING = "PodTerminating"


MEANINGS: Mapping[Cause, str] = {
    Cause.ALLOCATED: "Slurm has allocated a node, and the Pod is bound to it. The status of the condition is True",
    Cause.JOB_QUEUED: "The job waits in Slurm's queue",
    Cause.NODES_UNAVAILABLE: "The job waits for unavailable nodes or an unavailable partition",
    Cause.LIMIT_REACHED: "A limit of the job's account, user or QOS has been reached",
    Cause.JOB_HELD: "The job is held; it waits until an administrator releases it (`scontrol release`)",
    Cause.JOB_UNSATISFIABLE: "Slurm reports that the job can never run as requested",
    Cause.JOB_STARTING: "Slurm prepares the nodes of the job",
    Cause.JOB_START_FAILED: "An earlier start of the job failed",
    Cause.REASON_UNKNOWN: "Slurm reports a reason that this version does not know",
    Cause.SLURM_UNREACHABLE: "Slurm does not answer",
    Cause.NODES_NOT_READ: "Slurm's nodes and partitions have not been read yet",
    Cause.JOB_SUBMITTING: "The job is being submitted to Slurm",
    Cause.JOB_LOOKUP: "The extender checks whether the Pod already has a job: after a start, or after a lost answer",
    Cause.RETRYING: "The last attempt failed; it is retried after a pause",
    Cause.NO_SUITABLE_NODE: "No node is large enough for the Pod, or none meets its selector, affinity and tolerations",
    Cause.NO_NODE_OFFERED: "kube-scheduler has not offered any node for the Pod",
    Cause.OTHER_SCHEDULING_GATES: "The Pod has scheduling gates of other controllers, which have to be removed first",
    Cause.GANG_INCOMPLETE: "Other Pods of the gang do not exist yet, or another controller holds them",
    Cause.RESOURCE_CLAIM_MISSING: "A ResourceClaim of the Pod does not exist; the message says how it comes into being",
    Cause.POLICY_UNUSABLE: "The site's policy cannot be used; no job is submitted until it is fixed",
    Cause.POD_NOT_READ: "The Pod's request has not been read yet",
    Cause.INVALID_SLURM_SETTINGS: "The Pod's Slurm annotations are invalid",
    Cause.JOB_REJECTED: (
        "Slurm or the site's policy rejected the job; change an annotation, or delete and recreate the Pod"
    ),
    Cause.JOB_CANCELLED: "A user cancelled the job; change an annotation, or delete and recreate the Pod",
    Cause.BOUND_WITHOUT_SLURM: "Another scheduler bound the Pod; Slurm does not account for it",
    Cause.NODE_NOT_MAPPED: "Slurm allocated a node for which Kubernetes has no Node",
    Cause.NODE_BUSY: "Slurm allocated a node that cannot be used yet",
    Cause.NODE_CHECKING: "Slurm allocated a node, and the extender verifies that it is free of earlier Pods",
    Cause.WAITING_FOR_BINDING: (
        "Slurm allocated a node, and kube-scheduler has to bind the Pod to it; all Pods of a gang at once"
    ),
    Cause.ALLOCATION_ENDING: "The Pod's allocation ends",
    Cause.POD_TERMINATING: "The Pod ends, and waits for nothing",
}

_OF_REASON = {
    ReasonClass.QUEUED: Cause.JOB_QUEUED,
    ReasonClass.UNAVAILABLE: Cause.NODES_UNAVAILABLE,
    ReasonClass.LIMIT: Cause.LIMIT_REACHED,
    ReasonClass.HELD: Cause.JOB_HELD,
    ReasonClass.IMPOSSIBLE: Cause.JOB_UNSATISFIABLE,
    ReasonClass.STARTING: Cause.JOB_STARTING,
    ReasonClass.FAILURE: Cause.JOB_START_FAILED,
    ReasonClass.UNKNOWN: Cause.REASON_UNKNOWN,
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
class WaitContext:
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


def why(p: Placeholder, context: WaitContext) -> Why:
    """Return why the Pods of this workload wait, or that they do not."""
    found = _why(p, context)
    if len(found.text) > LONGEST:
        return Why(found.cause, f"{found.text[: LONGEST - 3]}...")
    return found


def _why(p: Placeholder, context: WaitContext) -> Why:
    match p.payload:
        case BoundState():
            kept = kept_nodes(p)
            named = enumerated("Slurm node", kept, len(kept))
            more = f" The job keeps {named} until the job ends, although no member is there." if kept else ""
            return Why(Cause.ALLOCATED, f"Slurm job {p.job_id} has {_nodes(p)} for the Pod.{more}")
        case LostState(end_text=text):
            return Why(Cause.ALLOCATION_ENDING, text or "The Pod's allocation in Slurm ends.")
        case RefusedState():
            return _refused(p)
        case GrantedState():
            return _granted(p, context)
        case _ if not p.wants:
            return Why(Cause.POD_TERMINATING, "The Pod is ending and needs no job.")
        case ReleasingState():
            cause_text = f": {p.reason.rstrip('.')}" if p.reason else ""
            return Why(
                Cause.RETRYING, f"Slurm job {p.job_id} is being ended{cause_text}. Another one is submitted then."
            )
        case WaitingState() as waiting:
            return _waiting(p, waiting, context)
        case UnsureState():
            job = f"Slurm job {p.job_id} still" if p.job_id is not None else "a Slurm job of the Pod already"
            known = f"Checking whether {job} exists before submitting a new one."
            return _if_answered(Why(Cause.JOB_LOOKUP, known), context)
        case SubmittingState():
            return _submitting(context)
        case _:
            return _absent(p, context)


def _waiting(p: Placeholder, waiting: WaitingState, context: WaitContext) -> Why:
    if waiting.unread:
        text = f"Slurm job {p.job_id} was queued; the extender reads its reason soon."
        return _if_answered(Why(Cause.JOB_QUEUED, text), context)
    place = context.place or QueuePosition()
    rule = reason_rule(place.reason)
    cause, what = cause_of_reason(rule.means), p.reason or f"{rule.text} ({place.reason or 'None'})."
    text = f"Slurm job {p.job_id} waits: {what.rstrip('.')}."
    if waiting.doubted_since is not None and not p.reason:
        cause, nodes = Cause.NODE_NOT_MAPPED, ", ".join(p.slurm_nodes) or "a node"
        text = f"Slurm allocated {nodes} to job {p.job_id}, for which Kubernetes has no Node (yet)."
    sentences = [text]
    if place.partition:
        sentences.append(f"Partition: {place.partition}.")
    if place.reason in _IN_TURN and place.before:
        pods = "other Pod is" if place.before == 1 else "other Pods are"
        sentences.append(f"{_about(place.before)} {pods} ahead of it in this partition.")
    if place.starts_at > context.wall:
        sentences.append(f"Slurm expects it to start at {_rounded(place.starts_at, context.wall)}.")
    if context.missing_resource_claim:
        sentences.append(context.missing_resource_claim)
    return _if_answered(Why(cause, " ".join(sentences)), context)


def _submitting(context: WaitContext) -> Why:
    if not context.slurm_read:
        text = "Slurm's nodes and partitions have not been read yet; the job is submitted as soon as they are."
        return _if_answered(Why(Cause.NODES_NOT_READ, text), context)
    return _if_answered(Why(Cause.JOB_SUBMITTING, "The job is being submitted to Slurm."), context)


def _absent(p: Placeholder, context: WaitContext) -> Why:
    if context.missing_resource_claim:
        return Why(Cause.RESOURCE_CLAIM_MISSING, context.missing_resource_claim)
    if context.gang:
        return Why(Cause.GANG_INCOMPLETE, context.gang)
    if context.gates:
        gates = ", ".join(context.gates)
        text = f"Waiting for other scheduling gates to be removed: {gates}."
        return Why(Cause.OTHER_SCHEDULING_GATES, text)
    if p.request is None and context.policy_trouble:
        text = f"The site's policy cannot be used, so no job is submitted: {context.policy_trouble}"
        return Why(Cause.POLICY_UNUSABLE, f"{text.rstrip('.')}.")
    if p.request is None or (p.candidates is None and context.gated):
        return Why(Cause.POD_NOT_READ, "The Pod's request has not been read yet.")
    if p.candidates is None:
        text = "No node has been offered by kube-scheduler; if there is none, its own Events name the reason."
        return Why(Cause.NO_NODE_OFFERED, text)
    if p.fits_nowhere or not p.candidates:
        return Why(Cause.NO_SUITABLE_NODE, p.reason or "No node is large enough for this Pod.")
    if p.failures:
        cause_text = f"{p.reason.rstrip('.')}. " if p.reason else ""
        return _if_answered(Why(Cause.RETRYING, f"{cause_text}The submission is retried after a pause."), context)
    return _submitting(context)


def _granted(p: Placeholder, context: WaitContext) -> Why:
    has = f"Slurm allocated {_nodes(p)} to job {p.job_id}"
    if context.missing_resource_claim:
        return Why(Cause.RESOURCE_CLAIM_MISSING, f"{has}. {context.missing_resource_claim}")
    if p.cleared:
        if is_key_of_gang(p.key):
            text = f"{has}; no Pod of the gang is bound before kube-scheduler has accepted each on its node."
            return Why(Cause.WAITING_FOR_BINDING, text)
        return Why(Cause.WAITING_FOR_BINDING, f"{has}; kube-scheduler has to bind the Pod.")
    if p.reason:
        return Why(Cause.NODE_BUSY, f"{has}, which cannot be used yet: {p.reason}")
    return Why(Cause.NODE_CHECKING, f"{has}; verifying that it is free of earlier Pods.")


def _refused(p: Placeholder) -> Why:
    if p.cancelled is not None:
        return Why(Cause.JOB_CANCELLED, p.cancelled.text)
    if p.faults:
        return Why(Cause.INVALID_SLURM_SETTINGS, f"Invalid Slurm annotations: {' '.join(p.faults)}")
    if p.placed:
        return Why(
            Cause.BOUND_WITHOUT_SLURM, "The Pod was bound without a Slurm allocation; Slurm does not account for it."
        )
    return Why(Cause.JOB_REJECTED, p.reason or "The job was rejected.")


def _if_answered(found: Why, context: WaitContext) -> Why:
    """Return the same while Slurm answers; else since when it does not, with the previous reason."""
    if context.slurm_away is None:
        return found
    since = f"since {_instant(context.slurm_away)}" if context.slurm_away else "since the extender was started"
    return Why(Cause.SLURM_UNREACHABLE, f"Slurm has not answered {since}. Before that: {found.text}")


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
