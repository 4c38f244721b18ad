"""The extender is killed at every step of a gang: the gang is whole afterwards.

A relay sees its requests pass, and kills it in one of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from extender.domain.wellknown import GANG, GANG_SIZE
from lab.pods import RUN_FOR
from lab.site import Site
from lab.topology import slurm_name
from tests.builders.crashes import Wire
from tests.builders.gang_crashes import SETTLED_S, SIZE, STEPS, assert_whole, struck, voted
from tests.builders.relay import Blow, Passing
from tests.builders.relays_of_a_site import Between, relays
from tests.builders.stage import Stage
from tests.builders.staged_gangs import all_bound, nodes_of

HELD_S = 200.0
"""A Pod that ended while no extender was there holds its node until its kubelet must have heard of that."""

IN_EVERY_RUN = {("binding-2", Passing.BEFORE)}


@pytest.fixture(scope="module")
def between(site: Site) -> Iterator[Between]:
    """Relays for an extender of this site."""
    with relays(site) as found:
        yield found


@pytest.fixture
def alone(stage: Stage, between: Between) -> Iterator[Stage]:
    """The site's own extender, behind the relays."""
    stage.site.reconfigure(between.settings)
    try:
        yield stage
        stage.finish()
    finally:
        between.disarm()
        stage.site.reconfigure()


def cases() -> Iterator[object]:
    for name in STEPS:
        for moment in Passing:
            marks = () if (name, moment) in IN_EVERY_RUN else (pytest.mark.slow,)
            yield pytest.param(name, moment, id=f"{name}-{moment.name}", marks=marks)


@pytest.mark.modes("batch", "allocation", "external", slow=("24.11", "26.05-allocation", "26.05-external"))
@pytest.mark.parametrize(("step", "moment"), list(cases()))
def test_a_kill_at_a_step_of_a_gang_leaves_it_whole_on_one_job(
    alone: Stage, between: Between, step: str, moment: Passing
) -> None:
    site = alone.site
    pods = struck(alone, between, step, moment, site.kill_extender)
    site.start_extender()
    assert_whole(alone, pods)


@pytest.mark.slow
@pytest.mark.modes("batch")
@pytest.mark.parametrize("k", range(1, SIZE))
def test_a_kill_after_k_votes_leaves_a_gang_whole_on_one_job(alone: Stage, k: int) -> None:
    site = alone.site
    with ExitStack() as refused:
        pods = voted(alone, k, refused)
        site.kill_extender()
        site.start_extender()
        site.elapse(SETTLED_S)
        assert not any(nodes_of(alone, pods))
    assert_whole(alone, pods)


@pytest.mark.slow
@pytest.mark.modes("batch")
@pytest.mark.parametrize("moment", list(Passing))
def test_a_kill_while_a_gang_returns_a_node_leaves_the_node_to_slurm_and_the_other_member_to_the_gang(
    alone: Stage, between: Between, moment: Passing
) -> None:
    site, said = alone.site, {GANG: "ring", GANG_SIZE: "2"}
    stays = alone.pod("ring-0", annotations=said)
    leaves = alone.pod("ring-1", annotations=said | {RUN_FOR: "5s"})
    node, _ = all_bound(alone, [stays, leaves])
    (job,) = alone.jobs()
    blow = Blow(Wire("POST", r"/job/\d+", says='"required_nodes"'), moment, site.kill_extender)
    between.arm(blow)
    fell = blow.struck.wait(60)
    between.disarm()
    assert fell, f"no node was returned within a minute: {site.diagnostics()}"
    site.start_extender()
    own = {slurm_name(node)}
    site.wait_for(
        lambda: [(one.job_id, site.expand(one.node)) for one in alone.jobs()] == [(job.job_id, own)],
        "the job has the node of its other member alone",
        timeout_s=HELD_S,
    )
    assert site.node_of(stays) == node
