"""Say in the status of a PodGroup how far its gang is, as the controllers of its API would."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from extender.domain.gangs.pod_groups import INITIALLY_SCHEDULED, GroupCondition, GroupPhase, GroupProgress
from extender.domain.views import PodView

FINAL = frozenset({GroupPhase.FINISHED, GroupPhase.FAILED})

SCHEDULED, UNSCHEDULABLE = "Scheduled", "Unschedulable"
"""Reasons of Kubernetes' condition (`scheduling/v1alpha2/types.go`)."""

LONGEST_MESSAGE = 1024
"""Characters of the message; the API allows 32,768."""


def progress_of(pods: Sequence[PodView], least: int, before: GroupProgress | None) -> GroupProgress:
    """Return phase and counts of coscheduling's PodGroup, by the rules of its controller.

    A phase that is final stays, also after its Pods are gone.
    """
    if before is not None and before.phase in FINAL:
        return before
    phases = Counter(pod.phase for pod in pods)
    running, succeeded, failed = phases["Running"], phases["Succeeded"], phases["Failed"]
    if succeeded >= least:
        phase = GroupPhase.FINISHED
    elif failed and running + succeeded + failed >= least:
        phase = GroupPhase.FAILED
    elif len(pods) < least:
        phase = GroupPhase.PENDING
    elif running + succeeded >= least:
        phase = GroupPhase.RUNNING
    else:
        phase = GroupPhase.SCHEDULING
    return GroupProgress(phase, running, succeeded, failed)


def condition_of(
    kind: str, pods: Sequence[PodView], least: int, before: GroupCondition | None, *, why: str, now: str
) -> GroupCondition:
    """Return Kubernetes' condition of a PodGroup. `why` says what its Pods wait for, `now` is the time.

    It holds once as many Pods have a node as the PodGroup asks for; all members of a gang get theirs at once. That of
    Kubernetes 1.37 stays True.
    """
    if before is not None and before.holds and before.type == kind == INITIALLY_SCHEDULED:
        return before
    placed = sum(bool(pod.node_name) for pod in pods)
    holds = placed >= least
    reason = SCHEDULED if holds else UNSCHEDULABLE
    message = f"Slurm allocated the nodes of {least} Pods." if holds else why[:LONGEST_MESSAGE]
    same = before is not None and (before.type, before.holds) == (kind, holds)
    since = before.since if same and before is not None and before.since else now
    return GroupCondition(kind, holds, reason, message, since)
