"""Slurm's indexes become the devices of ResourceClaims, and no device is ever prepared for two Pods."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from extender.domain.devices.views import RESOURCE_CLAIM_FINALIZER
from extender.domain.wellknown import DEVICE_REMINDER, GANG, GANG_SIZE, GATE, JOB_ID
from extender.kube.resource_claims import NO_NODE
from simulator.kube.dynamic_resources import devices_of
from simulator.kube.faults import KubeFault
from simulator.kube.kubelet import RUN_FOR
from simulator.kube.objects import Json
from simulator.kube.resources import RESOURCE_CLAIMS, RESOURCE_SLICES
from simulator.kube.storage import ObjectKey, WatchEvent
from tests.builders.device_site import DRIVER, MAP, DeviceSite, device_site
from tests.builders.explained import debug, message_of
from tests.builders.process_site import CONFIG
from tests.builders.replicas import replicas
from tests.builders.resource_claims import is_reminder
from tests.builders.rights import shipped_rights

pytestmark = pytest.mark.looptime


@pytest.fixture
async def site() -> AsyncIterator[DeviceSite]:
    async with device_site() as found:
        yield found


@pytest.mark.parametrize("gated", [True, False])
async def test_the_resource_claim_of_a_pod_has_the_devices_that_slurm_allocated(site: DeviceSite, gated: bool) -> None:
    async with site.running():
        site.add("first", 1, gated=gated)
        await site.bound("first")
        site.add("second", 2, gated=gated)
        await site.bound("second")
        for name in ("first", "second"):
            assert site.devices(name) == site.indexes(name)
            assert site.resource_claim_of(name)["status"]["reservedFor"][0]["uid"] == site.uid(name)
        assert len(site.jobs_of("second")) == 1


async def test_a_device_that_another_scheduler_gave_away_is_released_and_named(site: DeviceSite) -> None:
    site.dra.give_to_another("theirs", DRIVER, "n1", "gpu-0")
    async with site.running():
        site.add("web")
        assert await site.bound("web") == "n2"
        assert any("ResourceClaim default/theirs holds it" in note and "gpu-0" in note for note in site.notes("web"))
        assert site.devices("web") == site.indexes("web")


async def test_an_extended_resource_gets_slurms_devices_inside_bind(site: DeviceSite) -> None:
    async with site.running():
        for name, count in (("a", "2"), ("b", "1"), ("c", "1")):
            site.kube.add_pod(name, more={"example.com/gpu": count}, gates=(GATE,), cpu="1")
            await site.bound(name)
        for name in ("a", "b", "c"):
            special = site.pod(name)["status"]["extendedResourceClaimStatus"]["resourceClaimName"]
            assert site.dra.devices_of(special) == site.indexes(name)


async def test_a_pod_is_not_bound_once_kube_scheduler_may_have_deleted_its_resource_claim(site: DeviceSite) -> None:
    """kube-scheduler gives up `/bind` after 5 s, and deletes the ResourceClaim that it made for extended resources."""
    for node in ("n1", "n2"):  # so that all devices are replaced
        slices = ObjectKey(RESOURCE_SLICES, "", f"{node}-{DRIVER}-1")
        site.kube.change(slices, lambda one: one["spec"]["devices"].reverse())
    slow = [
        KubeFault("", "namespaces/default/resourceclaims/", code=None, delay_s=0.8, times=None),
        KubeFault("POST", "/binding", code=None, delay_s=2.5, times=None),
    ]
    async with site.running():
        for fault in slow:
            site.kube.faults.add(fault)
        site.kube.add_pod("web", gates=(GATE,), more={"example.com/gpu": "2"})
        await asyncio.sleep(60)
        for fault in slow:
            site.kube.faults.remove(fault)
        node = await site.bound("web")
        held = {device for uid, device in site.dra.prepared if uid == site.uid("web")}
        assert held == {(DRIVER, node, device) for device in site.indexes("web")}


async def test_an_allocation_that_kube_scheduler_took_away_is_written_again(site: DeviceSite) -> None:
    async with site.running():
        site.scheduler.judge = lambda _pod, _node: "not now"
        site.add("web")
        await site.until(lambda: bool(site.jobs_of("web")), "its job")
        await site.until(lambda: not site.pod("web")["spec"].get("schedulingGates"), "the grant")
        await asyncio.sleep(2)  # kube-scheduler refuses the node, and takes the allocation away each time
        site.scheduler.judge = None
        site.edit_node("n1", lambda node: node["metadata"]["labels"].update(a="b"))
        await site.bound("web")
        assert site.devices("web") == site.indexes("web")


async def test_a_released_job_leaves_no_allocation_behind(site: DeviceSite) -> None:
    async with site.running():
        site.scheduler.judge = lambda _pod, _node: "never"
        site.dra.add_resource_claim("own", DRIVER)
        resource_claims = [{"name": "g", "resourceClaimName": "own"}]
        site.kube.add_pod("web", gates=(GATE,), spec_more={"resourceClaims": resource_claims})
        await site.until(lambda: bool(site.dra.devices_of("own")), "its allocation")
        site.kube.delete_pod("web", grace_s=0)
        await site.until(lambda: not site.dra.devices_of("own"), "its release")
        resource_claim = site.dra.resource_claim("own")
        assert resource_claim is not None
        assert resource_claim["metadata"]["finalizers"] == []


async def test_a_resource_claim_that_vanishes_during_its_release_is_no_failure(
    site: DeviceSite, capsys: pytest.CaptureFixture[str]
) -> None:
    """kube-controller-manager removes it at the same time, with its Pod."""
    async with site.running():
        site.scheduler.judge = lambda _pod, _node: "never"
        site.dra.add_resource_claim("own", DRIVER)
        resource_claims = [{"name": "g", "resourceClaimName": "own"}]
        site.kube.add_pod("web", gates=(GATE,), spec_more={"resourceClaims": resource_claims})
        await site.until(lambda: bool(site.dra.devices_of("own")), "its allocation")
        key = ObjectKey(RESOURCE_CLAIMS, "default", "own")

        def vanish(event: WatchEvent) -> None:
            if event.resource == RESOURCE_CLAIMS and event.type == "MODIFIED" and not devices_of(event.object):
                asyncio.get_running_loop().call_soon(site.kube.storage.remove, key)

        site.kube.storage.listen(vanish)
        site.kube.delete_pod("web", grace_s=0)
        await site.until(lambda: site.dra.resource_claim("own") is None, "its removal")
        await asyncio.sleep(5)
    assert "reconcile_failed" not in capsys.readouterr().out


async def test_a_release_that_a_crash_cut_in_two_is_finished(site: DeviceSite) -> None:
    site.dra.add_resource_claim("own", DRIVER)
    left = {"finalizers": [RESOURCE_CLAIM_FINALIZER, "example.com/theirs"], "annotations": {JOB_ID: "7", "a": "b"}}
    site.kube.change(ObjectKey(RESOURCE_CLAIMS, "default", "own"), lambda one: one["metadata"].update(left))
    async with site.running():
        await asyncio.sleep(5)
        resource_claim = site.dra.resource_claim("own")
        assert resource_claim is not None
        assert resource_claim["metadata"]["finalizers"] == ["example.com/theirs"]
        assert resource_claim["metadata"]["annotations"] == {"a": "b"}


async def test_devices_that_vanish_for_half_a_minute_are_waited_for(site: DeviceSite) -> None:
    async with site.running():
        for node in ("n1", "n2"):
            site.dra.withdraw(node)
        site.add("web")
        await site.until(lambda: bool(site.jobs_of("web")), "its job")
        jobs = [job.job_id for job in site.jobs_of("web")]
        await asyncio.sleep(25)
        assert not site.node_of("web")
        for node in ("n1", "n2"):
            site.dra.publish(node, DRIVER, 4, generation=2)
        await site.bound("web")
        assert [job.job_id for job in site.jobs_of("web")] == jobs
        assert site.devices("web") == site.indexes("web")


async def test_what_no_line_names_is_left_to_kube_scheduler_and_said_once(site: DeviceSite) -> None:
    site.dra.add_class("nic.example.com")
    site.dra.publish("n1", "nic.example.com", 1)
    async with site.running():
        resource_claims = [{"name": "n", "resourceClaimTemplateName": "nic.example.comx1"}]
        site.kube.add_pod("web", gates=(GATE,), spec_more={"resourceClaims": resource_claims})
        await site.bound("web")
        said = [note for note in site.notes("web") if "no line of devices names" in note]
        assert len(said) == 1
        assert site.resource_claim_of("web")["status"]["reservedFor"]


async def test_without_a_map_no_request_about_resource_claims_is_sent(site: DeviceSite) -> None:
    site.config = CONFIG
    site.kube.rbac = shipped_rights()
    async with site.running():
        site.kube.add_pod("web")
        await site.bound("web")
        assert not any(one.resource in {"resourceclaims", "resourceslices"} for one in site.kube.used)


async def test_all_devices_are_used_and_each_once(site: DeviceSite) -> None:
    async with site.running():
        for number in range(12):
            site.add(f"p{number}", gated=number % 2 == 0)
        await site.until(lambda: len(site.bound_pods()) == 8, "all devices in use")
        for _ in range(4):
            name = site.bound_pods()[0]
            site.kube.delete_pod(name, grace_s=1)
            await site.gone(name)
        await site.until(lambda: len(site.bound_pods()) == 8, "the others on the freed devices")
        for name in site.bound_pods():
            assert site.devices(name) == site.indexes(name)


async def test_a_next_process_keeps_what_was_written(site: DeviceSite) -> None:
    site.scheduler.judge = lambda _pod, _node: "not yet"
    async with site.dying():
        site.add("web")
        await site.until(lambda: bool(site.pod("web")["status"].get("resourceClaimStatuses")), "its ResourceClaim")
        await site.until(lambda: bool(site.devices("web")), "its allocation")
    site.scheduler.judge = None
    async with site.running():
        await site.bound("web")
        assert site.devices("web") == site.indexes("web")


@pytest.mark.parametrize("races", [3, pytest.param(100, marks=pytest.mark.slow)])
async def test_another_scheduler_that_takes_the_same_device_at_the_same_time_never_shares_it(
    site: DeviceSite, races: int
) -> None:
    """It writes right after the extender, so that the first look finds the device free."""
    raced: list[str] = []

    def race(event: WatchEvent) -> None:
        resource_claim = event.object
        ours = event.resource == RESOURCE_CLAIMS and JOB_ID in resource_claim["metadata"].get("annotations", {})
        if ours and devices_of(resource_claim) and resource_claim["metadata"]["uid"] not in raced:
            raced.append(resource_claim["metadata"]["uid"])
            _, node, device = devices_of(resource_claim)[0]
            name = f"theirs-{len(raced)}"
            asyncio.get_running_loop().call_soon(site.dra.give_to_another, name, DRIVER, node, device)

    site.kube.storage.listen(race)
    async with site.running():
        for number in range(races):
            if number >= 3:
                site.kube.delete_pod(f"p{number - 3}", grace_s=1)
            site.add(f"p{number}")
            await site.bound(f"p{number}")
            assert site.devices(f"p{number}") == site.indexes(f"p{number}")
            taken = site.dra.resource_claim(f"theirs-{number + 1}")
            assert taken is not None
            assert not set(devices_of(taken)) & set(devices_of(site.resource_claim_of(f"p{number}")))
            site.kube.storage.remove(ObjectKey(RESOURCE_CLAIMS, "default", f"theirs-{number + 1}"))
        held = [
            device for resource_claim in site.kube.storage.of(RESOURCE_CLAIMS) for device in devices_of(resource_claim)
        ]
        assert len(held) == len(set(held))
        assert len(raced) == races
        assert await site.metric("device_conflicts_total") >= races


async def test_a_missing_resource_claim_is_named_on_the_pod_and_by_why_until_it_exists(site: DeviceSite) -> None:
    async with site.running():
        resource_claims = [{"name": "g", "resourceClaimName": "own"}]
        site.kube.add_pod("web", gates=(GATE,), spec_more={"resourceClaims": resource_claims})
        said = await message_of(site, "web", "ResourceClaimMissing")
        assert (
            said
            == "ResourceClaim default/own, which Pod default/web names, does not exist. Create it, or delete the Pod."
        )
        assert (await debug(site, "web"))["why"] == said
        assert said in site.notes("web")
        assert not site.jobs_of("web")
        site.dra.add_resource_claim("own", DRIVER)
        await site.bound("web")
        assert site.dra.devices_of("own") == site.indexes("web")


async def test_a_resource_claim_that_is_deleted_after_the_grant_is_named_and_written_once_it_is_recreated(
    site: DeviceSite,
) -> None:
    async with site.running():
        site.scheduler.judge = lambda _pod, _node: "not yet"
        site.dra.add_resource_claim("own", DRIVER)
        resource_claims = [{"name": "g", "resourceClaimName": "own"}]
        site.kube.add_pod("web", gates=(GATE,), spec_more={"resourceClaims": resource_claims})
        await site.until(lambda: bool(site.dra.devices_of("own")), "its allocation")
        site.kube.storage.remove(ObjectKey(RESOURCE_CLAIMS, "default", "own"))
        said = await message_of(site, "web", "ResourceClaimMissing")
        assert "ResourceClaim default/own, which Pod default/web names, does not exist." in said
        site.dra.add_resource_claim("own", DRIVER)
        site.scheduler.judge = None
        site.edit_node("n1", lambda node: node["metadata"]["labels"].update(a="b"))
        await site.bound("web")
        assert site.dra.devices_of("own") == site.indexes("web")


async def test_a_device_of_a_pod_that_has_ended_is_waited_for_and_no_conflict(site: DeviceSite) -> None:
    """kube-controller-manager removes the allocation of such a Pod, a little later."""
    async with site.running():
        site.kube.add_pod("old", scheduler="default-scheduler", node="n1", annotations={RUN_FOR: "1"})
        await site.until(lambda: site.pod("old")["status"]["phase"] == "Succeeded", "its end")
        await asyncio.sleep(1)
        site.dra.give_to_another("theirs", DRIVER, "n1", "gpu-0", site.pod("old"))
        site.add("web")
        await site.until(lambda: bool(site.jobs_of("web")), "its job")
        jobs = [job.job_id for job in site.jobs_of("web")]
        await asyncio.sleep(10)
        assert not site.node_of("web")
        site.kube.storage.remove(ObjectKey(RESOURCE_CLAIMS, "default", "theirs"))
        assert await site.bound("web", within=5) == "n1"
        assert [job.job_id for job in site.jobs_of("web")] == jobs
        assert site.devices("web") == site.indexes("web") == ["gpu-0"]
        assert await site.metric("device_conflicts_total") == 0


async def test_a_device_of_two_bound_pods_is_an_event_on_both(site: DeviceSite) -> None:
    """Another scheduler binds a Pod in the same instant, so that neither ResourceClaim can yield."""
    async with site.running():
        site.add("ours")
        node = await site.bound("ours")
        resource_claims = [{"name": "g", "resourceClaimName": "resource-claim-of-theirs"}]
        site.kube.add_pod(
            "theirs", scheduler="default-scheduler", node=node, spec_more={"resourceClaims": resource_claims}
        )
        site.dra.give_to_another("resource-claim-of-theirs", DRIVER, node, site.devices("ours")[0], site.pod("theirs"))
        both = "Pods default/ours and default/theirs"
        text = f"Device gpu-0 of pool {node} ({DRIVER}) is allocated to {both}; delete one of them."
        for name in ("ours", "theirs"):
            await site.until(lambda name=name: text in site.notes(name), "both are told")  # type: ignore[misc]
            assert site.events(name).count("DeviceAllocatedTwice") == 1
        assert site.node_of("ours") == node
        site.dra.doubly.clear()


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


async def test_a_gang_of_which_two_votes_came_early_has_the_devices_of_each_member(site: DeviceSite) -> None:
    site.config += "gangs: {unfenced: allow}\n"
    late = {"p1"}
    site.scheduler.judge = lambda pod, _node: "not yet" if pod["metadata"]["name"] in late else ""
    async with site.running():
        for name in ("p0", "p1"):
            site.add(name, 2, annotations={GANG: "ring", GANG_SIZE: "2"})
        await site.until(lambda: site.scheduler.status.binds > 0, "the first vote")
        await asyncio.sleep(4)  # its call has ended with an error, and kube-scheduler has taken its reservation back
        late.clear()
        site.edit_node("n1", lambda node: node["metadata"]["labels"].update(a="b"))
        for name in ("p0", "p1"):
            await site.bound(name)
            assert site.devices(name) == site.indexes(name)
            assert site.resource_claim_of(name)["status"]["reservedFor"][0]["uid"] == site.uid(name)
