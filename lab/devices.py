"""Devices of a real API server: the rights, a DeviceClass, ResourceSlices made by hand, and Pods that request them."""

from typing import Any

from lab import manifests
from lab.errors import LabError
from lab.site import Site

API = "/apis/resource.k8s.io/v1"
DRIVER = "gpu.example.com"
RESOURCE = "example.com/gpu"
MAP = f"""
devices: [{{gres: gpu, driver: {DRIVER}, deviceClasses: [{DRIVER}], match: {{attribute: index}}}}]
"""
GRES = {"jobs": {"gres": [{"resource": RESOURCE, "gres": "gpu"}]}}


def grant_devices(site: Site) -> None:
    """Apply the component `devices`, and create the DeviceClass."""
    components = [f"kubernetes-{site.kube.minor}", "devices"]
    manifests.apply_rights(
        site.kube, manifests.of_kind(manifests.render(site.kube, components=components), manifests.RIGHTS)
    )
    selector = {"cel": {"expression": f"device.driver == '{DRIVER}'"}}
    _put(site, "deviceclasses", "DeviceClass", DRIVER, {"selectors": [selector], "extendedResourceName": RESOURCE})


def publish(site: Site, node: str, count: int, *, last_first: bool = False) -> None:
    """Create the ResourceSlice of a Node. kube-scheduler takes the first device in it that is free, as Slurm does."""
    order = reversed(range(count)) if last_first else range(count)
    devices = [{"name": f"gpu-{at}", "attributes": {"index": {"int": at}}} for at in order]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices}
    _put(site, "resourceslices", "ResourceSlice", f"{node}-gpus", spec)


def _put(site: Site, plural: str, kind: str, name: str, spec: dict[str, Any]) -> None:
    body = {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}
    _create(site, f"{API}/{plural}", body)


def _create(site: Site, path: str, body: dict[str, Any]) -> None:
    status, answer = site.kube.api("POST", path, body)
    if status not in {201, 409}:
        raise LabError(f"POST {path} was refused ({status}): {answer.get('message')}")


def template(site: Site, namespace: str, name: str, count: int) -> None:
    """Create a ResourceClaimTemplate for so many devices, unless it exists."""
    kind, meta = "ResourceClaimTemplate", {"name": name}
    body = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": kind,
        "metadata": meta,
        "spec": {"spec": resource_claim_spec(count)},
    }
    path = f"{API}/namespaces/{namespace}/resourceclaimtemplates"
    _create(site, path, body)


def resource_claim_spec(count: int) -> dict[str, Any]:
    """Return the `spec` of a ResourceClaim for so many devices."""
    return {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": DRIVER, "count": count}}]}}


def own_resource_claim(site: Site, namespace: str, name: str, count: int = 1) -> str:
    """Create a ResourceClaim of its own, and return its path."""
    path = f"{API}/namespaces/{namespace}/resourceclaims"
    meta = {"name": name}
    site.create(
        path,
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": meta,
            "spec": resource_claim_spec(count),
        },
    )
    return f"{path}/{name}"


def free(site: Site, path: str) -> None:
    """Take the allocation of a ResourceClaim away and delete it, as kube-controller-manager does after its Pod."""
    for part, body in (
        ("/status", {"status": {"allocation": None, "reservedFor": None}}),
        ("", {"metadata": {"finalizers": None}}),
    ):
        site.kube.api("PATCH", f"{path}{part}", body, content_type="application/merge-patch+json")
    site.kube.api("DELETE", path)


def requesting(more: dict[str, str]) -> dict[str, Any]:
    """Return a container that requests these resources."""
    requests = {"cpu": "1", "memory": "1Gi", **more}
    return {"name": "main", "image": "lab/nothing", "resources": {"requests": requests, "limits": requests}}
