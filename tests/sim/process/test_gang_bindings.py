"""A member whose Binding is under way gets no error: kube-scheduler would undo its ResourceClaims for one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from extender.controllers.gangs.bindings import STOPPED
from extender.domain.wellknown import GANG, GANG_SIZE, GATE
from simulator.kube.faults import KubeFault
from simulator.kube.resources import RESOURCE_SLICES
from simulator.kube.storage import ObjectKey
from tests.builders.device_site import DRIVER, DeviceSite, device_site
from tests.builders.process_site import FREQUENT_VOTES, HTTP

pytestmark = pytest.mark.looptime
NAMES = ("p0", "p1")


@pytest.fixture
async def site() -> AsyncIterator[DeviceSite]:
    async with device_site() as found:
        found.config += "gangs: {unfenced: allow}\n"
        yield found


def pair(site: DeviceSite) -> None:
    """Create a gang of two Pods, each with two GPUs as extended resources."""
    for name in NAMES:
        said = {GANG: "ring", GANG_SIZE: "2"}
        site.kube.add_pod(name, gates=(GATE,), more={"example.com/gpu": "2"}, annotations=said)


async def bound_with_their_devices(site: DeviceSite) -> None:
    for name in NAMES:
        await site.bound(name, 120)
    await asyncio.sleep(10)
    for name in NAMES:
        special = site.pod(name)["status"]["extendedResourceClaimStatus"]["resourceClaimName"]
        assert site.dra.resource_claim(special) is not None, f"the ResourceClaim of {name} is gone"
        assert site.dra.devices_of(special) == site.indexes(name)


@pytest.mark.parametrize("late_s", [0.5, 1.0, 1.4, 1.7])
async def test_a_call_whose_time_is_up_waits_for_its_binding(site: DeviceSite, late_s: float) -> None:
    for node in ("n1", "n2"):
        slices = ObjectKey(RESOURCE_SLICES, "", f"{node}-{DRIVER}-1")
        site.kube.change(slices, lambda one: one["spec"]["devices"].reverse())
    site.config = site.config.replace(HTTP, FREQUENT_VOTES)
    async with site.running():
        site.scheduler.unreached = frozenset({"p1"})
        resource_claims = "namespaces/default/resourceclaims/"
        site.kube.faults.add(KubeFault("", resource_claims, code=None, delay_s=0.4, times=None))
        site.kube.faults.add(KubeFault("POST", "/binding", code=None, delay_s=0.5, times=None))
        pair(site)
        await site.until(lambda: site.scheduler.status.binds > 0, "the first vote", every=0.01)
        await asyncio.sleep(late_s)
        site.scheduler.reach_all()
        await bound_with_their_devices(site)


@pytest.mark.parametrize("what", ["node", "pod"])
async def test_a_change_of_labels_during_the_bindings_undoes_none(site: DeviceSite, what: str) -> None:
    async with site.running():
        site.kube.faults.add(KubeFault("POST", "/binding", code=None, delay_s=0.6, times=None))
        pair(site)
        await site.until(lambda: site.scheduler.status.binds >= 2, "both votes", every=0.01)
        await site.until(lambda: all(one.binding for one in site.placeholder("p0").members), "Bindings", every=0.01)
        await asyncio.sleep(0.3)
        edit, names = (site.edit_node, ("n1", "n2")) if what == "node" else (site.edit_pod, NAMES)
        for name in names:
            edit(name, lambda one: one["metadata"].setdefault("labels", {}).update(rack="b"))
        await bound_with_their_devices(site)


async def test_a_refused_binding_does_not_undo_that_of_another_member(site: DeviceSite) -> None:
    async with site.running():
        refused = KubeFault("POST", "/p0/binding", code=409, reason="Conflict", delay_s=0.2)
        site.kube.faults.add(refused)
        site.kube.faults.add(KubeFault("POST", "/p1/binding", code=None, delay_s=1.0))
        pair(site)
        await bound_with_their_devices(site)


@pytest.mark.parametrize("refused", NAMES)
async def test_the_next_job_excludes_the_node_that_refused_a_member_and_not_one_whose_vote_was_undone(
    site: DeviceSite, refused: str
) -> None:
    site.config = site.config.replace("unfenced: allow", "unfenced: allow, bindWithin: 15s")
    site.scheduler.judge = lambda pod, _node: "not here" if pod["metadata"]["name"] == refused else ""
    async with site.running():
        pair(site)
        await site.until(lambda: bool(released(site)), "the barrier broke")
        assert all(f"did not accept default/{refused} " in text for text in released(site))


def released(site: DeviceSite) -> list[str]:
    """The Events that say which member kept a gang from its job."""
    return [text for name in NAMES for text in site.notes(name) if "did not accept" in text]


async def test_the_calls_of_members_are_held_until_kube_scheduler_has_reached_the_last_one(site: DeviceSite) -> None:
    async with site.running():
        site.scheduler.unreached = frozenset({"p1"})
        pair(site)
        await site.until(lambda: site.scheduler.status.binds > 0, "the first vote", every=0.01)
        await asyncio.sleep(20)
        site.scheduler.reach_all()
        await bound_with_their_devices(site)
        assert site.scheduler.status.binds == 2, "a call ended, and its member voted again"


async def test_a_process_that_stops_ends_the_calls_that_it_holds(site: DeviceSite) -> None:
    async with site.running():
        site.scheduler.unreached = frozenset({"p1"})
        pair(site)
        await site.until(lambda: site.scheduler.status.binds > 0, "the first vote", every=0.01)
        began = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - began < 2.0
    assert ("p0", f"error: {STOPPED}") in site.scheduler.status.outcomes
    async with site.running():
        site.scheduler.reach_all()
        await bound_with_their_devices(site)
