"""Gangs on the real parts: one job, every member bound in the order of Slurm's nodes, or none."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.builders.changed_nodes import changed
from tests.builders.stage import Stage
from tests.builders.staged_gangs import BARRIER_S, SAMPLE_S, all_bound, assert_in_rank_order, gang, nodes_of

TAINT = {"spec": {"taints": [{"key": "e2e/gang", "value": "x", "effect": "NoSchedule"}]}}


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.proved_on_each_kubernetes
@pytest.mark.modes(slow=("24.11", "allocation", "external", "auto"))
def test_the_members_of_a_gang_are_bound_in_the_order_of_the_nodes_of_one_job(
    stage: Stage, gated: bool, measured: Callable[[str], None]
) -> None:
    site, size = stage.site, 3
    pods = gang(stage, "ring", size, gated=gated)
    _, took = site.timed(lambda: all(nodes_of(stage, pods)), "all members are bound")
    measured(f"{site.release} {stage.mode}: gang of {size}, bound after {took:.2f} s")
    assert len(set(nodes_of(stage, pods))) == size
    assert_in_rank_order(stage, pods)
    stage.finish()


@pytest.mark.modes("batch", "allocation", "external", slow=("24.11", "allocation", "external"))
def test_a_taint_that_comes_after_the_grant_binds_no_member_of_a_gang(stage: Stage) -> None:
    site = stage.site
    pods = gang(stage, "held", 3)
    with changed(site, dict.fromkeys(stage.family.nodes[:1], TAINT)):
        in_part = 0
        for _ in range(160):
            in_part = 0 if sum(map(bool, nodes_of(stage, pods))) in {0, 3} else in_part + 1
            assert in_part * SAMPLE_S < BARRIER_S, "only a part of the gang stayed bound"
            site.elapse(SAMPLE_S)
    all_bound(stage, pods)
    stage.finish()
