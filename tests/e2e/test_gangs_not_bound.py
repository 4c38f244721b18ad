"""Gangs that are not bound in time on the real parts: the job is released, and the gang is placed elsewhere as a whole.

kube-scheduler stands still between grant and change, as in `test_gang_barrier`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from lab.site import PodRef, QueuedJob, Site
from tests.builders.gang_causes import CAUSES, HELD_S, KNOWN_S, REFUSED_OF, SIZE, refused_binding
from tests.builders.stage import Stage
from tests.builders.staged_gangs import (
    all_bound,
    assert_in_rank_order,
    assert_none_bound,
    before_binding,
    gang,
    nodes_of,
    nodes_of_job,
)

BIND_WITHIN_S = 5

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("hasty")]

each_mode = pytest.mark.modes("batch", "allocation", "external")


@pytest.fixture(scope="module")
def hasty(site: Site) -> Iterator[None]:
    """A site that releases the job of a gang that is not bound within seconds."""
    site.reconfigure({"gangs": {"unfenced": "allow", "bindWithin": f"{BIND_WITHIN_S}s"}})
    yield
    site.reconfigure()


@each_mode
@pytest.mark.parametrize("cause", CAUSES)
def test_a_gang_of_which_one_node_stays_unusable_is_placed_on_other_nodes(stage: Stage, cause: str) -> None:
    site = stage.site
    with ExitStack() as unusable:
        with before_binding(stage, "moved", SIZE) as (pods, job):
            node = nodes_of_job(stage, job)[-1]
            unusable.enter_context(CAUSES[cause](stage, node))
            site.elapse(KNOWN_S)
        assert node not in all_bound(stage, pods)
    assert_in_rank_order(stage, pods)
    assert len(stage.jobs()) == 1
    assert job.job_id not in [one.job_id for one in stage.jobs()]


@each_mode
def test_a_gang_whose_deleted_member_gets_no_successor_gives_its_nodes_back_unbound(stage: Stage) -> None:
    site = stage.site
    with before_binding(stage, "lost", SIZE) as (pods, _):
        site.delete(pods[1])
        site.gone(pods[1])
        site.elapse(KNOWN_S)
    site.wait_for(lambda: not stage.jobs(), "the job is released", timeout_s=BIND_WITHIN_S + 30)
    assert_none_bound(stage, pods, HELD_S)
    pods[1:2] = gang(stage, "lost", SIZE, ranks=[1])
    all_bound(stage, pods)
    assert_in_rank_order(stage, pods)


@pytest.mark.modes("batch")
@pytest.mark.parametrize("k", range(REFUSED_OF))
def test_a_gang_whose_kth_binding_stays_refused_ends_as_a_whole_and_its_successor_gets_other_nodes(
    stage: Stage, k: int
) -> None:
    site, others = stage.site, [rank for rank in range(REFUSED_OF) if rank != k]
    with refused_binding(stage, f"part-{k}"):
        with before_binding(stage, "part", REFUSED_OF) as (pods, job):
            pass
        refused = node_left(stage, job, [pods[rank] for rank in others])
        for rank in others:
            assert "cannot start as a whole" in site.event(pods[rank], "SlurmAllocationLost", timeout_s=60)
        for rank in others:
            site.gone(pods[rank], timeout_s=60)
        assert nodes_of(stage, [pods[k]]) == [""]
    for rank in others:
        pods[rank : rank + 1] = gang(stage, "part", REFUSED_OF, ranks=[rank])
    assert refused not in all_bound(stage, pods)
    assert_in_rank_order(stage, pods)


def node_left(stage: Stage, job: QueuedJob, pods: list[PodRef]) -> str:
    """Wait until these are bound; the one node of the job that none of them has."""
    (left,) = set(nodes_of_job(stage, job)) - set(all_bound(stage, pods))
    return left
