"""GRANTED: Slurm allocated nodes, and not every member is bound yet."""

from __future__ import annotations

from extender.domain import commands as c
from extender.domain import events as e
from extender.domain.backoff import Backoff
from extender.domain.job_outcomes.transition_table import TRANSITIONS, JobCondition, states_after
from extender.domain.jobs.changes import can_follow_running
from extender.domain.jobs.resize import outgrown
from extender.domain.lifecycle.kept import keep_for_next
from extender.domain.lifecycle.rules import At, StateRules, Step
from extender.domain.lifecycle.taken_nodes import end_stranded, is_smaller, lose_nodes
from extender.domain.lifecycle.transitions import (
    announce,
    delay_next_attempt,
    enter_bound,
    enter_waiting,
    find_job_of_binding,
    follow_job,
    infer_submitted_request,
    limit_after,
    lose_allocation,
    new_request_of_running,
    release_job,
    release_misbound,
    report_ineffective,
    send_exclusions,
    with_payload,
)
from extender.domain.placeholder import Placeholder, State
from extender.domain.renewal import replace
from extender.domain.states import BoundState, GrantedState, PlaceholderJob, WaitingState
from extender.domain.wellknown import Reason

_COLUMNS = (State.GRANTED, State.BOUND)


def needs_check(before: Placeholder, event: e.Event, after: Placeholder) -> bool:
    """Return whether the engine checks the allocation after this step: its nodes are new, or to be tried again."""
    payload = after.payload
    if not isinstance(payload, GrantedState) or payload.cleared:
        return False
    granted_now = before.state is not State.GRANTED or before.allocation != payload.allocation
    return granted_now or isinstance(event, e.BindFailed | e.TimerFired)


def accept_grant(p: Placeholder, granted: GrantedState, event: e.JobGranted, at: At) -> Step:
    """Enter GRANTED or BOUND with the nodes that Slurm gave the job; release a job whose nodes cannot be used.

    `p` may be in WAITING, its job with the nodes of the event already.
    """
    if (lacks_nodes(p, event) or event.lacking) and not p.job_occupied:
        return release_unusable(p, event, at)
    limit_at = limit_after(granted.limit_at, event, at)
    granted = replace(granted, allocation=tuple(sorted(event.allocation.items())), cleared=False, limit_at=limit_at)
    p = replace(p, payload=granted)
    for member in p.members:
        if member.placed and member.node and member.node != p.node_of(member.ref.uid):
            return _bound_to_other_node(p, member.node, member.job_id, at)
    if p.stranded:  # a start found them; those that want a node get one afterwards
        bound = BoundState(granted.job, granted.allocation, granted.limit_at)
        return end_stranded(replace(p, payload=bound, failures=0, timer_at=None), bound, at)
    if not p.wants and all(m.node or m.unknown for m in p.members if m.placed):
        return enter_bound(p, granted.job, granted.allocation, granted.limit_at), []
    nodes = ", ".join(sorted(set(event.allocation.values())))
    reason = TRANSITIONS[JobCondition.RUNNING][State.WAITING].event or Reason.JOB_GRANTED
    announcement = announce(p, reason, f"Slurm job {event.job_id} was given {nodes}.")
    return replace(p, timer_at=at.now + at.timing.busy), [announcement]


def release_unusable(p: Placeholder, event: e.JobGranted, at: At) -> Step:
    """Release a job that no Pod runs on, and whose grant cannot be used; an Event says why."""
    text = event.lacking or _why_unusable(p, event)
    return release_job(delay_next_attempt(p, at), text, at, announce(p, Reason.ALLOCATION_RELEASED, text, True))


def _why_unusable(p: Placeholder, event: e.JobGranted) -> str:
    if event.allocation and not event.unmapped:  # the gang grew while Slurm started the job
        members = sum(not (member.end or member.unknown) for member in p.members)
        found = f"has nodes for {len(event.allocation)} of {members} members"
        return f"Slurm job {event.job_id} {found}; it is released, and another one is submitted."
    nodes = ", ".join(event.unmapped) or "no node"
    return f"Slurm allocated {nodes}, for which Kubernetes has no Node; the job is released."


def lacks_nodes(p: Placeholder, event: e.JobGranted) -> bool:
    """Return whether Kubernetes has no Node for some node of the grant, or the grant none for some member."""
    needing = (m.ref.uid for m in p.members if not (m.end or m.unknown))
    return bool(event.unmapped) or any(uid not in event.allocation for uid in needing)


