"""Record what an event says in any state: about members, their request, and jobs that are not the workload's own.

`machine.step` records these before the rule of the state decides, so that no news is lost while a request is under way.
"""

from __future__ import annotations

from extender.domain import commands as c
from extender.domain import events as e
from extender.domain.jobs.cancelled import Cancelled
from extender.domain.lifecycle.rules import DUPLICATE
from extender.domain.placeholder import Member, Placeholder, State
from extender.domain.renewal import replace
from extender.domain.states import BoundState, GrantedState, RefusedState

_LIVE = (e.JobWaiting, e.JobGranted, e.JobEnding)
_ABOUT_A_JOB = (*_LIVE, e.JobEnded, e.CancelAnswered, e.FollowAnswered, e.UpdateAnswered)
_UNDECIDED = (State.SUBMITTING, State.UNSURE)


def record(p: Placeholder, event: e.Event) -> Placeholder:
    """Record what the event says about members, their request and their candidate nodes."""
    match event:
        case e.PodWanted():
            refusal = p.refusal if event.request == p.submitted_request else ""
            cancelled = _cancel_of(p, event)
            title = p.title or event.request.title
            p = _with_members(p, event.members, event.slots)
            p = replace(p, request=event.request, faults=(), title=title, refusal=refusal, cancelled=cancelled)
            return p if cancelled is not None else _nothing_unrecorded(p)
        case e.PodRefused():
            p = replace(_with_members(p, event.members), request=None, faults=event.faults, cancelled=None)
            return _nothing_unrecorded(p)
        case e.CandidatesChanged():
            if event.candidates == p.candidates:
                return p
            return replace(p, candidates=event.candidates, exclusions_changed=True)
        case e.SlurmSnapshotChanged():
            return replace(p, exclusions_changed=True)
        case e.BindStarted():
            has_ended = (member := p.member(event.uid)) is not None and member.end is not None
            return p if has_ended else _member(p, event.uid, binding=True)
        case e.BindFailed():
            return _member(p, event.uid, binding=False)
        case e.PodBound():
            given = event.slurm_node if event.job_id is not None else ""
            if event.returned is not None:
                p = _with_returned(p, event, *event.returned)
            return _member(p, event.uid, binding=False, node=event.node, job_id=event.job_id, slurm_node=given)
        case e.PodEnding():
            return _member(p, event.uid, ending=True)
        case e.PodGone():
            return _gone(p, event)
        case _:
            return p


def is_outdated(p: Placeholder, event: e.Event) -> bool:
    """Return whether this is a Binding of a Pod that has finished, as recorded now, or that is no member."""
    if not isinstance(event, e.PodBound):
        return False
    member = p.member(event.uid)
    return member is None or not member.placed


def _cancel_of(p: Placeholder, event: e.PodWanted) -> Cancelled | None:
    """Return the cancel of a job with this request, if a user cancelled one.

    What the Pods record counts where no request is known yet: they may have been here before, and been deleted.
    """
    new = p.state in {State.ABSENT, State.REFUSED} and p.request is None
    cancelled = event.cancelled if new and p.cancelled is None else p.cancelled
    return cancelled if cancelled is not None and cancelled.speaks_of(event.request) else None


def _nothing_unrecorded(p: Placeholder) -> Placeholder:
    owes = isinstance(p.payload, RefusedState) and p.payload.unrecorded
    return replace(p, payload=RefusedState()) if owes else p


def _with_members(p: Placeholder, refs: tuple[e.MemberRef, ...], slots: tuple[int, ...] = ()) -> Placeholder:
    """Take over the members and their slots. One that has finished gives its slot to its successor.

    One that is not named any more and waits for a node has left the workload.
    """
    if p.state is State.GONE:
        return p  # Pods that come now are another workload, which has the same key once this one is forgotten
    known = {member.ref.uid: member for member in p.members}
    # Names that kube-scheduler gave before the watch showed the Pod may be false.
    named = tuple(replace(known[ref.uid], ref=ref) if ref.uid in known else Member(ref) for ref in refs)
    if slots:  # a slot is for a Pod that is there: one that had ended is back, of an etcd that was restored
        named = tuple(Member(member.ref) if member.end else member for member in named)
        named = tuple(replace(member, slot=slot) for member, slot in zip(named, slots, strict=True))
    uids, taken = {ref.uid for ref in refs}, set(slots)
    gone = (slot in taken if slots else True for slot, _ in p.by_slot)
    stay = (one for one, left in zip(p.members, gone, strict=True) if not ((one.end and left) or one.wanting))
    members = named + tuple(member for member in stay if member.ref.uid not in uids)
    return p if members == p.members else _without_nodes_of_moved(p, replace(p, members=members))


