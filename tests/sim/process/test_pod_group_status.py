"""The status of a PodGroup says how far its gang is, unless somebody else writes it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from simulator.kube.kubelet import RUN_FOR
from simulator.kube.objects import Json, timestamp
from simulator.kube.resources import COSCHEDULING_POD_GROUPS, KUBERNETES_POD_GROUPS, VOLCANO_POD_GROUPS, Resource
from simulator.kube.storage import ObjectKey
from tests.builders.process_site import CONFIG, UNHURRIED, Site
from tests.sim.process.test_pod_groups import (
    LABEL,
    add_group,
    delete_group,
    drain_all,
    members,
    read_groups,
    undrain_all,
)

pytestmark = pytest.mark.looptime


@pytest.fixture
def site(site: Site) -> Site:
    """Slurm is polled seldom: minutes pass here."""
    site.config = site.config.replace(CONFIG, UNHURRIED)
    return site


def group(site: Site, kind: Resource = COSCHEDULING_POD_GROUPS) -> Json:
    found = site.kube.storage.get(ObjectKey(kind, "default", "ring"))
    assert found is not None
    return found


def status(site: Site, kind: Resource = COSCHEDULING_POD_GROUPS) -> Json:
    said: Json = group(site, kind).get("status", {})
    return said


def condition(site: Site) -> Json:
    [said] = status(site, KUBERNETES_POD_GROUPS).get("conditions", [{}])
    return dict(said)


def writes(site: Site) -> int:
    return sum(request.path.endswith("/podgroups/ring/status") for request in site.kube.requests)


async def test_the_phase_of_coscheduling_follows_the_gang_to_its_end(site: Site) -> None:
    read_groups(site, COSCHEDULING_POD_GROUPS)
    async with site.running():
        drain_all(site)
        add_group(site, 2)
        names = members(site, range(1), annotations={RUN_FOR: "100"})
        await site.until(lambda: status(site) == {"phase": "Pending", "running": 0, "succeeded": 0, "failed": 0}, "one")
        names += members(site, range(1, 2), annotations={RUN_FOR: "100"})
        await site.until(lambda: status(site).get("phase") == "Scheduling", "both")
        undrain_all(site)
        for name in names:
            await site.bound(name)
        await site.until(lambda: status(site) == {"phase": "Running", "running": 2, "succeeded": 0, "failed": 0}, "run")
        await site.until(lambda: status(site).get("phase") == "Finished", "the end")
        for name in names:
            site.kube.delete_pod(name, grace_s=1)
        await asyncio.sleep(60)
        assert status(site)["phase"] == "Finished"


async def test_the_phase_is_final_also_for_an_extender_that_starts_after_the_end(site: Site) -> None:
    read_groups(site, COSCHEDULING_POD_GROUPS)
    async with site.dying():
        add_group(site, 2)
        for name in members(site, range(2), annotations={RUN_FOR: "20"}):
            await site.bound(name)
        await site.until(lambda: status(site).get("phase") == "Running", "both run")
    await asyncio.sleep(60)
    async with site.running():
        await site.until(lambda: status(site).get("phase") == "Finished", "the end")


async def test_the_condition_of_kubernetes_says_why_a_gang_waits_and_that_it_has_its_nodes(site: Site) -> None:
    read_groups(site, KUBERNETES_POD_GROUPS)
    async with site.running():
        drain_all(site)
        add_group(site, 2, KUBERNETES_POD_GROUPS)
        names = members(site, range(2), KUBERNETES_POD_GROUPS)
        await asyncio.sleep(5)
        assert condition(site) == {}
        await site.until(lambda: bool(condition(site)), "the condition")
        waiting = condition(site)
        assert (waiting["type"], waiting["status"], waiting["reason"]) == (
            "PodGroupScheduled",
            "False",
            "Unschedulable",
        )
        assert "Slurm" in waiting["message"] or "Node" in waiting["message"]
        undrain_all(site)
        for name in names:
            await site.bound(name)
        await site.until(lambda: condition(site)["status"] == "True", "the nodes", within=10)
        assert condition(site)["reason"] == "Scheduled"
        assert condition(site)["lastTransitionTime"] > waiting["lastTransitionTime"]


async def test_a_gang_that_starts_at_once_costs_one_write(site: Site) -> None:
    read_groups(site, KUBERNETES_POD_GROUPS)
    async with site.running():
        add_group(site, 3, KUBERNETES_POD_GROUPS)
        for name in members(site, range(3), KUBERNETES_POD_GROUPS):
            await site.bound(name)
        await asyncio.sleep(400)
        assert (condition(site)["status"], writes(site)) == ("True", 1)


async def test_nothing_is_written_while_another_client_writes_the_status(site: Site) -> None:
    read_groups(site, COSCHEDULING_POD_GROUPS)
    async with site.running():
        add_group(site, 2)
        write_as_another(site, phase="Pending")
        for name in members(site, range(2)):
            await site.bound(name)
        await asyncio.sleep(300)
        assert (status(site)["phase"], writes(site)) == ("Pending", 0)


async def test_a_field_of_another_owner_that_stopped_is_an_event_and_no_fight(site: Site) -> None:
    read_groups(site, COSCHEDULING_POD_GROUPS)
    async with site.running():
        add_group(site, 2)
        write_as_another(site, phase="Pending")
        names = members(site, range(2))
        for name in names:
            await site.bound(name)
        await asyncio.sleep(700)
        assert (status(site)["phase"], writes(site)) == ("Pending", 1)
        notes = [
            note for name in names for note in site.notes(name) if "does not write the status of PodGroup ring" in note
        ]
        assert len(notes) == 1
        assert "podgroup-controller" in notes[0]


async def test_pods_of_another_account_change_nothing_in_the_status(site: Site) -> None:
    read_groups(site, COSCHEDULING_POD_GROUPS)
    async with site.running():
        add_group(site, 2)
        for name in members(site, range(2)):
            await site.bound(name)
        site.kube.add_pod("other", labels=LABEL, annotations={"slurm-extender.io/account": "biology"})
        await asyncio.sleep(60)
        assert status(site) == {"phase": "Running", "running": 2, "succeeded": 0, "failed": 0}


@pytest.mark.parametrize("kind", [VOLCANO_POD_GROUPS, COSCHEDULING_POD_GROUPS], ids=lambda kind: kind.group)
async def test_the_status_of_volcano_and_of_a_pod_group_without_a_gang_is_left_alone(
    site: Site, kind: Resource
) -> None:
    read_groups(site, kind)
    async with site.running():
        add_group(site, 2 if kind == VOLCANO_POD_GROUPS else 1, kind)
        for name in members(site, range(2), kind):
            await site.bound(name)
        await asyncio.sleep(60)
        assert (status(site, kind), writes(site)) == ({}, 0)


async def test_a_refused_write_is_repeated_and_stops_with_the_pod_group(site: Site) -> None:
    read_groups(site, COSCHEDULING_POD_GROUPS)
    async with site.running():
        site.kube.allowed = lambda permission: permission.resource != "podgroups/status"
        add_group(site, 2)
        for name in members(site, range(2)):
            await site.bound(name)
        await asyncio.sleep(100)
        assert (status(site), writes(site) > 1) == ({}, True)
        site.kube.allowed = None
        await site.until(lambda: status(site).get("phase") == "Running", "the phase")
        delete_group(site)
        before = writes(site)
        await asyncio.sleep(400)
        assert writes(site) == before


def write_as_another(site: Site, **said: Any) -> None:
    """The controller of scheduler-plugins writes the status now."""

    def edit(one: Json) -> None:
        one["status"] = said
        one["metadata"]["managedFields"] = [
            {
                "manager": "podgroup-controller",
                "operation": "Update",
                "apiVersion": "scheduling.x-k8s.io/v1alpha1",
                "time": timestamp(site.kube.wall()),
                "fieldsType": "FieldsV1",
                "fieldsV1": {"f:status": {"f:phase": {}}},
                "subresource": "status",
            }
        ]

    site.kube.change(ObjectKey(COSCHEDULING_POD_GROUPS, "default", "ring"), edit)
