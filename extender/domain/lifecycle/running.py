"""BOUND and LOST: members run, with their allocation or without it."""

from __future__ import annotations

from extender.domain import commands as c
from extender.domain import events as e
from extender.domain.jobs.changes import can_follow_running
from extender.domain.jobs.resize import outgrown
from extender.domain.lifecycle.moves import (
    about_to_end,
    announce,
    end_pods,
    ends_at,
    follow_running,
    job_ended,
    later,
    learn_asked,
    lose,
    release,
    rest,
    with_limit,
)
from extender.domain.lifecycle.table import (
    ABSENT,
    BOUND,
    GONE,
    GRANTED,
    LOST,
    REFUSED,
    RELEASING,
    TABLE,
    At,
    Step,
)
from extender.domain.placeholder import Placeholder
from extender.domain.renewal import replace
from extender.domain.wellknown import Reason


@TABLE.on((BOUND,), (e.PodGone, e.PodBound, e.BindFailed), (RELEASING,))
def _pod_over(p: Placeholder, _event: e.Event, at: At) -> Step:
    """The job is ended only when the last Pod that runs on it is really gone."""
    return (p, []) if p.charged else release(p, "its Pod is over", at)


@TABLE.on((BOUND,), (e.JobEnded,), (LOST,))
def _running_ended(p: Placeholder, event: e.JobEnded, at: At) -> Step:
    """Slurm ended the job of running Pods."""
    return lose(p, event.kind, event.text, at, alive=event.alive)


@TABLE.on((BOUND,), (e.JobWaiting,), (LOST,))
def _running_requeued(p: Placeholder, event: e.JobWaiting, at: At) -> Step:
    """Slurm took the nodes back and queues the job again."""
    return lose(p, e.EndKind.REQUEUED, f"Slurm put job {event.job_id} back into its queue.", at, alive=True)


@TABLE.on((BOUND,), (e.JobEnding,), (LOST,))
def _running_ending(p: Placeholder, event: e.JobEnding, at: At) -> Step:
    """Slurm has announced the end: the Pod's grace starts now."""
    return lose(replace(p, ends_at=ends_at(event, at)), event.kind, about_to_end(event), at, alive=True)


@TABLE.on((BOUND,), (e.PodWanted,), ())
def _changed_while_running(p: Placeholder, _event: e.PodWanted, _at: At) -> Step:
    """Of a job that has its nodes Slurm changes little; that little when its Pods run."""
    return follow_running(learn_asked(p))


@TABLE.on((GRANTED,), (e.PodWanted,), (RELEASING,))
def _changed_while_granted(p: Placeholder, _event: e.PodWanted, at: At) -> Step:
    """The same; but a Pod that grew would run beside its job."""
    p = learn_asked(p)
    if p.request is None or p.asked is None or can_follow_running(p.asked, p.request):
        return p, []
    if (more := outgrown(p.asked, p.request)) and not p.charged:
        text = f"The Pod asks for {more} now: its job is given back, and another one is submitted."
        return release(p, text, at, announce(p, Reason.GIVEN_BACK, text, True))
    return follow_running(p)


@TABLE.on((BOUND,), (e.UpdateAnswered,), ())
def _updated_while_running(p: Placeholder, event: e.UpdateAnswered, _at: At) -> Step:
    """The running job was changed, or goes on as it was; what nobody knows is asked again with the next reading."""
    if p.updating is None:
        return p, []
    p = replace(p, updating=None)
    if event.done is None:
        return p, []
    if event.done:
        p = replace(p, asked=event.request, declined=None)
        said = announce(p, Reason.CHANGED, f"Slurm job {event.job_id} was changed to what the Pod asks now.")
    else:
        p = replace(p, declined=event.request)
        text = f"Slurm job {event.job_id} is not changed to what the Pod asks now: {event.text}"
        said = announce(p, Reason.NOT_CHANGED, text, True)
    after, commands = follow_running(p)
    return after, [said, *commands]


@TABLE.on((BOUND,), (e.TimerFired,), ())
def _limit_near(p: Placeholder, _event: e.TimerFired, at: At) -> Step:
    """The time limit may be near: look, since it may have been changed, and nobody is ended on an old reading."""
    if p.limit_at is None or at.now < p.limit_at or p.job_id is None:
        return p, []
    return replace(p, limit_at=at.now + at.timing.cancel_retry), [c.ReadJob(p.job_id)]


@TABLE.on((BOUND,), (e.JobGranted,), (LOST,))
def _running_moved(p: Placeholder, event: e.JobGranted, at: At) -> Step:
    """The job runs; on other nodes than its Pods if it was requeued between two looks.

    Slurm's own names tell that. Which Kubernetes nodes they are may be forgotten or corrected at any time (a label, a
    cache), and ends nobody.
    """
    p = with_limit(p, event, at)
    if event.devices and event.slurm_nodes == p.slurm_nodes:
        p = replace(p, devices=tuple(sorted(event.devices.items())))
    if event.slurm_nodes == p.slurm_nodes or not (p.slurm_nodes and event.slurm_nodes):
        return follow_running(p)
    return lose(p, e.EndKind.REQUEUED, f"Slurm moved job {event.job_id} to other nodes.", at, alive=True)


@TABLE.on((LOST,), (e.PodGone,), (GONE, RELEASING, ABSENT, REFUSED))
@TABLE.on((LOST,), (e.BindFailed,), (RELEASING, ABSENT, REFUSED))
def _lost_pod(p: Placeholder, _event: e.Event, at: At) -> Step:
    """When no member is on a node any more, the job is ended if it still lives."""
    if p.charged:
        return replace(p, wake_at=at.now + at.timing.end_retry), []
    if p.job_alive:
        return release(later(p, at), "its Pod is over", at)
    if p.wants and p.job_id is not None:
        return job_ended(p, e.JobEnded(p.job_id, p.end_kind or e.EndKind.FAILED, p.end_text), at)
    return rest(p, at)


@TABLE.on((LOST,), (e.PodBound,), (RELEASING, REFUSED))
def _lost_bound(p: Placeholder, event: e.PodBound, at: At) -> Step:
    """A Binding that was on the way arrived: end that Pod too, unless it is somebody else's."""
    return end_pods(p, at, []) if p.charged else _lost_pod(p, event, at)


@TABLE.on((LOST,), (e.TimerFired,), ())
def _lost_timer(p: Placeholder, _event: e.TimerFired, at: At) -> Step:
    """Ask again until the Pods are gone; budgets hold a voluntary end for a while only."""
    return end_pods(p, at, [])


@TABLE.on((LOST,), (e.EvictAnswered,), ())
def _end_answered(p: Placeholder, event: e.EvictAnswered, at: At) -> Step:
    """The Pod's people are told what a budget holds, and how much of its grace a Pod is given."""
    if event.shortened:
        return p, [announce(p, Reason.SHORTENED, event.shortened, True)]
    if not event.budget:
        return p, []
    deadline = p.lost_at + at.timing.eviction_deadline
    next_try = at.now + max(event.retry_after_s, at.timing.end_retry)
    p = replace(p, wake_at=max(at.now, min(next_try, deadline)))
    text = f"A disruption budget holds the Pod, for {at.timing.eviction_deadline:g} s at most. {p.end_text}"
    said: list[c.Command] = [announce(p, Reason.BUDGET, text, True)] if text != p.reason else []
    return replace(p, reason=text), said


@TABLE.on((LOST,), (e.JobEnded,), ())
def _lost_ended(p: Placeholder, event: e.JobEnded, _at: At) -> Step:
    """The job's record is over, or it still lives suspended or requeued."""
    return replace(p, job_alive=event.alive), []
