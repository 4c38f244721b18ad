"""What is sent to change, end, find and read jobs, and what is made of the answers."""

from __future__ import annotations

import threading
from typing import Any

import httpx
import pytest

from slurmclient import (
    CancelStatus,
    FoundJob,
    InvalidRequestError,
    JobDescription,
    NotFoundError,
    ProtocolError,
    RefusedError,
    session,
)
from slurmclient.client import MOST_IDS_IN_A_URL
from slurmclient.wire.envelope import Envelope, open_envelope
from tests.builders.slurmrestd_fake import FakeRestd, client_of, refusal, reply


async def test_an_update_has_the_changes_at_its_top_and_empties_with_one_empty_name() -> None:
    restd = FakeRestd(42).on("POST", "job/5", reply({"results": None}))
    changes = JobDescription(excluded_nodes=(), required_nodes=("n1",), comment="", hold=False, time_limit_minutes=5)
    async with client_of(restd) as slurm:
        assert await slurm.update_job(5, changes) == ()
    assert restd.bodies == [
        {
            "excluded_nodes": [""],
            "required_nodes": ["n1"],
            "comment": "",
            "hold": False,
            "time_limit": {"set": True, "infinite": False, "number": 5},
        }
    ]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (JobDescription(), "nothing to change"),
        (JobDescription(partition=""), "partition cannot be emptied; only admin_comment, comment"),
        (JobDescription(external=True), "cannot become external"),
    ],
)
async def test_an_update_that_says_nothing_or_too_much_is_not_sent(changes: JobDescription, words: str) -> None:
    restd = FakeRestd(45)
    async with client_of(restd) as slurm:
        with pytest.raises(InvalidRequestError, match=words):
            await slurm.update_job(5, changes)
    assert restd.requests == []


async def test_an_update_of_an_unknown_job_finds_nothing() -> None:
    async with client_of(FakeRestd().on("POST", "job/5", refusal(2017, 404))) as slurm:
        with pytest.raises(NotFoundError):
            await slurm.update_job(5, JobDescription(comment="x"))


async def test_an_update_that_one_task_of_an_array_refuses_is_refused() -> None:
    results = [{"job_id": "5_1", "error_code": 0}, {"job_id": "5_2", "error_code": 2002, "why": "not yours"}]
    async with client_of(FakeRestd().on("POST", "job/5", reply({"results": results}))) as slurm:
        with pytest.raises(RefusedError, match="not yours"):
            await slurm.update_job(5, JobDescription(comment="x"))


def status(job_id: int | None, code: int, step_id: str = "", message: str = "") -> dict[str, object]:
    number = {"set": job_id is not None, "infinite": False, "number": job_id or 0}
    return {
        "error": {"string": message or "No error", "code": code, "message": message},
        "step_id": step_id or str(job_id),
        "job_id": number,
        "federation": {"sibling": ""},
    }


async def test_a_cancellation_goes_to_all_jobs_at_once_and_requests_every_status() -> None:
    answer = reply(
        {"status": [status(None, 2017, "9", "Invalid job id"), status(5, 0), status(6, 2021, message="done")]}
    )
    restd = FakeRestd().on("DELETE", "jobs", answer)
    async with client_of(restd) as slurm:
        statuses = await slurm.cancel([5, 6, 9, 5])
    assert restd.bodies == [{"jobs": ["5", "6", "9"], "flags": ["VERBOSE"]}]
    assert statuses == (
        CancelStatus(job_id=9, code=2017, message="Invalid job id"),
        CancelStatus(job_id=5, code=0),
        CancelStatus(job_id=6, code=2021, message="done"),
    )
    assert all(one.job_ended for one in statuses)
    assert not CancelStatus(job_id=1, code=2002).job_ended


async def test_one_job_is_cancelled_the_same_way() -> None:
    restd = FakeRestd().on("DELETE", "jobs", reply({"status": [status(5, 0)]}))
    async with client_of(restd) as slurm:
        await slurm.cancel(5, signal="SIGTERM", flags=["BATCH_JOB", "HURRY"])
        await slurm.cancel(5, signal=10)
    assert restd.bodies == [
        {"jobs": ["5"], "signal": "TERM", "flags": ["BATCH_JOB", "HURRY", "VERBOSE"]},
        {"jobs": ["5"], "signal": "10", "flags": ["VERBOSE"]},
    ]
    assert {request.method for request in restd.requests} == {"DELETE"}
    assert {request.url.query for request in restd.requests} == {b""}


