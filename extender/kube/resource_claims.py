"""Write the allocation of ResourceClaims. Implements `ports.ResourceClaims`.

An allocation that is there cannot be changed, only removed and written again (`resourceclaim/strategy.go`). Every patch
names the UID and the resource version: one that was changed meanwhile is left as it is (409).
"""

from __future__ import annotations

import random
import uuid
from contextlib import suppress
from typing import Any
from urllib.parse import quote

from pydantic_core import from_json

from extender.domain.devices.cpu_order import cpuset_text
from extender.domain.devices.views import (
    REMINDER_CLASS,
    REMINDER_PREFIX,
    RESOURCE_CLAIM_FINALIZER,
    AllocatedDevice,
    DeviceId,
    DeviceRequest,
    ResourceClaimAllocation,
    ResourceClaimView,
)
from extender.domain.events import MemberRef
from extender.domain.ports import Clock, ResourceClaims
from extender.domain.timestamp import timestamp
from extender.domain.wellknown import DEVICE_REMINDER, JOB_ID
from extender.kube.connection import MERGE_PATCH, ApiConnection, ApiResponse
from extender.kube.devices import RESOURCE_API
from extender.kube.errors import ApiUnavailable, Conflict, NotFound
from extender.kube.repeat import repeated
from extender.kube.wire.fields import MalformedObject
from extender.kube.wire.resource_claim import KIND, read_resource_claim

ONCE_S = 2.0
"""Seconds for one request. A `/bind` call makes up to four, within kube-scheduler's time-out of 5 s."""


NO_NODE = "device-reminder.slurm-extender.io"
"""The Node that reminders are for, which does not exist: no scheduler places a Pod that names one."""