def _without_nodes_of_moved(before: Placeholder, after: Placeholder) -> Placeholder:
    """Take the nodes from members that wait and have another slot now: the next read gives them those of their slots.

    A member of which a start did not know the slot was counted through the free ones, and may get another one.
    """
    if not isinstance(after.payload, GrantedState | BoundState) or not after.is_gang:
        return after
    slots = {member.ref.uid: slot for slot, member in before.by_slot}
    moved = {m.ref.uid for slot, m in after.by_slot if m.wanting and slots.get(m.ref.uid, slot) != slot}
    kept = tuple(one for one in after.allocation if one[0] not in moved)
    return after if kept == after.allocation else replace(after, payload=replace(after.payload, allocation=kept))


def _with_returned(p: Placeholder, event: e.PodBound, ref: e.MemberRef, slot: int) -> Placeholder:
    """Give a member that comes back its slot of the job, before one that is unknown, or that only waits for that slot.

    It gets none where the job is another one, or has no more the node for which the Pod was bound, or where another
    Pod runs there.
    """
    job, there = p.payload.job, [one for number, one in p.by_slot if number == slot]
    if job is None or job.job_id != event.job_id or any(one.placed and not one.unknown for one in there):
        return p
    if job.slots and not (p.has_node_for(slot) and job.slots[slot] == event.slurm_node):
        return p
    if job.slurm_nodes and event.slurm_node not in job.slurm_nodes:
        return p
    left = {ref.uid, *(one.ref.uid for one in there)}
    p = replace(p, members=(*(one for one in p.members if one.ref.uid not in left), Member(ref, slot)))
    if isinstance(p.payload, GrantedState | BoundState):
        others = (one for one in p.allocation if one[0] not in left)
        p = replace(p, payload=replace(p.payload, allocation=tuple(sorted((*others, (ref.uid, event.node))))))
    return p


def _gone(p: Placeholder, event: e.PodGone) -> Placeholder:
    if event.never:
        return replace(p, members=tuple(one for one in p.members if one.ref.uid != event.uid))
    return _member(p, event.uid, binding=False, end=event.how, outcome=event.outcome)


def _member(p: Placeholder, uid: str, **changes: object) -> Placeholder:
    return replace(
        p,
        members=tuple(
            replace(member, **changes) if member.ref.uid == uid else member  # type: ignore[arg-type]
            for member in p.members
        ),
    )


def about_other_job(p: Placeholder, event: e.Event, probe_at: float) -> tuple[Placeholder, list[c.Command]] | None:
    """Handle an event about a job that is not this workload's. `None`: it is about this one, or about no job.

    A live one is a duplicate: it is cancelled, repeatedly until its end is observed. While an answer is out, an unknown
    job may be the requested one: it is left alone, and a second probe is due at the instant `probe_at`.
    """
    match event:
        case e.SubmitAccepted():
            expected = p.state is State.SUBMITTING and event.attempt == p.attempt
            return None if expected or event.job_id == p.job_id else _with_duplicates(p, {event.job_id})
        case e.ProbeAnswered() if p.state is not State.UNSURE:
            awaited = p.attempt if p.state is State.SUBMITTING else None
            # A leader that found no job counts attempts from one: a late one of an older leader may bear the number.
            # Its own user may have submitted a job that is not certain: it is no duplicate.
            certain = [job for job in event.jobs if job.certain]
            left = {job.job_id for job in certain if job.attempt == awaited and not job.older}
            after, ends = _with_duplicates(p, {job.job_id for job in certain} - left - {p.job_id})
            return (_probe_again(after, probe_at) if left else after), ends
        case e.ProbeFailed() if p.state is not State.UNSURE:
            return _probe_again(p, probe_at), []
        case _ if isinstance(event, _ABOUT_A_JOB) and event.job_id != p.job_id:
            ended = (isinstance(event, e.JobEnded) and not event.alive) or (
                isinstance(event, e.CancelAnswered) and event.job_ended
            )
            if ended:
                return replace(p, duplicate_jobs=p.duplicate_jobs - {event.job_id}), []
            if event.job_id in p.duplicate_jobs or not isinstance(event, (*_LIVE, e.JobEnded)):
                return p, []
            if p.state in _UNDECIDED:
                return _probe_again(p, probe_at), []
            return _with_duplicates(p, {event.job_id})
        case _:
            return None


def _probe_again(p: Placeholder, probe_at: float) -> Placeholder:
    return p if p.reprobe_at is not None else replace(p, reprobe_at=probe_at)


def _with_duplicates(p: Placeholder, jobs: set[int]) -> tuple[Placeholder, list[c.Command]]:
    new = jobs - p.duplicate_jobs
    cancels: list[c.Command] = [c.CancelJob(job, DUPLICATE) for job in sorted(new)]
    return replace(p, duplicate_jobs=p.duplicate_jobs | new), cancels
