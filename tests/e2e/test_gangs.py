"""Gangs on the real parts: one job, every member bound in the order of Slurm's nodes, or none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from extender.domain.wellknown import GANG, GANG_NODES, GANG_RANK, GANG_SIZE, GATE
from lab.site import PodRef
from lab.topology import slurm_name
from tests.builders.stage import Stage
from tests.e2e.test_candidates import changed

TAINT = {"spec": {"taints": [{"key": "e2e/gang", "value": "x", "effect": "NoSchedule"}]}}

BARRIER_SAMPLES = 40
"""Samples of 0.05 s: the Bindings of a gang are one request each, and all of them go out within 2 s."""


def gang(stage: Stage, name: str, size: int, *, gated: bool = False, cpus: int = 2) -> list[PodRef]:
    said = {GANG: name, GANG_SIZE: str(size)}
    gates: dict[str, Any] = {"schedulingGates": [{"name": GATE}]} if gated else {}
    return [stage.pod(f"{name}-{rank}", annotations=said, cpus=cpus, **gates) for rank in range(size)]


def bound(stage: Stage, pods: list[PodRef]) -> list[str]:
    return [(stage.site.read(pod) or {"spec": {}})["spec"].get("nodeName", "") for pod in pods]


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.modes("batch", slow=("auto", "24.11"))
def test_the_members_of_a_gang_are_bound_in_the_order_of_the_nodes_of_one_job(
    stage: Stage, gated: bool, measured: Callable[[str], None]
) -> None:
    site, size = stage.site, 3
    pods = gang(stage, "ring", size, gated=gated)
    _, took = site.timed(lambda: all(bound(stage, pods)), "all members are bound")
    measured(f"{site.release} {stage.mode}: gang of {size}, bound after {took:.2f} s")
    nodes = bound(stage, pods)
    (job,) = stage.jobs()
    assert len(set(nodes)) == size
    assert site.expand(job.node) == {slurm_name(node) for node in nodes}
    for rank, pod in enumerate(pods):
        said = (site.read(pod) or {})["metadata"]["annotations"]
        assert said[GANG_RANK] == str(rank)
        assert said[GANG_NODES].split(",")[rank] == slurm_name(nodes[rank])
    stage.finish()


@pytest.mark.modes("batch", slow=("24.11",))
def test_a_taint_that_comes_after_the_grant_binds_no_member_of_a_gang(stage: Stage) -> None:
    site = stage.site
    pods = gang(stage, "held", 3)
    with changed(site, dict.fromkeys(stage.family.nodes[:1], TAINT)):
        in_part = 0
        for _ in range(160):
            in_part = 0 if sum(map(bool, bound(stage, pods))) in {0, 3} else in_part + 1
            assert in_part < BARRIER_SAMPLES, "only a part of the gang stayed bound"
            site.elapse(0.05)
    for pod in pods:
        site.bound(pod)
    stage.finish()