class ResourceClaimWriter:
    """Implements `ports.ResourceClaims`."""

    def __init__(self, connection: ApiConnection, *, clock: Clock, rng: random.Random) -> None:
        self._connection = connection
        self._clock = clock
        self._rng = rng

    async def read(self, namespace: str, name: str) -> ResourceClaimView | None:
        """Return a ResourceClaim as it is now; `None`: there is none of this name. Raises ApiError."""
        path = _path(namespace, name)

        async def get(timeout_s: float) -> ApiResponse:
            return await self._connection.request("GET", path, timeout_s=timeout_s)

        try:
            answer = await repeated(get, within_s=ONCE_S, once_s=ONCE_S, rng=self._rng)
        except NotFound:
            return None
        return _read(answer, path)

    async def allocate(
        self, resource_claim: ResourceClaimView, allocation: ResourceClaimAllocation, reserve_for: MemberRef | None
    ) -> ResourceClaimView:
        """Replace the allocation, and reserve the ResourceClaim for a Pod unless `None`. Raises ApiError.

        The finalizer comes first, as with kube-scheduler: an allocated ResourceClaim without one could be deleted under
        a running Pod.
        """
        if resource_claim.allocated is not None:
            resource_claim = await self._patch(
                resource_claim, "/status", {"status": {"allocation": None, "reservedFor": None}}
            )
        if RESOURCE_CLAIM_FINALIZER not in resource_claim.finalizers or resource_claim.job_id != allocation.job_id:
            finalizers = [*resource_claim.finalizers, *({RESOURCE_CLAIM_FINALIZER} - set(resource_claim.finalizers))]
            notes = {JOB_ID: str(allocation.job_id)}
            resource_claim = await self._patch(
                resource_claim, "", {"metadata": {"finalizers": finalizers, "annotations": notes}}
            )
        status: dict[str, Any] = {"allocation": self._allocation(resource_claim, allocation)}
        if reserve_for is not None:
            status["reservedFor"] = [{"resource": "pods", "name": reserve_for.name, "uid": reserve_for.uid}]
        return await self._patch(resource_claim, "/status", {"status": status})

    async def release(self, resource_claim: ResourceClaimView) -> None:
        """Remove the allocation and the finalizer. One that does not exist has neither. Raises ApiError."""
        with suppress(NotFound):
            if resource_claim.allocated is not None:
                resource_claim = await self._patch(resource_claim, "/status", {"status": {"allocation": None}})
            finalizers = [one for one in resource_claim.finalizers if one != RESOURCE_CLAIM_FINALIZER]
            await self._patch(
                resource_claim, "", {"metadata": {"finalizers": finalizers, "annotations": {JOB_ID: None}}}
            )

    async def remind(self, resource_claim: ResourceClaimView, device: DeviceId) -> None:
        """Allocate a device once more, to a reminder of the ResourceClaim that holds it. Raises ApiError.

        The set of allocated devices of a kube-scheduler has no counts (`dynamicresources/allocateddevices.go`): of a
        device that two ResourceClaims hold it forgets when one of them is freed. An allocation that is new to it
        brings the device back. A reminder that exists is therefore freed first.
        """
        folder, name = _folder(resource_claim.namespace), reminder_name(resource_claim.uid, device)
        try:
            answer = await self._connection.request(
                "POST", folder, body=_reminder(resource_claim, name), timeout_s=ONCE_S
            )
            found = _read(answer, folder)
        except Conflict:
            there = await self.read(resource_claim.namespace, name)
            if there is None:
                raise
            found = there
        if found.reminds_of != resource_claim.uid or found.deleted:
            raise ApiUnavailable(
                f"{found.full_name} is no reminder of {resource_claim.full_name}, or is ending; delete it"
            )
        if found.allocated is not None:
            found = await self._patch(found, "/status", {"status": {"allocation": None}})
        held = ResourceClaimAllocation((AllocatedDevice(_request_name(resource_claim), device),), NO_NODE, 0)
        await self._patch(found, "/status", {"status": {"allocation": self._allocation(found, held)}})

    async def remove(self, reminder: ResourceClaimView) -> None:
        """Free the device of a reminder, and delete it. Raises ApiError.

        The device first: kube-schedulers give it away from the end of its holder on, and forget who got it when it is
        freed after that. One that a Pod uses meanwhile keeps the device: kube-controller-manager frees it after that
        Pod, by the finalizer. So does it where the extender ends in between.
        """
        path = _path(reminder.namespace, reminder.name)
        with suppress(NotFound, Conflict):
            if reminder.allocated is not None and not reminder.reserved:
                reminder = await self._patch(reminder, "/status", {"status": {"allocation": None}})
            precondition = {"uid": reminder.uid, "resourceVersion": reminder.resource_version}
            body = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": precondition}
            if not reminder.deleted:
                await self._connection.request("DELETE", path, body=body, timeout_s=ONCE_S)
            found = await self.read(reminder.namespace, reminder.name)
            if found is not None and found.uid == reminder.uid and not found.reserved:
                await self.release(found)

    async def _patch(
        self, resource_claim: ResourceClaimView, subresource: str, patch: dict[str, Any]
    ) -> ResourceClaimView:
        path = f"{_path(resource_claim.namespace, resource_claim.name)}{subresource}"
        precondition = {"uid": resource_claim.uid, "resourceVersion": resource_claim.resource_version}
        body = {**patch, "metadata": {**precondition, **patch.get("metadata", {})}}
        answer = await self._connection.request("PATCH", path, body=body, content_type=MERGE_PATCH, timeout_s=ONCE_S)
        return _read(answer, path)

    def _allocation(self, resource_claim: ResourceClaimView, allocation: ResourceClaimAllocation) -> dict[str, Any]:
        requests = {one.name: one for one in resource_claim.requests}
        results = [
            {
                "request": one.request,
                "driver": one.device.driver,
                "pool": one.device.pool,
                "device": one.device.device,
                **_share(resource_claim, one),
                **_tolerations(requests.get(one.request)),
            }
            for one in allocation.devices
        ]
        config = [
            {"source": "FromClass", "requests": [request], **_entry(entry)}
            for request, entries in allocation.class_config
            for entry in entries
        ]
        config += [{"source": "FromClaim", **_entry(entry)} for entry in resource_claim.config]
        config += [_cpu_config(one) for one in allocation.devices if one.cpus]
        devices: dict[str, Any] = {"results": results}
        if config:
            devices["config"] = config
        field = {"key": "metadata.name", "operator": "In", "values": [allocation.node]}
        return {
            "devices": devices,
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
            "allocationTimestamp": timestamp(self._clock.wall()),
        }


