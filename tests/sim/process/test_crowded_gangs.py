"""However many Pods name one gang, its members are few and other Pods of the name are refused."""

from __future__ import annotations

import asyncio

import pytest

from extender.controllers.gang_intake import MOST_TIMES
from extender.domain.wellknown import GATE
from simulator.kube.kubelet import RUN_FOR
from tests.builders.gang_pods import gang
from tests.builders.process_site import Site

pytestmark = pytest.mark.looptime

LARGEST = 3
MOST = MOST_TIMES * LARGEST


def members(site: Site) -> list[int]:
    """Return how many members each gang has."""
    return [len(p.members) for p in site.extender.engine.placeholders.all.values() if p.key.startswith("gang-")]


@pytest.fixture
def small(site: Site) -> Site:
    site.config += f"gangs: {{largest: {LARGEST}}}\n"
    return site


async def test_a_pod_beyond_the_limit_of_pods_that_name_one_gang_is_refused_until_it_is_recreated(small: Site) -> None:
    site = small
    async with site.running():
        first = gang(site, range(MOST // 2), 2, gates=(GATE,))
        gang(site, range(MOST // 2, MOST), 3, gates=(GATE,))
        await asyncio.sleep(1)
        late = gang(site, range(MOST, MOST + 2), 3, gates=(GATE,))
        await asyncio.sleep(15)
        assert members(site) == [MOST]
        assert site.events(late[0]) == ["InvalidSlurmSettings"]
        assert f"{MOST} Pods name gang ring already" in site.notes(late[0])[0]
        assert not site.live_jobs()
        for name in (*first, *late):
            site.kube.delete_pod(name, grace_s=0)
        await asyncio.sleep(1)
        await site.until(lambda: len(site.live_jobs()) == 1, "the job of the others")


async def test_pods_that_have_finished_do_not_count(small: Site) -> None:
    site = small
    async with site.running():
        for number in range(MOST):
            gang(site, range(number, number + 1), 1, settings={RUN_FOR: "1"})
            await site.bound(f"ring-{number}")
            await site.until(lambda: not site.live_jobs(), "the end of its job")
        gang(site, range(MOST, MOST + 1), 1)
        await site.bound(f"ring-{MOST}")


async def test_a_restart_keeps_the_job_of_a_gang_that_many_other_pods_name(small: Site) -> None:
    site = small
    async with site.running():
        names = gang(site, range(3), 3)
        for name in names:
            await site.bound(name)
        gang(site, range(3, MOST + 2), 3, gates=(GATE,))
        await asyncio.sleep(5)
        (job,) = site.live_jobs()
    async with site.running():
        await asyncio.sleep(60)
        assert site.live_jobs() == [job]
        assert not site.drained()
