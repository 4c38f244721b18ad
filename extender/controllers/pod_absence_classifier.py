"""Classify by the checkpoints of Kubernetes why the Pods of orphaned jobs are absent (`domain.jobs.checkpoint`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

import structlog

from extender.domain.jobs.checkpoint import Checkpoint, PodAbsence, why_absent
from extender.domain.ports import CheckpointStore, Clock, PortError
from extender.engine.mass_deletion_guard import RUNBOOK_FOR_MISSING_PODS

_log = structlog.get_logger(__name__)

AGAIN_AFTER = 5.0
"""Seconds before the checkpoints are read again after they could not be."""

TEXTS = {
    PodAbsence.RESTORED: "Kubernetes lacks the checkpoint that was written before the job was submitted: etcd was "
    "restored, or the Lease with the checkpoints was deleted. The job ends after orphans.massGracePeriod. To "
    f"end it now, confirm as in {RUNBOOK_FOR_MISSING_PODS}.",
    PodAbsence.UNREADABLE: "the checkpoints cannot be read, so that nothing shows whether etcd was restored. The job "
    "waits meanwhile, at most for orphans.massGracePeriod",
}


class AbsentPodsOfJob(Protocol):
    """A job whose Pods are absent: the checkpoint that its mark names, and why they are; `None`: not classified yet."""

    checkpoint: Checkpoint | None
    absence: PodAbsence | None


class PodAbsenceClassifier:
    """Classify each absence once, and again where the checkpoints could not be read."""

    def __init__(self, store: CheckpointStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._not_before = 0.0

    async def classify(self, absent: Iterable[AbsentPodsOfJob]) -> None:
        """Set `absence` of those whose Pods are absent now; one reading serves all of them."""
        again = self._clock.now() >= self._not_before
        unclassified = [
            one for one in absent if one.absence is None or (one.absence is PodAbsence.UNREADABLE and again)
        ]
        written = await self._written() if any(one.checkpoint is not None for one in unclassified) else None
        for one in unclassified:
            one.absence = why_absent(one.checkpoint, written)

    async def why(self, checkpoint: Checkpoint | None) -> PodAbsence:
        """Classify one absence by a reading that begins now."""
        return why_absent(checkpoint, await self._written())

    async def _written(self) -> Mapping[str, int] | None:
        """Return the checkpoints that Kubernetes has now; `None`: they cannot be read."""
        try:
            return await self._store.read()
        except PortError as error:
            _log.warning("checkpoints_not_read", error=str(error))
            self._not_before = self._clock.now() + AGAIN_AFTER
            return None
