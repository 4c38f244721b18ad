"""WAITING: the job is pending in Slurm."""

from __future__ import annotations

from extender.domain import commands as c
from extender.domain import events as e
from extender.domain.jobs.changes import can_follow
from extender.domain.lifecycle.moves import (
    announce,
    back_off,
    catch_up,
    claimed,
    doubt,
    follow,
    job_ended,
    learn_asked,
    lose,
    misplaced,
    release,
    taken,
)
from extender.domain.lifecycle.table import (
    ABSENT,
    LOST,
    REFUSED,
    RELEASING,
    TABLE,
    UNSURE,
    WAITING,
    At,
    Step,
)
from extender.domain.placeholder import Placeholder
from extender.domain.renewal import replace
from extender.domain.wellknown import Reason


@TABLE.on((WAITING,), (e.JobWaiting,), (LOST,))
def _pending(p: Placeholder, event: e.JobWaiting, at: At) -> Step:
    """It queues; the reason is for people."""
    if p.charged:
        return lose(p, e.EndKind.REQUEUED, f"Slurm put job {event.job_id} back into its queue.", at, alive=True)
    p = replace(p, doubted_since=None, unread=False)
    if event.reason == p.reason:
        return p, []
    text = f"Slurm job {event.job_id} waits: {event.reason.removesuffix('.')}." if event.reason else ""
    said: list[c.Command] = [announce(p, Reason.WAITING, text)] if text else []
    return replace(p, reason=event.reason), said


@TABLE.on((WAITING,), (e.JobEnded,), (ABSENT, REFUSED, LOST, RELEASING))
def _waiting_ended(p: Placeholder, event: e.JobEnded, at: At) -> Step:
    """The job ended before it was granted."""
    if p.charged:
        return lose(p, event.kind, event.text, at, alive=event.alive)
    if event.alive and event.kind is e.EndKind.IMPOSSIBLE:
        p, sure = doubt(p, at)
        if not sure:
            said = announce(p, Reason.WAITING, f"Slurm job {event.job_id} waits: {event.text}")
            return replace(p, reason=event.text), [said] if event.text != p.reason else []
        return release(replace(p, refusal=event.text, fits_nowhere=event.nowhere), event.text, at)
    if event.alive:
        return taken(p, event, at)
    return job_ended(p, event, at)


@TABLE.on((WAITING,), (e.CandidatesChanged, e.PictureChanged), ())
def _candidates(p: Placeholder, _event: e.Event, _at: At) -> Step:
    """The waiting job may have to avoid other nodes than it was told."""
    return follow(p)


@TABLE.on((WAITING,), (e.FollowAnswered,), ())
def _followed(p: Placeholder, event: e.FollowAnswered, at: At) -> Step:
    """The job was told, or has to be told again."""
    if event.excluded is None:
        return replace(p, following=False, follow_owed=True, wake_at=at.now + at.timing.cancel_retry), []
    return catch_up(replace(p, following=False, told=event.excluded))


@TABLE.on((WAITING,), (e.UpdateAnswered,), ())
def _updated(p: Placeholder, event: e.UpdateAnswered, at: At) -> Step:
    """The job was changed, or it stays as it was, or it has to be asked again."""
    if p.updating is None:
        return p, []
    p = replace(p, updating=None)
    if event.done is None:
        return replace(p, wake_at=at.now + at.timing.cancel_retry), []
    if event.done:
        text = f"Slurm job {event.job_id} was changed to what the Pod asks now, and keeps its place in the queue."
        said = announce(p, Reason.CHANGED, text)
        p = replace(p, asked=event.request, told=event.excluded, declined=None, follow_owed=True)
    else:
        text = f"Slurm job {event.job_id} is not changed to what the Pod asks now and waits as it was: {event.text}"
        said = announce(p, Reason.NOT_CHANGED, text, True)
        p = replace(p, declined=event.request)
    after, commands = catch_up(p)
    return after, [said, *commands]


@TABLE.on((WAITING,), (e.TimerFired,), ())
def _waiting_timer(p: Placeholder, _event: e.TimerFired, at: At) -> Step:
    """Tell the job what is owed; look at it while Pods run on it, it is in doubt, or nobody knows why it waits."""
    after, commands = catch_up(p)
    if p.charged or p.doubted_since is not None:
        return _check(after, at, commands)
    if not p.unread or p.job_id is None:
        return after, commands
    # Slurm may not answer, or prepare its nodes, which tells nothing: ever more seldom.
    after = replace(after, tries=p.tries + 1, wake_at=at.now + back_off(p.tries + 1, at.timing))
    return after, [*commands, c.ReadJob(p.job_id)]


def _check(p: Placeholder, at: At, commands: list[c.Command]) -> Step:
    reads = [c.ReadJob(p.job_id)] if p.job_id is not None else []
    return replace(p, wake_at=at.now + at.timing.cancel_retry), [*commands, *reads]


@TABLE.on((WAITING,), (e.PodWanted,), (RELEASING,))
def _changed_while_waiting(p: Placeholder, _event: e.PodWanted, at: At) -> Step:
    """The Pod asks for something else than its waiting job."""
    p = learn_asked(p)
    if p.request in (p.asked, p.declined) or p.charged:
        return p, []
    if p.request is not None and p.asked is not None and can_follow(p.asked, p.request):
        return catch_up(p)
    text = "What is asked for the Pod changed: its waiting job is ended and a new one is submitted."
    return release(p, text, at, announce(p, Reason.RETRYING, text))


@TABLE.on((WAITING,), (e.PodRefused,), (RELEASING,))
def _broken_while_waiting(p: Placeholder, _event: e.PodRefused, at: At) -> Step:
    """The Pod's settings became unusable."""
    return (p, []) if p.charged else release(p, "the Pod's settings became unusable", at)


@TABLE.on((WAITING,), (e.PodEnding, e.PodGone), (RELEASING,))
def _left_while_waiting(p: Placeholder, _event: e.Event, at: At) -> Step:
    """Nobody waits for this job any more."""
    return (p, []) if p.wants or p.charged else release(p, "its Pod does not wait for it any more", at)


@TABLE.on((WAITING,), (e.PodBound,), (RELEASING, UNSURE))
def _bound_while_waiting(p: Placeholder, event: e.PodBound, at: At) -> Step:
    """Somebody else bound it; or a Binding that the process before sent arrives, for this job or one that is over."""
    if event.job_id is None:
        return misplaced(p, event.node, at) if not (p.wants or p.charged) else (p, [])
    if event.job_id == p.job_id:
        return _check(p, at, [])
    return claimed(p, event.job_id, at)
