"""A bound member stays a member of its gang after a restart, whatever anyone wrote on it meanwhile."""

from __future__ import annotations

import asyncio

import pytest

from extender.domain.wellknown import GANG, GANG_KEY
from tests.builders.gang_pods import bound, gang
from tests.builders.process_site import Site

pytestmark = pytest.mark.looptime


async def test_a_bound_gang_keeps_its_job_after_a_restart_although_its_annotation_names_another_gang(
    site: Site,
) -> None:
    async with site.dying():
        names = gang(site, range(2), 2)
        for name in names:
            await site.bound(name)
    jobs = [job.job_id for job in site.live_jobs()]
    for name in names:
        site.edit_pod(name, lambda pod: pod["metadata"]["annotations"].update({GANG: "other"}))
    async with site.running():
        await asyncio.sleep(120)
        assert [job.job_id for job in site.live_jobs()] == jobs
        assert bound(site, names) == 2


async def test_a_pod_that_copies_the_key_of_a_gang_does_not_join_it(site: Site) -> None:
    async with site.dying():
        names = gang(site, range(2), 2)
        for name in names:
            await site.bound(name)
        key = site.pod(names[0])["metadata"]["annotations"][GANG_KEY]
        site.kube.add_pod("thief", annotations={GANG_KEY: key})
        await site.bound("thief")
    async with site.running():
        await asyncio.sleep(60)
        assert site.placeholder("thief").key == site.uid("thief")
        assert not site.pod("thief")["metadata"]["annotations"][GANG_KEY]
        assert len(site.live_jobs()) == 2
