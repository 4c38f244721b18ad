"""Whom a Pod's job runs as, and what happens when the site changes its mind about that."""

from __future__ import annotations

import asyncio

import pytest

from simulator.slurm.records import SimJob
from tests.builders.process_site import CONFIG, Site

pytestmark = pytest.mark.looptime
SUNK, BRIDGE = "sunk.coreweave.com/", "slurmjob.slinky.slurm.net/"
KNOWN = "user: root, users: [{name: alice, uid: 2001, gid: 2001}], groups: [{name: staff, gid: 50}]"
ALLOWED = "jobs: {allow: [user-id, group-id]}\n"


@pytest.fixture(autouse=True)
def names(site: Site) -> None:
    site.config = CONFIG.replace("user: root", KNOWN)


async def job_of(site: Site, name: str) -> SimJob:
    await site.bound(name)
    (job,) = site.jobs_of(name)
    return job


@pytest.mark.parametrize("prefix", [SUNK, BRIDGE])
async def test_a_permitted_pod_runs_as_the_user_and_group_it_names(site: Site, prefix: str) -> None:
    async with site.running(changed=ALLOWED):
        site.kube.add_pod("number", annotations={prefix + "user-id": "2002"})
        site.kube.add_pod("name", annotations={prefix + "user-id": "alice", prefix + "group-id": "staff"})
        number, name = await job_of(site, "number"), await job_of(site, "name")
        assert (number.user_id, number.group_id) == (2002, 2002)
        assert (name.user_id, name.group_id) == (2001, 50)


@pytest.mark.parametrize(("user", "at_once"), [("", True), ("0", True), ("root", True), ("2001", False)])
async def test_a_pod_that_requests_the_tokens_owner_is_allocated_at_once(site: Site, user: str, at_once: bool) -> None:
    site.config = site.config.replace("users: [", "users: [{name: root, uid: 0, gid: 0}, ")
    async with site.running(changed=ALLOWED):
        site.kube.add_pod("web", annotations={SUNK + "user-id": user})
        job = await job_of(site, "web")
        assert bool(job.script) is not at_once
        assert job.user_id == (0 if at_once else 2001)


async def test_every_fault_of_who_a_pod_wants_to_be_stands_in_one_event(site: Site) -> None:
    async with site.running():
        site.kube.add_pod("bold", annotations={SUNK + "user-id": "carol", BRIDGE + "group-id": "wheel"})
        await site.until(lambda: bool(site.events("bold")), "an Event")
        await asyncio.sleep(60)
        assert site.events("bold").count("InvalidSlurmSettings") == 1
        (note,) = [one for one in site.notes("bold") if "carol" in one]
        for word in ("permission for user-id", "permission for group-id", "alice", "wheel", "staff"):
            assert word in note
        assert not site.jobs()


async def test_a_refused_pod_gets_its_job_when_the_site_permits_what_it_requests(site: Site) -> None:
    async with site.running():
        site.kube.add_pod("web", annotations={SUNK + "user-id": "2002"})
        await site.until(lambda: "InvalidSlurmSettings" in site.events("web"), "its refusal")
        await asyncio.sleep(30)
        assert not site.jobs()
    async with site.running(changed=ALLOWED):
        await asyncio.sleep(5)
        site.kube.add_pod("other")  # whatever is bound makes kube-scheduler ask again for those that were rejected
        assert (await job_of(site, "web")).user_id == 2002


@pytest.mark.usefixtures("unhurried")
async def test_a_running_pod_stays_when_the_site_takes_its_permission_back(site: Site) -> None:
    async with site.running(changed=ALLOWED):
        site.kube.add_pod("web", annotations={SUNK + "user-id": "2002"})
        job = await job_of(site, "web")
    async with site.running():
        await asyncio.sleep(120)
        assert site.node_of("web")
        assert site.live_jobs() == [job]