async def test_cancelling_no_jobs_sends_nothing() -> None:
    restd = FakeRestd()
    async with client_of(restd) as slurm:
        assert await slurm.cancel([]) == ()
    assert restd.requests == []


@pytest.mark.parametrize("signal", ["SIGKIL", "", "0", 0, -9, 65, 999, "9x", True, "TERM KILL"])
async def test_a_signal_that_slurmrestd_would_turn_into_a_kill_is_not_sent(signal: str | int) -> None:
    restd = FakeRestd()
    async with client_of(restd) as slurm:
        with pytest.raises(InvalidRequestError, match="is neither a name like 'TERM' nor a number"):
            await slurm.cancel(5, signal=signal)
    assert restd.requests == []


async def test_a_flag_that_slurmrestd_would_fail_on_is_not_sent() -> None:
    restd = FakeRestd()
    async with client_of(restd) as slurm:
        with pytest.raises(InvalidRequestError, match="'BATCHJOB' is not known"):
            await slurm.cancel(5, flags=["BATCHJOB"])
    assert restd.requests == []


async def test_statuses_count_also_beside_an_error_of_the_whole() -> None:
    error = {"description": "some failed", "error_number": 2017, "error": "x", "source": "s"}
    answer = reply({"status": [status(None, 2017, "9")], "errors": [error]}, status=500)
    async with client_of(FakeRestd().on("DELETE", "jobs", answer)) as slurm:
        assert [one.code for one in await slurm.cancel(9)] == [2017]


async def test_a_cancellation_that_was_refused_as_a_whole_is_an_error() -> None:
    async with client_of(FakeRestd().on("DELETE", "jobs", refusal(2002, 200))) as slurm:
        with pytest.raises(RefusedError):
            await slurm.cancel(9)


@pytest.mark.parametrize("job_id", [0, -1, 2**32, True])
async def test_a_number_that_is_no_job_id_is_not_sent(job_id: int) -> None:
    restd = FakeRestd()
    async with client_of(restd) as slurm:
        for call in (slurm.job, slurm.cancel, slurm.resources):
            with pytest.raises(InvalidRequestError, match=f"job id {job_id}"):
                await call(job_id)
        with pytest.raises(InvalidRequestError, match=f"job id {job_id}"):
            await slurm.job_states([job_id])
    assert restd.requests == []


async def test_jobs_are_found_by_name_with_the_signal_that_reaches_no_process() -> None:
    answer = reply({"status": [status(5, 0), status(6, 2020), status(7, 2021), status(8, 2009)]})
    restd = FakeRestd().on("DELETE", "jobs", answer)
    async with client_of(restd) as slurm:
        found = await slurm.find_jobs_by_name("ns/pod é")
    assert restd.bodies == [{"job_name": "ns/pod é", "signal": "0", "flags": ["BATCH_JOB", "VERBOSE"]}]
    assert found == (
        FoundJob(job_id=5, running=True),
        FoundJob(job_id=6, running=False, code=2020),
        FoundJob(job_id=8, running=True, code=2009),
    )
    assert [job.pending for job in found] == [False, True, False]


async def test_an_unknown_name_is_an_empty_answer() -> None:
    async with client_of(FakeRestd().on("DELETE", "jobs", reply({"status": []}))) as slurm:
        assert await slurm.find_jobs_by_name("x") == ()


@pytest.mark.parametrize("payload", [{}, {"status": None}, {"status": [status(None, 0, "x")]}])
async def test_an_unreadable_answer_does_not_prove_that_the_name_is_free(payload: dict[str, object]) -> None:
    async with client_of(FakeRestd().on("DELETE", "jobs", reply(payload))) as slurm:
        with pytest.raises(ProtocolError):
            await slurm.find_jobs_by_name("x")


@pytest.mark.parametrize("name", ["", "  ", "a\0b", "x" * 1025])
async def test_a_name_that_slurm_would_take_for_any_is_never_a_filter(name: str) -> None:
    restd = FakeRestd()
    async with client_of(restd) as slurm:
        with pytest.raises(InvalidRequestError, match="job name"):
            await slurm.find_jobs_by_name(name)
        with pytest.raises(InvalidRequestError, match="job name"):
            await slurm.cancel_by_name(name)
    assert restd.requests == []


async def test_jobs_are_cancelled_by_name_with_no_other_filter() -> None:
    restd = FakeRestd().on("DELETE", "jobs", reply({"status": [status(5, 0)]}))
    async with client_of(restd) as slurm:
        assert await slurm.cancel_by_name("x") == (CancelStatus(job_id=5, code=0),)
    assert restd.bodies == [{"job_name": "x", "flags": ["VERBOSE"]}]


