"""The table "what Slurm says of a job -> what the workload does", for a Pod that waits, was granted nodes, or runs.

The rules of WAITING, GRANTED and BOUND execute it (`lifecycle.transitions.follow_job`), and the first table of
`docs/reference/states.md` is generated from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from extender.domain import events as e
from extender.domain.events import EndKind
from extender.domain.job_outcomes import slurm_states as s
from extender.domain.placeholder import Timing
from extender.domain.states import State
from extender.domain.wellknown import Reason


class JobCondition(StrEnum):
    """The condition of a job, read as a whole. `UNKNOWN`: slurmctld has no such job."""

    QUEUED = "queued"
    IMPOSSIBLE = "can never run"
    STARTING = "starting"
    RUNNING = "running"
    ENDING = "end announced"
    CANCELLED = "cancelled"
    REJECTED = "ended because it can never run"
    ENDED = "ended"
    TAKEN_BACK = "nodes taken away, the job may run again"
    UNKNOWN = "not in Slurm"
    UNCLEAR = "unclear"


@dataclass(frozen=True, slots=True)
class Transition:
    """The consequence of a condition of the job. If `state` is LOST, the Pods that run on the job are ended."""

    state: State
    """The state that the workload enters, or stays in."""

    text: str
    """For the documentation; `{doubt}` stands for `Timing.doubt` in seconds."""

    event: Reason | None = None
    """The reason of the Event that reports it; `None`: no Event."""

    doubted: bool = False
    """Only if Slurm still says so after `Timing.doubt`; until then the Event alone follows."""

    def described(self, timing: Timing) -> str:
        """Return `text` with the waits filled in."""
        return self.text.format(doubt=f"{timing.doubt:g}")


WAITING, GRANTED, BOUND = State.WAITING, State.GRANTED, State.BOUND
COLUMNS = (WAITING, GRANTED, BOUND)
"""BOUND also stands for a workload in WAITING or GRANTED of which a Pod runs on the job already."""

_END_POD_THEN_JOB = Transition(State.LOST, "the extender ends the Pod, then the job", Reason.ALLOCATION_LOST)
_END_POD = Transition(
    State.LOST, "the extender ends the Pod, and drains its node until the Pod is gone", Reason.ALLOCATION_LOST
)
_EVICT = Transition(
    State.LOST, "the extender evicts the Pod, after `limits.evictionDeadline` deletes it", Reason.ALLOCATION_LOST
)
_REPLACE = Transition(
    State.RELEASING, "the extender releases the job and submits another one", Reason.ALLOCATION_RELEASED
)
_RETRY = Transition(State.ABSENT, "the extender submits another job after a back-off", Reason.RETRYING)
_UNTIL_CHANGED = "the extender submits no job until the Pod's request changes"
_CANCELLED = Transition(State.REFUSED, _UNTIL_CHANGED, Reason.JOB_CANCELLED)
_REFUSE = Transition(State.REFUSED, _UNTIL_CHANGED, Reason.JOB_REJECTED)


def _stays(state: State, text: str = "no action", event: Reason | None = None) -> Transition:
    return Transition(state, text, event)


TRANSITIONS: Mapping[JobCondition, Mapping[State, Transition]] = {
    JobCondition.QUEUED: {
        WAITING: _stays(WAITING, "it waits; the Event states Slurm's reason", Reason.JOB_PENDING),
        GRANTED: _stays(WAITING, "Slurm took its nodes away: it waits"),
        BOUND: _END_POD_THEN_JOB,
    },
    JobCondition.IMPOSSIBLE: {
        WAITING: Transition(
            State.RELEASING, "it waits; after {doubt} s the extender refuses the Pod", Reason.JOB_PENDING, doubted=True
        ),
        GRANTED: _REPLACE,
        BOUND: _END_POD_THEN_JOB,
    },
    JobCondition.STARTING: {state: _stays(state) for state in COLUMNS},
    JobCondition.RUNNING: {
        WAITING: _stays(
            GRANTED, "granted: `/filter` offers the node once the kubelet would admit the Pod", Reason.JOB_GRANTED
        ),
        GRANTED: _stays(GRANTED),
        BOUND: _stays(BOUND),
    },
    JobCondition.ENDING: {WAITING: _REPLACE, GRANTED: _REPLACE, BOUND: _END_POD_THEN_JOB},
    JobCondition.CANCELLED: {WAITING: _CANCELLED, GRANTED: _CANCELLED, BOUND: _EVICT},
    JobCondition.REJECTED: {WAITING: _REFUSE, GRANTED: _REFUSE, BOUND: _END_POD},
    JobCondition.ENDED: {WAITING: _RETRY, GRANTED: _RETRY, BOUND: _END_POD},
    JobCondition.TAKEN_BACK: {WAITING: _REPLACE, GRANTED: _REPLACE, BOUND: _END_POD_THEN_JOB},
    JobCondition.UNKNOWN: {WAITING: _RETRY, GRANTED: _RETRY, BOUND: _END_POD},
    JobCondition.UNCLEAR: {state: _stays(state) for state in COLUMNS},
}

JobEvent = e.JobWaiting | e.JobEnding | e.JobEnded
"""The events that carry a condition; a grant (`JobGranted`) also depends on its nodes, see `lifecycle.granted`."""

_OF_EVENT: Mapping[type, tuple[JobCondition, ...]] = {
    e.JobWaiting: (JobCondition.QUEUED,),
    e.JobEnding: (JobCondition.ENDING,),
    e.JobEnded: (
        JobCondition.IMPOSSIBLE,
        JobCondition.TAKEN_BACK,
        JobCondition.CANCELLED,
        JobCondition.REJECTED,
        JobCondition.UNKNOWN,
        JobCondition.ENDED,
    ),
}


def condition_of_event(event: JobEvent) -> JobCondition:
    """Return the condition that an event reports."""
    match event:
        case e.JobWaiting():
            return JobCondition.QUEUED
        case e.JobEnding():
            return JobCondition.ENDING
        case e.JobEnded(kind=kind, alive=True):
            return JobCondition.IMPOSSIBLE if kind is EndKind.IMPOSSIBLE else JobCondition.TAKEN_BACK
        case e.JobEnded(kind=EndKind.CANCELLED):
            return JobCondition.CANCELLED
        case e.JobEnded(kind=EndKind.IMPOSSIBLE):
            return JobCondition.REJECTED
        case e.JobEnded(kind=EndKind.VANISHED):
            return JobCondition.UNKNOWN
        case e.JobEnded():
            return JobCondition.ENDED


def states_after(event: type, *columns: State) -> frozenset[State]:
    """Return the states that the table allows after this type of event in these columns."""
    return frozenset(TRANSITIONS[condition][column].state for condition in _OF_EVENT[event] for column in columns)


def condition_of(seen: s.Observation) -> JobCondition:
    """Return the line of the table that an observation of a job comes to."""
    match seen:
        case s.Waiting():
            return JobCondition.IMPOSSIBLE if seen.impossible else JobCondition.QUEUED
        case s.Starting():
            return JobCondition.STARTING
        case s.Running():
            return JobCondition.RUNNING
        case s.Ending():
            return JobCondition.ENDING
        case s.Ended(alive=True):
            return JobCondition.TAKEN_BACK
        case s.Ended(kind=EndKind.CANCELLED):
            return JobCondition.CANCELLED
        case s.Ended(kind=EndKind.IMPOSSIBLE):
            return JobCondition.REJECTED
        case s.Ended():
            return JobCondition.ENDED
        case s.Unclear():
            return JobCondition.UNCLEAR