def _share(resource_claim: ResourceClaimView, one: AllocatedDevice) -> dict[str, Any]:
    """Return the share of a device of CPUs. Its ID is always the same for one request of one ResourceClaim."""
    if not one.cpus:
        return {}
    share = uuid.uuid5(uuid.NAMESPACE_OID, f"{resource_claim.uid}/{one.request}")
    return {"consumedCapacity": {f"{one.device.driver}/cpu": str(len(one.cpus))}, "shareID": str(share)}


def _cpu_config(one: AllocatedDevice) -> dict[str, Any]:
    """Return the CPUs as dra-driver-cpu reads them (`api/v1alpha1`): one entry for each request."""
    parameters = {"apiVersion": "v1alpha1", "cpuConfig": {"cpuset": cpuset_text(one.cpus)}}
    opaque = {"driver": one.device.driver, "parameters": parameters}
    return {"source": "FromClaim", "requests": [one.request], "opaque": opaque}


def _tolerations(request: DeviceRequest | None) -> dict[str, Any]:
    if request is None or not request.tolerations_json:
        return {}
    return {"tolerations": from_json(request.tolerations_json)}


def _entry(text: str) -> dict[str, Any]:
    found: dict[str, Any] = from_json(text)
    return found


def reminder_name(uid: str, device: DeviceId) -> str:
    """Return the name of the reminder of a device that a ResourceClaim holds: always the same."""
    return f"slurm-device-reminder-{uuid.uuid5(uuid.NAMESPACE_OID, f'{uid}/{device.text}')}"


def _reminder(resource_claim: ResourceClaimView, name: str) -> dict[str, Any]:
    """Return a reminder of a ResourceClaim, which ends with it at the latest.

    Its DeviceClass does not exist, so that no quota counts its device.
    """
    api = RESOURCE_API.removeprefix("/apis/")
    owner = {
        "apiVersion": api,
        "kind": KIND,
        "name": resource_claim.name,
        "uid": resource_claim.uid,
        "controller": True,
    }
    exactly = {"deviceClassName": REMINDER_CLASS, "allocationMode": "ExactCount", "count": 1}
    return {
        "apiVersion": api,
        "kind": KIND,
        "metadata": {
            "name": name,
            "labels": {DEVICE_REMINDER: "true"},
            "finalizers": [RESOURCE_CLAIM_FINALIZER],
            "ownerReferences": [owner],
        },
        "spec": {"devices": {"requests": [{"name": _request_name(resource_claim), "exactly": exactly}]}},
    }


def _request_name(resource_claim: ResourceClaimView) -> str:
    return f"{REMINDER_PREFIX}{resource_claim.uid}"


def _folder(namespace: str) -> str:
    return f"{RESOURCE_API}/namespaces/{quote(namespace, safe='')}/resourceclaims"


def _path(namespace: str, name: str) -> str:
    return f"{_folder(namespace)}/{quote(name, safe='')}"


def _read(answer: ApiResponse, path: str) -> ResourceClaimView:
    try:
        found = read_resource_claim(answer.body)
    except MalformedObject as error:
        raise ApiUnavailable(f"{path}: {error}") from error
    if found.unreadable:
        raise ApiUnavailable(f"{path}: {found.unreadable}")
    return found


_RESOURCE_CLAIM_WRITER_IS_RESOURCE_CLAIMS: type[ResourceClaims] = ResourceClaimWriter
