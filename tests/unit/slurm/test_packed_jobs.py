"""Packed gangs in Slurm: the job asks by task, and its report says how many tasks each node holds."""

from __future__ import annotations

from typing import Any

import pytest

from extender.cli.sbatch import sbatch_line
from extender.domain.jobs.job import GangLayout, JobRequest, Mode
from extender.slurm.describe import describe
from extender.slurm.job_view import task_places
from extender.slurm.placeholder_script import HookSettings
from slurmclient.wire import CODECS
from tests.builders.job_orders import an_order
from tests.builders.slurm_jobs import a_job_record


def number(value: int) -> dict[str, Any]:
    return {"set": True, "infinite": False, "number": value}


def places(**fields: Any) -> dict[str, int]:
    nodes = fields.pop("on", {"node-1": 8, "node-2": 4})
    allocation = [{"name": name, "cpus": {"count": cpus}, "memory": {"allocated": 0}} for name, cpus in nodes.items()]
    said = {
        "nodes": ",".join(nodes),
        "tasks": number(6),
        "cpus_per_task": number(2),
        "memory_per_cpu": number(100),
        "memory_per_node": {"set": False, "infinite": False, "number": 0},
        "job_resources": {"nodes": {"allocation": allocation}},
    }
    return dict(task_places(CODECS[45].read_job(a_job_record(**said | fields))))


def test_the_cpus_of_a_node_say_how_many_members_it_holds() -> None:
    assert places() == {"node-1": 4, "node-2": 2}


def test_whole_cores_that_slurm_rounded_up_to_leave_a_member_for_each_node() -> None:
    assert places(on={"node-1": 12, "node-2": 4}) == {"node-1": 5, "node-2": 1}


def test_the_devices_of_a_node_bound_its_members() -> None:
    detail = ["gpu:h100:2(IDX:0-1)", "gpu:h100:4(IDX:0-3)"]
    given = places(on={"node-1": 16, "node-2": 16}, tres_per_task="gres/gpu:1", gres_detail=detail)
    assert given == {"node-1": 2, "node-2": 4}


def test_a_job_with_memory_by_node_has_a_node_for_each_member_whatever_its_cpus() -> None:
    assert places(memory_per_cpu=number(0) | {"set": False}, memory_per_node=number(100)) == {}


def test_a_packed_gang_is_described_by_task() -> None:
    order = an_order(mode=Mode.ALLOCATION, immediate=True, members=5, layout=GangLayout.PACK, cpus=3, memory_mb=1000)
    said = describe(order, "mark", HookSettings())
    assert (said.tasks, said.cpus_per_task, said.minimum_cpus) == (5, 3, 15)
    assert (said.minimum_nodes, said.maximum_nodes) == (1, None)
    assert (said.memory_per_node_mb, said.memory_per_cpu_mb) == (None, 334)


@pytest.mark.parametrize(("gres", "task"), [({}, None), ({"gpu:h100": 2}, "gres/gpu:h100:2")])
def test_devices_of_a_packed_gang_are_requested_by_task(gres: dict[str, int], task: str | None) -> None:
    order = an_order(mode=Mode.BATCH, members=2, layout=GangLayout.PACK, gres=gres)
    said = describe(order, "mark", HookSettings())
    assert (said.tres_per_node, said.tres_per_task) == (None, task)


def test_translate_shows_the_same_as_options_of_sbatch() -> None:
    request = JobRequest(
        title="ring", cpus=2, memory_mb=2048, members=4, gres={"gpu": 1}, layout=GangLayout.PACK, max_nodes=3
    )
    line = sbatch_line(request)
    for option in ("--nodes=1-3", "--ntasks=4", "--cpus-per-task=2", "--mem-per-cpu=1G", "--tres-per-task=gres/gpu:1"):
        assert option in line
