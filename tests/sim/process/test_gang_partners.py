"""kube-scheduler or slurmrestd dies at every step of a gang, and starts again: the gang is whole on its one job."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping

import pytest

from extender.domain.wellknown import GANG_RANK, GATE
from simulator.network.request_tap import RequestTap, TappedRequest
from tests.builders.gang_pods import bound, gang
from tests.builders.process_site import Site
from tests.sim.process.test_gang_crashes import SIZE, TAINT

pytestmark = pytest.mark.looptime

NAMES = [f"ring-{number}" for number in range(SIZE)]
MEMBER = r".*/pods/ring-\d"

STEPS: Mapping[str, tuple[str, int]] = {
    "submitted": (r"POST .*/job/(submit|allocate)", 1),
    "granted": (r"GET .*/job/\d+", 1),
    **{f"gate-{k}-open": (f"PATCH {MEMBER}", k) for k in range(1, SIZE + 1)},
    **{f"binding-{k}": (f"POST {MEMBER}/binding", k) for k in range(1, SIZE + 1)},
}
"""The request of the extender at a step, and which one of these it is."""


def kill_kube_scheduler(site: Site) -> None:
    """Let no Pod be scheduled for 5 s; then a new process reads all Pods."""

    def start() -> None:
        site.scheduler.unreached = frozenset()
        site.scheduler.restart()

    site.scheduler.unreached = frozenset(NAMES)
    site.scheduler.restart()
    asyncio.get_running_loop().call_later(5, start)


def kill_slurmrestd(site: Site) -> None:
    """Cut all connections, and refuse others for 15 s."""
    site.network.refuse("slurm", 6820)
    site.network.cut("slurm", 6820)
    asyncio.get_running_loop().call_later(15, lambda: site.network.refuse("slurm", 6820, refused=False))


partners = pytest.mark.parametrize(
    "kill", [kill_kube_scheduler, kill_slurmrestd], ids=lambda kill: kill.__name__.removeprefix("kill_")
)


class PartnerKiller:
    """Kill a partner at the k-th request that matches: when it is sent, or when its answer arrives."""

    def __init__(self, step: str, kill: Callable[[], None], *, answered: bool) -> None:
        self._pattern, self._left = STEPS[step]
        self._kill = kill
        self.fired = False
        self.tap = RequestTap(on_response=self._passes) if answered else RequestTap(on_request=self._passes)

    def _passes(self, sent: TappedRequest) -> None:
        if not self.fired and re.fullmatch(self._pattern, f"{sent.method} {sent.path}"):
            self._left -= 1
            if not self._left:
                self.fired = True
                asyncio.get_running_loop().call_soon(self._kill)


async def assert_whole(site: Site) -> None:
    """Hold that each member is on the node of its rank, on the only job that was ever made."""
    assert [await site.bound(name, within=90) for name in NAMES] == ["n1", "n2", "n3"]
    await asyncio.sleep(60)
    assert [(site.pod(name)["metadata"]["annotations"] or {})[GANG_RANK] for name in NAMES] == ["0", "1", "2"]
    assert all("deletionTimestamp" not in site.pod(name)["metadata"] for name in NAMES)
    (job,) = site.jobs()
    assert (site.live_jobs(), job.nodes, site.drained()) == ([job], ("n1", "n2", "n3"), [])


@partners
@pytest.mark.parametrize("answered", [False, True], ids=["sent", "answered"])
@pytest.mark.parametrize("step", STEPS)
async def test_a_partner_that_dies_at_a_step_of_a_gang_leaves_it_whole_on_one_job(
    site: Site, step: str, answered: bool, kill: Callable[[Site], None]
) -> None:
    killer = PartnerKiller(step, lambda: kill(site), answered=answered)
    async with site.dying(tap=killer.tap):
        gang(site, range(SIZE), SIZE, gates=(GATE,))
        await site.until(lambda: killer.fired, "the step")
        await assert_whole(site)


@partners
@pytest.mark.parametrize("k", range(1, SIZE))
async def test_a_partner_that_dies_after_k_votes_leaves_a_gang_whole_on_one_job(
    site: Site, k: int, kill: Callable[[Site], None]
) -> None:
    async with site.running():
        gang(site, range(SIZE), SIZE, gates=(GATE,))
        for number in range(k, SIZE):
            site.edit_node(f"n{number + 1}", lambda node: node["spec"].update(taints=[TAINT]))
        ballots = site.extender.gang_barrier._ballots
        await site.until(lambda: sum(len(one.votes) for one in ballots.values()) == k, f"{k} votes", every=0.05)
        kill(site)
        await asyncio.sleep(18)
        assert bound(site, NAMES) == 0
        for number in range(k, SIZE):
            site.edit_node(f"n{number + 1}", lambda node: node["spec"].pop("taints"))
        await assert_whole(site)
