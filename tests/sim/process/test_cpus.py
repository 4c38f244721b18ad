"""The cores that Slurm allocated become the cpuset of the ResourceClaim of a Guaranteed Pod."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from extender.domain.wellknown import CPUS, GANG, GANG_SIZE, GATE
from simulator.cluster import simulated_cluster
from simulator.kube.dynamic_resources import CPU_DEVICE, CPU_DRIVER, DynamicResources, devices_of
from simulator.kube.resources import RESOURCE_CLAIMS
from simulator.kube.storage import ObjectKey
from simulator.slurm.records import SimNode
from tests.builders.process_site import CONFIG, Site
from tests.builders.resource_claims import is_reminder
from tests.builders.rights import shipped_rights

pytestmark = pytest.mark.looptime

ORDER = "0,4,1,5,2,6,3,7"


class CpuSite(Site):
    """Two Nodes of four cores with two threads each, of which one has an order of CPUs."""

    dra: DynamicResources

    def add(self, name: str, cpus: int, **annotations: str) -> None:
        """Create a Guaranteed Pod with a ResourceClaim for all of its CPUs."""
        sizes = {"cpu": str(cpus), "memory": "1Gi"}
        main = {"name": "main", "image": "x", "resources": {"requests": sizes, "limits": sizes}}
        resource_claims = [{"name": "c", "resourceClaimTemplateName": f"{CPU_DRIVER}x{cpus}"}]
        more = {"containers": [main], "resourceClaims": resource_claims}
        self.kube.add_pod(name, gates=(GATE,), annotations=annotations, spec_more=more)

    def cpus(self, name: str) -> list[int]:
        """Return the CPUs in the allocation of the Pod's ResourceClaim."""
        found = self.pod(name)["status"]["resourceClaimStatuses"][0]["resourceClaimName"]
        resource_claim = self.dra.resource_claim(found)
        assert resource_claim is not None
        return sorted(int(device.rpartition("/")[2]) for _, _, device in devices_of(resource_claim))

    def cores(self, name: str) -> list[int]:
        """Return the Linux CPUs of the cores that Slurm gave the job of a Pod."""
        given = self.jobs_of(name)[0].cores[self.node_of(name)]
        order = [int(cpu) for cpu in ORDER.split(",")]
        return sorted(cpu for core in given for cpu in order[2 * core : 2 * core + 2])


@pytest.fixture
async def site() -> AsyncIterator[CpuSite]:
    nodes = [SimNode(name, cpus=8, threads_per_core=2, memory_mb=64_000) for name in ("n1", "n2")]
    async with simulated_cluster(CpuSite, nodes=nodes, allocatable={one.name: {} for one in nodes}) as site:
        site.kube.rbac = shipped_rights("devices")
        site.dra = site.scheduler.dynamic_resources = DynamicResources(site.kube)
        site.dra.add_class(CPU_DRIVER)
        for node in ("n1", "n2"):
            site.dra.publish_cpus(node, 8)
            site.edit_node(node, lambda one: one["status"].update(capacity={"cpu": "8"}))
        site.edit_node("n1", lambda one: one["metadata"].setdefault("annotations", {}).update({CPUS: ORDER}))
        site.config = CONFIG + "\ncpus: {}\n"
        yield site
        assert site.dra.doubly == []


async def test_containers_have_the_cpus_of_the_cores_that_slurm_allocated(site: CpuSite) -> None:
    site.slurm.controller.nodes["n2"].drained = True
    async with site.running():
        for name, cpus in (("a", 2), ("b", 4), ("c", 2)):
            site.add(name, cpus)
            await site.bound(name)
        for name in ("a", "b", "c"):
            assert site.cpus(name) == site.cores(name)
        assert sorted(cpu for name in ("a", "b", "c") for cpu in site.cpus(name)) == list(range(8))


