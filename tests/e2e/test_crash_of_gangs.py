"""The extender is killed at every step of a gang: the gang is whole afterwards.

A relay sees its requests pass, and kills it in one of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from extender.domain.wellknown import GANG, GANG_SIZE
from lab.pods import RUN_FOR
from lab.topology import slurm_name
from tests.builders.crashes import RequestPattern
from tests.builders.gang_crashes import BINDING, SETTLED_S, SIZE, STEPS, assert_whole, gang_with_fault, voted
from tests.builders.relay import InjectedFault, RequestLimit, RequestPhase
from tests.builders.relays_of_a_site import RelayPair
from tests.builders.stage import Stage
from tests.builders.staged_gangs import all_bound, gang, nodes_of

HELD_S = 200.0
"""A Pod that ended while no extender was there holds its node until its kubelet must have heard of that."""

MANY = 8
"""Members of a gang whose extender is killed while some of its Bindings are on their way."""

IN_EVERY_RUN = {("binding-2", RequestPhase.BEFORE)}


def cases() -> Iterator[object]:
    for name in STEPS:
        for moment in RequestPhase:
            marks = () if (name, moment) in IN_EVERY_RUN else (pytest.mark.slow,)
            yield pytest.param(name, moment, id=f"{name}-{moment.name}", marks=marks)


@pytest.mark.modes("batch", "allocation", "external", slow=("24.11", "26.05-allocation", "26.05-external"))
@pytest.mark.parametrize(("step", "moment"), list(cases()))
def test_a_kill_at_a_step_of_a_gang_leaves_it_whole_on_one_job(
    relayed: Stage, relay_pair: RelayPair, step: str, moment: RequestPhase
) -> None:
    site = relayed.site
    pods = gang_with_fault(relayed, relay_pair, step, moment, site.kill_extender)
    site.start_extender()
    assert_whole(relayed, pods)


@pytest.mark.modes("batch", slow=("24.11",))
@pytest.mark.parametrize("k", [pytest.param(k, marks=() if k == 4 else pytest.mark.slow) for k in (1, 4, 7)])
def test_a_kill_when_exactly_k_of_eight_members_are_bound_leaves_a_gang_whole_on_one_job(
    relayed: Stage, relay_pair: RelayPair, k: int
) -> None:
    """Bindings are sent side by side: those after the k-th are held back, and never reach the API server."""
    site = relayed.site
    limit = RequestLimit(BINDING, k, site.kill_extender)
    relay_pair.limit_kube(limit)
    pods = gang(relayed, "ring", MANY, gated=True)
    reached = limit.reached.wait(60)
    relay_pair.disarm()
    assert reached, f"the API server did not answer {k} Bindings within a minute: {site.diagnostics()}"
    bound = nodes_of(relayed, pods)
    assert sum(map(bool, bound)) == k
    site.start_extender()
    assert_whole(relayed, pods)
    assert [now for now, was in zip(nodes_of(relayed, pods), bound, strict=True) if was] == list(filter(None, bound))


@pytest.mark.slow
@pytest.mark.modes("batch")
@pytest.mark.parametrize("k", range(1, SIZE))
def test_a_kill_after_k_votes_leaves_a_gang_whole_on_one_job(relayed: Stage, k: int) -> None:
    site = relayed.site
    with ExitStack() as refused:
        pods = voted(relayed, k, refused)
        site.kill_extender()
        site.start_extender()
        site.elapse(SETTLED_S)
        assert not any(nodes_of(relayed, pods))
    assert_whole(relayed, pods)


@pytest.mark.slow
@pytest.mark.modes("batch")
@pytest.mark.parametrize("moment", list(RequestPhase))
def test_a_kill_while_a_gang_returns_a_node_leaves_the_node_to_slurm_and_the_other_member_to_the_gang(
    relayed: Stage, relay_pair: RelayPair, moment: RequestPhase
) -> None:
    site, said = relayed.site, {GANG: "ring", GANG_SIZE: "2"}
    stays = relayed.pod("ring-0", annotations=said)
    leaves = relayed.pod("ring-1", annotations=said | {RUN_FOR: "5s"})
    node, _ = all_bound(relayed, [stays, leaves])
    (job,) = relayed.jobs()
    fault = InjectedFault(RequestPattern("POST", r"/job/\d+", contains='"required_nodes"'), moment, site.kill_extender)
    relay_pair.arm(fault)
    fired = fault.fired.wait(60)
    relay_pair.disarm()
    assert fired, f"no node was returned within a minute: {site.diagnostics()}"
    site.start_extender()
    own = {slurm_name(node)}
    site.wait_for(
        lambda: [(one.job_id, site.expand(one.node)) for one in relayed.jobs()] == [(job.job_id, own)],
        "the job has the node of its other member alone",
        timeout_s=HELD_S,
    )
    assert site.node_of(stays) == node
