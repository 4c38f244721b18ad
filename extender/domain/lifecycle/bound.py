"""BOUND: every live member is bound to its node of the allocation."""

from __future__ import annotations

from extender.domain import commands as c
from extender.domain import events as e
from extender.domain.job_outcomes.transition_table import states_after
from extender.domain.jobs.changes import can_follow_running
from extender.domain.lifecycle.granted import lacks_nodes, release_unusable
from extender.domain.lifecycle.kept import keep_for_next
from extender.domain.lifecycle.rules import At, StateRules, Step
from extender.domain.lifecycle.taken_nodes import MOST_NAMED, end_stranded, is_smaller, lose_nodes, request_ends
from extender.domain.lifecycle.transitions import (
    announce,
    follow_job,
    infer_submitted_request,
    limit_after,
    lose_allocation,
    new_request_of_running,
    release_job,
    report_ineffective,
    with_payload,
)
from extender.domain.placeholder import Placeholder, State
from extender.domain.printable import enumerated
from extender.domain.renewal import replace
from extender.domain.states import BoundState, GrantedState
from extender.domain.wellknown import Reason


def _pod_gone(p: Placeholder, bound: BoundState, _event: e.Event, at: At) -> Step:
    """End the job once the last Pod on its nodes is gone, and no other incarnation may come."""
    if not p.job_occupied:
        return keep_for_next(p, bound, at) or release_job(p, "its Pod is over", at)
    if bound.kept_until:
        bound = replace(bound, kept_until=0.0, doubted_since=None)
        p = replace(p, payload=bound)
    if p.is_stranded:
        return end_stranded(p, bound, at)
    if bound.taken_at and p.wants and not p.stranded:
        return p, [c.ReadJob(bound.job.job_id)]
    return p, []


def _job_ended(p: Placeholder, _bound: BoundState, event: e.JobEnded | e.JobEnding | e.JobWaiting, at: At) -> Step:
    """Follow a job that ended, lost its nodes, or announced its end: the grace period of its Pods starts now."""
    return follow_job(p, State.BOUND, event, at)


def _still_runs(p: Placeholder, bound: BoundState, event: e.JobGranted, at: At) -> Step:
    """Handle a read of a running job; it has other nodes than its Pods if it was requeued between two reads.

    Slurm's own names show that. The Kubernetes nodes that they stand for may be forgotten or corrected at any time (a
    label, a cache), which ends no Pod.
    """
    limit_at = limit_after(bound.limit_at, event, at)
    if limit_at != bound.limit_at:
        bound = replace(bound, limit_at=limit_at)
    job = bound.job
    if event.slurm_nodes == job.slurm_nodes:
        bound = _as_read(bound, event)
    if event.slurm_nodes == job.slurm_nodes or not (job.slurm_nodes and event.slurm_nodes):
        return _with_successors(p, bound, event, at) if p.wants else _update(p, bound)
    if is_smaller(job, event):
        after, commands = lose_nodes(p, bound, event, at)
        if isinstance(after.payload, BoundState) and after.wants:
            after, more = _with_successors(after, after.payload, event, at)
            commands += more
        return after, commands
    text = f"Slurm moved job {event.job_id} to other nodes."
    return lose_allocation(p, e.EndKind.REQUEUED, text, at, job_alive=True)


def _as_read(bound: BoundState, event: e.JobGranted) -> BoundState:
    """Take over the devices and slots of a job on the same nodes; one that kept what Slurm took back cannot shrink."""
    job, devices = bound.job, tuple(sorted(event.devices.items()))
    if event.devices and devices != job.devices:
        job = replace(job, devices=devices)
    if len(event.slots) > len(job.slots):
        job = replace(job, slots=event.slots)
    if bound.returned:
        bound, job = replace(bound, vacated=(), returned=False), replace(job, unshrinkable=e.Unshrinkable.JOB)
    return bound if job is bound.job else replace(bound, job=job)


