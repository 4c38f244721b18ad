"""Build what judges Pods that the API server does not show: those that a list lacks, and those that a start misses."""

from __future__ import annotations

from collections.abc import Callable

from extender.assembly.adapters import Adapters
from extender.controllers.absent_pods import AbsentPods
from extender.controllers.pod_absence_judge import PodAbsenceJudge
from extender.controllers.unknown_members import UnknownMembers
from extender.domain.pods.claim import Claims
from extender.engine.engine import Engine
from extender.engine.gangs.members import GangMembers
from extender.engine.placeholder_index import PlaceholderIndex


def absent_pods(adapters: Adapters, placeholders: PlaceholderIndex) -> AbsentPods:
    """Return what decides when Pods that a list lacks count as deleted."""
    return AbsentPods(
        adapters.clock,
        adapters.guard,
        placeholders,
        jobs=adapters.jobs,
        pods=adapters.pod_reader,
        judge=PodAbsenceJudge(adapters.checkpoints, adapters.clock),
    )


def unknown_members(
    adapters: Adapters, engine: Engine, gangs: GangMembers, claims: Claims, *, fresh: Callable[[], bool]
) -> UnknownMembers:
    """Return what judges the slots of gangs whose Pods a start does not find."""
    pods = adapters.informers.pods
    return UnknownMembers(
        engine,
        gangs,
        absent_pods(adapters, engine.placeholders),
        jobs=adapters.jobs,
        claims=claims,
        events=adapters.events,
        cache=pods,
        pods=pods.all,
        fresh=fresh,
    )
