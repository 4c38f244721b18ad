"""Choose the devices for ResourceClaims: each index that Slurm allocated must be one free device of the Node."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from extender.domain.devices.cpu_order import cpuset_text, linux_cpus
from extender.domain.devices.device_map import CpuLine, DeviceLine, DeviceMap
from extender.domain.devices.holders import DeviceHolders
from extender.domain.devices.pools import DevicePools, Pool
from extender.domain.devices.resource_claims import cpus_of_request, is_of_cpus, lines_of_requests
from extender.domain.devices.views import AllocatedDevice, DeviceId, DeviceRequest, ResourceClaimView, SliceDevice
from extender.domain.jobs.devices import Device, cores_of, numbers
from extender.domain.placing.taints import not_tolerated

_KEEP_OFF = frozenset({"NoSchedule", "NoExecute"})


@dataclass(frozen=True, slots=True)
class ChosenDevices:
    """The devices of each ResourceClaim, by UID."""

    by_resource_claim: Mapping[str, tuple[AllocatedDevice, ...]] = field(default_factory=dict)
    left: str = ""
    """Why the CPUs that Slurm allocated cannot be named: ResourceClaims for CPUs are left to kube-scheduler."""


@dataclass(frozen=True, slots=True)
class DevicesUnknown:
    """Try again: the driver has not published its devices completely, for example while a kubelet restarts, or the
    ResourceClaim of a Pod that has ended is not freed yet."""

    text: str
    advice: str = "Check the driver's Pod on the Node."
    """What to do if it lasts."""


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


def _no_order(_node: str) -> tuple[int, ...]:
    raise ValueError("its CPUs are not known")


@dataclass(frozen=True, slots=True)
class DeviceStock:
    """The devices that drivers publish, with the holder of each."""

    pools: DevicePools
    holders: DeviceHolders
    pod_of: Callable[[ResourceClaimView], str] = lambda _resource_claim: ""
    """The Pod that uses a ResourceClaim, `namespace/name`; "": unknown."""

    provisional: Callable[[ResourceClaimView], bool] = lambda _resource_claim: False
    """Its Pod is one of this extender and not bound: the ResourceClaim is compared with Slurm's indexes, and replaced
    if it differs, before the Pod is bound."""

    leaving: Callable[[ResourceClaimView], bool] = lambda _resource_claim: False
    """Its Pods have ended: kube-controller-manager removes the allocation."""

    cpu_order: Callable[[str], tuple[int, ...]] = _no_order
    """Return the Linux CPUs of a Node in Slurm's order. Raises `ValueError` with the cause where it is not known."""

    def firm_holders(self, device: DeviceId, uid: str) -> tuple[str, ...]:
        """Return the UIDs of the ResourceClaims, except one, that keep a device from others."""
        return tuple(other for other in self.holders.others(device, uid) if not self._yields(other))

    def frees(self, uid: str) -> bool:
        """Return whether a holder is about to free its devices."""
        resource_claim = self.holders.resource_claim(uid)
        return resource_claim is not None and (bool(resource_claim.reminds_of) or self.leaving(resource_claim))

    def _yields(self, uid: str) -> bool:
        resource_claim = self.holders.resource_claim(uid)
        if resource_claim is not None and resource_claim.reminds_of:
            resource_claim = self.holders.resource_claim(resource_claim.reminds_of)
        return resource_claim is not None and self.provisional(resource_claim)

    def holder_text(self, uid: str) -> str:
        """Return the holder of a device for a message."""
        resource_claim = self.holders.resource_claim(uid)
        if resource_claim is None:
            return "a ResourceClaim that is being written"
        pod = self.pod_of(resource_claim)
        return f"ResourceClaim {resource_claim.full_name}" + (f" of Pod {pod}" if pod else "")


def choose(
    resource_claims: Sequence[ResourceClaimView],
    given: Sequence[Device],
    node: str,
    stock: DeviceStock,
    device_map: DeviceMap,
) -> Choice:
    """Return the device of each request. `given` are Slurm's devices on the Slurm node of this Node.

    Requests take the indexes of their GRES in ascending order, in the order of the ResourceClaims and of their
    requests, so that the same grant always leads to the same choice.
    """
    left: dict[DeviceLine, list[int]] = {}
    chosen: dict[str, tuple[AllocatedDevice, ...]] = {}
    of_cpus = [one for one in resource_claims if is_of_cpus(one, device_map)]
    unnamed = ""
    try:
        if of_cpus and device_map.cpus is not None:
            try:
                cpus = _cpus(device_map.cpus, given, node, stock)
                chosen |= _share_cpus(of_cpus, cpus, device_map.cpus, node, stock)
            except ValueError as error:
                unnamed = f"The CPUs that Slurm allocates on {node} cannot be named: {error}."
        for resource_claim in resource_claims:
            if resource_claim in of_cpus:
                continue
            results: list[AllocatedDevice] = []
            for request, line in lines_of_requests(resource_claim.requests, device_map):
                if line not in left:
                    left[line] = indexes_of(line, given)
                taken, left[line] = left[line][: request.count], left[line][request.count :]
                if len(taken) < request.count:
                    raise _Unusable(_too_few(line, given, node, resource_claim))
                results += [
                    AllocatedDevice(request.name, _device((line, index, node), request, stock, resource_claim.uid))
                    for index in taken
                ]
            chosen[resource_claim.uid] = tuple(results)
    except _Unusable as error:
        return error.found
    return ChosenDevices(chosen, unnamed)


