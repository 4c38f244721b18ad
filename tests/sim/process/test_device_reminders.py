"""A device that kube-schedulers forgot is brought back by a reminder, until its Pod ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from extender.domain.wellknown import DEVICE_REMINDER, GATE
from extender.kube.resource_claims import NO_NODE
from simulator.kube.dynamic_resources import devices_of
from simulator.kube.faults import KubeFault
from simulator.kube.objects import Json
from simulator.kube.resources import RESOURCE_CLAIMS
from simulator.kube.storage import ObjectKey, WatchEvent
from tests.builders.device_site import DRIVER, MAP, DeviceSite, device_site
from tests.builders.replicas import replicas
from tests.builders.resource_claims import is_reminder

pytestmark = pytest.mark.looptime


@pytest.fixture
async def site() -> AsyncIterator[DeviceSite]:
    async with device_site() as found:
        yield found


def reminders(site: DeviceSite) -> list[Json]:
    return [resource_claim for resource_claim in site.kube.storage.of(RESOURCE_CLAIMS) if is_reminder(resource_claim)]


async def test_a_device_that_kube_schedulers_forgot_is_brought_back_until_its_pod_ends(site: DeviceSite) -> None:
    """Two ResourceClaims held it, and one was freed."""
    async with site.running():
        site.add("ours")
        node = await site.bound("ours")
        device = (DRIVER, node, site.devices("ours")[0])
        for _ in range(2):
            site.dra.share_for_a_moment(device)
            assert device not in site.dra.known
            await site.until(lambda: device in site.dra.known, "kube-schedulers know of it again", within=5)
            await asyncio.sleep(5)
            assert device in site.dra.known
        [reminder] = reminders(site)
        assert devices_of(reminder) == [device]
        [owner] = reminder["metadata"]["ownerReferences"]
        assert owner["uid"] == site.resource_claim_of("ours")["metadata"]["uid"]
        assert site.devices("ours") == site.indexes("ours")
        site.kube.delete_pod("ours", grace_s=1)
        await site.until(lambda: not reminders(site), "it is not needed any more", within=10)
        assert device not in site.dra.known


async def test_the_end_of_a_reminder_begins_with_its_device(site: DeviceSite) -> None:
    """Each request before that is time in which kube-scheduler gives the device away, only to forget it again."""
    async with site.running():
        _, reminder = await reminded(site)
        changes: list[tuple[bool, bool]] = []

        def note(event: WatchEvent) -> None:
            meta = event.object["metadata"]
            if event.resource == RESOURCE_CLAIMS and meta["uid"] == reminder["metadata"]["uid"]:
                changes.append((bool(devices_of(event.object)), "deletionTimestamp" in meta))

        site.kube.storage.listen(note)
        site.kube.delete_pod("ours", grace_s=1)
        await site.until(lambda: not reminders(site), "it is not needed any more", within=10)
        assert changes[0] == (False, False)


async def test_the_device_of_another_schedulers_pod_is_brought_back_too(site: DeviceSite) -> None:
    async with site.running():
        resource_claims = [{"name": "g", "resourceClaimName": "theirs"}]
        site.kube.add_pod(
            "other", scheduler="default-scheduler", node="n1", spec_more={"resourceClaims": resource_claims}
        )
        for name, pod in (("theirs", site.pod("other")), ("second", None)):
            site.dra.give_to_another(name, DRIVER, "n1", "gpu-3", pod)
        site.kube.storage.remove(ObjectKey(RESOURCE_CLAIMS, "default", "second"))
        await site.until(lambda: (DRIVER, "n1", "gpu-3") in site.dra.known, "it is known again", within=5)
        assert len(reminders(site)) == 1


async def test_a_pod_waits_until_the_reminder_of_its_device_is_gone(site: DeviceSite) -> None:
    """Deleted after the write, the reminder would make kube-schedulers forget the next holder."""
    async with site.running():
        site.add("first", 4)
        node = await site.bound("first")
        site.dra.share_for_a_moment((DRIVER, node, "gpu-0"))
        await site.until(lambda: bool(reminders(site)), "a reminder")
        site.kube.add_pod("fills", cpu="8", gates=(GATE,))
        other = await site.bound("fills")
        assert other != node
        site.add("next", 1)
        site.kube.delete_pod("first", grace_s=1)
        assert await site.bound("next") == node
        assert not reminders(site)
        assert (DRIVER, node, site.devices("next")[0]) in site.dra.known
        assert await site.metric("device_conflicts_total") == 0


async def reminded(site: DeviceSite) -> tuple[tuple[str, str, str], Json]:
    """The device of Pod `ours`, and the reminder that brought it back."""
    site.add("ours")
    node = await site.bound("ours")
    device = (DRIVER, node, site.devices("ours")[0])
    site.dra.share_for_a_moment(device)
    await site.until(lambda: any(devices_of(one) for one in reminders(site)), "a reminder", within=5)
    [reminder] = reminders(site)
    return device, reminder


def edit(site: DeviceSite, resource_claim: Json, change: Callable[[Json], object]) -> None:
    """Change the metadata of a ResourceClaim, as an editor of its namespace may."""
    key = ObjectKey(RESOURCE_CLAIMS, "default", resource_claim["metadata"]["name"])

    def changed(one: Json) -> None:
        change(one["metadata"])

    site.kube.change(key, changed)


async def test_a_pod_that_uses_a_reminder_keeps_its_device(site: DeviceSite) -> None:
    async with site.running():
        device, reminder = await reminded(site)
        resource_claims = [{"name": "g", "resourceClaimName": reminder["metadata"]["name"]}]
        site.kube.add_pod(
            "also", scheduler="default-scheduler", node=device[1], spec_more={"resourceClaims": resource_claims}
        )
        await asyncio.sleep(2)
        site.dra.doubly.clear()  # its author shares a device of its own namespace
        site.kube.delete_pod("ours", grace_s=1)
        await asyncio.sleep(20)
        assert device in site.dra.known
        site.kube.delete_pod("also", grace_s=1)
        await site.until(lambda: not reminders(site), "it ends with its Pod", within=130)
        assert device not in site.dra.known


EDITS: dict[str, Callable[[Json], object]] = {
    "no owner": lambda meta: meta.pop("ownerReferences"),
    "no label": lambda meta: meta.pop("labels"),
    "a finalizer": lambda meta: meta["finalizers"].append("example.com/mine"),
    "no finalizer": lambda meta: meta.update(finalizers=[]),
}


@pytest.mark.parametrize("name", EDITS)
async def test_an_edited_reminder_keeps_no_device_after_its_resource_claim(site: DeviceSite, name: str) -> None:
    async with site.running():
        device, reminder = await reminded(site)
        edit(site, reminder, EDITS[name])
        site.kube.delete_pod("ours", grace_s=1)
        await asyncio.sleep(100)
        assert not [one for one in reminders(site) if devices_of(one)]
        assert device not in site.dra.known


async def test_a_resource_claim_that_is_called_a_reminder_is_released_as_any_other(site: DeviceSite) -> None:
    async with site.running():
        site.scheduler.judge = lambda _pod, _node: "never"
        other, resource_claim = site.dra.add_resource_claim("other", DRIVER), site.dra.add_resource_claim("own", DRIVER)
        named = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "name": "other", "controller": True}
        resource_claims = [{"name": "g", "resourceClaimName": "own"}]
        site.kube.add_pod("web", gates=(GATE,), spec_more={"resourceClaims": resource_claims})
        await site.until(lambda: bool(site.dra.devices_of("own")), "its allocation")
        owner = named | {"uid": other["metadata"]["uid"]}
        edit(site, resource_claim, lambda meta: meta.update(labels={DEVICE_REMINDER: "true"}, ownerReferences=[owner]))
        site.kube.delete_pod("web", grace_s=0)
        await site.until(lambda: not site.dra.devices_of("own"), "its release", within=100)
        assert site.dra.resource_claim("own") is not None


async def test_the_device_of_a_resource_claim_that_names_no_node_is_brought_back(site: DeviceSite) -> None:
    """Devices on a network are of no single Node."""
    device = ("nic.example.com", "fabric", "nic-0")
    results = [dict(zip(("driver", "pool", "device"), device, strict=True)) | {"request": "gpu"}]
    status = {"allocation": {"devices": {"results": results}, "allocationTimestamp": "2026-01-01T00:00:00Z"}}
    async with site.running():
        for name in ("first", "second"):
            site.dra.add_resource_claim(name, device[0])
            site.kube.change(ObjectKey(RESOURCE_CLAIMS, "default", name), lambda one: one.update(status=status))
        site.kube.storage.remove(ObjectKey(RESOURCE_CLAIMS, "default", "second"))
        await site.until(lambda: device in site.dra.known, "it is known again", within=5)
        [reminder] = reminders(site)
        [term] = reminder["status"]["allocation"]["nodeSelector"]["nodeSelectorTerms"]
        assert term["matchFields"][0]["values"] == [NO_NODE]


async def test_a_resource_claim_that_was_freed_and_allocated_again_between_two_lists_leaves_nothing_forgotten(
    site: DeviceSite,
) -> None:
    async with site.running():
        site.add("ours")
        node = await site.bound("ours")
        device = (DRIVER, node, site.devices("ours")[0])
        site.dra.give_to_another("theirs", DRIVER, *device[1:])
        await asyncio.sleep(2)
        path = "/resourceclaims$"
        site.kube.faults.add(KubeFault("GET", path, watch=True, code=410, reason="Expired", message="too old"))
        site.network.cut("kube", 6443)
        site.dra.move("theirs", (DRIVER, "n1" if node == "n2" else "n2", "gpu-3"))
        assert device not in site.dra.known
        await site.until(lambda: device in site.dra.known, "it is known again", within=100)


async def test_a_reminder_that_is_refused_is_tried_less_and_less_often(site: DeviceSite) -> None:
    """A quota of ResourceClaims is used up, for example."""
    async with site.running():
        site.add("ours")
        node = await site.bound("ours")
        site.kube.faults.add(KubeFault("POST", "/resourceclaims", code=403, times=None))
        site.dra.share_for_a_moment((DRIVER, node, site.devices("ours")[0]))
        await asyncio.sleep(300)
        tries = [one for one in site.kube.requests if one.method == "POST" and one.path.endswith("/resourceclaims")]
        assert 3 <= len(tries) <= 30


async def test_a_next_leader_leaves_reminders_as_they_are(site: DeviceSite) -> None:
    async with replicas(site, config=MAP) as both:
        first, _ = await both.led()
        await asyncio.sleep(20)
        _, reminder = await reminded(site)
        await asyncio.sleep(100)
        freed: list[str] = []

        def note(event: WatchEvent) -> None:
            same = event.object["metadata"]["uid"] == reminder["metadata"]["uid"]
            if event.resource == RESOURCE_CLAIMS and same and not devices_of(event.object):
                freed.append(event.type)

        site.kube.storage.listen(note)
        first.kill()
        await first.wait()
        await both.led(other_than=first)
        await asyncio.sleep(100)
        assert not freed
        assert len(reminders(site)) == 1