async def test_states_are_read_by_id_with_the_type_and_key_that_slurmrestd_really_uses() -> None:
    answer = reply(
        {"jobs": [{"job_id": "5", "state": ["RUNNING", "CONFIGURING"]}, {"job_id": "6", "state": ["PENDING"]}]}
    )
    restd = FakeRestd().on("GET", "jobs/state", answer)
    async with client_of(restd) as slurm:
        states = await slurm.job_states()
        await slurm.job_states([5, 6, 5])
    assert states == {5: frozenset({"RUNNING", "CONFIGURING"}), 6: frozenset({"PENDING"})}
    assert [request.url.query for request in restd.requests] == [b"", b"job_id=5&job_id=6"]


async def test_states_of_no_jobs_request_nothing_and_of_very_many_request_all() -> None:
    entries = [{"job_id": str(job_id), "state": ["RUNNING"]} for job_id in range(1, 1001)]
    restd = FakeRestd().on("GET", "jobs/state", reply({"jobs": entries}))
    wanted = range(1, MOST_IDS_IN_A_URL + 2)
    async with client_of(restd) as slurm:
        assert await slurm.job_states([]) == {}
        assert set(await slurm.job_states(wanted)) == set(wanted)
    assert [request.url.query for request in restd.requests] == [b""]


async def test_an_odd_state_is_reported_and_never_taken_for_a_job_that_is_gone() -> None:
    entries: list[object] = [
        {"job_id": "5", "state": ["RUNNING"]},
        {"job_id": "6", "state": 7},
        {"job_id": "7"},
        {"state": ["RUNNING"]},
        "nonsense",
        {"job_id": "x", "state": []},
        {"job_id": "8_3", "state": ["RUNNING"]},
        {"job_id": "9+1", "state": ["PENDING"]},
        {"job_id": 10, "state": ["PENDING"]},
        {"job_id": "0", "state": ["PENDING"]},
    ]
    async with client_of(FakeRestd().on("GET", "jobs/state", reply({"jobs": entries}))) as slurm:
        states = await slurm.job_states()
    assert dict(states) == {
        5: frozenset({"RUNNING"}),
        6: frozenset(),
        7: frozenset(),
        10: frozenset({"PENDING"}),
    }
    assert states.composite == {"8_3": frozenset({"RUNNING"}), "9+1": frozenset({"PENDING"})}
    assert [one.position for one in states.unreadable] == [3, 4, 5, 9]


async def test_only_slurms_own_number_says_that_a_job_is_gone() -> None:
    restd = FakeRestd().on("GET", "job/5", refusal(2017, 404))
    async with client_of(restd) as slurm:
        with pytest.raises(NotFoundError) as caught:
            await slurm.job(5)
    assert caught.value.slurm_errno == 2017


@pytest.mark.parametrize(
    "answer", [reply({"jobs": []}), reply({}), reply(status=404), reply({"jobs": [{"job_id": 6}]})]
)
async def test_a_job_that_is_merely_not_in_the_answer_is_not_gone(answer: httpx.Response) -> None:
    async with client_of(FakeRestd().on("GET", "job/5", answer)) as slurm:
        with pytest.raises(ProtocolError):
            await slurm.job(5)


async def test_of_a_whole_array_the_task_requested_is_read() -> None:
    entries = [{"job_id": 4, "name": "a"}, {"job_id": 5, "name": "b", "array_job_id": {"set": True, "number": 4}}]
    async with client_of(FakeRestd().on("GET", "job/5", reply({"jobs": entries}))) as slurm:
        job = await slurm.job(5)
    assert (job.name, job.array_job_id) == ("b", 4)


@pytest.mark.parametrize(("count", "apart"), [(10, False), (10_000, True)])
async def test_a_large_reply_is_read_beside_the_loop(count: int, apart: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []

    def opened(*reply: Any) -> Envelope:
        threads.append(threading.get_ident())
        return open_envelope(*reply)

    monkeypatch.setattr(session, "open_envelope", opened)
    jobs = [{"job_id": number, "state": ["PENDING"]} for number in range(1, count + 1)]
    async with client_of(FakeRestd().on("GET", "jobs/state", reply({"jobs": jobs}))) as slurm:
        assert len(await slurm.job_states()) == count
    assert (threads[-1] != threading.get_ident()) is apart
