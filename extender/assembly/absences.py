"""Build what classifies absent Pods: those that a list of the API server lacks, and those that a start misses."""

from __future__ import annotations

from collections.abc import Callable

from extender.assembly.adapters import Adapters
from extender.controllers.absent_pods import AbsentPods
from extender.controllers.checkpoint_writer import CheckpointWriter
from extender.controllers.gangs.members import GangMembers
from extender.controllers.pod_absence_classifier import PodAbsenceClassifier
from extender.controllers.unknown_members import UnknownMembers
from extender.domain.jobs.checkpoint import writer_id
from extender.domain.placeholders import Placeholders
from extender.domain.pods.allocation_record import AllocationRecords
from extender.domain.pods.deferred_pods import DeferredPods
from extender.engine.engine import Engine


def checkpoint_writer(adapters: Adapters) -> CheckpointWriter:
    """Return what writes the checkpoints that prove a deletion of Pods."""
    clock, rng = adapters.clock, adapters.io_context.rng
    return CheckpointWriter(adapters.checkpoints, clock, lambda: writer_id(clock.wall(), rng.getrandbits(32)))


def absent_pods(adapters: Adapters, placeholders: Placeholders) -> AbsentPods:
    """Return what decides when Pods that a list lacks count as deleted."""
    return AbsentPods(
        adapters.clock,
        adapters.mass_deletion_guard,
        placeholders,
        jobs=adapters.jobs,
        pods=adapters.pod_reader,
        classifier=PodAbsenceClassifier(adapters.checkpoints, adapters.clock),
    )


def unknown_members(
    adapters: Adapters,
    engine: Engine,
    gangs: GangMembers,
    allocation_records: AllocationRecords,
    *,
    deferred: DeferredPods,
    fresh: Callable[[], bool],
) -> UnknownMembers:
    """Return the controller that classifies the slots of gangs whose Pods a start does not find."""
    pods = adapters.informers.pods
    return UnknownMembers(
        engine,
        gangs,
        absent_pods(adapters, engine.placeholders),
        jobs=adapters.jobs,
        allocation_records=allocation_records,
        events=adapters.events,
        cache=pods,
        deferred=deferred,
        pods=pods.all,
        fresh=fresh,
    )
