"""Name what the executor of commands needs of the engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from extender.domain import events as e
from extender.engine.cluster_snapshot import ClusterSnapshot
from extender.engine.job_identity import JobIdentity
from extender.engine.job_read_versions import JobReadVersions
from extender.engine.manual_changes import ManualChangeNotifier
from extender.engine.missing_jobs import MissingJobTracker
from extender.engine.partition_backpressure import PartitionBackpressure
from extender.engine.queue import Queue
from extender.engine.units import Units


class EngineContext(Protocol):
    """The state that is known, and the way to send an event."""

    world: ClusterSnapshot
    units: Units
    identity: JobIdentity
    partitions: PartitionBackpressure
    missing_jobs: MissingJobTracker
    job_reads: JobReadVersions
    manual_changes: ManualChangeNotifier
    queue: Queue
    elsewhere: Callable[[str], bool]

    def handle(self, key: str, event: e.Event, cause: str) -> None:
        """Tell a unit what happened."""
