"""Packed gangs on the real parts: as few nodes as Slurm needs for the same tasks, and ranks in their order."""

from __future__ import annotations

from typing import Any

import pytest

from extender.domain.wellknown import GANG, GANG_LAYOUT, GANG_NODES, GANG_RANK, GANG_SIZE
from lab.site import PodRef
from lab.topology import slurm_name
from tests.builders.stage import Stage

CPUS, SIZE = 24, 5
"""Nodes have 64 CPUs: two members on each."""


def packed(stage: Stage) -> list[PodRef]:
    said = {GANG: "ring", GANG_SIZE: str(SIZE), GANG_LAYOUT: "pack"}
    return [stage.pod(f"ring-{rank}", annotations=said, cpus=CPUS, memory="2Gi") for rank in range(SIZE)]


def own_packing(stage: Stage) -> int:
    """The number of nodes that Slurm gives a native job of as many tasks of this size."""
    number = {"set": True, "infinite": False}
    job: dict[str, Any] = {
        "name": "native",
        "partition": stage.family.main,
        "tasks": SIZE,
        "cpus_per_task": CPUS,
        "memory_per_cpu": {**number, "number": 2048 // CPUS + 1},
        "current_working_directory": "/",
        "environment": ["PATH=/usr/bin:/bin"],
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


@pytest.mark.modes("batch", "external", slow=("24.11", "external"))
def test_packed_gangs_use_no_more_nodes_than_slurms_own_packing(stage: Stage) -> None:
    site = stage.site
    most = own_packing(stage) if stage.mode == "batch" else -(-SIZE // (64 // CPUS))
    pods = packed(stage)
    nodes = [site.bound(pod, timeout_s=60) for pod in pods]
    (job,) = stage.jobs()
    hosts = site.expand(job.node)
    assert len(hosts) <= most < SIZE
    assert hosts == {slurm_name(node) for node in nodes}
    for rank, pod in enumerate(pods):
        said = (site.read(pod) or {})["metadata"]["annotations"]
        assert said[GANG_RANK] == str(rank)
        assert said[GANG_NODES].split(",") == [slurm_name(node) for node in nodes]
    stage.finish()
