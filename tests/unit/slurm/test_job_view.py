"""What a job holds and how it stands, carried over from slurmclient's reading."""

from __future__ import annotations

import pytest

from extender.domain.job_outcomes.slurm_states import Unclear, observe
from extender.domain.jobs.job import JobView
from extender.slurm.job_view import job_view
from slurmclient.wire.codec import Codec
from slurmclient.wire.v0045 import CodecV0045
from tests.builders.slurm_jobs import a_job_record

CODEC: Codec = CodecV0045()


def view(**fields: object) -> JobView:
    return job_view(CODEC.read_job(a_job_record(**fields)))


def test_what_is_unset_or_endless_is_nothing() -> None:
    endless = {"set": False, "infinite": True, "number": 0}
    unset = {"set": False, "infinite": False, "number": 0}
    job = view(time_limit=endless, end_time=unset, preempt_time=unset, memory_per_node=unset)
    assert (job.time_limit_minutes, job.end_time, job.preempt_time, job.memory_mb) == (None, 0.0, 0.0, None)


def test_gres_are_what_the_devices_say() -> None:
    detail = ["gpu:h100:2(IDX:0-1),shard:4", "gpu:h100:1(IDX:0)"]
    assert view(gres_detail=detail, tres_alloc_str="cpu=1,gres/gpu=9").gres == {"gpu:h100": 3, "shard": 4}


@pytest.mark.parametrize(
    ("tres", "gres"),
    [
        ("cpu=2,mem=1G,node=1", {}),
        ("cpu=2,gres/gpu=2", {"gpu": 2}),
        ("cpu=2,gres/gpu=2,gres/gpu:h100=2", {"gpu:h100": 2}),
        ("cpu=2,gres/gpu=2,gres/gpu:h100=2,gres/shard=3", {"gpu:h100": 2, "shard": 3}),
    ],
)
def test_without_devices_gres_are_what_accounting_counts_each_once(tres: str, gres: dict[str, int]) -> None:
    assert view(gres_detail=[], tres_alloc_str=tres).gres == gres


def test_a_state_that_slurmclient_does_not_know_proves_nothing() -> None:
    job = view(job_state=["HIBERNATING"])
    assert (job.state, job.flags) == ("", frozenset({"HIBERNATING"}))
    assert isinstance(observe(job), Unclear)


def test_flags_stand_beside_the_base_state() -> None:
    job = view(job_state=["CANCELLED", "COMPLETING"])
    assert (job.state, job.flags) == ("CANCELLED", frozenset({"COMPLETING"}))
