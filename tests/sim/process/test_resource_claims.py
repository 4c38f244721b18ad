"""Slurm's indexes become the devices of ResourceClaims, and no device is ever prepared for two Pods."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from extender.domain.devices.views import RESOURCE_CLAIM_FINALIZER
from extender.domain.wellknown import GANG, GANG_SIZE, GATE, JOB_ID
from simulator.kube.dynamic_resources import devices_of
from simulator.kube.faults import KubeFault
from simulator.kube.kubelet import RUN_FOR
from simulator.kube.resources import RESOURCE_CLAIMS, RESOURCE_SLICES
from simulator.kube.storage import ObjectKey, WatchEvent
from tests.builders.device_site import DRIVER, DeviceSite, device_site
from tests.builders.explained import debug, message_of
from tests.builders.process_site import CONFIG
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


@pytest.mark.parametrize("cpu_config", [1, {"cpuset": ["0"]}, {"cpuset": "0"}], ids=["number", "list", "cpuset"])
async def test_parameters_of_the_author_of_a_resource_claim_keep_its_device_held(
    site: DeviceSite, cpu_config: object
) -> None:
    parameters = {"cpuConfig": cpu_config}
    site.dra.give_to_another("before", DRIVER, "n1", "gpu-0", parameters=parameters)
    site.slurm.controller.nodes["n2"].drained = True
    async with site.running():
        site.add("web")
        await site.until(lambda: any("default/before holds it" in note for note in site.notes("web")), "its Event")
        assert not site.node_of("web")
        site.slurm.controller.nodes["n2"].drained = False
        assert await site.bound("web") == "n2"
        site.dra.give_to_another("later", DRIVER, "n2", "gpu-1", parameters=parameters)
        site.slurm.controller.nodes["n1"].drained = True
        site.add("next")
        await site.until(lambda: any("default/later holds it" in note for note in site.notes("next")), "its Event")
        assert not site.node_of("next")


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
