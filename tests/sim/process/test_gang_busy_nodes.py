"""A node of a gang that fills up after a member was accepted there keeps all unbound; held calls are bounded."""

from __future__ import annotations

import asyncio

import pytest

from extender.domain.wellknown import GATE
from simulator.kube.kubelet import STOP_FOR
from tests.builders.gang_pods import bound, gang
from tests.builders.process_site import FREQUENT_VOTES, HTTP, Site

pytestmark = pytest.mark.looptime

KNOWN_S = 0.05
"""Within this time the extender's watch shows a Pod. It is shorter than a back-off and than the time between polls."""


async def two_in_back_off(site: Site) -> list[str]:
    """Create a gang of three whose first two members have voted and wait in kube-scheduler's back-off.

    kube-scheduler has not reached the third one.
    """
    site.scheduler.unreached = frozenset({"ring-2"})
    names = gang(site, range(3), 3, gates=(GATE,))

    def answered() -> set[str]:
        return {name for name, outcome in site.scheduler.status.outcomes if "of the gang have a node" in outcome}

    await site.until(lambda: answered() >= set(names[:2]), "the answers to two votes", every=0.01)
    return names


@pytest.mark.parametrize("ending", [True, False])
async def test_a_node_that_a_foreign_pod_fills_during_the_back_off_of_its_member_binds_none_before_it_leaves(
    site: Site, ending: bool
) -> None:
    site.config = site.config.replace(HTTP, FREQUENT_VOTES)
    async with site.running():
        names = await two_in_back_off(site)
        (job,) = site.live_jobs()
        calls, outcomes = site.scheduler.status.binds, site.extender.gang_barrier.outcomes
        assert site.extender.gang_barrier.voted(site.placeholder("ring-0")) == {site.uid(name) for name in names[:2]}

        site.kube.add_pod("foreign", scheduler="another", node="n1", cpu="64", annotations={STOP_FOR: "20"})
        if ending:
            site.kube.delete_pod("foreign")
        await asyncio.sleep(KNOWN_S)
        site.scheduler.reach_all()
        await site.until(lambda: outcomes["node_busy"] > 0, "the check before the Bindings", every=0.01)
        assert site.scheduler.status.binds == calls + 1, "a member in back-off voted again"

        await asyncio.sleep(15)
        assert bound(site, names) == 0
        if not ending:
            site.kube.delete_pod("foreign", grace_s=1)
        assert [await site.bound(name) for name in names] == ["n1", "n2", "n3"]
        assert (outcomes["node_busy"], outcomes["passed"], outcomes["expired"]) == (1, 1, 0)
        assert (site.live_jobs() == [job]) == ending, "the job is kept for a Pod that is ending, and released otherwise"


async def test_many_held_calls_leave_connections_for_the_pods_of_others(site: Site) -> None:
    gangs, most = 7, 8
    site.config = site.config.replace(HTTP, f'http: {{bind: "extender:8080", connections: {2 * most}}}')
    site.config += f"gangs: {{largest: {most}}}\n"
    site.scheduler.unreached = frozenset(f"ring{number}-2" for number in range(gangs))
    async with site.running():
        for number in range(gangs):
            gang(site, range(3), 3, f"ring{number}", gates=(GATE,))
        await site.until(lambda: site.scheduler.status.binds >= 2 * gangs, "the first votes", every=0.01)
        site.kube.add_pod("other", gates=(GATE,))
        assert await site.bound("other", 10)
        ended = {name for name, outcome in site.scheduler.status.outcomes if "of the gang have a node" in outcome}
        assert len(ended) >= 2 * gangs - most
        site.scheduler.reach_all()
        for number in range(gangs):
            assert await site.bound(f"ring{number}-2", 120)
