"""What every event says about a placeholder, whatever its state: its members, what they ask, and jobs that are not its.

`lifecycle.step` records these before the rule of the state decides, so that nothing said while a request was in flight
is lost.
"""

from __future__ import annotations

from extender.domain import commands as c
from extender.domain import events as e
from extender.domain.placeholder import Member, Placeholder, State
from extender.domain.renewal import replace

_LIVE = (e.JobWaiting, e.JobGranted, e.JobEnding)
_ABOUT_A_JOB = (*_LIVE, e.JobEnded, e.CancelAnswered, e.FollowAnswered, e.UpdateAnswered)
_UNDECIDED = {State.SUBMITTING, State.UNSURE}


def absorb(p: Placeholder, event: e.Event) -> Placeholder:
    """Record what the event says about members, their request and their candidates."""
    match event:
        case e.PodWanted():
            refusal = p.refusal if event.request == p.asked else ""
            cancelled = p.cancelled if p.cancelled is not None and p.cancelled.speaks_of(event.request) else None
            title = p.title or event.request.title
            p = _with_members(p, event.members)
            p = replace(p, request=event.request, faults=(), title=title, refusal=refusal, cancelled=cancelled)
            return p if cancelled is not None else replace(p, note_owed=frozenset())
        case e.PodRefused():
            p = replace(_with_members(p, event.members), request=None, faults=event.faults)
            return replace(p, cancelled=None, note_owed=frozenset())
        case e.CandidatesChanged():
            return p if event.candidates == p.candidates else replace(p, candidates=event.candidates, follow_owed=True)
        case e.PictureChanged():
            return replace(p, follow_owed=True)
        case e.BindStarted():
            over = (member := p.member(event.uid)) is not None and member.end is not None
            return p if over else _member(p, event.uid, binding=True)
        case e.BindFailed():
            return _member(p, event.uid, binding=False)
        case e.PodBound():
            given = event.slurm_node if event.job_id is not None else ""
            return _member(p, event.uid, binding=False, node=event.node, job_id=event.job_id, slurm_node=given)
        case e.PodEnding():
            return _member(p, event.uid, ending=True)
        case e.PodGone():
            return _member(p, event.uid, binding=False, end=event.how, outcome=event.outcome)
        case _:
            return p


def too_late(p: Placeholder, event: e.Event) -> bool:
    """A Binding of a Pod that is over, as recorded now, or that is no member: it changes nothing any more."""
    if not isinstance(event, e.PodBound):
        return False
    member = p.member(event.uid)
    return member is None or not member.placed


def _with_members(p: Placeholder, refs: tuple[e.MemberRef, ...]) -> Placeholder:
    known = {member.ref.uid for member in p.members}
    return replace(p, members=p.members + tuple(Member(ref) for ref in refs if ref.uid not in known))


def _member(p: Placeholder, uid: str, **changes: object) -> Placeholder:
    return replace(
        p,
        members=tuple(
            replace(member, **changes) if member.ref.uid == uid else member  # type: ignore[arg-type]
            for member in p.members
        ),
    )


def about_other_job(p: Placeholder, event: e.Event, check_one: float) -> tuple[Placeholder, list[c.Command]] | None:
    """Handle an event about a job that is not this placeholder's. `None`: it is about this one, or about no job.

    A live one is a duplicate: it is cancelled, again and again until its end is seen. While an answer is outstanding,
    an unknown job may be the requested one: it is left alone, and looked for once more at the instant `check_one`.
    """
    match event:
        case e.SubmitAccepted():
            expected = p.state is State.SUBMITTING and event.attempt == p.attempt
            return None if expected or event.job_id == p.job_id else _duplicate_jobs(p, {event.job_id})
        case e.ProbeAnswered() if p.state is not State.UNSURE:
            awaited = p.attempt if p.state is State.SUBMITTING else None
            # Attempts are counted anew by a leader that found no job: an older leader's late one may bear the number.
            left = {job.job_id for job in event.jobs if job.attempt == awaited and not job.older}
            after, ends = _duplicate_jobs(p, {job.job_id for job in event.jobs} - left - {p.job_id})
            return (_check_again(after, check_one) if left else after), ends
        case e.ProbeFailed() if p.state is not State.UNSURE:
            return _check_again(p, check_one), []
        case _ if isinstance(event, _ABOUT_A_JOB) and event.job_id != p.job_id:
            ended = (isinstance(event, e.JobEnded) and not event.alive) or (
                isinstance(event, e.CancelAnswered) and event.over
            )
            if ended:
                return replace(p, duplicate_jobs=p.duplicate_jobs - {event.job_id}), []
            if event.job_id in p.duplicate_jobs or not isinstance(event, (*_LIVE, e.JobEnded)):
                return p, []
            return (_check_again(p, check_one), []) if p.state in _UNDECIDED else _duplicate_jobs(p, {event.job_id})
        case _:
            return None


def _check_again(p: Placeholder, check_one: float) -> Placeholder:
    return p if p.reprobe_at is not None else replace(p, reprobe_at=check_one)


def _duplicate_jobs(p: Placeholder, jobs: set[int]) -> tuple[Placeholder, list[c.Command]]:
    new = jobs - p.duplicate_jobs
    ends: list[c.Command] = [c.CancelJob(job, "it is a duplicate job of one workload") for job in sorted(new)]
    return replace(p, duplicate_jobs=p.duplicate_jobs | new), ends
