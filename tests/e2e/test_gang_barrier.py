"""A change between the grant of a gang's job and the Bindings binds no member, or all of them.

kube-scheduler stands still meanwhile, so that each change falls into that moment.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

import pytest

from extender.controllers.gangs.barrier import BarrierOutcome
from lab.pods import STOP_IN
from lab.site import PodRef
from tests.builders.gang_causes import CAUSES, HELD_S, KNOWN_S, REFUSED_OF, SIZE, refused_binding
from tests.builders.gang_crashes import voted
from tests.builders.stage import Stage
from tests.builders.staged_gangs import (
    BARRIER_S,
    SAMPLE_S,
    all_bound,
    assert_in_rank_order,
    assert_none_bound,
    before_binding,
    gang,
    nodes_of,
    nodes_of_job,
)

IN_EVERY_RUN = "foreign-pod"


def assert_not_in_part(stage: Stage, pods: list[PodRef], node: str, seconds: float) -> None:
    """Hold for so long that this Node has no member, and that no part of the gang stays bound.

    The gang may be placed on other nodes meanwhile.
    """
    in_part = 0.0
    for _ in range(round(seconds / SAMPLE_S)):
        nodes = nodes_of(stage, pods)
        assert node not in nodes, "a member was bound to the node that refuses it"
        in_part = 0 if sum(map(bool, nodes)) in {0, len(pods)} else in_part + SAMPLE_S
        assert in_part < BARRIER_S, "only a part of the gang stayed bound"
        stage.site.elapse(SAMPLE_S)


@pytest.mark.parametrize(
    "cause", [pytest.param(one, marks=() if one == IN_EVERY_RUN else pytest.mark.slow) for one in CAUSES]
)
@pytest.mark.modes("batch", "allocation", "external", slow=("24.11", "allocation", "external"))
def test_no_member_is_bound_beside_a_node_that_refuses_one_and_all_are_in_the_end(
    stage: Stage, cause: str, record_property: Callable[[str, object], None]
) -> None:
    site = stage.site
    with ExitStack() as unusable:
        with before_binding(stage, "held", SIZE) as (pods, job):
            node = nodes_of_job(stage, job)[-1]
            unusable.enter_context(CAUSES[cause](stage, node))
            site.elapse(KNOWN_S)
        assert_not_in_part(stage, pods, node, HELD_S)
    _, took = site.timed(lambda: all(nodes_of(stage, pods)), "all members are bound")
    assert_in_rank_order(stage, pods)
    (now,) = stage.jobs()
    row = {"Slurm": site.release, "cause": cause, "bound after its end, s": f"{took:.2f}"}
    row["job"] = "the same" if now.job_id == job.job_id else "another one"
    record_property("table: Gangs of which one node refuses a member between grant and Binding", row)
    stage.finish()


@pytest.mark.modes("batch", "allocation", "external", slow=("24.11", "allocation", "external"))
def test_a_member_deleted_after_the_grant_leaves_the_others_unbound_until_its_successor_exists(stage: Stage) -> None:
    site = stage.site
    with before_binding(stage, "lost", SIZE) as (pods, job):
        site.delete(pods[1])
        site.gone(pods[1])
        site.elapse(KNOWN_S)
    assert_none_bound(stage, pods, HELD_S)
    pods[1:2] = gang(stage, "lost", SIZE, ranks=[1])
    all_bound(stage, pods)
    assert_in_rank_order(stage, pods)
    assert stage.made() == [job.job_id]
    stage.finish()


@pytest.mark.modes("batch", "allocation", "external", slow=("24.11", "allocation", "external"))
def test_no_member_is_bound_while_a_foreign_pod_fills_the_node_of_one_in_back_off_and_all_are_on_the_same_job_after_it(
    stage: Stage,
) -> None:
    """kube-scheduler stands still from then on, and the test casts the last vote: no other one is cast again before."""
    site, busy = stage.site, f'gang_barriers_total{{result="{BarrierOutcome.NODE_BUSY}"}}'
    before, stop_s = site.metric(busy), 2 * HELD_S
    with ExitStack() as refused:
        pods = voted(stage, SIZE - 1, refused)
        (job,) = stage.jobs()
        nodes = nodes_of_job(stage, job)
        with site.scheduler.frozen():
            cpus = int(site.kube.api("GET", f"/api/v1/nodes/{nodes[0]}")[1]["status"]["allocatable"]["cpu"])
            options = {"scheduler": "another", "nodeName": nodes[0], "cpus": cpus - 1}
            slow = {STOP_IN: f"{stop_s:g}s"}
            foreign = site.pod("foreign", stage.namespace, annotations=slow, grace_s=30, **options)
            site.delete(foreign)
            site.elapse(KNOWN_S)
            last = {"PodName": pods[-1].name, "PodNamespace": stage.namespace, "PodUID": pods[-1].uid}
            status, answer = site.post_to_extender("bind", {**last, "Node": nodes[-1]})
            assert status == 200
            assert answer["Error"]
            assert site.metric(busy) == before + 1
            assert not any(nodes_of(stage, pods))
    assert_none_bound(stage, pods, stop_s / 2)
    site.gone(foreign)
    all_bound(stage, pods)
    assert_in_rank_order(stage, pods)
    assert stage.made() == [job.job_id]
    assert site.metric(busy) == before + 1
    stage.finish()


@pytest.mark.parametrize("k", [pytest.param(k, marks=() if k == 1 else pytest.mark.slow) for k in range(REFUSED_OF)])
@pytest.mark.modes("batch", slow=("24.11",))
def test_a_gang_whose_kth_binding_is_refused_for_a_while_is_whole_on_the_same_job_afterwards(
    stage: Stage, k: int
) -> None:
    site, others = stage.site, [rank for rank in range(REFUSED_OF) if rank != k]
    with refused_binding(stage, f"part-{k}"):
        with before_binding(stage, "part", REFUSED_OF) as (pods, job):
            pass
        all_bound(stage, [pods[rank] for rank in others])
        site.elapse(HELD_S)
        assert nodes_of(stage, [pods[k]]) == [""]
    all_bound(stage, pods)
    assert_in_rank_order(stage, pods)
    assert stage.made() == [job.job_id]
    stage.finish()
