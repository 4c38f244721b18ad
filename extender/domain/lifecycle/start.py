"""How a placeholder begins that was there before this process."""

from __future__ import annotations

from collections.abc import Sequence

from extender.domain.jobs.cancelled import Cancelled
from extender.domain.lifecycle.table import UNSURE
from extender.domain.placeholder import Member, Placeholder, Timing
from extender.domain.renewal import replace


def adopted(
    key: str,
    members: Sequence[Member],
    *,
    title: str,
    job_id: int | None,
    now: float,
    timing: Timing,
    cancelled: Cancelled | None = None,
) -> Placeholder:
    """A workload of which only its Pods are known: whether it has a job, and which, is asked of Slurm at once.

    `job_id` is the one recorded on its Pods, `cancelled` what a person said to them; each member on a node says for
    itself for which job it was bound. A request that the process before handed over may still be carried out by a
    stalled slurmctld: whatever is found, there is a second look.
    """
    p = Placeholder(key, UNSURE, title, tuple(members), job_id=job_id, cancelled=cancelled, reason="just started")
    return replace(p, sure_at=now + timing.settle_at_start, wake_at=now, reprobe_at=now + timing.settle)
