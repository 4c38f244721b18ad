"""Write the devices that Slurm allocated into the ResourceClaims of members, and keep every device to one holder.

The API server accepts two holders of one device, and other kube-schedulers write allocations at the same time. So the
devices are compared before the write, and once more when the watch has shown the write: whatever was written before it
is known then. The ResourceClaim of a Pod that is not bound yet yields.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import structlog

from extender.controllers.devices.cpu_orders import CpuOrders
from extender.controllers.devices.pod_devices import PodDevices
from extender.domain import events as e
from extender.domain.devices.choice import (
    ChosenDevices,
    DeviceStock,
    DevicesUnknown,
    DevicesUnusable,
    choose,
    conflicts,
)
from extender.domain.devices.views import AllocatedDevice, ResourceClaimAllocation, ResourceClaimView
from extender.domain.events import MemberRef
from extender.domain.placeholder import Placeholder
from extender.domain.ports import Clock, DeviceCache, PodCache, PodReads, PortError, ResourceClaims
from extender.domain.views import PodView
from extender.engine.engine_context import DeviceCheck

_log = structlog.get_logger(__name__)

DEVICE_WAIT_S = 60.0
"""How long an allocation is kept while its devices are not published, or not freed by Pods that have ended. A kubelet
that restarts removes ResourceSlices for up to 30 s."""

SHOWN_WITHIN_S = 1.5
"""Seconds for the watch to show a write. kube-scheduler gives up `/bind` after 5 s."""

TRIES = 3
"""Writes of one ResourceClaim that others change at the same time."""


@dataclass(frozen=True, slots=True)
class _Order:
    """One member with the ResourceClaims that are to be written for it."""

    p: Placeholder
    ref: MemberRef
    node: str
    resource_claims: tuple[ResourceClaimView, ...]

    def choice(self, stock: DeviceStock, pods: PodDevices) -> ChosenDevices | DevicesUnknown | DevicesUnusable:
        """Return the device of each request."""
        given = self.p.devices_of(self.ref.uid)
        return choose(self.resource_claims, given, self.node, stock, pods.device_map)


class MemberDevices:
    """Check and write the devices of members."""

    def __init__(
        self,
        pods: PodDevices,
        devices: DeviceCache,
        resource_claims: ResourceClaims,
        cpus: CpuOrders,
        *,
        cache: PodCache,
        reads: PodReads,
        clock: Clock,
    ) -> None:
        self._pods = pods
        self._devices = devices
        self._resource_claims = resource_claims
        self._cpus = cpus
        self._cache = cache
        self._reads = reads
        self._clock = clock
        self.stock = DeviceStock(
            devices.pools, devices.holders, pods.pod_of, pods.is_provisional, pods.is_leaving, cpus.order
        )
        """What is known of devices and of who holds them."""

        self.conflicts = 0
        """Devices of grants that others held, since the start of the process."""

        self._unknown_since: dict[str, tuple[int | None, float]] = {}
        """Since when the devices of each workload's job are not published, or not freed."""

    def forget(self, key: str) -> None:
        """Drop what is kept of a workload that is over."""
        self._unknown_since.pop(key, None)

    def missing_resource_claim(self, p: Placeholder) -> str:
        """Return which ResourceClaim of a member that wants a node does not exist, and what to do; "": all exist."""
        if not self._pods.device_map:
            return ""
        waits = (self._pods.waits_for(member.ref.uid) for member in p.members if member.wanting)
        return next((why for why in waits if why), "")

    def writes_resource_claims(self, ref: MemberRef, node: str) -> bool:
        """Return whether a Pod has ResourceClaims that `settle` writes."""
        pod = self._cache.get(ref.uid)
        return pod is not None and bool(self._pods.reading(pod).translated or self._behind_resources(pod, node))

    def check(self, p: Placeholder) -> DeviceCheck:
        """Return whether every member that wants a node can have its devices there, by what is known now."""
        if not self._pods.device_map:
            return e.AllocationFits()
        for member in p.members:
            node, pod = p.node_of(member.ref.uid), self._cache.get(member.ref.uid)
            if not member.wanting or not node or pod is None:
                continue
            reading = self._pods.reading(pod)
            if reading.missing:
                return e.AllocationBusy(self._pods.waits_for(pod.uid))
            found = _Order(p, member.ref, node, (*reading.translated, *self._behind_resources(pod, node))).choice(
                self.stock, self._pods
            )
            if isinstance(found, DevicesUnusable):
                self._note(p, found)
                return e.AllocationMisfits(node, found.text)
            if isinstance(found, DevicesUnknown):
                return self._unknown(p, node, found)
        self._unknown_since.pop(p.key, None)
        return e.AllocationFits()

    async def prepare(self, p: Placeholder, ref: MemberRef) -> str:
        """Write the ResourceClaims of a member before kube-scheduler tries its Pod; "" once they are, else why not.

        One that kube-scheduler has reserved for the Pod already is settled in `/bind`.
        """
        pod, node = self._cache.get(ref.uid), p.node_of(ref.uid)
        if pod is None or not node or p.job_id is None:
            return ""
        reading = self._pods.reading(pod)
        if reading.missing:
            return self._pods.waits_for(pod.uid)
        found = _Order(p, ref, node, reading.translated).choice(self.stock, self._pods)
        if not isinstance(found, ChosenDevices):
            return found.text
        open_ones = tuple(one for one in reading.translated if not one.reserved)
        return await self._write(_Order(p, ref, node, open_ones), found, reserve=False)

    async def settle(self, p: Placeholder, ref: MemberRef, node: str) -> str:
        """Make the ResourceClaims of a member what Slurm allocated, reserved for its Pod; "" once they are.

        Called in `/bind`, after kube-scheduler's PreBind: whatever it allocated is replaced.
        """
        pod = self._cache.get(ref.uid)
        if pod is None or not self._pods.device_map or p.job_id is None:
            return ""
        reading = self._pods.reading(pod)
        if reading.missing:
            return self._pods.waits_for(pod.uid)
        try:
            names = [one.name for one in reading.translated]
            if self._behind_resources(pod, node):
                names.append(await self._extended_resource_claim(pod, ref))
            resource_claims = [await self._read(pod.namespace, name) for name in names]
        except PortError as error:
            return str(error)
        order = _Order(p, ref, node, tuple(resource_claims))
        found = order.choice(self.stock, self._pods)
        if not isinstance(found, ChosenDevices):
            return found.text
        return await self._write(order, found, reserve=True)

    async def release(self, resource_claim: ResourceClaimView) -> None:
        """Remove an allocation of the extender whose job is not the Pod's any more. Raises `PortError`."""
        await self._resource_claims.release(resource_claim)
        _log.info(
            "resource_claim_released",
            resource_claim=resource_claim.full_name,
            uid=resource_claim.uid,
            job_id=resource_claim.job_id,
        )

    def _behind_resources(self, pod: PodView, node: str) -> tuple[ResourceClaimView, ...]:
        """Return a stand-in for the ResourceClaim that kube-scheduler makes for extended resources."""
        requests = self._pods.extended(pod, node)
        return (ResourceClaimView("", pod.namespace, f"of {pod.name}", requests=requests),) if requests else ()

    async def _extended_resource_claim(self, pod: PodView, ref: MemberRef) -> str:
        """Return the name of the ResourceClaim for extended resources. Raises `PortError`."""
        name = pod.extended_resource_claim
        if not name:
            now = await self._reads.read(ref)
            name = "" if now is None else now.extended_resource_claim
        if not name:
            raise PortError(
                "kube-scheduler has made no ResourceClaim for the extended resources of the Pod; it needs the feature "
                "gate DRAExtendedResource"
            )
        return name

    async def _read(self, namespace: str, name: str) -> ResourceClaimView:
        found = await self._resource_claims.read(namespace, name)
        if found is None:
            raise PortError(f"ResourceClaim {namespace}/{name} does not exist")
        return found

    async def _write(self, order: _Order, found: ChosenDevices, *, reserve: bool) -> str:
        """Write what differs, wait for the watch, and look for other holders."""
        if found.left:
            self._cpus.report(order.node, found.left)
        written: list[ResourceClaimView] = []
        holders = self.stock.holders
        try:
            for resource_claim in order.resource_claims:
                chosen = found.by_resource_claim.get(resource_claim.uid)
                if chosen is None or _is_right(resource_claim, chosen, order, reserve=reserve):
                    continue
                holders.assume(resource_claim.uid, frozenset(held for one in chosen for held in one.held))
                written.append(await self._allocate(resource_claim, chosen, order, reserve=reserve))
            for resource_claim in written:
                if not await self._devices.passed(resource_claim.uid, resource_claim.resource_version, SHOWN_WITHIN_S):
                    return f"the watch has not shown the write of ResourceClaim {resource_claim.full_name} yet"
        except PortError as error:
            return f"ResourceClaim of {order.ref.full_name}: {error}"
        finally:
            for resource_claim in order.resource_claims:
                holders.assume(resource_claim.uid, frozenset())
        return self._conflict(order.p, written or order.resource_claims)

    def _conflict(self, p: Placeholder, resource_claims: Sequence[ResourceClaimView]) -> str:
        for resource_claim in resource_claims:
            for device, other in conflicts(resource_claim, self.stock):
                holder = self.stock.holder_text(other.uid)
                found = DevicesUnusable(f"{holder} holds {device.text} too, which Slurm gave this Pod", conflict=True)
                self._note(p, found)
                return found.text
        return ""

    async def _allocate(
        self, resource_claim: ResourceClaimView, chosen: tuple[AllocatedDevice, ...], order: _Order, *, reserve: bool
    ) -> ResourceClaimView:
        """Write one allocation. An object that others changed meanwhile is read and tried again. Raises `PortError`."""
        config = tuple((one.name, self._devices.class_config(one.device_class)) for one in resource_claim.requests)
        allocation = ResourceClaimAllocation(chosen, order.node, order.p.job_id or 0, config)
        for _ in range(TRIES - 1):
            try:
                return await self._resource_claims.allocate(resource_claim, allocation, order.ref if reserve else None)
            except PortError as error:
                _log.info(
                    "resource_claim_not_written",
                    resource_claim=resource_claim.full_name,
                    uid=resource_claim.uid,
                    error=str(error),
                )
                now = await self._read(resource_claim.namespace, resource_claim.name)
                if now.uid != resource_claim.uid or (now.reserved and not reserve):
                    raise
                resource_claim = now
        return await self._resource_claims.allocate(resource_claim, allocation, order.ref if reserve else None)

    def _unknown(self, p: Placeholder, node: str, found: DevicesUnknown) -> DeviceCheck:
        now = self._clock.now()
        job_id, since = self._unknown_since.get(p.key, (p.job_id, now))
        if job_id != p.job_id:
            since = now
        self._unknown_since[p.key] = (p.job_id, since)
        if now - since < DEVICE_WAIT_S:
            return e.AllocationBusy(found.text)
        del self._unknown_since[p.key]
        return e.AllocationMisfits(node, f"{found.text} {found.advice}")

    def _note(self, p: Placeholder, found: DevicesUnusable) -> None:
        if found.conflict:
            self.conflicts += 1
        _log.warning("devices_unusable", workload=p.key, job_id=p.job_id, pods=p.pod_names, why=found.text)


def _is_right(
    resource_claim: ResourceClaimView, chosen: tuple[AllocatedDevice, ...], order: _Order, *, reserve: bool
) -> bool:
    """Return whether nothing has to be written."""
    if resource_claim.allocated is None or resource_claim.node != order.node:
        return False
    same = {replace(one, admin=False) for one in resource_claim.allocated} == set(chosen)
    return same and (order.ref.uid in resource_claim.reserved if reserve else resource_claim.job_id == order.p.job_id)
