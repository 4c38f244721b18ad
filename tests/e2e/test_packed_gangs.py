"""Packed gangs on the real parts: as few nodes as Slurm needs for the same tasks, and ranks in their order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from extender.domain.wellknown import GANG, GANG_LAYOUT, GANG_NODES, GANG_RANK, GANG_SIZE
from lab.site import PodRef
from lab.topology import slurm_name
from tests.builders.stage import Stage

SHAPES = [
    (5, 24),
    pytest.param(9, 16, marks=pytest.mark.slow),
    pytest.param(3, 40, marks=pytest.mark.slow),
]
"""Members, and CPUs of each. Nodes have 64 CPUs: two members on each, four, or one."""


def packed(stage: Stage, size: int, cpus: int) -> list[PodRef]:
    said = {GANG: "ring", GANG_SIZE: str(size), GANG_LAYOUT: "pack"}
    return [stage.pod(f"ring-{rank}", annotations=said, cpus=cpus, memory="2Gi") for rank in range(size)]


def own_packing(stage: Stage, size: int, cpus: int) -> int:
    """The number of nodes that Slurm gives a native job of as many tasks of this size."""
    number = {"set": True, "infinite": False}
    job: dict[str, Any] = {
        "name": "native",
        "partition": stage.family.main,
        "tasks": size,
        "cpus_per_task": cpus,
        "memory_per_cpu": {**number, "number": 2048 // cpus + 1},
        "current_working_directory": "/",
        "environment": ["PATH=/usr/bin:/bin"],
    }
    if stage.mode == "external":
        job["flags"] = ["EXTERNAL_JOB"]
    else:
        job |= {
            "script": "#!/bin/sh\nexec sleep 600\n",
            "standard_output": "/dev/null",
            "standard_error": "/dev/null",
        }
    status, answer = stage.site.slurm.rest("POST", "job/submit", {"job": job})
    assert status == 200, answer
    stage.foreign.append(int(answer["job_id"]))
    hosts = stage.running(int(answer["job_id"]))
    stage.cancel(int(answer["job_id"]))
    stage.site.wait_for(lambda: not stage.site.squeue(), "the native job has left its nodes", timeout_s=60)
    return len(stage.site.expand(hosts))


@pytest.mark.parametrize(("size", "cpus"), SHAPES)
@pytest.mark.modes("batch", "allocation", "external", slow=("24.11", "allocation", "external"))
def test_packed_gangs_use_no_more_nodes_than_slurms_own_packing(
    stage: Stage, size: int, cpus: int, record_property: Callable[[str, object], None]
) -> None:
    site = stage.site
    most = own_packing(stage, size, cpus)
    pods = packed(stage, size, cpus)
    nodes = [site.bound(pod, timeout_s=60) for pod in pods]
    (job,) = stage.jobs()
    hosts = site.expand(job.node)
    row = {"Slurm": site.release, "mode": stage.mode, "members": str(size), "CPUs of each": str(cpus)}
    row |= {"nodes of a native job": str(most), "nodes of the gang": str(len(hosts))}
    record_property("table: Packed gangs and native jobs of the same tasks", row)
    assert len(hosts) <= most
    assert hosts == {slurm_name(node) for node in nodes}
    for rank, pod in enumerate(pods):
        said = (site.read(pod) or {})["metadata"]["annotations"]
        assert said[GANG_RANK] == str(rank)
        assert said[GANG_NODES].split(",") == [slurm_name(node) for node in nodes]
    stage.finish()
