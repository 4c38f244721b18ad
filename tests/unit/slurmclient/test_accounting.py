from __future__ import annotations

import httpx
import pytest

from slurmclient import INFINITE, Association, ExitCode, InvalidRequestError, JobRecord, Share, UnsupportedError
from tests.builders.slurmrestd_fake import FakeRestd, client_of, refusal, reply


async def test_an_association_is_read_with_its_limits() -> None:
    raw = {
        "id": {"id": 7, "account": "acc"},
        "account": "acc",
        "cluster": "lab",
        "user": "alice",
        "partition": "",
        "parent_account": "",
        "is_default": True,
        "default": {"qos": "normal"},
        "qos": ["normal", "high"],
        "shares_raw": 1,
        "priority": {"set": False, "infinite": True, "number": 0},
        "max": {
            "jobs": {
                "active": {"set": True, "infinite": False, "number": 10},
                "total": {"set": False, "infinite": False, "number": 0},
            }
        },
    }
    restd = FakeRestd().on("GET", "slurmdb/associations", reply({"associations": [raw, {"id": 8}]}))
    async with client_of(restd) as slurm:
        associations = await slurm.associations()
    assert list(associations) == [
        Association(
            id=7,
            account="acc",
            cluster="lab",
            user="alice",
            partition="",
            parent_account="",
            is_default=True,
            default_qos="normal",
            qos=("normal", "high"),
            shares=1,
            priority=INFINITE,
            max_jobs=10,
            max_submit_jobs=None,
        )
    ]
    assert [one.position for one in associations.unreadable] == [1]
    assert restd.requests[0].url.path == "/slurmdb/v0.0.42/associations"


async def test_an_association_whose_id_slurm_leaves_at_zero_has_none() -> None:
    # slurmrestd 24.11 tells 0 for every association, 26.05 the real one.
    restd = FakeRestd().on("GET", "slurmdb/associations", reply({"associations": [{"id": 0, "account": "acc"}]}))
    async with client_of(restd) as slurm:
        assert [one.id for one in await slurm.associations()] == [None]


async def test_a_slurmdbd_that_is_away_is_distinguished_from_an_empty_answer() -> None:
    async with client_of(FakeRestd().on("GET", "slurmdb/associations", refusal(7000, 502))) as slurm:
        with pytest.raises(UnsupportedError, match="slurmdbd is not there"):
            await slurm.associations()


async def test_shares_are_read_with_not_a_number_and_infinity_in_them() -> None:
    body = (
        b'{"shares":{"total_shares":1,"shares":[{"id":3,"cluster":"lab","name":"alice","parent":"acc","partition":"",'
        b'"shares_normalized":{"set":true,"infinite":false,"number":0.5},"shares":{"set":true,"infinite":false,"number":1},'
        b'"effective_usage":{"set":true,"infinite":false,"number":NaN},"usage_normalized":{"set":false,"infinite":false,'
        b'"number":0},"usage":12,"fairshare":{"factor":{"set":true,"infinite":false,"number":0.25},"level":Infinity},'
        b'"type":["USER"]}]},"errors":[],"warnings":[]}'
    )
    answer = httpx.Response(200, content=body, headers={"content-type": "application/json"})
    async with client_of(FakeRestd().on("GET", "shares", answer)) as slurm:
        (share,) = await slurm.shares()
    assert share == Share(
        id=3,
        name="alice",
        parent="acc",
        cluster="lab",
        partition="",
        is_user=True,
        shares=1,
        shares_normalized=0.5,
        usage=12,
        usage_normalized=None,
        effective_usage=None,
        fairshare_factor=0.25,
        fairshare_level=INFINITE,
    )


RECORD = {
    "job_id": 7,
    "name": "pod",
    "time": {"submission": 10, "end": 50},
    "derived_exit_code": {"status": ["ERROR"], "return_code": {"set": True, "infinite": False, "number": 3}},
    "comment": {"administrator": "", "job": "mine", "system": ""},
}


async def test_the_newest_record_of_a_job_is_read() -> None:
    older = RECORD | {"time": {"submission": 5, "end": 6}, "name": "older"}
    restd = FakeRestd().on("GET", "slurmdb/job/7", reply({"jobs": [RECORD, older]}))
    async with client_of(restd) as slurm:
        assert await slurm.job_record(7) == JobRecord(
            job_id=7,
            name="pod",
            submitted_at=10,
            ended_at=50,
            derived_exit_code=ExitCode(status=frozenset({"ERROR"}), return_code=3),
            comment="mine",
        )


async def test_a_job_that_slurmdbd_does_not_know_has_no_record() -> None:
    async with client_of(FakeRestd().on("GET", "slurmdb/job/7", reply({"jobs": []}))) as slurm:
        assert await slurm.job_record(7) is None


async def test_before_25_11_no_record_is_changed() -> None:
    async with client_of(FakeRestd()) as slurm:
        with pytest.raises(UnsupportedError, match=r"records of jobs can be changed from v0\.0\.44 on"):
            await slurm.update_job_record(7, 768, "text")


@pytest.mark.parametrize(("status", "comment"), [(-1, None), (2**16, None), (0, "x" * 2_000_000)])
async def test_a_record_takes_only_a_wait_status_and_a_bounded_comment(status: int, comment: str | None) -> None:
    async with client_of(FakeRestd()) as slurm:
        with pytest.raises(InvalidRequestError):
            await slurm.update_job_record(7, status, comment)
