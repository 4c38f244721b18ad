"""The Pods of a PodGroup start together: as many as it asks for, once it exists."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from extender.domain.gangs import labels
from extender.domain.wellknown import GANG_RANK
from simulator.kube.objects import Json, a_pod, owner_reference
from simulator.kube.resources import (
    COSCHEDULING_POD_GROUPS,
    KUBERNETES_POD_GROUPS,
    VOLCANO_POD_GROUPS,
    Resource,
)
from simulator.kube.storage import ObjectKey
from tests.builders.gang_pods import an_owner, bound
from tests.builders.process_site import Site
from tests.builders.rights import shipped_rights

pytestmark = pytest.mark.looptime

KINDS = (KUBERNETES_POD_GROUPS, COSCHEDULING_POD_GROUPS, VOLCANO_POD_GROUPS)
LABEL = {labels.COSCHEDULING_GROUP: "ring"}


def read_groups(site: Site, *kinds: Resource, served: bool = True) -> None:
    """The component is installed: the configuration names these kinds, and the extender may read them."""
    site.kube.rbac = shipped_rights("pod-groups")
    site.config += f"gangs: {{podGroups: [{', '.join(kind.group for kind in kinds)}]}}\n"
    if served:
        site.kube.resources = (*site.kube.resources, *kinds)


def add_group(site: Site, least: int, kind: Resource = COSCHEDULING_POD_GROUPS, name: str = "ring") -> Json:
    spec: Json = {"minMember": least}
    if kind == KUBERNETES_POD_GROUPS:
        spec = {"schedulingPolicy": {"gang": {"minCount": least}} if least else {"basic": {}}}
    meta = {"name": name, "namespace": "default"}
    return site.kube.create({"apiVersion": kind.api_version, "kind": "PodGroup", "metadata": meta, "spec": spec})


def change_group(site: Site, least: int) -> None:
    key = ObjectKey(COSCHEDULING_POD_GROUPS, "default", "ring")
    site.kube.change(key, lambda one: one["spec"].update(minMember=least))


def delete_group(site: Site) -> None:
    site.kube.storage.remove(ObjectKey(COSCHEDULING_POD_GROUPS, "default", "ring"))


def members(site: Site, numbers: range, kind: Resource = COSCHEDULING_POD_GROUPS, **fields: Any) -> list[str]:
    names = [f"ring-{number}" for number in numbers]
    for name in names:
        if kind == VOLCANO_POD_GROUPS:
            fields["annotations"] = {labels.VOLCANO_GROUPS[0]: "ring", **fields.get("annotations", {})}
        elif kind == COSCHEDULING_POD_GROUPS:
            fields["labels"] = LABEL
        pod = a_pod(name, **fields)
        if kind == KUBERNETES_POD_GROUPS:
            pod["spec"]["schedulingGroup"] = {"podGroupName": "ring"}
        site.kube.create(pod)
    return names


def message(site: Site, name: str) -> str:
    conditions = site.pod(name)["status"].get("conditions", [])
    return next((one["message"] for one in conditions if one["type"] == "slurm-extender.io/Allocated"), "")


async def a_gang_with_a_job(site: Site) -> list[str]:
    """Create two Pods of a PodGroup, and wait for their job."""
    add_group(site, 2)
    names = members(site, range(2))
    await site.until(lambda: len(site.live_jobs()) == 1, "its job")
    return names


async def a_gang_that_waits(site: Site) -> list[str]:
    """Create such a gang whose job waits, since every node is drained."""
    drain_all(site)
    return await a_gang_with_a_job(site)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.group)
async def test_the_pods_of_a_pod_group_are_one_gang(site: Site, kind: Resource) -> None:
    read_groups(site, kind)
    async with site.running():
        add_group(site, 3, kind)
        names = members(site, range(2), kind)
        await asyncio.sleep(30)
        assert site.live_jobs() == []
        assert message(site, names[0]) == "2 of 3 Pods of PodGroup ring exist."
        names += members(site, range(2, 3), kind)
        assert [await site.bound(name) for name in names] == ["n1", "n2", "n3"]
        assert [job.name.rpartition("-")[0] for job in site.live_jobs()] == ["default/PodGroup ring"]
        assert [site.pod(name)["metadata"]["annotations"][GANG_RANK] for name in names] == ["0", "1", "2"]
        assert not any("PodsPlacedOneByOne" in site.events(name) for name in names)


async def test_edge_case_33_pods_wait_for_a_pod_group_that_does_not_exist_and_start_once_it_does(site: Site) -> None:
    read_groups(site, COSCHEDULING_POD_GROUPS)
    async with site.running():
        names = members(site, range(2))
        await asyncio.sleep(30)
        assert site.live_jobs() == []
        for name in names:
            assert message(site, name).startswith("PodGroup ring does not exist in namespace default")
        add_group(site, 2)
        for name in names:
            await site.bound(name, within=10)
        assert len(site.live_jobs()) == 1
        assert set(site.extender.engine.placeholders.all) == {site.placeholder(names[0]).key}


async def test_edge_case_33_pods_wait_while_the_api_server_does_not_serve_their_pod_group(site: Site) -> None:
    read_groups(site, COSCHEDULING_POD_GROUPS, served=False)
    async with site.running():
        names = members(site, range(2))
        await asyncio.sleep(30)
        assert site.live_jobs() == []
        site.kube.resources = (*site.kube.resources, COSCHEDULING_POD_GROUPS)
        add_group(site, 2)
        for name in names:
            await site.bound(name, within=60)
        assert len(site.live_jobs()) == 1


async def test_edge_case_33_a_pod_group_that_is_deleted_while_its_job_waits_takes_nothing_from_its_pods(
    site: Site,
) -> None:
    read_groups(site, COSCHEDULING_POD_GROUPS)
    async with site.running():
        names = await a_gang_that_waits(site)
        (before,) = site.live_jobs()
        delete_group(site)
        await asyncio.sleep(60)
        undrain_all(site)
        for name in names:
            await site.bound(name)
        assert [job.job_id for job in site.live_jobs()] == [before.job_id]


async def test_a_pod_group_that_was_recreated_starts_its_pods_once_one_is_replaced_after_a_cancel(site: Site) -> None:
    read_groups(site, COSCHEDULING_POD_GROUPS)
    async with site.running():
        names = await a_gang_that_waits(site)
        delete_group(site)
        add_group(site, 2)
        await asyncio.sleep(10)
        site.slurm.controller.cancel(site.live_jobs()[0].job_id)
        await site.until(lambda: not site.live_jobs(), "the end of its job")
        await asyncio.sleep(10)
        site.kube.delete_pod(names[1], grace_s=1)
        await site.gone(names[1])
        members(site, range(1, 2))
        undrain_all(site)
        for name in names:
            await site.bound(name)
        assert len(site.live_jobs()) == 1


async def test_edge_case_34_another_minimum_resizes_the_job_that_waits(site: Site) -> None:
    read_groups(site, COSCHEDULING_POD_GROUPS)
    async with site.running():
        names = await a_gang_that_waits(site)
        (before,) = site.live_jobs()
        change_group(site, 3)
        names += members(site, range(2, 3))
        await site.until(lambda: [one.node_count for one in site.live_jobs()] == [3], "its new size")
        undrain_all(site)
        assert {await site.bound(name) for name in names} == {"n1", "n2", "n3"}
        assert [one.job_id for one in site.live_jobs()] == [before.job_id]


async def test_edge_case_34_a_waiting_job_ends_if_the_pods_of_a_larger_minimum_do_not_come(site: Site) -> None:
    read_groups(site, COSCHEDULING_POD_GROUPS)
    async with site.running():
        names = await a_gang_that_waits(site)
        change_group(site, 3)
        await site.until(lambda: not site.live_jobs(), "the end of a job that is too small")
        await site.until(lambda: message(site, names[0]) == "2 of 3 Pods of PodGroup ring exist.", "the reason")


async def test_edge_case_2_pods_beyond_the_minimum_wait_for_a_free_slot(site: Site) -> None:
    read_groups(site, COSCHEDULING_POD_GROUPS)
    async with site.running():
        add_group(site, 2)
        names = members(site, range(3))
        for name in names[:2]:
            await site.bound(name)
        await asyncio.sleep(30)
        assert bound(site, names) == 2
        assert len(site.live_jobs()) == 1
        site.kube.delete_pod(names[0], grace_s=1)
        await site.bound(names[2])
        assert len(site.live_jobs()) == 1


async def test_pods_of_a_pod_group_that_appears_later_and_is_no_gang_are_placed_one_by_one(site: Site) -> None:
    read_groups(site, COSCHEDULING_POD_GROUPS)
    async with site.running():
        names = members(site, range(2))
        await asyncio.sleep(30)
        add_group(site, 1)
        for name in names:
            await site.bound(name, within=10)
        assert {site.placeholder(name).key for name in names} == set(site.extender.engine.placeholders.all)
        assert len(site.live_jobs()) == 2


@pytest.mark.parametrize("kind", [KUBERNETES_POD_GROUPS, COSCHEDULING_POD_GROUPS], ids=lambda kind: kind.group)
async def test_pods_of_a_pod_group_that_is_no_gang_are_placed_one_by_one_without_a_warning(
    site: Site, kind: Resource
) -> None:
    read_groups(site, kind)
    async with site.running():
        add_group(site, 0 if kind == KUBERNETES_POD_GROUPS else 1, kind)
        names = members(site, range(2), kind)
        for name in names:
            await site.bound(name)
        assert len(site.live_jobs()) == 2
        assert not any("PodsPlacedOneByOne" in site.events(name) for name in names)


async def test_a_pod_of_another_owner_or_account_that_names_the_pod_group_does_not_join_its_gang(site: Site) -> None:
    read_groups(site, COSCHEDULING_POD_GROUPS)
    async with site.running():
        add_group(site, 3)
        names = members(site, range(2))
        job = an_owner(site, "Job", "other", {"parallelism": 1, "completions": 1})
        site.kube.add_pod("foreign", labels=LABEL, owner=owner_reference(job))
        site.kube.add_pod("charged", labels=LABEL, annotations={"slurm-extender.io/account": "biology"})
        await asyncio.sleep(30)
        assert site.live_jobs() == []
        others = "Pods of another owner, Slurm user, account or QOS that name it are counted separately."
        assert message(site, names[0]) == f"2 of 3 Pods of PodGroup ring exist. {others}"
        for name in ("foreign", "charged"):
            assert message(site, name) == f"1 of 3 Pods of PodGroup ring exist. {others}"
        names += members(site, range(2, 3))
        for name in names:
            await site.bound(name)
        assert bound(site, ["foreign", "charged"]) == 0


@pytest.mark.parametrize("when", ["waiting", "bound"])
async def test_after_a_restart_the_gang_of_a_pod_group_has_the_job_that_it_had(site: Site, when: str) -> None:
    read_groups(site, COSCHEDULING_POD_GROUPS)
    async with site.dying():
        if when == "waiting":
            drain_all(site)
        names = await a_gang_with_a_job(site)
        if when == "bound":
            for name in names:
                await site.bound(name)
    jobs = [job.job_id for job in site.live_jobs()]
    async with site.running():
        await asyncio.sleep(60)
        undrain_all(site)
        for name in names:
            await site.bound(name)
        assert [job.job_id for job in site.live_jobs()] == jobs


@pytest.mark.parametrize("again", [False, True])
async def test_after_a_restart_a_bound_gang_keeps_its_job_although_its_pod_group_is_gone_or_another(
    site: Site, again: bool
) -> None:
    read_groups(site, COSCHEDULING_POD_GROUPS)
    async with site.dying():
        add_group(site, 2)
        names = members(site, range(2))
        nodes = [await site.bound(name) for name in names]
    jobs = [job.job_id for job in site.live_jobs()]
    delete_group(site)
    if again:
        add_group(site, 2)
    async with site.running():
        await asyncio.sleep(120)
        assert [job.job_id for job in site.live_jobs()] == jobs
        assert [site.node_of(name) for name in names] == nodes


async def test_a_pod_group_that_appears_right_after_a_restart_starts_its_pods(site: Site) -> None:
    read_groups(site, COSCHEDULING_POD_GROUPS)
    async with site.dying():
        names = members(site, range(2))
        await asyncio.sleep(5)
    async with site.running():
        add_group(site, 2)
        for name in names:
            await site.bound(name, within=60)
        assert len(site.live_jobs()) == 1


def drain_all(site: Site) -> None:
    for number in range(1, 4):
        site.slurm.controller.drain(f"n{number}", "disk")


def undrain_all(site: Site) -> None:
    for number in range(1, 4):
        site.slurm.controller.undrain(f"n{number}")