def _granted_again(p: Placeholder, granted: GrantedState, event: e.JobGranted, at: At) -> Step:
    """Update the grant of a job that still runs: its time limit, or its nodes after a requeue between two reads."""
    limit_at = limit_after(granted.limit_at, event, at)
    if limit_at != granted.limit_at:
        granted = replace(granted, limit_at=limit_at)
    if is_smaller(granted.job, event) and p.job_occupied:
        return _has_fewer_nodes(p, granted, event, at)
    allocation = tuple(sorted(event.allocation.items()))
    # The nodes may have no Kubernetes name any more; or another one, while a Binding is under way.
    same_nodes = event.slurm_nodes == granted.job.slurm_nodes and (
        not allocation or (p.job_occupied and bool(event.slurm_nodes))
    )
    later = any(m.wanting and m.ref.uid in event.allocation and not p.node_of(m.ref.uid) for m in p.members)
    if allocation == granted.allocation or (same_nodes and not later):
        return with_payload(p, granted), []
    granted = replace(granted, job=job_with_nodes(granted.job, event))
    p = replace(p, payload=granted, reason="")
    if p.job_occupied and lacks_nodes(p, event):
        text = f"Slurm moved job {event.job_id} to other nodes."
        return lose_allocation(p, e.EndKind.REQUEUED, text, at, job_alive=True)
    return accept_grant(p, granted, event, at)


def _has_fewer_nodes(p: Placeholder, granted: GrantedState, event: e.JobGranted, at: At) -> Step:
    """Continue without the nodes that Slurm took, unless members start together that need them."""
    if granted.successors:
        bound = BoundState(granted.job, granted.allocation, granted.limit_at)
        return lose_nodes(replace(p, payload=bound, timer_at=None), bound, event, at)
    granted = replace(granted, job=job_with_nodes(granted.job, event))
    p = replace(p, payload=granted, reason="")
    if p.stranded or lacks_nodes(p, event):
        text = f"Slurm took nodes from job {event.job_id} before all of its Pods were bound."
        return lose_allocation(p, e.EndKind.NODE_TAKEN, text, at, job_alive=True)
    return accept_grant(p, granted, event, at)


def job_with_nodes(job: PlaceholderJob, event: e.JobGranted) -> PlaceholderJob:
    """Return the job with the nodes and devices of a grant."""
    devices = tuple(sorted(event.devices.items()))
    return replace(job, slurm_nodes=event.slurm_nodes, slots=event.slots, devices=devices)


def _bound_to_other_node(p: Placeholder, node: str, job_id: int | None, at: At) -> Step:
    """Handle a member on another node than its job's. If the extender bound it, Slurm may give that node to others."""
    if job_id is None:
        return release_misbound(p, node, at)
    text = f"The Pod was bound to {node} for Slurm job {job_id}, which does not have that node."
    return lose_allocation(p, e.EndKind.REQUEUED, text, at, job_alive=True)


def _fits(p: Placeholder, granted: GrantedState, _event: e.AllocationFits, at: At) -> Step:
    """Offer the nodes, since the kubelet would admit every member, and make kube-scheduler try the members."""
    if granted.cleared:
        return p, []
    again = granted.offered_at is not None
    wakes: list[c.Command] = [
        c.WakePod(m.ref, node, granted.job.job_id, again)
        for m in p.members
        if m.wanting and (node := p.node_of(m.ref.uid))
    ]
    if granted.failed_wakes:  # where the API server rejects the grant, the time since the first try counts
        return replace(p, payload=replace(granted, cleared=True), timer_at=None), wakes
    cleared = replace(granted, cleared=True, offered_at=at.now)
    return replace(p, payload=cleared, timer_at=None, reason=""), wakes


def _woken(p: Placeholder, granted: GrantedState, event: e.WakeAnswered, at: At) -> Step:
    """Record whether the grant is written on the Pod; if it is not, write it again later and report why in an Event."""
    if event.accepted:
        if not granted.failed_wakes:
            return p, []
        return replace(p, payload=replace(granted, failed_wakes=0, offered_at=at.now), reason=""), []
    text = f"The grant of Slurm job {p.job_id} cannot be written on the Pod: {event.text}"
    announcements: list[c.Command] = [announce(p, Reason.POD_PATCH_FORBIDDEN, text, True)] if text != p.reason else []
    wait = Backoff(at.timing.busy, at.timing.retry_most).after(granted.failed_wakes + 1)
    failed = replace(granted, cleared=False, failed_wakes=granted.failed_wakes + 1)
    return replace(p, payload=failed, reason=text, timer_at=at.now + wait), announcements


