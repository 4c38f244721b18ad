"""The meaning of Slurm's job states and reasons: the one table, and the one function that reads a job by it.

A job has one base state and any number of flags (`slurm.h`, `enum job_states` and the JOB_* bits), and a reason
(`src/common/job_state_reason.c`). `observe` reads a whole job, `polled_state` the words of `GET /jobs/state` alone,
where reason, preemption and restart count are missing. A word that is in no table proves nothing: the job is `Unclear`,
and nothing is ended because of it. `docs/reference/states.md` is generated from these tables.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from extender.domain.events import EndKind
from extender.domain.jobs.job import JobView


class Meaning(StrEnum):
    """The meaning of a state word for the job's nodes."""

    WAITING = "waits"
    STARTING = "starts: its nodes are not ready"
    RUNNING = "runs"
    TAKEN = "nodes taken, the job may run again"
    ENDED = "ended"
    NOTE = "none by itself: the other states decide"


@dataclass(frozen=True, slots=True)
class StateRule:
    """One state word. `kind` says which end it is, where it is one; `text` completes "the job ..."."""

    word: str
    meaning: Meaning
    text: str
    kind: EndKind | None = None
    flag: bool = False


STATES: tuple[StateRule, ...] = (
    StateRule("PENDING", Meaning.WAITING, "waits in Slurm's queue"),
    StateRule("RUNNING", Meaning.RUNNING, "runs"),
    # CPUs of a suspended job go to others (gang scheduling, `scontrol suspend`), so its Pods must not go on.
    StateRule(
        "SUSPENDED", Meaning.TAKEN, "was suspended by Slurm, its CPUs may be given to other jobs", EndKind.SUSPENDED
    ),
    StateRule("COMPLETED", Meaning.ENDED, "ended by itself", EndKind.FAILED),
    StateRule("CANCELLED", Meaning.ENDED, "was cancelled", EndKind.CANCELLED),
    StateRule("FAILED", Meaning.ENDED, "failed", EndKind.FAILED),
    StateRule("TIMEOUT", Meaning.ENDED, "reached its time limit", EndKind.TIME_LIMIT),
    StateRule("NODE_FAIL", Meaning.ENDED, "lost a node", EndKind.NODE_FAILURE),
    StateRule("PREEMPTED", Meaning.ENDED, "was preempted", EndKind.PREEMPTED),
    StateRule("BOOT_FAIL", Meaning.ENDED, "ended because a node did not boot", EndKind.NODE_FAILURE),
    StateRule("DEADLINE", Meaning.ENDED, "reached its deadline", EndKind.TIME_LIMIT),
    StateRule("OUT_OF_MEMORY", Meaning.ENDED, "ran out of memory", EndKind.FAILED),
    StateRule("CONFIGURING", Meaning.STARTING, "has nodes that boot or run PrologSlurmctld", flag=True),
    StateRule("POWER_UP_NODE", Meaning.STARTING, "has nodes that are being powered up", flag=True),
    StateRule(
        "COMPLETING", Meaning.NOTE, "is being cleaned up on its nodes: Epilog, or processes that do not end", flag=True
    ),
    StateRule("LAUNCH_FAILED", Meaning.NOTE, "could not be launched on its node", flag=True),
    StateRule("REQUEUED", Meaning.TAKEN, "was requeued", EndKind.REQUEUED, flag=True),
    StateRule("REQUEUE_HOLD", Meaning.TAKEN, "was requeued and held", EndKind.REQUEUED, flag=True),
    StateRule("REQUEUE_FED", Meaning.TAKEN, "was requeued in its federation", EndKind.REQUEUED, flag=True),
    StateRule(
        "SPECIAL_EXIT",
        Meaning.TAKEN,
        "was requeued and held as a special exit",
        EndKind.REQUEUED,
        flag=True,
    ),
    # Requeued so as to start first (25.11); base state and restart count show whether it still has its old nodes.
    StateRule("EXPEDITING", Meaning.NOTE, "is to be started before others", flag=True),
    # A sibling of the job started on another cluster of the federation, where no Pod of this cluster can be.
    StateRule(
        "REVOKED",
        Meaning.TAKEN,
        "was revoked: another cluster of the federation started it",
        EndKind.REVOKED,
        flag=True,
    ),
    StateRule("RESV_DEL_HOLD", Meaning.NOTE, "is held because its reservation was deleted", flag=True),
    StateRule("RECONFIG_FAIL", Meaning.NOTE, "has nodes that could not be configured as asked", flag=True),
    StateRule("RESIZING", Meaning.NOTE, "is changing its size", flag=True),
    StateRule("SIGNALING", Meaning.NOTE, "is being sent a signal", flag=True),
    StateRule("STAGE_OUT", Meaning.NOTE, "is writing its burst buffer back", flag=True),
    # SIGSTOP of the job's processes; it keeps its CPUs (slurm.h), and a Pod is none of its processes.
    StateRule("STOPPED", Meaning.NOTE, "has stopped processes and keeps its CPUs", flag=True),
)

