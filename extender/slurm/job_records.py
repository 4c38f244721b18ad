"""Write the ends of Pods into the accounting of Slurm through slurmrestd: implements `ports.JobRecords`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from extender.domain.job_outcomes.workload_end import WorkloadEnd
from extender.domain.pods.outcome import with_note
from extender.domain.ports import Clock, JobRecords, PortError, Recorded
from extender.slurm.api_requests import ObserveRequest, as_port_error, timed, unobserved
from slurmclient import AuthenticationError, JobRecord, RefusedError, SlurmClient, UnsupportedError


class SlurmrestdJobRecords:
    """Read a record before each write: slurmdbd overwrites what is there when it learns the end of the job."""

    def __init__(self, client: SlurmClient, clock: Clock, *, observe_request: ObserveRequest = unobserved) -> None:
        self._client = client
        self._clock = clock
        self._observe = observe_request

    async def record(self, end: WorkloadEnd) -> Recorded:
        """Write the end of a job, once slurmdbd knows that it ended."""
        try:
            async with as_port_error(f"the record of job {end.job_id}"), timed("record", self._clock, self._observe):
                found = await self._client.job_record(end.job_id)
            if found is None or not found.ended_at:
                return Recorded.NOT_YET
            if found.name != end.name:
                return Recorded.FOREIGN
            comment = with_note(found.comment, end.note) if end.note else None
            if comment is None and _shows(found, end.wait_status):
                return Recorded.DONE
            async with (
                as_port_error(f"a change of job {end.job_id}"),
                timed("update_record", self._clock, self._observe),
            ):
                await self._client.update_job_record(end.job_id, end.wait_status, comment)
        except PortError as error:
            match error.__cause__:
                case UnsupportedError():
                    return Recorded.NOT_SERVED
                case RefusedError() | AuthenticationError():
                    return Recorded.REFUSED
                case _:
                    raise
        return Recorded.DONE


def _shows(found: JobRecord, wait_status: int) -> bool:
    """Return whether the record has this status. Without a signal slurmrestd shows the exit code alone."""
    shown = found.derived_exit_code
    return (shown.return_code or 0) == wait_status >> 8 and (shown.signal or 0) == wait_status & 0x7F


if TYPE_CHECKING:

    def _implements(records: SlurmrestdJobRecords) -> JobRecords:
        return records