def _busy(p: Placeholder, granted: GrantedState, event: e.AllocationBusy, at: At) -> Step:
    """Check the node again soon, since a terminating Pod still occupies it."""
    announcements: list[c.Command] = [announce(p, Reason.NODE_BUSY, event.text)] if event.text != p.reason else []
    after = replace(p, payload=replace(granted, cleared=False), reason=event.text, timer_at=at.now + at.timing.busy)
    return after, announcements


def _unusable(p: Placeholder, granted: GrantedState, event: e.AllocationMisfits | e.NodeRefused, at: At) -> Step:
    """Release the job, since Kubernetes cannot use a node, and submit another without that node.

    Pods that run on the job keep it. If it is lost, the next one is submitted without the node. A member that came
    later is notified that it waits for the node; after a start, this event is what says that it did.
    """
    if not p.job_occupied:
        return _release_for(p, event.node, event.text, at)
    p = replace(p, refused_nodes=p.refused_nodes | {event.node})
    member = p.member(event.later) if isinstance(event, e.NodeRefused) else None
    if member is None:
        return p, []
    text = f"This Pod waits for Node {event.node} of Slurm job {p.job_id}; the other members continue. {event.text}"
    announcement = c.Announce((member.ref,), Reason.JOB_PENDING, text, True)
    return replace(p, payload=replace(granted, successors=True)), [announcement]


def _unfenced(p: Placeholder, _granted: GrantedState, event: e.AllocationUnfenced, at: At) -> Step:
    """Release the job, since a granted node has no fence any more. The next job has a script."""
    if p.job_occupied:
        return p, []
    return release_job(
        delay_next_attempt(p, at), event.text, at, announce(p, Reason.ALLOCATION_RELEASED, event.text, True)
    )


def _release_for(p: Placeholder, node: str, text: str, at: At) -> Step:
    announcement = announce(
        p, Reason.ALLOCATION_RELEASED, f"Node {node} of Slurm job {p.job_id} is released: {text}", True
    )
    p = delay_next_attempt(replace(p, refused_nodes=p.refused_nodes | {node}), at)
    return release_job(p, f"Node {node}: {text}", at, announcement)


def _updated(p: Placeholder, _granted: GrantedState, event: e.UpdateAnswered, _at: At) -> Step:
    """Record that the job was updated just before Slurm started it."""
    return (replace(p, submitted_request=event.request) if event.done else p), []


def _candidates(p: Placeholder, granted: GrantedState, event: e.CandidatesChanged, at: At) -> Step:
    """Count a granted node as refused if kube-scheduler's full lists lack it, twice and for some seconds."""
    if event.computed:
        return p, []  # kube-scheduler itself reports a node that became unsuitable
    lacking = next((node for _, node in granted.allocation if node not in event.candidates), None)
    if lacking is None or p.job_occupied:
        return replace(p, payload=replace(granted, missing_since=None, offered_at=at.now)), []
    if granted.missing_since is None:
        return replace(p, payload=replace(granted, missing_since=at.now)), []
    if at.now - granted.missing_since <= at.timing.refused_by_scheduler:
        return p, []
    return _release_for(p, lacking, "kube-scheduler does not offer it.", at)


def _bind_failed(p: Placeholder, granted: GrantedState, _event: e.BindFailed, at: At) -> Step:
    """Check the node again after a failed Binding, before it is offered once more."""
    if not (p.wants or p.job_occupied):
        return release_job(p, "its Pod does not wait for it any more", at)
    return replace(p, payload=replace(granted, cleared=False), timer_at=at.now + at.timing.busy), []


def _bound(p: Placeholder, granted: GrantedState, event: e.PodBound, at: At) -> Step:
    """Handle a Binding of a member."""
    if event.job_id not in {None, p.job_id}:
        return find_job_of_binding(p, event.job_id, at)
    if event.node != p.node_of(event.uid):
        return _bound_to_other_node(p, event.node, event.job_id, at)
    if p.unsettled:
        return p, []
    return enter_bound(p, granted.job, granted.allocation, granted.limit_at), []


def _requeued(p: Placeholder, granted: GrantedState, event: e.JobWaiting, at: At) -> Step:
    """Wait for nodes again, since Slurm took them back and queues the job again."""
    if p.job_occupied:
        return follow_job(p, State.GRANTED, event, at)
    waiting = WaitingState(replace(granted.job, slurm_nodes=(), slots=(), devices=()))
    return send_exclusions(enter_waiting(replace(p, reason=event.reason), waiting, at), waiting)