ENDED_STATES = frozenset(rule.word for rule in STATES if rule.meaning is Meaning.ENDED)
"""Words of jobs that hold nothing any more."""


class ReasonClass(StrEnum):
    """The meaning of a reason of a pending job."""

    QUEUED = "waits in the queue"
    UNAVAILABLE = "waits for unavailable nodes or an unavailable partition"
    LIMIT = "waits for a limit of its account, user or QOS"
    HELD = "held until a user or an administrator releases it"
    IMPOSSIBLE = "can never run as requested"
    STARTING = "nodes are being prepared"
    FAILURE = "states why an earlier start failed"
    UNKNOWN = "unknown to the extender"


@dataclass(frozen=True, slots=True)
class ReasonRule:
    """One reason, or with a trailing `*` every reason that starts so. `text` is a sentence without its full stop."""

    reason: str
    means: ReasonClass
    text: str


_REASONS: dict[ReasonClass, dict[str, str]] = {
    ReasonClass.QUEUED: {
        "": "Slurm has not considered it yet",
        "None": "Slurm has not considered it yet",
        "Priority": "Higher-priority jobs are ahead of it in the queue",
        "Resources": "It is next, and waits for free resources",
        "BeginTime": "Its earliest start time has not come",
        "Dependency": "It waits for another job",
        "Licenses": "It waits for a licence",
        "Reservation": "Its reservation has not begun or is full",
        "Cleaning": "Its last run is still being cleaned up",
        "SchedDefer": "Slurm defers scheduling",
        "JobArrayTaskLimit": "Its array has reached its limit of running tasks",
        "FedJobLock": "It waits for its federation",
        "BurstBufferResources": "It waits for burst buffer space",
        "BurstBufferStageIn": "Its burst buffer is being filled",
        "NvidiaImexChannels": "It waits for an IMEX channel",
        "MpiPortsBusy": "It waits for MPI ports",
        "PowerNotAvail": "It waits for electrical power",
        "PowerReserved": "It waits for electrical power that a reservation holds",
        "MaxPoweredUpNodes": "The maximum number of powered-up nodes has been reached",
    },
    ReasonClass.UNAVAILABLE: {
        # The resource limits guide: outside the partition's limits, or the nodes needed are down or drained.
        "PartitionNodeLimit": "It requests more or fewer nodes than its partition allows or has up",
        "PartitionDown": "Its partition is down",
        "PartitionInactive": "Its partition starts no jobs",
        "ReqNodeNotAvail": "Nodes that it needs are down, drained or reserved",
        "NodeDown": "A node that it needs is down",
        "FrontEndDown": "No front end is up",
        "ResilienceRecovery": "Slurm recovers resources for it",
    },
    ReasonClass.LIMIT: {
        # An administrator may raise a limit at any time, and Slurm then starts the job: so none of these is "never".
        "AccountingPolicy": "It waits for a limit of its association or QOS",
        "AssociationJobLimit": "It waits for a limit of its association",
        "AssociationResourceLimit": "It waits for a limit of its association",
        "AssociationTimeLimit": "It waits for a limit of its association",
        "AssocGrp*": "Its account has reached a limit on its total use",
        "AssocMaxWall*": "Its time limit is longer than its association allows",
        "AssocMax*": "It, or the jobs of its association together, exceed a limit of the association",
        "QOSGrp*": "The jobs of its QOS have reached a limit on their total use",
        "QOSMaxWall*": "Its time limit is longer than its QOS allows",
        "QOSMax*": "It, or the jobs of its user together, exceed a limit of its QOS",
        "QOSMin*": "It requests less than its QOS requires",
        "QOSJobLimit": "It waits for a limit of its QOS",
        "QOSResourceLimit": "It waits for a limit of its QOS",
        "QOSTimeLimit": "It waits for a limit of its QOS",
        "QOSUsageThreshold": "It waits for the usage threshold of its QOS",
        "MaxMemPerLimit": "It requests more memory per node or CPU than its partition allows",
        # MaxCpuPerAccount, MaxGRESRunMinsPerUser and their like.
        "Max*": "Its account or user has reached a limit of its QOS",
    },
    ReasonClass.HELD: {
        "JobHeldAdmin": "An administrator, or Slurm after a failed start, holds it",
        "JobHeldUser": "Its owner holds it",
        "JobHoldMaxRequeue": "It was requeued too often and is held",
        "ReservationDeleted": "It is held because its reservation was deleted",
    },
    ReasonClass.IMPOSSIBLE: {
        "BadConstraints": "No node of the partition can ever satisfy its request",
        "Constraints": "No node of the partition can ever satisfy its constraints",
        "PartitionConfig": "Its partition cannot run it as requested",
        "PartitionTimeLimit": "Its time limit is above that of its partition",
        "DependencyNeverSatisfied": "The job that it depends on can no longer end as required",
        "InvalidAccount": "Its account does not exist or does not belong to its user",
        "InvalidQOS": "Its QOS does not exist or does not belong to its user",
        "AccountNotAllowed": "Its partition does not allow its account",
        "QOSNotAllowed": "Its partition does not allow its QOS",
        "ReservationInvalid": "Its reservation does not exist or does not allow it",
    },
    ReasonClass.STARTING: {
        "Prolog": "The Prolog runs on its nodes",
    },
    ReasonClass.FAILURE: {
        "JobLaunchFailure": "It could not be launched",
        "SystemFailure": "Slurm itself, its files or its network failed",
        "NonZeroExitCode": "Its script returned an error",
        "RaisedSignal": "Its script was ended by a signal",
        "TimeLimit": "It reached its time limit",
        "InactiveLimit": "It was inactive for too long",
        "DeadLine": "It reached its deadline",
        "OutOfMemory": "It ran out of memory",
        "BurstBufferOperation": "A burst buffer operation failed",
    },
}

