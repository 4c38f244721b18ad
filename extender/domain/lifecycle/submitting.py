"""SUBMITTING and UNSURE: a job may exist."""

from __future__ import annotations

from extender.domain import commands as c
from extender.domain import events as e
from extender.domain.jobs.changes import can_follow
from extender.domain.lifecycle.moves import (
    again,
    announce,
    back_off,
    catch_up,
    claimed,
    learn_asked,
    lose,
    refuse,
    release,
    rest,
    wait,
)
from extender.domain.lifecycle.table import (
    ABSENT,
    GONE,
    LOST,
    REFUSED,
    RELEASING,
    SUBMITTING,
    TABLE,
    UNSURE,
    WAITING,
    At,
    Step,
)
from extender.domain.placeholder import Placeholder
from extender.domain.renewal import replace
from extender.domain.wellknown import Reason

NO_SUCH_NODE = frozenset({2014, 2018, 2029, 2072})
"""ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE, ESLURM_INVALID_NODE_NAME, ESLURM_INVALID_FEATURE and ESLURM_INVALID_GRES
(`slurm_errno.h`): other nodes may have it. The second also says that a node is required and excluded at once, as while
its Node is in dispute."""


@TABLE.on((SUBMITTING,), (e.SubmitAccepted,), (WAITING, RELEASING))
def _accepted(p: Placeholder, event: e.SubmitAccepted, at: At) -> Step:
    """The job exists."""
    duplicate_jobs = p.duplicate_jobs - {
        event.job_id
    }  # an id of the past, given out again after slurmctld lost its state
    p = replace(p, job_id=event.job_id, job_alive=True, duplicate_jobs=duplicate_jobs)
    p = replace(p, told=event.excluded, mode=event.mode, queue=False, fits_nowhere=False, reason="")
    if p.charged or not p.wants or p.request != p.asked:
        return release(p, "the Pod changed or left while its job was being made", at)
    said = announce(p, Reason.SUBMITTED, f"Slurm job {event.job_id} was submitted.")
    if not event.behind:
        return wait(p, at, said, c.ReadJob(event.job_id))
    after, commands = wait(replace(p, unread=True), at, said)
    return replace(after, wake_at=at.now + at.timing.first_look), commands


@TABLE.on((SUBMITTING,), (e.SubmitRefused,), (ABSENT, REFUSED, GONE))
def _submit_refused(p: Placeholder, event: e.SubmitRefused, at: At) -> Step:
    """Slurm made no job."""
    if event.attempt != p.attempt:
        return p, []
    if p.charged or not p.wants or p.request != p.asked:
        return rest(p, at)
    if event.queue and not p.queue:
        return rest(replace(p, queue=True), at)
    if event.nowhere:
        return again(replace(p, fits_nowhere=True), at, event.text, Reason.NO_SUITABLE_NODE)
    if event.permanent:
        p = replace(p, fits_nowhere=event.number in NO_SUCH_NODE)
        return refuse(p, Reason.REFUSED, event.text)
    return again(p, at, event.text)


@TABLE.on((SUBMITTING,), (e.SubmitUnknown,), (UNSURE,))
def _submit_unknown(p: Placeholder, event: e.SubmitUnknown, at: At) -> Step:
    """The answer was lost: look for the job before anything is sent again."""
    if event.attempt != p.attempt:
        return p, []
    unsure = replace(p, state=UNSURE, sure_at=at.now + at.timing.settle, empties=0, reason=event.text)
    return replace(unsure, wake_at=at.now + at.timing.probe), []


@TABLE.on((UNSURE,), (e.ProbeAnswered,), (WAITING, RELEASING, ABSENT, SUBMITTING, LOST, REFUSED, GONE))
def _probed(p: Placeholder, event: e.ProbeAnswered, at: At) -> Step:
    """Either the job is found, or it is surely absent after two empty answers and the time to settle."""
    asked_at = at.now if event.asked_at is None else event.asked_at
    if jobs := [job for job in event.jobs if job.job_id not in p.duplicate_jobs]:
        return _found(p, jobs, asked_at, at)
    empties = p.empties + 1
    if empties < 2 or asked_at < p.sure_at:
        return replace(p, empties=empties, wake_at=at.now + at.timing.probe), []
    # slurmctld may have been stalled for longer than anybody expects: one more look costs little.
    absent = replace(p, empties=0, reprobe_at=p.reprobe_at or at.now + at.timing.settle)
    if absent.charged:
        known = absent.job_id or next(m.job_id for m in absent.members if absent.charges(m))
        return lose(absent, e.EndKind.VANISHED, f"Slurm does not know job {known} any more.", at, alive=False)
    return rest(absent, at)