async def test_members_of_a_gang_have_the_cpus_of_their_own_nodes(site: CpuSite) -> None:
    site.edit_node("n2", lambda one: one["metadata"].setdefault("annotations", {}).update({CPUS: ORDER}))
    async with site.running():
        for name in ("p0", "p1"):
            site.add(name, 4, **{GANG: "ring", GANG_SIZE: "2"})
        for name in ("p0", "p1"):
            await site.bound(name)
            assert site.cpus(name) == [0, 1, 4, 5], "the CPUs of the first two cores"


async def test_without_an_order_the_resource_claim_is_left_to_kube_scheduler_and_that_is_said_once(
    site: CpuSite,
) -> None:
    site.slurm.controller.nodes["n1"].drained = True
    async with site.running():
        for name in ("a", "b"):
            site.add(name, 2)
            assert await site.bound(name) == "n2"
            assert site.cpus(name) == []
        said = [note for note in site.notes("n2") if CPUS in note]
        assert len(said) == 1
        assert "left to kube-scheduler" in said[0]
        assert "DeviceAllocatedTwice" not in [*site.events("a"), *site.events("b")]


async def test_a_next_process_keeps_the_cpus_that_were_written(site: CpuSite) -> None:
    site.slurm.controller.nodes["n2"].drained = True
    async with site.running():
        site.add("a", 2)
        await site.bound("a")
        before = site.cpus("a")
    async with site.running():
        site.add("b", 2)
        await site.bound("b")
        assert site.cpus("a") == before
        assert not set(before) & set(site.cpus("b"))


async def test_a_cpu_that_another_object_holds_is_released_and_named(site: CpuSite) -> None:
    site.slurm.controller.nodes["n2"].drained = True
    site.dra.add_resource_claim("theirs", CPU_DRIVER)
    site.dra.give_cpus("theirs", "n1", "0,4")
    async with site.running():
        site.add("a", 2)
        await site.until(
            lambda: any(f"default/theirs holds {CPU_DEVICE}/0" in note for note in site.notes("a")), "its Event"
        )


async def test_cpus_that_cannot_be_read_keep_the_whole_device_and_need_no_reminder(site: CpuSite) -> None:
    """A reminder has no share: kube-schedulers would give no CPU of the Node to any Pod."""
    site.slurm.controller.nodes["n2"].drained = True
    for name in ("theirs", "another"):
        site.dra.add_resource_claim(name, CPU_DRIVER)
        site.dra.give_cpus(name, "n1", "1-0")
    async with site.running():
        site.add("a", 2)
        await site.until(lambda: any(f"holds {CPU_DEVICE}/0" in note for note in site.notes("a")), "its Event")
        site.kube.storage.remove(ObjectKey(RESOURCE_CLAIMS, "default", "another"))
        await asyncio.sleep(10)
        assert not any(map(is_reminder, site.kube.storage.of(RESOURCE_CLAIMS)))


async def test_a_pod_that_leaves_before_its_binding_leaves_no_cpu_allocated(site: CpuSite) -> None:
    site.slurm.controller.nodes["n2"].drained = True
    site.dra.add_resource_claim("own", CPU_DRIVER, 2)
    async with site.running():
        site.scheduler.judge = lambda _pod, _node: "never"
        sizes = {"cpu": "2", "memory": "1Gi"}
        main = {"name": "main", "image": "x", "resources": {"requests": sizes, "limits": sizes}}
        resource_claims = [{"name": "c", "resourceClaimName": "own"}]
        site.kube.add_pod("web", gates=(GATE,), spec_more={"containers": [main], "resourceClaims": resource_claims})
        await site.until(lambda: site.dra.devices_of("own") == [f"{CPU_DEVICE}/0", f"{CPU_DEVICE}/4"], "its CPUs")
        site.kube.delete_pod("web", grace_s=0)
        await site.until(lambda: not site.dra.devices_of("own"), "their release")
        resource_claim = site.dra.resource_claim("own")
        assert resource_claim is not None
        assert resource_claim["metadata"]["finalizers"] == []
