"""The end of a Pod whose job ends: the condition that the Pod gets, and its grace period.

`docs/reference/states.md` is generated from this table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from extender.domain.events import EndKind


@dataclass(frozen=True, slots=True)
class EndRule:
    """One kind of end. `reason` is that of the Pod's DisruptionTarget condition."""

    reason: str
    voluntary: bool = False
    """A user cancelled the job, no other job waits: the Eviction API comes first, so that disruption budgets hold."""

    hurried: bool = False
    """Slurm wants the node for others: after KillWait, which it gives its own processes, no container may be left.

    For the others the node is drained for as long as the Pod's own grace lasts.
    """


ENDS: Mapping[EndKind, EndRule] = {
    EndKind.CANCELLED: EndRule("SlurmJobCancelled", voluntary=True),
    EndKind.PREEMPTED: EndRule("PreemptionBySlurm", hurried=True),
    EndKind.TIME_LIMIT: EndRule("SlurmTimeLimit", hurried=True),
    EndKind.NODE_FAILURE: EndRule("SlurmNodeFailure"),
    EndKind.FAILED: EndRule("SlurmJobFailed"),
    EndKind.IMPOSSIBLE: EndRule("SlurmJobFailed"),
    EndKind.REQUEUED: EndRule("SlurmJobRequeued", hurried=True),
    EndKind.SUSPENDED: EndRule("SlurmJobSuspended", hurried=True),
    EndKind.REVOKED: EndRule("SlurmJobRevoked", hurried=True),
    EndKind.VANISHED: EndRule("SlurmJobVanished"),
    EndKind.NODE_TAKEN: EndRule("SlurmNodeTaken", hurried=True),
}


SLACK_S = 2.0
"""A Pod may have this much more time than there is: announcements and polls are no more exact."""


@dataclass(frozen=True, slots=True)
class Grace:
    """The grace period to request for a Pod. `requested` is `None` if it keeps its own; else `why` is a sentence."""

    requested: int | None = None
    why: str = ""


def grace_of_new_end(own_s: int, most_s: float | None, why: str) -> Grace:
    """Return the grace of a Pod that is not terminating yet: its own, or the time that is left.

    Never 0, not even where the Pod asks for it: the API server would remove the Pod at once, and the end of its
    containers would remain unknown.
    """
    least = max(1, own_s)
    if most_s is None or most_s + SLACK_S >= least:
        return Grace(1 if own_s < 1 else None)
    requested = max(1, int(most_s))
    return Grace(requested, _shortened(own_s, requested, why)) if requested < own_s else Grace()


def grace_of_running_end(had_s: int, left_s: float, most_s: float | None, why: str) -> Grace:
    """Return the grace of a Pod that is terminating already, by any request: it can only be shortened.

    The API server counts a second grace from when the first one began (`rest.BeforeDelete`).
    """
    if had_s < 1 or most_s is None or left_s - most_s < SLACK_S:
        return Grace()
    requested = max(1, int(had_s - left_s + max(1.0, most_s)))
    return Grace(requested, _shortened(had_s, requested, why)) if requested < had_s else Grace()


def _shortened(had_s: int, requested_s: int, why: str) -> str:
    return f"Its grace period is shortened from {had_s} s to {requested_s} s: {why}."
