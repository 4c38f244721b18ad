"""Choose the devices for ResourceClaims: each index that Slurm allocated must be one free device of the Node."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from extender.domain.devices.device_map import DeviceLine, DeviceMap
from extender.domain.devices.holders import DeviceHolders
from extender.domain.devices.pools import DevicePools
from extender.domain.devices.resource_claims import lines_of_requests
from extender.domain.devices.views import AllocatedDevice, DeviceId, DeviceRequest, ResourceClaimView, SliceDevice
from extender.domain.jobs.devices import Device, numbers
from extender.domain.placing.taints import not_tolerated

_KEEP_OFF = frozenset({"NoSchedule", "NoExecute"})


@dataclass(frozen=True, slots=True)
class ChosenDevices:
    """The devices of each ResourceClaim, by UID."""

    by_claim: Mapping[str, tuple[AllocatedDevice, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DevicesUnknown:
    """The driver has not published its devices completely, for example while a kubelet restarts. Try again."""

    text: str


@dataclass(frozen=True, slots=True)
class DevicesUnusable:
    """A device of the allocation cannot be used: the allocation is of no use on this Node."""

    text: str
    conflict: bool = False
    """Another ResourceClaim holds the device."""


Choice = ChosenDevices | DevicesUnknown | DevicesUnusable


class _Unusable(Exception):
    """Carry a `DevicesUnknown` or `DevicesUnusable` out of the choice of one device."""

    def __init__(self, found: DevicesUnknown | DevicesUnusable) -> None:
        super().__init__(found.text)
        self.found = found


@dataclass(frozen=True, slots=True)
class DeviceStock:
    """The devices that drivers publish, with the holder of each."""

    pools: DevicePools
    holders: DeviceHolders
    pod_of: Callable[[ResourceClaimView], str] = lambda _claim: ""
    """The Pod that uses a ResourceClaim, `namespace/name`; "": unknown."""

    provisional: Callable[[ResourceClaimView], bool] = lambda _claim: False
    """Its Pod is one of this extender and not bound: the ResourceClaim is compared with Slurm's indexes, and replaced
    if it differs, before the Pod is bound."""

    def firm_holders(self, device: DeviceId, uid: str) -> tuple[str, ...]:
        """Return the UIDs of the ResourceClaims, except one, that keep a device from others."""
        return tuple(other for other in self.holders.others(device, uid) if not self._yields(other))

    def _yields(self, uid: str) -> bool:
        claim = self.holders.claim(uid)
        return claim is not None and self.provisional(claim)

    def holder_text(self, uid: str) -> str:
        """Return the holder of a device for a message."""
        claim = self.holders.claim(uid)
        if claim is None:
            return "a ResourceClaim that is being written"
        pod = self.pod_of(claim)
        return f"ResourceClaim {claim.full_name}" + (f" of Pod {pod}" if pod else "")


def choose(
    claims: Sequence[ResourceClaimView], given: Sequence[Device], node: str, stock: DeviceStock, device_map: DeviceMap
) -> Choice:
    """Return the device of each request. `given` are Slurm's devices on the Slurm node of this Node.

    Requests take the indexes of their GRES in ascending order, in the order of the ResourceClaims and of their
    requests, so that the same grant always leads to the same choice.
    """
    left: dict[DeviceLine, list[int]] = {}
    chosen: dict[str, tuple[AllocatedDevice, ...]] = {}
    try:
        for claim in claims:
            results: list[AllocatedDevice] = []
            for request, line in lines_of_requests(claim.requests, device_map):
                if line not in left:
                    left[line] = indexes_of(line, given)
                taken, left[line] = left[line][: request.count], left[line][request.count :]
                if len(taken) < request.count:
                    raise _Unusable(_too_few(line, given, node, claim))
                results += [
                    AllocatedDevice(request.name, _device((line, index, node), request, stock, claim.uid))
                    for index in taken
                ]
            chosen[claim.uid] = tuple(results)
    except _Unusable as error:
        return error.found
    return ChosenDevices(chosen)


def indexes_of(line: DeviceLine, given: Sequence[Device]) -> list[int]:
    """Return Slurm's indexes of a line, ascending."""
    return sorted({index for one in given if line.counts(one) for index in numbers(one.index)})


def conflicts(claim: ResourceClaimView, stock: DeviceStock) -> tuple[tuple[DeviceId, ResourceClaimView], ...]:
    """Return the devices of an allocated ResourceClaim that others keep too, each with one of these."""
    return tuple(
        (device, other)
        for device in sorted(claim.devices)
        for uid in stock.firm_holders(device, claim.uid)[:1]
        if (other := stock.holders.claim(uid)) is not None
    )


def _too_few(line: DeviceLine, given: Sequence[Device], node: str, claim: ResourceClaimView) -> DevicesUnusable:
    named = ", ".join(one.text for one in given if line.counts(one)) or "none"
    return DevicesUnusable(
        f"Slurm gave GRES {line.gres} of {node} as {named}, which has no index for every device that "
        f"{claim.full_name} requests; gres.conf must list single devices."
    )


def _device(place: tuple[DeviceLine, int, str], request: DeviceRequest, stock: DeviceStock, uid: str) -> DeviceId:
    """Return the device with Slurm's index, for a ResourceClaim. Raises `_Unusable`. `place`: line, index, Node."""
    line, index, node = place
    pool_name = line.pool_of(node)
    pool = stock.pools.pool(line.driver, pool_name, node)
    if pool is None or not pool.complete:
        lacks = "no ResourceSlice" if pool is None else "not every ResourceSlice"
        raise _Unusable(DevicesUnknown(f"The API server has {lacks} of pool {pool_name} of driver {line.driver}."))
    what = f"Slurm gave {line.gres} {index} of {node}"
    found = [device for device in pool.devices if line.is_index(device, index)]
    if len(found) != 1:
        number = "no device" if not found else f"{len(found)} devices"
        raise _Unusable(
            DevicesUnusable(
                f"{what}, which matches {number} of pool {pool_name} of driver {line.driver}; compare gres.conf and "
                "the ResourceSlices, or correct devices in the configuration."
            )
        )
    device = DeviceId(line.driver, pool_name, found[0].name)
    if why := _unsupported(found[0], request):
        raise _Unusable(DevicesUnusable(f"{what}, which is {device.text}: {why}."))
    if others := stock.firm_holders(device, uid):
        holder = stock.holder_text(others[0])
        raise _Unusable(DevicesUnusable(f"{what}, which is {device.text}: {holder} holds it.", conflict=True))
    return device


def _unsupported(device: SliceDevice, request: DeviceRequest) -> str:
    if device.unsupported:
        return f"it has {device.unsupported}, and such devices are not supported"
    keep_off = [taint for taint in device.taints if taint.effect in _KEEP_OFF]
    if bad := not_tolerated(request.tolerations, keep_off):
        return f"it has the taint {bad[0].key}:{bad[0].effect}, which request {request.name} does not tolerate"
    return ""