REASONS: tuple[ReasonRule, ...] = tuple(
    ReasonRule(reason, means, text) for means, texts in _REASONS.items() for reason, text in texts.items()
)

_STATE = {rule.word: rule for rule in STATES}
_REASON = {rule.reason: rule for rule in REASONS if not rule.reason.endswith("*")}
_REASON_PREFIX = tuple((rule.reason[:-1], rule) for rule in REASONS if rule.reason.endswith("*"))


@dataclass(frozen=True, slots=True)
class Waiting:
    """The job is pending. `impossible`: it can never run as asked. `held`: it waits for a release."""

    reason: str
    text: str
    impossible: bool = False
    held: bool = False


@dataclass(frozen=True, slots=True)
class Starting:
    """Slurm chose the nodes, but they still boot or run a Prolog: not yet a place for a Pod."""

    text: str


@dataclass(frozen=True, slots=True)
class Running:
    """The nodes are the job's. `ends_in`: seconds until its time limit; `None`: none, or Slurm's clock is unknown."""

    ends_in: float | None = None


@dataclass(frozen=True, slots=True)
class Ending:
    """It runs, but Slurm has announced its end, in `ends_in` seconds; `None` where unknown."""

    kind: EndKind
    ends_in: float | None
    text: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The nodes are no longer the job's, or are being taken from it now.

    `alive`: it may run again (suspended, requeued, revoked), so it has to be cancelled. False: over for good, even
    while `COMPLETING` cleans up behind it.
    """

    kind: EndKind
    text: str
    alive: bool = False


@dataclass(frozen=True, slots=True)
class Unclear:
    """The state words are not known, so that nothing follows from them."""

    text: str


Observation = Waiting | Starting | Running | Ending | Ended | Unclear


class PolledState(StrEnum):
    """The meaning of the states of `GET /jobs/state`; `observe` also knows the Prolog and an announced end."""

    WAITING = "waiting"
    STARTING = "starting"
    RUNNING = "running"
    TAKEN = "taken"
    ENDED = "ended"
    UNKNOWN = "unknown"


def reason_rule(reason: str) -> ReasonRule:
    """Return the meaning of a reason, without what `squeue` adds after a comma; in no table: `UNKNOWN`."""
    word = reason.partition(",")[0].strip()
    if (exact := _REASON.get(word)) is not None:
        return exact
    for prefix, rule in _REASON_PREFIX:
        if word.startswith(prefix):
            return rule
    return ReasonRule(word, ReasonClass.UNKNOWN, "Slurm states a reason that the extender does not know")


_WANT_OF_NODES = frozenset({"BadConstraints", "Constraints", "PartitionConfig"})


def wants_of_nodes(reason: str) -> bool:
    """Return whether a job with this reason is impossible on the present nodes, and not by itself."""
    return reason.partition(",")[0].strip() in _WANT_OF_NODES


def polled_state(states: frozenset[str]) -> PolledState:
    """Read the state words alone. An unknown word makes the result `UNKNOWN`, unless another one says "ended"."""
    meanings = {rule.meaning for word in states if (rule := _STATE.get(word)) is not None}
    if Meaning.ENDED in meanings:
        return PolledState.TAKEN if _requeued(states) else PolledState.ENDED
    if not _base(states) or any(word not in _STATE for word in states):
        return PolledState.UNKNOWN
    if Meaning.TAKEN in meanings or {"PENDING", "COMPLETING"} <= states:
        return PolledState.TAKEN
    if "PENDING" in states:
        return PolledState.WAITING
    return PolledState.STARTING if Meaning.STARTING in meanings else PolledState.RUNNING


def observe(job: JobView) -> Observation:
    """Read a whole job. The function is pure: the same job always means the same."""
    states = job.flags | {job.state}
    match polled_state(states):
        case PolledState.UNKNOWN:
            return Unclear(_unclear_text(job, states))
        case PolledState.ENDED:
            return _ended(job, states)
        case PolledState.TAKEN:
            return _taken(job, states)
        case _ if job.restart_count > 0:
            # Placeholder jobs are not to be requeued; one that was has lost its nodes, wherever it runs or waits now.
            return Ended(EndKind.REQUEUED, _sentence(job, "was requeued"), alive=True)
        case PolledState.WAITING:
            return _waiting(job)
        case PolledState.STARTING:
            text = next(rule.text for rule in STATES if rule.word in states and rule.meaning is Meaning.STARTING)
            return Starting(_sentence(job, text))
        case PolledState.RUNNING:
            return _running(job)


def _waiting(job: JobView) -> Waiting:
    rule = reason_rule(job.reason)
    held = rule.means is ReasonClass.HELD or "RESV_DEL_HOLD" in job.flags
    return Waiting(job.reason, f"{rule.text} ({job.reason or 'None'}).", rule.means is ReasonClass.IMPOSSIBLE, held)


def _running(job: JobView) -> Observation:
    if job.preempt_time > 0.0:
        # slurmctld shortens end_time to now + GraceTime when it announces the preemption (interfaces/preempt.c).
        return Ending(EndKind.PREEMPTED, _left(job, job.preempt_time), _sentence(job, "will be preempted"))
    if reason_rule(job.reason).means is ReasonClass.STARTING:
        return Starting(_sentence(job, "has nodes that run the Prolog"))
    return Running(_left(job))


def _left(job: JobView, since: float = 0.0) -> float | None:
    """Return the seconds until `end_time` by Slurm's own clock; if the answer lacks that clock, as of `since`."""
    now = job.as_of or since
    return job.end_time - now if job.end_time and now else None