def _ended(p: Placeholder, _granted: GrantedState, event: e.JobEnded | e.JobEnding, at: At) -> Step:
    """Follow a job that ended, or announced its end, between the grant and the Binding."""
    return follow_job(p, State.GRANTED, event, at)


def _pod_left(p: Placeholder, granted: GrantedState, _event: e.Event, at: At) -> Step:
    """Handle a member that leaves before all are bound."""
    if p.unsettled:
        return p, []
    if p.job_occupied:
        return enter_bound(p, granted.job, granted.allocation, granted.limit_at), []
    kept = BoundState(granted.job, granted.allocation, granted.limit_at)
    return (keep_for_next(p, kept, at) if granted.successors else None) or release_job(p, "its Pod is over", at)


def _request_changed(p: Placeholder, granted: GrantedState, event: e.PodWanted, at: At) -> Step:
    """Release the job of a Pod that grew.

    Slurm changes little of a job that has its nodes, and only once Pods run on it. A member that came
    after the grant gets a free slot after a read. One that fits into no slot leaves.
    """
    p = infer_submitted_request(p)
    if not p.unsettled:
        return _pod_left(p, granted, event, at)
    if any(member.wanting and not p.node_of(member.ref.uid) for member in p.members):
        return p, [c.ReadJob(granted.job.job_id)]
    if p.request is None or p.submitted_request is None or can_follow_running(p.submitted_request, p.request):
        return p, []
    if (more := outgrown(p.submitted_request, p.request)) and not p.job_occupied:
        text = f"The Pod now requests {more}: its job is released, and another one is submitted."
        return release_job(p, text, at, announce(p, Reason.ALLOCATION_RELEASED, text, True))
    p, request = new_request_of_running(p, granted.job)
    if request is None or p.submitted_request is None or can_follow_running(p.submitted_request, request):
        return p, []
    return report_ineffective(p, granted, request)


def _timer(p: Placeholder, granted: GrantedState, _event: e.TimerFired, at: At) -> Step:
    """Check the nodes again. For members that run, the time limit may be near: the read shows how near."""
    reads: list[c.Command] = []
    if p.job_occupied and granted.limit_at is not None and at.now >= granted.limit_at:
        p = replace(p, payload=replace(granted, limit_at=at.now + at.timing.cancel_retry))
        reads.append(c.ReadJob(granted.job.job_id))
    return (p if granted.cleared else replace(p, timer_at=at.now + at.timing.busy)), reads


RULES = StateRules(GrantedState)
RULES.on(_granted_again, e.JobGranted, to=(State.RELEASING, State.LOST, State.BOUND))
RULES.on(_requeued, e.JobWaiting, to=states_after(e.JobWaiting, *_COLUMNS))
RULES.on(_ended, e.JobEnded, to=states_after(e.JobEnded, *_COLUMNS))
RULES.on(_ended, e.JobEnding, to=states_after(e.JobEnding, *_COLUMNS))
RULES.on(_fits, e.AllocationFits)
RULES.on(_busy, e.AllocationBusy)
RULES.on(_unusable, e.AllocationMisfits, e.NodeRefused, to=(State.RELEASING,))
RULES.on(_unfenced, e.AllocationUnfenced, to=(State.RELEASING,))
RULES.on(_woken, e.WakeAnswered)
RULES.on(_updated, e.UpdateAnswered)
RULES.on(_candidates, e.CandidatesChanged, to=(State.RELEASING,))
RULES.on(_bind_failed, e.BindFailed, to=(State.RELEASING,))
RULES.on(_bound, e.PodBound, to=(State.BOUND, State.RELEASING, State.LOST, State.UNSURE))
RULES.on(_pod_left, e.PodEnding, e.PodGone, to=(State.RELEASING, State.BOUND))
RULES.on(_request_changed, e.PodWanted, to=(State.RELEASING, State.BOUND))
RULES.on(_timer, e.TimerFired)
RULES.ignore("settings that change after the grant have no effect", e.PodRefused)
RULES.ignore("excluded nodes matter to pending jobs only", e.SlurmSnapshotChanged)
RULES.ignore("recorded; its outcome follows", e.BindStarted)
RULES.ignore_late_answers(
    e.AllocationFits,
    e.AllocationBusy,
    e.AllocationMisfits,
    e.AllocationUnfenced,
    e.WakeAnswered,
    e.NodeRefused,
    e.UpdateAnswered,
)