def _with_successors(p: Placeholder, bound: BoundState, event: e.JobGranted, at: At) -> Step:
    """Give members that came later the slots of the running job that are free.

    A job that was kept for the next incarnation is released if it holds less than that needs. Where only Nodes are
    missing, they may come back for a short time.
    """
    if not p.job_occupied and (event.lacking or lacks_nodes(p, event)):
        since = at.now if bound.doubted_since is None else bound.doubted_since
        if event.lacking or at.now - since >= at.timing.doubt:
            return release_unusable(p, event, at)
        return _update(replace(p, timer_at=at.now + at.timing.busy), replace(bound, doubted_since=since))
    if bound.vacated or p.stranded or lacks_nodes(p, event):
        return _update(p, bound)
    allocation = tuple(sorted(event.allocation.items()))
    granted = GrantedState(bound.job, allocation, limit_at=bound.limit_at, successors=True)
    p = replace(p, payload=granted, timer_at=at.now + at.timing.busy)
    nodes = enumerated("Node", sorted({p.node_of(m.ref.uid) for m in p.members if m.wanting}), MOST_NAMED)
    return p, [announce(p, Reason.JOB_GRANTED, f"Slurm job {event.job_id} has {nodes} for a Pod that came later.")]


def _request_changed(p: Placeholder, bound: BoundState, _event: e.PodWanted, _at: At) -> Step:
    """Send a changed request, of which Slurm applies little to a running job. A later member gets a free slot."""
    after, commands = _update(infer_submitted_request(p), bound)
    return after, [*commands, *([c.ReadJob(bound.job.job_id)] if after.wants else [])]


def _update(p: Placeholder, bound: BoundState) -> Step:
    """Update the running job to what its Pods request now, as far as Slurm changes that; report the rest once."""
    p = with_payload(p, bound)
    if bound.updating:
        return p, []
    p, request = new_request_of_running(p, bound.job)
    if request is None or p.submitted_request is None:
        return p, []
    if not can_follow_running(p.submitted_request, request):
        return report_ineffective(p, bound, request)
    job = bound.job
    command = c.UpdateJob(job.job_id, p.submitted_request, request, None, job.excluded_sent, job.mode)
    return replace(p, payload=replace(bound, updating=True)), [command]


def _update_answered(p: Placeholder, bound: BoundState, event: e.UpdateAnswered, _at: At) -> Step:
    """Record the outcome of an update of the running job; an unknown one is followed up at the next read."""
    if not bound.updating:
        return p, []
    bound = replace(bound, updating=False)
    if event.done is None:
        return replace(p, payload=bound), []
    if event.done:
        p = replace(p, submitted_request=event.request)
        bound = replace(bound, job=replace(bound.job, rejected_update=None))
        announcement = announce(
            p, Reason.JOB_UPDATED, f"Slurm job {event.job_id} was updated to the Pod's new settings."
        )
    else:
        bound = replace(bound, job=replace(bound.job, rejected_update=event.request))
        text = f"Slurm job {event.job_id} keeps its previous settings: {event.text}"
        announcement = announce(p, Reason.JOB_UPDATE_REJECTED, text, True)
    after, commands = _update(p, bound)
    return after, [announcement, *commands]


def _vacated(p: Placeholder, bound: BoundState, event: e.NodesVacated, _at: At) -> Step:
    """Return nodes without a member to Slurm, one request at a time."""
    used = {p.slurm_node_of(member.ref.uid) for member in p.members if not member.end}
    unused = tuple(node for node in bound.job.slurm_nodes if node in event.slurm_nodes and node not in used)
    kept = tuple(node for node in bound.job.slurm_nodes if node not in unused)
    if bound.vacated or bound.job.unshrinkable or not unused or not kept or not bound.job.slots:
        return p, []
    if event.forbidden:
        return replace(p, payload=replace(bound, job=replace(bound.job, unshrinkable=e.Unshrinkable.SITE))), []
    return replace(p, payload=replace(bound, vacated=unused)), [c.ShrinkJob(bound.job.job_id, kept)]