@TABLE.on((SUBMITTING, UNSURE), (e.PodBound,), (UNSURE,))
def _bound_meanwhile(p: Placeholder, event: e.PodBound, at: At) -> Step:
    """Recorded; one for a job that is not the one looked for, or that was asked for now, is looked for itself."""
    return (p, []) if event.job_id in {None, p.job_id} else claimed(p, event.job_id, at)


def _found(p: Placeholder, jobs: list[e.JobFound], asked_at: float, at: At) -> Step:
    """Keep the job that Pods run on, else one that runs, else the newest leader's newest; the others are duplicates."""
    ours = {p.job_id, *(m.job_id for m in p.members if p.charges(m))} if p.charged else set()
    best = max(jobs, key=lambda job: (job.job_id in ours, job.running, not job.older, job.attempt, job.job_id))
    others = frozenset(job.job_id for job in jobs) - {best.job_id}
    attempt = max(p.attempt, *(job.attempt for job in jobs))
    # Of a job of the process before its mark tells in which wishes the Pod has changed since, or nothing does.
    p = replace(p, job_id=best.job_id, job_alive=True, attempt=attempt, told=best.excluded, found_wishes=best.wishes)
    p = learn_asked(p)
    # A cancel that is written on the Pod was an older job's than one that lives.
    p = replace(p, duplicate_jobs=p.duplicate_jobs | others, queue=False, reason="", cancelled=None)
    if asked_at < p.sure_at:  # what was found may be an older request's, and the last one still on its way
        p = replace(p, reprobe_at=max(p.reprobe_at or 0.0, p.sure_at))
    ends: list[c.Command] = [c.CancelJob(job, "it is a duplicate job of one workload") for job in sorted(others)]
    if not p.charged and (not p.wants or p.faults or not _fits(p, best)):
        return release(p, "the Pod changed or left while its job was being looked for", at, *ends)
    after, told = wait(p, at, *ends, c.ReadJob(best.job_id))
    after, updates = catch_up(after)
    return after, [*told, *updates]


def _fits(p: Placeholder, found: e.JobFound) -> bool:
    """Whether what was found asks what the Pod asks now, or can still be made to."""
    if p.asked is None or p.request is None or p.request == p.asked:
        return p.request == p.asked
    return not found.running and can_follow(p.asked, p.request)


@TABLE.on((UNSURE,), (e.ProbeFailed,), ())
def _probe_failed(p: Placeholder, event: e.ProbeFailed, at: At) -> Step:
    """Slurm does not answer: nothing is known, and the empty answers so far count no more."""
    tries = p.tries + 1
    return replace(p, empties=0, tries=tries, reason=event.text, wake_at=at.now + back_off(tries, at.timing)), []


@TABLE.on((UNSURE,), (e.TimerFired,), ())
def _probe_due(p: Placeholder, _event: e.TimerFired, at: At) -> Step:
    """Look for the job."""
    hints = tuple(sorted({member.hint for member in p.members if member.hint is not None}))
    return replace(p, wake_at=at.now + at.timing.settle), [c.ProbeJob(p.title, p.job_id, hints)]


@TABLE.on((UNSURE,), (e.JobEnded,), (LOST,))
def _recorded_job_ended(p: Placeholder, event: e.JobEnded, at: At) -> Step:
    """The job recorded on a running Pod ended while nobody looked; for a waiting Pod the probe decides."""
    on_it = any(p.charges(member) and member.job_id == event.job_id for member in p.members)
    return lose(p, event.kind, event.text, at, alive=event.alive) if on_it else (p, [])
