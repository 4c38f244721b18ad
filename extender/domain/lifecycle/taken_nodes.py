"""A running job with fewer nodes than it was given: returned, taken by an administrator, or lost with a failed node.

The members on the nodes that are left go on. Those on nodes that Slurm took are ended with one cause.
"""

from __future__ import annotations

from collections.abc import Sequence

from extender.domain import commands as c
from extender.domain import events as e
from extender.domain.backoff import Backoff
from extender.domain.lifecycle.rules import At, Step
from extender.domain.lifecycle.transitions import end_pods, release_job
from extender.domain.placeholder import Placeholder
from extender.domain.printable import enumerated
from extender.domain.renewal import replace
from extender.domain.states import BoundState, LostState, PlaceholderJob
from extender.domain.wellknown import Reason

MOST_NAMED = 5
"""Nodes that an Event names."""


def is_smaller(job: PlaceholderJob, event: e.JobGranted) -> bool:
    """Return whether the job of a gang has only some of its nodes left."""
    return len(job.slots) > 1 and bool(event.slurm_nodes) and set(event.slurm_nodes) < set(job.slurm_nodes)


def lose_nodes(p: Placeholder, bound: BoundState, event: e.JobGranted, at: At) -> Step:
    """Keep the members on the nodes that the job has left, and end those on the others."""
    taken = tuple(node for node in bound.job.slurm_nodes if node not in event.slurm_nodes)
    vacated = tuple(node for node in bound.vacated if node not in taken)
    job = replace(
        bound.job,
        slurm_nodes=event.slurm_nodes,
        slots=event.slots or bound.job.slots,
        devices=tuple(sorted(event.devices.items())),
    )
    failed = tuple(dict.fromkeys((*bound.failed, *(node for node in taken if node in event.failed))))
    bound = replace(bound, job=job, vacated=vacated, returned=bool(vacated) and bound.returned, failed=failed)
    p = replace(p, payload=bound)
    if not p.job_occupied:
        return release_job(p, _text(job.job_id, taken, _kind(bound, taken)), at)
    return end_stranded(p, bound, at)


def end_stranded(p: Placeholder, bound: BoundState, at: At) -> Step:
    """Request the end of every member on a node that Slurm took.

    If no member is left on the nodes of the job, the job ends, too: a Pod on a dead machine stays as long as its Node.
    """
    return _end_job(p, bound, at) if p.is_stranded else request_ends(p, bound, at)


def request_ends(p: Placeholder, bound: BoundState, at: At) -> Step:
    """Request the end of every member on a node that Slurm took, and repeat that until they are gone."""
    stranded = p.stranded
    if not stranded:
        return (p, []) if not bound.taken_at else (replace(p, payload=_settled(bound)), [])
    announcements: list[c.Command] = []
    causes = {member.ref.uid: _cause(p, bound, member.ref.uid) for member in stranded}
    if not bound.taken_at:
        for cause in dict.fromkeys(causes.values()):
            known = (member for member in stranded if not member.unknown)
            refs = tuple(member.ref for member in known if causes[member.ref.uid] == cause)
            announcements.append(c.Announce(refs, Reason.ALLOCATION_LOST, cause[1], True))
    taken_at = bound.taken_at or at.now
    by = taken_at + at.timing.kill_wait
    ends = [c.EndPod(member.ref, *causes[member.ref.uid], False, by) for member in stranded if member.node]
    repeats = bound.end_repeats + 1 if all(member.ending or member.unknown for member in stranded) else 0
    wait = Backoff(at.timing.end_retry, at.timing.end_retry_most).after(repeats + 1)
    bound = replace(bound, taken_at=taken_at, end_repeats=repeats)
    return replace(p, payload=bound, timer_at=at.now + wait), [*announcements, *ends]


def _end_job(p: Placeholder, bound: BoundState, at: At) -> Step:
    """Enter LOST, where the job is cancelled at once; the stranded members are notified unless they were before."""
    nodes = sorted({p.slurm_node_of(member.ref.uid) for member in p.stranded})
    kind = _kind(bound, nodes)
    text = _text(bound.job.job_id, nodes, kind, "no member is left on the other nodes")
    refs = tuple(member.ref for member in p.stranded if not member.unknown)
    announcements: list[c.Command] = [] if bound.taken_at else [c.Announce(refs, Reason.ALLOCATION_LOST, text, True)]
    lost = LostState(bound.job, bound.allocation, kind, text, bound.taken_at or at.now, job_alive=True)
    return end_pods(replace(p, reason=text), lost, at, announcements)


def _settled(bound: BoundState) -> BoundState:
    return replace(bound, taken_at=0.0, end_repeats=0, failed=())


def _cause(p: Placeholder, bound: BoundState, uid: str) -> tuple[e.EndKind, str]:
    """Return why a member is ended, and the sentence that names all nodes that were lost for this reason."""
    lost = sorted({p.slurm_node_of(member.ref.uid) for member in p.stranded})
    kind = _kind(bound, [p.slurm_node_of(uid)])
    return kind, _text(bound.job.job_id, [node for node in lost if _kind(bound, [node]) is kind], kind)


def _kind(bound: BoundState, nodes: Sequence[str]) -> e.EndKind:
    return e.EndKind.NODE_FAILURE if set(nodes) <= set(bound.failed) else e.EndKind.NODE_TAKEN


def _text(
    job_id: int, nodes: Sequence[str], kind: e.EndKind, others: str = "members on the other nodes continue"
) -> str:
    named = enumerated("Slurm node", nodes, MOST_NAMED)
    if kind is e.EndKind.NODE_FAILURE:
        return f"Slurm job {job_id} lost {named}, which failed; {others}."
    return f"Slurm removed {named} from job {job_id}; {others}."
