"""The end of Pods in the accounting of Slurm: written once slurmdbd knows the end, and never into another job."""

from __future__ import annotations

from typing import cast

import pytest

from extender.domain.job_outcomes.workload_end import WorkloadEnd
from extender.domain.ports import PortError, Recorded
from extender.slurm.job_records import SlurmrestdJobRecords
from slurmclient import ConnectError, ExitCode, JobRecord, RefusedError, SlurmClient, SlurmError, UnsupportedError
from tests.builders.services import StillClock

END = WorkloadEnd(7, "pod-a", 3 << 8, "Pod ns/a Failed: exit 3")


def record(*, name: str = "pod-a", ended: int = 50, code: int = 0, comment: str = "mine") -> JobRecord:
    return JobRecord(
        job_id=7,
        name=name,
        submitted_at=10,
        ended_at=ended,
        derived_exit_code=ExitCode(return_code=code),
        comment=comment,
    )


class Database:
    """The two calls of slurmrestd, and what was written."""

    def __init__(self, found: JobRecord | None, fails: SlurmError | None = None) -> None:
        self.written: list[tuple[int, int, str | None]] = []
        self._found = found
        self._fails = fails

    async def job_record(self, job_id: int) -> JobRecord | None:
        return self._found

    async def update_job_record(self, job_id: int, wait_status: int, comment: str | None = None) -> None:
        if self._fails is not None:
            raise self._fails
        self.written.append((job_id, wait_status, comment))


async def recorded(database: Database) -> Recorded:
    return await SlurmrestdJobRecords(cast("SlurmClient", database), StillClock()).record(END)


async def test_status_and_comment_are_written_behind_what_is_there() -> None:
    database = Database(record())
    assert await recorded(database) is Recorded.DONE
    assert database.written == [(7, 3 << 8, "mine; Pod ns/a Failed: exit 3")]


async def test_a_record_that_shows_the_end_is_not_written_again() -> None:
    database = Database(record(code=3, comment="mine; Pod ns/a Failed: exit 3"))
    assert await recorded(database) is Recorded.DONE
    assert database.written == []


@pytest.mark.parametrize("found", [None, record(ended=0)])
async def test_nothing_is_written_before_slurmdbd_knows_the_end(found: JobRecord | None) -> None:
    database = Database(found)
    assert await recorded(database) is Recorded.NOT_YET
    assert database.written == []


async def test_a_job_of_another_name_under_the_same_id_is_left_alone() -> None:
    database = Database(record(name="theirs"))
    assert await recorded(database) is Recorded.FOREIGN
    assert database.written == []


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (UnsupportedError("no slurmdbd", endpoint="POST"), Recorded.NOT_SERVED),
        (RefusedError("no operator", endpoint="POST"), Recorded.REFUSED),
    ],
)
async def test_a_slurm_that_keeps_no_records_differs_from_one_that_allows_no_change(
    error: SlurmError, outcome: Recorded
) -> None:
    assert await recorded(Database(record(), error)) is outcome


async def test_an_outage_is_repeated_by_the_caller() -> None:
    with pytest.raises(PortError):
        await recorded(Database(record(), ConnectError("away", endpoint="POST")))
