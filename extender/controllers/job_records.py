"""Write the exit codes of Pods into the records of their jobs, after slurmdbd knows that the jobs ended.

Nothing depends on it: what cannot be written is dropped. The ends are kept in memory alone, so a restart of the
extender loses those of the last seconds.
"""

from __future__ import annotations

import structlog

from extender.domain.backoff import Backoff
from extender.domain.job_outcomes.workload_end import WorkloadEnd
from extender.domain.ports import Clock, JobRecords, Recorded
from extender.runtime.controller import Controller, Requeue
from extender.runtime.topics import WorkloadEnded

_log = structlog.get_logger(__name__)

FIRST_AFTER = 5.0
"""Seconds from the request to end a job to the first look: slurmctld reports to slurmdbd within seconds."""

AGAIN_AFTER = 15.0
"""Seconds to the next look at a job whose end slurmdbd does not know yet."""

DROP_AFTER_S = 900.0
"""Seconds for which an end is kept: as long as a job may be COMPLETING, and an outage of slurmdbd is worth it."""

OFF_FOR = 3600.0
"""Seconds without a request after Slurm answered that it keeps no records, or that they may not be changed."""

MOST = 10_000
"""Ends that are kept at a time; further ones are dropped."""

WORKERS = 2
"""Requests at a time: slurmdbd serves them one after the other, and jobs wait for it."""


class JobRecordController:
    """Keys are the ids of jobs."""

    def __init__(self, records: JobRecords, clock: Clock) -> None:
        self._records = records
        self._clock = clock
        self._ends: dict[int, tuple[WorkloadEnd, float]] = {}
        """The end of each job that is to be written, and the time until which it is kept."""

        self._off_until = 0.0
        self._controller = Controller(
            "job records", self._reconcile, workers=WORKERS, backoff=Backoff(AGAIN_AFTER, AGAIN_AFTER * 4)
        )

    def __len__(self) -> int:
        return len(self._ends)

    def job_ended(self, event: WorkloadEnded) -> None:
        """Remember the end of a job."""
        end, now = event.end, self._clock.now()
        if now < self._off_until or (end.job_id not in self._ends and len(self._ends) >= MOST):
            return
        if self._controller.add(end.job_id, after=FIRST_AFTER):
            self._ends.setdefault(end.job_id, (end, now + DROP_AFTER_S))

    async def run(self) -> None:
        """Write records, until cancelled."""
        try:
            await self._controller.run()
        finally:
            self._ends.clear()

    async def _reconcile(self, job_id: int) -> Requeue | None:
        end, until = self._ends.get(job_id, (None, 0.0))
        if end is None:
            return None
        if self._clock.now() > until:
            _log.info("job_record_dropped", job_id=job_id, seconds=DROP_AFTER_S)
            del self._ends[job_id]
            return None
        outcome = await self._records.record(end)
        if outcome is Recorded.NOT_YET:
            return Requeue(AGAIN_AFTER)
        self._ends.pop(job_id, None)
        if outcome in {Recorded.NOT_SERVED, Recorded.REFUSED}:
            self._off(outcome)
        return None

    def _off(self, outcome: Recorded) -> None:
        """Stop asking for a while: every other job would get the same answer."""
        _log.info("job_records_off", why=str(outcome), seconds=OFF_FOR)
        self._off_until = self._clock.now() + OFF_FOR
        self._ends.clear()
