"""GRANTED: Slurm gave nodes, and not every member is bound yet."""

from __future__ import annotations

from extender.domain import commands as c
from extender.domain import events as e
from extender.domain.lifecycle.moves import (
    ANOTHER,
    about_to_end,
    announce,
    claimed,
    doubt,
    ends_at,
    job_ended,
    later,
    lose,
    misplaced,
    release,
    taken,
    wait,
    with_limit,
)
from extender.domain.lifecycle.table import (
    ABSENT,
    BOUND,
    GRANTED,
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


@TABLE.on((WAITING,), (e.JobGranted,), (GRANTED, BOUND, RELEASING, LOST))
@TABLE.on((GRANTED,), (e.JobGranted,), (RELEASING, LOST))
def _granted(p: Placeholder, event: e.JobGranted, at: At) -> Step:
    """Slurm gave nodes."""
    p = with_limit(p, event, at) if p.state is GRANTED else replace(p, limit_at=None)
    allocation = tuple(sorted(event.allocation.items()))
    # They have no Kubernetes name any more; or another one, while a Binding is on its way.
    same_nodes = event.slurm_nodes == p.slurm_nodes and (not allocation or (p.charged and bool(p.slurm_nodes)))
    if p.state is GRANTED and (allocation == p.allocation or same_nodes):
        return p, []
    p = replace(p, slurm_nodes=event.slurm_nodes, job_alive=True, reason="")
    p = replace(p, devices=tuple(sorted(event.devices.items())))
    missing = [m.ref.uid for m in p.members if not m.end and m.ref.uid not in event.allocation]
    if p.charged and (event.unmapped or missing):
        return _moved(p, event, at) if p.state is GRANTED else _unmapped_while_running(p, at)
    if (event.unmapped or missing) and not p.charged and not event.lacking and p.state is WAITING:
        p, sure = doubt(p, at)
        if not sure:
            return p, []
    if (event.unmapped or missing or event.lacking) and not p.charged:
        nodes = ", ".join(event.unmapped) or "no node"
        text = event.lacking or f"Slurm gave {nodes}, for which Kubernetes has no Node; the job is given back."
        return release(later(p, at), text, at, announce(p, Reason.GIVEN_BACK, text, True))
    p = with_limit(replace(p, allocation=allocation, cleared=False), event, at)
    for member in p.members:
        if member.placed and member.node and member.node != p.node_of(member.ref.uid):
            return _elsewhere(p, member.node, member.job_id, at)
    if not p.wants and all(m.node for m in p.members if m.placed):
        return replace(p, state=BOUND, wake_at=None), []
    nodes = ", ".join(sorted(set(event.allocation.values())))
    said = announce(p, Reason.GRANTED, f"Slurm job {event.job_id} was given {nodes}.")
    return replace(p, state=GRANTED, wake_at=at.now + at.timing.busy), [said]


def needs_check(before: Placeholder, event: e.Event, after: Placeholder) -> bool:
    """Return whether the engine checks the allocation after this step: its nodes are new, or to be tried again."""
    if after.state is not GRANTED or after.cleared:
        return False
    granted_now = before.state is not GRANTED or before.allocation != after.allocation
    return granted_now or isinstance(event, e.BindFailed | e.TimerFired)


def _moved(p: Placeholder, event: e.JobGranted, at: At) -> Step:
    return lose(p, e.EndKind.REQUEUED, f"Slurm moved job {event.job_id} to other nodes.", at, alive=True)


def _unmapped_while_running(p: Placeholder, at: At) -> Step:
    """The job of running Pods runs, on nodes that cannot be named just now: nobody is ended for want of a name."""
    if p.wants or any(m.binding for m in p.members):
        return replace(p, wake_at=at.now + at.timing.cancel_retry), []
    # Its time limit is learnt with the next reading.
    stays = tuple(sorted((m.ref.uid, m.node) for m in p.members if m.placed))
    return replace(p, state=BOUND, allocation=stays, wake_at=None), []


def _elsewhere(p: Placeholder, node: str, job_id: int | None, at: At) -> Step:
    """A member is on another node than its job's. One that we bound there runs on what Slurm may give away."""
    if job_id is None:
        return misplaced(p, node, at)
    text = f"The Pod was bound to {node} for Slurm job {job_id}, which does not have that node."
    return lose(p, e.EndKind.REQUEUED, text, at, alive=True)


@TABLE.on((GRANTED,), (e.AllocationFits,), ())
def _fits(p: Placeholder, _event: e.AllocationFits, at: At) -> Step:
    """The node may be handed out: wake the members."""
    if p.cleared or p.job_id is None:
        return p, []
    again = p.offered_at is not None
    wakes: list[c.Command] = [
        c.WakePod(m.ref, p.node_of(m.ref.uid), p.job_id, again) for m in p.members if m.wanting and p.node_of(m.ref.uid)
    ]
    if p.tries:  # of a grant that the API server does not take, the time since the first try counts
        return replace(p, cleared=True, wake_at=None), wakes
    return replace(p, cleared=True, offered_at=at.now, wake_at=None, reason=""), wakes


@TABLE.on((GRANTED,), (e.WakeAnswered,), ())
def _woken(p: Placeholder, event: e.WakeAnswered, at: At) -> Step:
    """A member that could not be woken is woken again, less and less often; its people are told why."""
    if event.accepted:
        return (replace(p, tries=0, offered_at=at.now, reason="") if p.tries else p), []
    text = f"The grant of Slurm job {p.job_id} cannot be written on the Pod: {event.text}"
    said: list[c.Command] = [announce(p, Reason.GRANT_NOT_WRITTEN, text, True)] if text != p.reason else []
    wait = min(at.timing.busy * 2 ** min(p.tries, 10), at.timing.retry_most)
    return replace(p, cleared=False, tries=p.tries + 1, reason=text, wake_at=at.now + wait), said


@TABLE.on((GRANTED,), (e.AllocationBusy,), ())
def _busy(p: Placeholder, event: e.AllocationBusy, at: At) -> Step:
    """Something on the node is about to leave: look again soon."""
    said: list[c.Command] = [announce(p, Reason.NODE_BUSY, event.text)] if event.text != p.reason else []
    return replace(p, cleared=False, reason=event.text, wake_at=at.now + at.timing.busy), said


@TABLE.on((GRANTED,), (e.AllocationMisfits, e.NodeRefused), (RELEASING,))
def _misfits(p: Placeholder, event: e.AllocationMisfits | e.NodeRefused, at: At) -> Step:
    """Kubernetes cannot use the node: give the job back and ask for another."""
    if p.charged:
        return p, []
    return _give_back(p, event.node, event.text, at)


def _give_back(p: Placeholder, node: str, text: str, at: At) -> Step:
    said = announce(p, Reason.GIVEN_BACK, f"Node {node} of Slurm job {p.job_id} is given back: {text}", True)
    p = later(replace(p, refused_nodes=p.refused_nodes | {node}), at)
    return release(p, f"node {node}: {text}", at, said)


@TABLE.on((GRANTED,), (e.CandidatesChanged,), (RELEASING,))
def _offered_while_granted(p: Placeholder, event: e.CandidatesChanged, at: At) -> Step:
    """kube-scheduler's full lists lack the granted node, twice and for some seconds: it is refused."""
    if event.computed:
        return p, []  # of a node that became unsuitable kube-scheduler itself will say so
    lacking = next((node for _, node in p.allocation if node not in event.candidates), None)
    if lacking is None or p.charged:
        return replace(p, missing_since=None, offered_at=at.now), []
    if p.missing_since is None:
        return replace(p, missing_since=at.now), []
    if at.now - p.missing_since <= at.timing.refused_by_scheduler:
        return p, []
    return _give_back(p, lacking, "kube-scheduler does not offer it.", at)


@TABLE.on((GRANTED,), (e.BindFailed,), (RELEASING,))
def _bind_failed(p: Placeholder, _event: e.BindFailed, at: At) -> Step:
    """The Binding did not happen: look at the node again before it is handed out once more."""
    if not (p.wants or p.charged):
        return release(p, "its Pod does not wait for it any more", at)
    return replace(p, cleared=False, wake_at=at.now + at.timing.busy), []


@TABLE.on((GRANTED,), (e.PodBound,), (BOUND, RELEASING, LOST, UNSURE))
def _bound(p: Placeholder, event: e.PodBound, at: At) -> Step:
    """A member is bound."""
    if event.job_id not in {None, p.job_id}:
        return claimed(p, event.job_id, at)
    if event.node != p.node_of(event.uid):
        return _elsewhere(p, event.node, event.job_id, at)
    if p.wants or any(m.binding for m in p.members):
        return p, []
    return replace(p, state=BOUND, wake_at=None), []


@TABLE.on((GRANTED,), (e.JobWaiting,), (WAITING, LOST))
def _requeued(p: Placeholder, event: e.JobWaiting, at: At) -> Step:
    """Slurm took the nodes back and queues the job again."""
    if p.charged:
        return lose(p, e.EndKind.REQUEUED, f"Slurm put job {event.job_id} back into its queue.", at, alive=True)
    return wait(replace(p, allocation=(), slurm_nodes=(), devices=(), reason=event.reason), at)


@TABLE.on((GRANTED,), (e.JobEnded,), (ABSENT, REFUSED, LOST, RELEASING))
def _granted_ended(p: Placeholder, event: e.JobEnded, at: At) -> Step:
    """The job ended between the grant and the Binding."""
    if p.charged:
        return lose(p, event.kind, event.text, at, alive=event.alive)
    if event.alive:
        return taken(p, event, at)
    return job_ended(p, event, at)


@TABLE.on((GRANTED,), (e.JobEnding,), (RELEASING, LOST))
def _granted_ending(p: Placeholder, event: e.JobEnding, at: At) -> Step:
    """Slurm has announced the end of a job whose Pods do not all run yet."""
    text = about_to_end(event)
    if p.charged:
        return lose(replace(p, ends_at=ends_at(event, at)), event.kind, text, at, alive=True)
    return release(later(p, at), text, at, announce(p, Reason.GIVEN_BACK, f"{text} {ANOTHER}", True))


@TABLE.on((GRANTED,), (e.PodEnding, e.PodGone), (RELEASING, BOUND))
def _left_while_granted(p: Placeholder, _event: e.Event, at: At) -> Step:
    """A member leaves before all are bound."""
    if p.wants or any(m.binding for m in p.members):
        return p, []
    if p.charged:
        return replace(p, state=BOUND, wake_at=None), []
    return release(p, "its Pod is over", at)


@TABLE.on((GRANTED,), (e.TimerFired,), ())
def _granted_timer(p: Placeholder, _event: e.TimerFired, at: At) -> Step:
    """Look at the node again."""
    return (p if p.cleared else replace(p, wake_at=at.now + at.timing.busy)), []
