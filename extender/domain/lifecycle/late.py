"""What means nothing, where, and why. What such events say of members is recorded all the same (`facts.absorb`)."""

from __future__ import annotations

from extender.domain import events as e
from extender.domain.lifecycle.table import (
    ABSENT,
    BOUND,
    EVENTS,
    GONE,
    GRANTED,
    LOST,
    REFUSED,
    RELEASING,
    SUBMITTING,
    TABLE,
    UNSURE,
    WAITING,
)
from extender.domain.placeholder import State

_LIVE = tuple(state for state in State if state is not GONE)


def _but(*excepted: State) -> tuple[State, ...]:
    return tuple(state for state in _LIVE if state not in excepted)


TABLE.ignore((GONE,), EVENTS, "it is over; a job that lives on is a duplicate, which is recorded in every state")

TABLE.ignore(_but(SUBMITTING), (e.SubmitAccepted,), "a late job is a duplicate, which is recorded")
TABLE.ignore(_but(SUBMITTING), (e.SubmitRefused, e.SubmitUnknown), "late answers to an attempt that is over")
TABLE.ignore(_but(UNSURE), (e.ProbeAnswered,), "other jobs that a second look finds are duplicates, which is recorded")
TABLE.ignore(_but(UNSURE), (e.ProbeFailed,), "a second look may fail")
TABLE.ignore(_but(WAITING), (e.FollowAnswered,), "exclusions matter to waiting jobs only")
TABLE.ignore(_but(RELEASING), (e.CancelAnswered,), "about a duplicate job, which is recorded")
TABLE.ignore(_but(GRANTED), (e.AllocationFits, e.AllocationBusy, e.AllocationMisfits), "a late look at the node")
TABLE.ignore(_but(GRANTED), (e.WakeAnswered, e.NodeRefused), "late words about an allocation that is over or in use")
TABLE.ignore(_but(LOST), (e.EvictAnswered,), "late words about a Pod that is over or not to be ended")
TABLE.ignore(_but(REFUSED), (e.CancelNoted,), "late words about a refusal that is over")
TABLE.ignore(_LIVE, (e.BindStarted,), "recorded; its outcome follows")

TABLE.ignore((ABSENT, SUBMITTING, REFUSED), (e.JobWaiting, e.JobGranted, e.JobEnding, e.JobEnded), "no job is known")
TABLE.ignore((UNSURE,), (e.JobWaiting, e.JobGranted, e.JobEnding), "the probe decides")
TABLE.ignore((WAITING,), (e.JobEnding,), "a pending job has nothing to be warned of")
TABLE.ignore((LOST, RELEASING), (e.JobWaiting, e.JobGranted, e.JobEnding), "its end is under way")

_WISHES = (e.PodWanted, e.PodRefused, e.CandidatesChanged, e.PictureChanged)
TABLE.ignore((SUBMITTING, UNSURE), _WISHES, "recorded; acted on when the job is known or surely absent")
TABLE.ignore(
    (SUBMITTING, UNSURE),
    (e.PodEnding, e.PodGone, e.BindFailed),
    "recorded; acted on when the job is known or surely absent",
)
TABLE.ignore(_but(WAITING, BOUND), (e.UpdateAnswered,), "jobs are changed while they wait or their Pods run")
TABLE.ignore((GRANTED, BOUND), (e.PodRefused,), "settings changed after the grant change nothing")
TABLE.ignore((GRANTED, BOUND), (e.PictureChanged,), "exclusions matter to waiting jobs only")
TABLE.ignore((BOUND,), (e.CandidatesChanged,), "a bound Pod is not placed again")
TABLE.ignore((LOST, RELEASING), _WISHES, "recorded; acted on when the end is seen")
TABLE.ignore((ABSENT, REFUSED), (e.PodEnding,), "recorded; its end follows")
TABLE.ignore((BOUND, LOST), (e.PodEnding,), "recorded; a Pod that is ending still runs")
TABLE.ignore((ABSENT, WAITING, REFUSED), (e.BindFailed,), "recorded; nothing is handed out here")
TABLE.ignore((RELEASING,), (e.PodEnding, e.PodGone, e.BindFailed), "recorded; acted on when the end is seen")
TABLE.ignore((SUBMITTING,), (e.TimerFired,), "the request is in flight and always answered with an event")
