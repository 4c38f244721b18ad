"""A running job without members that is kept for the next incarnation of its gang (`gang-restart: keep-allocation`)."""

from __future__ import annotations

from extender.domain.events import PodEnd
from extender.domain.jobs.job import GangRestart
from extender.domain.lifecycle.rules import At, Step
from extender.domain.placeholder import Placeholder
from extender.domain.renewal import replace
from extender.domain.states import BoundState


def keep_for_next(p: Placeholder, bound: BoundState, at: At) -> Step | None:
    """Keep the job for a limited time after the last member ended; `None`: the gang does not want that, or succeeded.

    A job that has not the nodes of all slots any more is not kept: the next members start together or not at all. Pods
    that come meanwhile are members of the same workload, and get the slots of their predecessors.
    """
    request = p.submitted_request or p.request
    wanted = request is not None and request.members > 1 and request.restart is GangRestart.KEEP_ALLOCATION
    if not wanted or p.key in {member.ref.uid for member in p.members}:
        return None
    if all(member.end is PodEnd.SUCCEEDED for member in p.members):
        return None
    if not all(map(p.has_node_for, range(p.size))):
        return None
    until = bound.kept_until or at.now + at.timing.replace
    if at.now >= until and not p.wants:
        return None
    kept = replace(bound, kept_until=until, taken_at=0.0, end_repeats=0)
    return replace(p, payload=kept, timer_at=until), []
