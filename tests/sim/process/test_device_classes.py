"""Extended resources that a DeviceClass stands for: kube-scheduler alone can say which nodes have the devices."""

from __future__ import annotations

import asyncio

import pytest

from extender.domain.wellknown import GATE
from simulator.kube.resources import DEVICE_CLASSES, NODES
from simulator.kube.storage import ObjectKey
from tests.builders.process_site import CONFIG, Site

pytestmark = pytest.mark.looptime
DEVICE = "example.com/fpga"
MAP = "jobs: {gres: [{resource: example.com/fpga, gres: none}, {resource: 'deviceclass.*/*', gres: none}]}\n"


def serve(site: Site) -> None:
    """An API server with dynamic resource allocation."""
    site.kube.resources = (*site.kube.resources, DEVICE_CLASSES)
    site.config = CONFIG + MAP


def create(site: Site, resource: str = DEVICE) -> None:
    spec = {"extendedResourceName": resource} if resource else {}
    meta = {"name": f"class-of-{resource.replace('/', '-')}"}
    site.kube.create(
        {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": meta, "spec": spec},
    )


def gated(site: Site, name: str) -> bool:
    return bool(site.pod(name)["spec"].get("schedulingGates"))


async def test_a_pod_that_a_class_may_serve_goes_to_kube_scheduler_and_is_bound(site: Site) -> None:
    serve(site)
    create(site)
    site.gives("n1", {DEVICE: "1"})  # by a device plug-in; the class is for other nodes
    async with site.running():
        await site.fill()
        site.kube.add_pod("web", more={DEVICE: "1"}, gates=(GATE,), cpu="8")
        await site.until(lambda: not gated(site, "web"), "kube-scheduler has it")
        site.kube.delete_pod("first-1", grace_s=1)
        assert await site.bound("web") == "n2"
        assert "NoSuitableNode" not in site.events("web")


async def test_without_a_class_the_same_pod_waits_behind_the_gate_for_the_nodes_that_have_it(site: Site) -> None:
    serve(site)
    site.gives("n1", {DEVICE: "1"})
    async with site.running():
        await site.fill()
        site.kube.add_pod("web", more={DEVICE: "1"}, gates=(GATE,), cpu="8")
        await site.until(lambda: bool(site.jobs_of("web")), "its job")
        assert gated(site, "web")
        assert [job.excluded for job in site.jobs_of("web")] == [("n2", "n3")]
        create(site)  # from now on others may have it
        await site.until(lambda: not gated(site, "web"), "kube-scheduler has it")


async def test_the_implicit_name_of_a_class_is_required_of_no_node(site: Site) -> None:
    serve(site)
    async with site.running():
        site.kube.add_pod("web", more={"deviceclass.resource.kubernetes.io/fpga": "1"}, gates=(GATE,))
        await site.bound("web")


@pytest.mark.usefixtures("unhurried")
async def test_an_api_server_without_classes_is_queried_rarely_and_missed_by_no_pod(site: Site) -> None:
    async with site.running():
        site.kube.add_pod("web", gates=(GATE,))
        await site.bound("web")
        await asyncio.sleep(300)
        assert not site.extender.informers.class_reflector.status.trouble
        site.kube.change(ObjectKey(NODES, "", "n1"), lambda one: one["metadata"]["labels"].update(a="b"))
        await asyncio.sleep(5)
