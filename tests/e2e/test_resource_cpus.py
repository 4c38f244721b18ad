"""Slurm's cores become the cpuset of ResourceClaims, on the real parts with a ResourceSlice made by hand.

`test_kubelet_cpus` has the driver and the containers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from extender.domain.devices.cpu_order import read_order
from extender.domain.wellknown import CPUS, GATE
from lab.devices import API, grant_devices
from lab.site import PodRef, Site
from tests.builders.stage import Stage

pytestmark = pytest.mark.modes("batch", slow=("24.11",))

DRIVER, DEVICE = "dra.cpu", "cpudevmachine"
ORDER = (3, 1, 2, 0)
"""Not the order of the CPUs, so that a cpuset shows that it was used."""


@pytest.fixture
def cpus(stage: Stage) -> Iterator[Site]:
    """The site with transfer of CPUs, and one Node of four CPUs with their order and the driver's device."""
    site, node = stage.site, stage.family.tiny_node
    grant_devices(site)
    selector = {"cel": {"expression": f"device.driver == '{DRIVER}'"}}
    put(site, "deviceclasses", "DeviceClass", DRIVER, {"selectors": [selector]})
    device = {"name": DEVICE, "allowMultipleAllocations": True, "capacity": {f"{DRIVER}/cpu": {"value": "4"}}}
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": [device]}
    put(site, "resourceslices", "ResourceSlice", f"{node}-cpus", spec)
    site.patch_node(node, {"metadata": {"annotations": {CPUS: ",".join(map(str, ORDER))}}})
    site.reconfigure(more="\ncpus: {}\n")
    try:
        yield site
    finally:
        stage.finish()
        site.patch_node(node, {"metadata": {"annotations": {CPUS: None}}})
        site.reconfigure()


def put(site: Site, plural: str, kind: str, name: str, spec: dict[str, Any], namespace: str = "") -> None:
    """Create an object unless it exists."""
    body = {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}
    where = f"{API}/namespaces/{namespace}/{plural}" if namespace else f"{API}/{plural}"
    status, answer = site.kube.api("POST", where, body)
    assert status in {201, 409}, answer


def with_resource_claim(stage: Stage, name: str, count: int) -> PodRef:
    """Create a Guaranteed Pod with a ResourceClaim for all of its CPUs."""
    exactly = {"deviceClassName": DRIVER, "capacity": {"requests": {f"{DRIVER}/cpu": str(count)}}}
    spec = {"spec": {"devices": {"requests": [{"name": "cpus", "exactly": exactly}]}}}
    put(stage.site, "resourceclaimtemplates", "ResourceClaimTemplate", f"of-{count}", spec, stage.namespace)
    entry = {"name": "cpus", "resourceClaimTemplateName": f"of-{count}"}
    gates = [{"name": GATE}]
    return stage.pod(name, partition=stage.family.tiny, cpus=count, resourceClaims=[entry], schedulingGates=gates)


def cpuset(site: Site, ref: PodRef) -> set[int]:
    """Return the CPUs that the driver would give the container of a Pod."""
    resource_claims = site.kube.api("GET", f"{API}/namespaces/{ref.namespace}/resourceclaims")[1]["items"]
    [status] = [
        one["status"]
        for one in resource_claims
        if any(user["uid"] == ref.uid for user in one.get("status", {}).get("reservedFor", ()))
    ]
    devices = status["allocation"]["devices"]
    [entry], [result] = devices["config"], devices["results"]
    assert (entry["source"], entry["requests"], entry["opaque"]["driver"]) == ("FromClaim", ["cpus"], DRIVER)
    found = set(read_order(entry["opaque"]["parameters"]["cpuConfig"]["cpuset"]))
    assert (result["device"], result["consumedCapacity"]) == (DEVICE, {f"{DRIVER}/cpu": str(len(found))})
    return found


def given(stage: Stage, ref: PodRef) -> set[int]:
    """Return the Linux CPUs of the cores that Slurm shows for the job of a Pod."""
    shown = stage.site.scontrol_show_job(stage.job(ref).job_id)
    return {ORDER[core] for core in read_order(shown["CPU_IDs"])}


def test_claims_for_cpus_have_the_cores_that_slurm_allocated(stage: Stage, cpus: Site) -> None:
    pods = []
    for name, count in (("a", 1), ("b", 2), ("c", 1)):
        pods.append(with_resource_claim(stage, name, count))
        cpus.bound(pods[-1], timeout_s=120)
    for ref in pods:
        assert cpuset(cpus, ref) == given(stage, ref)
    assert {cpu for ref in pods for cpu in cpuset(cpus, ref)} == set(ORDER)
