"""Slurm's indexes become the devices of ResourceClaims, on the real parts with ResourceSlices made by hand."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from extender.domain.wellknown import GATE, GPUS
from lab.devices import API, DRIVER, GRES, MAP, RESOURCE, grant_devices, publish, requesting, template
from lab.site import PodRef, Site
from lab.topology import GPU_NODES
from tests.builders.stage import Stage

pytestmark = pytest.mark.modes("batch", slow=("24.11",))

EACH = 4
"""GPUs of each of the lab's nodes with GPUs."""


@pytest.fixture
def dra(stage: Stage) -> Iterator[Site]:
    """The site with a map of devices, the component `devices`, a DeviceClass, and a ResourceSlice for each node."""
    site = stage.site
    grant_devices(site)
    for node in GPU_NODES:
        publish(site, f"kube-{node}", EACH)
    site.reconfigure(GRES, more=MAP)
    try:
        yield site
    finally:
        stage.finish()
        site.reconfigure()


def with_resource_claim(stage: Stage, name: str, count: int, *, gated: bool = True) -> PodRef:
    """Create a Pod with a ResourceClaim for so many GPUs."""
    template(stage.site, stage.namespace, f"of-{count}", count)
    gates: dict[str, Any] = {"schedulingGates": [{"name": GATE}]} if gated else {}
    entry = {"name": "g", "resourceClaimTemplateName": f"of-{count}"}
    return stage.pod(name, resourceClaims=[entry], **gates)


def held(site: Site, ref: PodRef) -> list[tuple[str, str]]:
    """Pool and device of each result in the ResourceClaims that are reserved for a Pod."""
    path = f"{API}/namespaces/{ref.namespace}/resourceclaims"
    found = []
    for resource_claim in site.kube.api("GET", path)[1]["items"]:
        status = resource_claim.get("status", {})
        if any(one["uid"] == ref.uid for one in status.get("reservedFor", ())):
            found += [(one["pool"], one["device"]) for one in status["allocation"]["devices"]["results"]]
    return sorted(found)


def given(site: Site, ref: PodRef) -> list[tuple[str, str]]:
    """The same by Slurm's indexes."""
    pod = site.read(ref)
    assert pod is not None
    node, text = pod["spec"]["nodeName"], pod["metadata"]["annotations"][GPUS]
    return sorted((node, f"gpu-{index}") for index in text.split(","))


def test_claims_and_extended_resources_have_the_devices_that_slurm_allocated(stage: Stage, dra: Site) -> None:
    pods = [
        with_resource_claim(stage, "two", 2),
        with_resource_claim(stage, "ungated", 1, gated=False),
        stage.pod("extended", containers=[requesting({RESOURCE: "2"})], schedulingGates=[{"name": GATE}]),
        with_resource_claim(stage, "one", 1),
    ]
    for ref in pods:
        dra.bound(ref, timeout_s=120)
    for ref in pods:
        assert held(dra, ref) == given(dra, ref)
    everything = list(itertools.chain.from_iterable(held(dra, ref) for ref in pods))
    assert len(set(everything)) == len(everything) == 6


def test_a_device_that_default_scheduler_gave_away_is_not_given_twice(stage: Stage, dra: Site) -> None:
    scheduler = dra.kube.start_scheduler(name="default")
    try:
        template(stage.site, stage.namespace, "of-1", 1)
        entry = {"name": "g", "resourceClaimTemplateName": "of-1"}
        theirs = dra.pod("theirs", stage.namespace, schedulerName="default-scheduler", resourceClaims=[entry])
        dra.bound(theirs, timeout_s=120)
    finally:
        scheduler.stop()
    (taken,) = held(dra, theirs)
    ours = [with_resource_claim(stage, f"ours-{number}", 1) for number in range(3)]
    for ref in ours:
        dra.bound(ref, timeout_s=180)
        assert held(dra, ref) == given(dra, ref)
        assert taken not in held(dra, ref)


def test_the_claim_of_a_pod_that_leaves_before_its_binding_is_free_again(stage: Stage, dra: Site) -> None:
    path = f"{API}/namespaces/{stage.namespace}/resourceclaims"
    body = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "own"},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": DRIVER, "count": 1}}]}},
    }
    assert dra.kube.api("POST", path, body)[0] == 201
    gates = [{"name": GATE}, {"name": "example.org/later"}]
    entry = {"name": "g", "resourceClaimName": "own"}
    ref = stage.pod("web", resourceClaims=[entry], schedulingGates=gates)
    patch = [{"op": "remove", "path": "/spec/schedulingGates/1"}]
    assert dra.kube.api("PATCH", ref.path, patch, content_type="application/json-patch+json")[0] == 200
    dra.bound(ref, timeout_s=120)
    assert held(dra, ref) == given(dra, ref)
    dra.delete(ref)
    dra.gone(ref, timeout_s=120)

    def free() -> bool:
        return "allocation" not in dra.kube.api("GET", f"{path}/own")[1].get("status", {})

    dra.wait_for(free, "the ResourceClaim is free", timeout_s=60)


def test_parameters_that_a_parser_rejects_hide_neither_other_claims_nor_devices(stage: Stage, dra: Site) -> None:
    """The API server stores parameters as they were written: nested deeply, and with halves of surrogate pairs."""
    deep: Any = "\ud800"
    for _ in range(500):
        deep = [deep]
    opaque = {"driver": DRIVER, "parameters": {"deep": deep}}
    request = {"name": "gpu", "exactly": {"deviceClassName": DRIVER, "count": 1}}
    body = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "deep"},
        "spec": {"devices": {"requests": [request], "config": [{"opaque": opaque}]}},
    }
    assert dra.kube.api("POST", f"{API}/namespaces/{stage.namespace}/resourceclaims", body)[0] == 201
    entry = {"name": "g", "resourceClaimName": "deep"}
    theirs = stage.pod("theirs", resourceClaims=[entry], schedulingGates=[{"name": GATE}])
    assert dra.event(theirs, "InvalidSlurmSettings")
    before = with_resource_claim(stage, "before", 2)
    dra.bound(before, timeout_s=120)
    dra.restart_extender()
    after = with_resource_claim(stage, "after", 1)
    dra.bound(after, timeout_s=120)
    assert held(dra, after) == given(dra, after)
    assert not {*held(dra, before)} & {*held(dra, after)}