def indexes_of(line: DeviceLine, given: Sequence[Device]) -> list[int]:
    """Return Slurm's indexes of a line, ascending."""
    return sorted({index for one in given if line.counts(one) for index in numbers(one.index)})


def conflicts(resource_claim: ResourceClaimView, stock: DeviceStock) -> tuple[tuple[DeviceId, ResourceClaimView], ...]:
    """Return the devices of an allocated ResourceClaim that others keep too, each with one of these."""
    return tuple(
        (device, other)
        for device in sorted(resource_claim.devices)
        if (other := _other_resource_claim(device, resource_claim.uid, stock)) is not None
    )


def _other_resource_claim(device: DeviceId, uid: str, stock: DeviceStock) -> ResourceClaimView | None:
    """Return one of the others that keep a device. A reminder is none: what it reminds of has the device, or had it."""
    others = (stock.holders.resource_claim(other) for other in stock.firm_holders(device, uid))
    return next((one for one in others if one is not None and not one.reminds_of), None)


def _cpus(line: CpuLine, given: Sequence[Device], node: str, stock: DeviceStock) -> tuple[int, ...]:
    """Return the Linux CPUs that Slurm allocated, by core.

    Raises `ValueError` with the cause if they are not known, and `_Unusable` while the driver publishes nothing.
    """
    cores = cores_of(given)
    if cores is None:
        raise ValueError("Slurm does not report the cores of the job")
    cpus = linux_cpus(stock.cpu_order(node), cores)
    pool = _pool(line.driver, line.pool_of(node), node, stock)
    device = next((one for one in pool.devices if one.name == line.device), None)
    if device is None:
        raise ValueError(f"driver {line.driver} publishes no device {line.device} there")
    return cpus


def _share_cpus(
    resource_claims: Sequence[ResourceClaimView], cpus: Sequence[int], line: CpuLine, node: str, stock: DeviceStock
) -> dict[str, tuple[AllocatedDevice, ...]]:
    """Give each request as many CPUs as it is for, in the order of cores. Raises `_Unusable`."""
    device = DeviceId(line.driver, line.pool_of(node), line.device)
    what = f"Slurm gave CPUs {cpuset_text(cpus) or 'none'} of {node}"
    found: dict[str, tuple[AllocatedDevice, ...]] = {}
    left = list(cpus)
    for resource_claim in resource_claims:
        results = []
        for request in resource_claim.requests:
            number = cpus_of_request(request, line)
            taken, left = left[:number], left[number:]
            if not number or len(taken) < number:
                raise _Unusable(DevicesUnusable(f"{what}, fewer than {resource_claim.full_name} requests."))
            if reserved := line.reserved & set(taken):
                text = f"{what}, and {cpuset_text(reserved)} is in cpus.reserved; set CpuSpecList in slurm.conf."
                raise _Unusable(DevicesUnusable(text))
            one = AllocatedDevice(request.name, device, cpus=tuple(sorted(taken)), shared=True)
            for held in one.held:
                if others := stock.firm_holders(held, resource_claim.uid):
                    text = f"{what}: {stock.holder_text(others[0])} holds {held.text}."
                    raise _Unusable(DevicesUnusable(text, conflict=True))
            results.append(one)
        found[resource_claim.uid] = tuple(results)
    return found


def _too_few(
    line: DeviceLine, given: Sequence[Device], node: str, resource_claim: ResourceClaimView
) -> DevicesUnusable:
    named = ", ".join(one.text for one in given if line.counts(one)) or "none"
    return DevicesUnusable(
        f"Slurm gave GRES {line.gres} of {node} as {named}, which has no index for every device that "
        f"{resource_claim.full_name} requests; gres.conf must list single devices."
    )


def _device(place: tuple[DeviceLine, int, str], request: DeviceRequest, stock: DeviceStock, uid: str) -> DeviceId:
    """Return the device with Slurm's index, for a ResourceClaim. Raises `_Unusable`. `place`: line, index, Node."""
    line, index, node = place
    pool_name = line.pool_of(node)
    pool = _pool(line.driver, pool_name, node, stock)
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
        if all(stock.frees(other) for other in others):
            fault = f"{what}, which is {device.text}: {holder}, which has ended, still holds it."
            raise _Unusable(DevicesUnknown(fault, "Check that kube-controller-manager runs."))
        raise _Unusable(DevicesUnusable(f"{what}, which is {device.text}: {holder} holds it.", conflict=True))
    return device


def _pool(driver: str, name: str, node: str, stock: DeviceStock) -> Pool:
    """Return the pool of a Node. Raises `_Unusable` while it is not known completely."""
    pool = stock.pools.pool(driver, name, node)
    if pool is None or not pool.complete:
        lacks = "no ResourceSlice" if pool is None else "not every ResourceSlice"
        raise _Unusable(DevicesUnknown(f"The API server has {lacks} of pool {name} of driver {driver}."))
    return pool


def _unsupported(device: SliceDevice, request: DeviceRequest) -> str:
    if device.unsupported:
        return f"it has {device.unsupported}, and such devices are not supported"
    keep_off = [taint for taint in device.taints if taint.effect in _KEEP_OFF]
    if bad := not_tolerated(request.tolerations, keep_off):
        return f"it has the taint {bad[0].key}:{bad[0].effect}, which request {request.name} does not tolerate"
    return ""