def _ended(job: JobView, states: frozenset[str]) -> Ended:
    rule = next(rule for rule in STATES if rule.word in states and rule.meaning is Meaning.ENDED)
    kind = rule.kind or EndKind.FAILED
    reason = reason_rule(job.reason)
    if kind is EndKind.FAILED and reason.means is ReasonClass.IMPOSSIBLE:
        return Ended(EndKind.IMPOSSIBLE, f"{_sentence(job, 'failed')} {reason.text} ({job.reason}).")
    text = _sentence(job, rule.text)
    if kind is EndKind.FAILED and job.reason not in {"", "None"}:
        text = f"{text} {reason.text} ({job.reason})."
    return Ended(kind, text)


def _taken(job: JobView, states: frozenset[str]) -> Ended:
    ended = next((rule for rule in STATES if rule.word in states and rule.meaning is Meaning.ENDED), None)
    rule = ended or next((rule for rule in STATES if rule.word in states and rule.meaning is Meaning.TAKEN), None)
    if rule is None:  # PENDING and COMPLETING: requeued, and its last nodes are still being cleaned up
        return Ended(EndKind.REQUEUED, _sentence(job, "was requeued"), alive=True)
    return Ended(rule.kind or EndKind.REQUEUED, _sentence(job, rule.text), alive=True)


def _requeued(states: Iterable[str]) -> bool:
    return any((rule := _STATE.get(word)) is not None and rule.kind is EndKind.REQUEUED for word in states)


def _base(states: Iterable[str]) -> bool:
    return any((rule := _STATE.get(word)) is not None and not rule.flag for word in states)


def _sentence(job: JobView, what: str) -> str:
    return f"Slurm job {job.job_id} {what}."


def _unclear_text(job: JobView, states: frozenset[str]) -> str:
    unknown = sorted(word for word in states if word and word not in _STATE)
    found = ", ".join(unknown) if unknown else "no base state"
    return (
        f"Slurm job {job.job_id} is in a state that this program does not know ({found}); nothing is concluded from it."
    )
