"""Stand in for dynamic resource allocation: kube-scheduler's plugin, the controller of ResourceClaims, the API server.

After Kubernetes 1.36 `plugins/dynamicresources`, `controller/resourceclaim` and `registry/resource/resourceclaim`, as
far as an extender sees them. A DeviceClass stands for all devices of the driver of its name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from copy import deepcopy

from simulator.kube.objects import Json, timestamp
from simulator.kube.resources import DEVICE_CLASSES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from simulator.kube.server import FakeApiServer
from simulator.kube.status_errors import StatusError, invalid
from simulator.kube.storage import ObjectKey, WatchEvent

FINALIZER = "resource.kubernetes.io/delete-protection"
EXTENDED = "resource.kubernetes.io/extended-resource-claim"
OF_CLASS = "deviceclass.resource.kubernetes.io/"
CPU_DRIVER, CPU_DEVICE = "dra.cpu", "cpudevmachine"
"""dra-driver-cpu, and its one device of a Node."""

FINISHED_PHASES = {"Succeeded", "Failed"}

DeviceKey = tuple[str, str, str]
"""Driver, pool and name of a device."""


class DynamicResources:
    """Serve the API, and do what the control plane does with ResourceClaims."""

    def __init__(self, server: FakeApiServer) -> None:
        self._server = server
        server.resources = (*server.resources, DEVICE_CLASSES, RESOURCE_CLAIMS, RESOURCE_SLICES)
        server.check_update = check_resource_claim
        server.storage.listen(self._on_event)
        self.prepared: list[tuple[str, DeviceKey]] = []
        """Pods by UID, and the devices that a kubelet gave them when they were bound."""

        self.doubly: list[str] = []
        """Devices that were given to a Pod while another had them."""

        self.known: set[DeviceKey] = set()
        """The devices that kube-schedulers take for allocated. As in `allocateddevices.go` they have no counts: of two
        holders of a device, the first that is freed takes it out."""

        self._allocated: dict[str, list[DeviceKey]] = {}

    # What a driver and an administrator write.

    def publish(self, node: str, driver: str, count: int, *, generation: int = 1) -> None:
        """Publish devices `gpu-0` and so on of a Node, with their index as attribute."""
        devices = [{"name": f"gpu-{at}", "attributes": {"index": {"int": at}}} for at in range(count)]
        pool = {"name": node, "generation": generation, "resourceSliceCount": 1}
        spec = {"driver": driver, "nodeName": node, "pool": pool, "devices": devices}
        self._create(RESOURCE_SLICES.kind, f"{node}-{driver}-{generation}", spec)

    def publish_cpus(self, node: str, cpus: int) -> None:
        """Publish all CPUs of a Node as one device, as dra-driver-cpu does with `groupBy: machine`."""
        device = {
            "name": CPU_DEVICE,
            "allowMultipleAllocations": True,
            "capacity": {f"{CPU_DRIVER}/cpu": {"value": str(cpus)}},
        }
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": CPU_DRIVER, "nodeName": node, "pool": pool, "devices": [device]}
        self._create(RESOURCE_SLICES.kind, f"{node}-{CPU_DRIVER}", spec)

    def withdraw(self, node: str) -> None:
        """Remove the ResourceSlices of a Node, as a kubelet that starts does."""
        for one in tuple(self._server.storage.of(RESOURCE_SLICES)):
            if one["spec"].get("nodeName") == node:
                self._server.storage.remove(ObjectKey(RESOURCE_SLICES, "", one["metadata"]["name"]))

    def add_class(self, driver: str, resource: str = "") -> None:
        """Create the DeviceClass of a driver, which may offer an extended resource."""
        self._create(DEVICE_CLASSES.kind, driver, {"extendedResourceName": resource} if resource else {})

    def add_resource_claim(self, name: str, driver: str, count: int = 1, *, owner: Json | None = None) -> Json:
        """Create a ResourceClaim for so many devices of a DeviceClass."""
        exactly: Json = {"deviceClassName": driver, "count": count, "allocationMode": "ExactCount"}
        if driver == CPU_DRIVER:
            exactly |= {"count": 1, "capacity": {"requests": {f"{CPU_DRIVER}/cpu": str(count)}}}
        resource_claim: Json = {
            "apiVersion": RESOURCE_CLAIMS.api_version,
            "kind": RESOURCE_CLAIMS.kind,
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
        }
        if owner is not None:
            resource_claim["metadata"]["ownerReferences"] = [_owned_by(owner)]
        return self._server.create(resource_claim)

    def resource_claim(self, name: str) -> Json | None:
        """Return a ResourceClaim."""
        return self._server.storage.get(ObjectKey(RESOURCE_CLAIMS, "default", name))

    def devices_of(self, name: str) -> list[str]:
        """Return the names of the devices in the allocation of a ResourceClaim."""
        resource_claim = self.resource_claim(name)
        return [] if resource_claim is None else [key[2] for key in devices_of(resource_claim)]

    def give_to_another(
        self, name: str, driver: str, node: str, device: str, pod: Json | None = None, *, parameters: Json | None = None
    ) -> None:
        """Let another scheduler allocate this very device to a ResourceClaim of its own, and reserve it for a Pod.

        `parameters`: those that the author of the ResourceClaim wrote for the driver.
        """
        self.add_resource_claim(name, driver)
        opaque = {"driver": driver, "parameters": parameters}
        config = [] if parameters is None else [{"source": "FromClaim", "requests": ["gpu"], "opaque": opaque}]
        self._allocate(name, [("gpu", (driver, node, device))], node, config)
        if pod is not None:
            self._reserve(name, pod)

    def share_for_a_moment(self, device: DeviceKey) -> None:
        """Let another scheduler allocate this device too, and free it: kube-schedulers forget who else holds it."""
        driver, node, name = device
        self.give_to_another("for-a-moment", driver, node, name)
        self._server.storage.remove(ObjectKey(RESOURCE_CLAIMS, "default", "for-a-moment"))

    def move(self, name: str, device: DeviceKey) -> None:
        """Let another scheduler free a ResourceClaim, and allocate another device to it at once."""
        self._status(name, {})
        self._allocate(name, [("gpu", device)], device[1])

    def give_cpus(self, name: str, node: str, cpuset: str) -> None:
        """Let another program allocate these very CPUs to a ResourceClaim of its own."""
        parameters = {"apiVersion": "v1alpha1", "cpuConfig": {"cpuset": cpuset}}
        entry = {"source": "FromClaim", "requests": ["gpu"], "opaque": {"driver": CPU_DRIVER, "parameters": parameters}}
        self._allocate(name, [("gpu", (CPU_DRIVER, node, CPU_DEVICE))], node, [entry])

    # What kube-scheduler's plugin does.

    def why_not(self, pod: Json, node: str) -> str:
        """Return why a Pod cannot have its devices on a Node; "" if it can."""
        wanted = 0
        for resource_claim in self._resource_claims(pod):
            if resource_claim is None:
                return "waiting for its ResourceClaim"
            allocation = resource_claim.get("status", {}).get("allocation")
            if allocation is None:
                requests = resource_claim["spec"]["devices"]["requests"]
                wanted += sum(one["exactly"]["count"] for one in requests if not _of_cpus(one))
            elif node_of(allocation) != node:
                return "its ResourceClaim is allocated on another node"
        wanted += sum(count for _, count in self._extended(pod))
        return "cannot allocate all claims" if wanted > len(list(self._free(node))) else ""

    def post_filter(self, pod: Json) -> None:
        """Take the allocations of a Pod away that fits nowhere, unless they are reserved."""
        for resource_claim in self._resource_claims(pod):
            if (
                resource_claim is not None
                and "allocation" in resource_claim.get("status", {})
                and not _reserved(resource_claim)
            ):
                self._status(resource_claim["metadata"]["name"], {})
                return  # one in each cycle

    def pre_bind(self, pod: Json, node: str) -> None:
        """Allocate what is not allocated, and reserve all ResourceClaims for the Pod."""
        name, extended = pod["metadata"]["name"], self._extended(pod)
        for resource_claim in self._resource_claims(pod):
            if resource_claim is None:
                continue
            if "allocation" not in resource_claim.get("status", {}):
                free = self._free(node)
                requests = resource_claim["spec"]["devices"]["requests"]
                chosen = [
                    (one["name"], (CPU_DRIVER, node, CPU_DEVICE) if _of_cpus(one) else next(free))
                    for one in requests
                    for _ in range(one["exactly"]["count"])
                ]
                self._allocate(resource_claim["metadata"]["name"], chosen, node)
            self._reserve(resource_claim["metadata"]["name"], pod)
        if not extended:
            return
        special = f"{name}-extended-{self._server.storage.version}"
        driver, count = extended[0]
        self.add_resource_claim(special, driver, count, owner=pod)
        key = ObjectKey(RESOURCE_CLAIMS, "default", special)
        self._server.change(key, lambda one: one["metadata"].setdefault("annotations", {}).update({EXTENDED: "true"}))
        free = self._free(node)
        self._allocate(special, [("gpu", next(free)) for _ in range(count)], node)
        self._reserve(special, pod)
        status = {"resourceClaimName": special, "requestMappings": []}
        self._server.change(
            ObjectKey(PODS, "default", name), lambda one: one["status"].update(extendedResourceClaimStatus=status)
        )

    def unreserve(self, pod: Json) -> None:
        """Undo `pre_bind` after an error of the Binding."""
        uid = pod["metadata"]["uid"]
        for resource_claim in tuple(self._server.storage.of(RESOURCE_CLAIMS)):
            if EXTENDED in resource_claim["metadata"].get("annotations", {}) and _owner(resource_claim) == uid:
                self._remove(resource_claim)
            elif uid in _reserved(resource_claim):
                status = deepcopy(resource_claim["status"])
                status["reservedFor"] = [one for one in status["reservedFor"] if one["uid"] != uid]
                self._status(resource_claim["metadata"]["name"], status)

    # The controller of ResourceClaims, and the kubelets.

    def _on_event(self, event: WatchEvent) -> None:
        if event.resource == RESOURCE_CLAIMS:
            self._count(event)
            if event.type == "MODIFIED" and "deletionTimestamp" in event.object["metadata"]:
                asyncio.get_running_loop().call_soon(self._finish_deletion, event.object["metadata"]["name"])
        if event.resource == PODS:
            asyncio.get_running_loop().call_soon(self._follow, event)

    def _count(self, event: WatchEvent) -> None:
        uid = event.object["metadata"]["uid"]
        before = self._allocated.pop(uid, [])
        after = [] if event.type == "DELETED" else devices_of(event.object)
        if after:
            self._allocated[uid] = after
        if before and not after:
            self.known.difference_update(before)
        elif after and not before:
            self.known.update(after)

    def _finish_deletion(self, name: str) -> None:
        """Free a deleted ResourceClaim that no Pod uses, then let it go (`syncClaim` of its controller)."""
        resource_claim = self.resource_claim(name)
        if (
            resource_claim is None
            or _reserved(resource_claim)
            or FINALIZER not in resource_claim["metadata"].get("finalizers", ())
        ):
            return
        if "allocation" in resource_claim.get("status", {}):
            self._status(name, {})
            return
        key = ObjectKey(RESOURCE_CLAIMS, "default", name)
        with suppress(StatusError):
            self._server.change(key, lambda one: one["metadata"]["finalizers"].remove(FINALIZER))

    def _follow(self, event: WatchEvent) -> None:
        """Do what follows from a change of a Pod, once all have been notified of it."""
        pod, meta = event.object, event.object["metadata"]
        if event.type == "DELETED" or pod["status"]["phase"] in FINISHED_PHASES:
            self._forget(pod, deleted=event.type == "DELETED")
            return
        if pod["spec"].get("nodeName"):
            self._reserve_for_bound(pod)
            if not any(uid == meta["uid"] for uid, _ in self.prepared):
                self._prepare(pod)
        templates = [one for one in pod["spec"].get("resourceClaims", ()) if "resourceClaimTemplateName" in one]
        if templates and "resourceClaimStatuses" not in pod["status"]:
            made = []
            for one in templates:
                driver, _, count = one["resourceClaimTemplateName"].rpartition("x")
                name = f"{meta['name']}-{one['name']}-{meta['uid'][-4:]}"
                if self.resource_claim(name) is None:
                    self.add_resource_claim(name, driver, int(count), owner=pod)
                made.append({"name": one["name"], "resourceClaimName": name})
            key = ObjectKey(PODS, meta["namespace"], meta["name"])
            with suppress(StatusError):
                self._server.change(key, lambda found: found["status"].update(resourceClaimStatuses=made))

    def _reserve_for_bound(self, pod: Json) -> None:
        """Reserve the allocated ResourceClaims of a bound Pod, which kube-scheduler unreserved for a lost answer.

        kube-controller-manager does so for Pods that no scheduler placed (`syncPod` in `resourceclaim/controller.go`).
        """
        for resource_claim in self._resource_claims(pod):
            if (
                resource_claim is not None
                and "allocation" in resource_claim.get("status", {})
                and not _reserved(resource_claim)
            ):
                self._reserve(resource_claim["metadata"]["name"], pod)

    def _prepare(self, pod: Json) -> None:
        """Give a bound Pod the devices of its ResourceClaims, as its kubelet does."""
        uid = pod["metadata"]["uid"]
        for resource_claim in self._server.storage.of(RESOURCE_CLAIMS):
            if uid not in _reserved(resource_claim):
                continue
            for device in devices_of(resource_claim):
                if any(had == device for _, had in self.prepared):
                    self.doubly.append(f"{device} to {pod['metadata']['name']}")
                self.prepared.append((uid, device))

    def _forget(self, pod: Json, *, deleted: bool) -> None:
        uid = pod["metadata"]["uid"]
        self.prepared = [one for one in self.prepared if one[0] != uid]
        for resource_claim in tuple(self._server.storage.of(RESOURCE_CLAIMS)):
            if uid in _reserved(resource_claim):
                self._status(resource_claim["metadata"]["name"], {})
            if _owner(resource_claim) == uid and deleted:
                self._remove(resource_claim)

    # Storage.

    def _create(self, kind: str, name: str, spec: Json) -> None:
        self._server.create(
            {"apiVersion": RESOURCE_CLAIMS.api_version, "kind": kind, "metadata": {"name": name}, "spec": spec}
        )

    def _resource_claims(self, pod: Json) -> Iterator[Json | None]:
        made = {one["name"]: one["resourceClaimName"] for one in pod["status"].get("resourceClaimStatuses", ())}
        for one in pod["spec"].get("resourceClaims", ()):
            yield self.resource_claim(one.get("resourceClaimName") or made.get(one["name"], ""))

    def _extended(self, pod: Json) -> list[tuple[str, int]]:
        """Return the DeviceClasses and counts behind the extended resources of a Pod."""
        offers = {
            one["spec"]["extendedResourceName"]: one["metadata"]["name"]
            for one in self._server.storage.of(DEVICE_CLASSES)
            if "extendedResourceName" in one["spec"]
        }
        found = []
        for container in pod["spec"]["containers"]:
            for name, count in container.get("resources", {}).get("requests", {}).items():
                driver = name.removeprefix(OF_CLASS) if name.startswith(OF_CLASS) else offers.get(name)
                if driver:
                    found.append((driver, int(count)))
        return found

    def _free(self, node: str) -> Iterator[DeviceKey]:
        slices = [one["spec"] for one in self._server.storage.of(RESOURCE_SLICES)]
        for spec in slices:
            for device in spec["devices"]:
                key = (spec["driver"], spec["pool"]["name"], device["name"])
                if spec.get("nodeName") == node and key not in self.known and spec["driver"] != CPU_DRIVER:
                    yield key

    def _allocate(self, name: str, chosen: list[tuple[str, DeviceKey]], node: str, config: Sequence[Json] = ()) -> None:
        results = [
            {"request": request, "driver": driver, "pool": pool, "device": device}
            | ({"shareID": f"share-{name}"} if driver == CPU_DRIVER else {})
            for request, (driver, pool, device) in chosen
        ]
        field = {"key": "metadata.name", "operator": "In", "values": [node]}
        allocation = {
            "devices": {"results": results, "config": list(config)},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
            "allocationTimestamp": timestamp(self._server.wall()),
        }
        key = ObjectKey(RESOURCE_CLAIMS, "default", name)
        self._server.change(key, lambda one: one["metadata"].update(finalizers=[FINALIZER]))
        self._status(name, {"allocation": allocation})

    def _reserve(self, name: str, pod: Json) -> None:
        resource_claim = self.resource_claim(name)
        status = deepcopy(resource_claim["status"]) if resource_claim is not None else {}
        consumer = {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
        status["reservedFor"] = [*status.get("reservedFor", ()), consumer]
        self._status(name, status)

    def _status(self, name: str, status: Json) -> None:
        key = ObjectKey(RESOURCE_CLAIMS, "default", name)
        with suppress(StatusError):
            self._server.change(key, lambda one: one.update(status=status))

    def _remove(self, resource_claim: Json) -> None:
        with suppress(StatusError):
            self._server.storage.remove(ObjectKey(RESOURCE_CLAIMS, "default", resource_claim["metadata"]["name"]))


def check_resource_claim(old: Json, new: Json) -> None:
    """Refuse what the API server refuses of the status of a ResourceClaim. Raises StatusError."""
    if new["kind"] != RESOURCE_CLAIMS.kind:
        return
    name, was, now = new["metadata"]["name"], old.get("status", {}), new.get("status", {})
    if "allocation" in was and "allocation" in now and was["allocation"] != now["allocation"]:
        raise invalid(new["kind"], name, "status.allocation", "...", "field is immutable")
    if now.get("reservedFor") and "allocation" not in now:
        raise invalid(new["kind"], name, "status.reservedFor", "...", "may not be specified when not allocated")
    if "allocation" in now and not now["allocation"].get("allocationTimestamp"):
        raise invalid(new["kind"], name, "status.allocation", "...", "the simulator wants an allocationTimestamp")


def devices_of(resource_claim: Json) -> list[DeviceKey]:
    """Return the devices in the allocation of a ResourceClaim, and of the device for all CPUs its single CPUs."""
    devices = resource_claim.get("status", {}).get("allocation", {}).get("devices", {})
    given = [(one["driver"], one["pool"], one["device"], one["request"]) for one in devices.get("results", ())]
    found = [(driver, pool, device) for driver, pool, device, _ in given if driver != CPU_DRIVER]
    for entry in devices.get("config", ()):
        if entry["opaque"]["driver"] == CPU_DRIVER:
            [place] = [one for one in given if one[3] == entry["requests"][0]]
            cpuset = entry["opaque"]["parameters"]["cpuConfig"]["cpuset"]
            found += [(place[0], place[1], f"{place[2]}/{cpu}") for cpu in _expanded(cpuset)]
    return found


def _expanded(cpuset: str) -> Iterator[int]:
    for part in cpuset.split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def _of_cpus(request: Json) -> bool:
    return bool(request["exactly"]["deviceClassName"] == CPU_DRIVER)


def node_of(allocation: Json) -> str:
    """Return the Node of an allocation."""
    name: str = allocation["nodeSelector"]["nodeSelectorTerms"][0]["matchFields"][0]["values"][0]
    return name


def _reserved(resource_claim: Json) -> list[str]:
    return [one["uid"] for one in resource_claim.get("status", {}).get("reservedFor", ())]


def _owner(resource_claim: Json) -> str:
    return next((one["uid"] for one in resource_claim["metadata"].get("ownerReferences", ())), "")


def _owned_by(pod: Json) -> Json:
    meta = pod["metadata"]
    return {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"], "controller": True}