def _shrink_answered(p: Placeholder, bound: BoundState, event: e.ShrinkAnswered, _at: At) -> Step:
    """Record whether Slurm took the nodes back; a read shows which nodes the job has."""
    if not bound.vacated:
        return p, []
    if event.done:
        return replace(p, payload=replace(bound, returned=True)), [c.ReadJob(event.job_id)]
    nodes = enumerated("Slurm node", bound.vacated, MOST_NAMED)
    bound = replace(bound, vacated=())
    if event.done is None:
        return replace(p, payload=bound), [c.ReadJob(event.job_id)]
    bound = replace(bound, job=replace(bound.job, unshrinkable=event.refused_for))
    text = f"Slurm job {event.job_id} keeps {nodes} until the job ends, although no member is there: {event.text}"
    refs = tuple(m.ref for m in p.members if not (m.end or m.unknown))[:1]
    commands: list[c.Command] = [c.Announce(refs, Reason.GANG_NODES_KEPT, text)]
    return replace(p, payload=bound), [*commands, *([c.ReadJob(event.job_id)] if p.wants else [])]


def _end_answered(p: Placeholder, _bound: BoundState, event: e.EvictAnswered, _at: At) -> Step:
    """Report how much of its grace period a member is given whose node Slurm took."""
    return p, ([announce(p, Reason.GRACE_PERIOD_SHORTENED, event.shortened, True)] if event.shortened else [])


def _timer(p: Placeholder, bound: BoundState, _event: e.TimerFired, at: At) -> Step:
    """Repeat the end of members whose nodes Slurm took. The time limit may be near: the read shows how near."""
    if not p.job_occupied:
        if p.wants:  # the read that gives them their nodes is repeated
            again = at.now + at.timing.busy
            limit_at = None if bound.limit_at is None else max(bound.limit_at, again)
            kept = replace(bound, kept_until=max(bound.kept_until, again), limit_at=limit_at)
            return replace(p, payload=kept, timer_at=again), [c.ReadJob(bound.job.job_id)]
        if at.now >= bound.kept_until:
            return release_job(p, "its Pods are over, and no others came", at)
    p, commands = request_ends(p, bound, at)
    if not isinstance(p.payload, BoundState) or bound.limit_at is None or at.now < bound.limit_at:
        return p, commands
    read = c.ReadJob(bound.job.job_id)
    return replace(p, payload=replace(p.payload, limit_at=at.now + at.timing.cancel_retry)), [*commands, read]


_UNKEPT = (State.RELEASING, State.ABSENT, State.SUBMITTING, State.REFUSED, State.GONE)
"""States after the end of a job that was kept for the next incarnation: no member runs on it."""

RULES = StateRules(BoundState)
RULES.on(_pod_gone, e.PodGone, e.PodBound, e.BindFailed, to=(State.RELEASING, State.LOST))
RULES.on(_job_ended, e.JobEnded, to=(*states_after(e.JobEnded, State.BOUND), *_UNKEPT))
RULES.on(_job_ended, e.JobEnding, to=(*states_after(e.JobEnding, State.BOUND), State.RELEASING))
RULES.on(_job_ended, e.JobWaiting, to=(*states_after(e.JobWaiting, State.BOUND), State.RELEASING))
RULES.on(_still_runs, e.JobGranted, to=(State.LOST, State.GRANTED, State.RELEASING))
RULES.on(_request_changed, e.PodWanted)
RULES.on(_update_answered, e.UpdateAnswered)
RULES.on(_vacated, e.NodesVacated)
RULES.on(_shrink_answered, e.ShrinkAnswered)
RULES.on(_end_answered, e.EvictAnswered)
RULES.on(_timer, e.TimerFired, to=(State.RELEASING,))
RULES.ignore("settings that change after the grant have no effect", e.PodRefused)
RULES.ignore("excluded nodes matter to pending jobs only", e.SlurmSnapshotChanged)
RULES.ignore("a bound Pod is not placed again", e.CandidatesChanged)
RULES.ignore("recorded; a Pod that is terminating still runs", e.PodEnding)
RULES.ignore("recorded; its outcome follows", e.BindStarted)
RULES.ignore_late_answers(e.UpdateAnswered, e.NodesVacated, e.ShrinkAnswered, e.EvictAnswered)
