"""ResourceClaims, ResourceSlices and a map of devices, as tests need them."""

from __future__ import annotations

from collections.abc import Sequence

from extender.domain.devices.choice import DeviceStock
from extender.domain.devices.device_map import DeviceLine, DeviceMap
from extender.domain.devices.holders import DeviceHolders
from extender.domain.devices.pools import DevicePools
from extender.domain.devices.views import (
    AllocatedDevice,
    DeviceId,
    DeviceRequest,
    ResourceClaimView,
    ResourceSliceView,
    SliceDevice,
)

DRIVER = "gpu.example.com"
BY_NAME = DeviceLine("gpu", DRIVER, frozenset({DRIVER}), name="gpu-{index}")
GPUS = DeviceMap((BY_NAME,))


def gpu(index: int, pool: str = "n1") -> DeviceId:
    return DeviceId(DRIVER, pool, f"gpu-{index}")


def a_resource_claim(
    name: str = "c",
    *requests: DeviceRequest,
    held: Sequence[DeviceId] = (),
    reserved: Sequence[str] = (),
    job_id: int | None = None,
    constrained: bool = False,
) -> ResourceClaimView:
    wanted = requests or (DeviceRequest("gpu", DRIVER),)
    allocated = tuple(AllocatedDevice(wanted[0].name, one) for one in held) if held else None
    return ResourceClaimView(
        f"uid-{name}",
        "default",
        name,
        "1",
        wanted,
        allocated=allocated,
        reserved=tuple(reserved),
        job_id=job_id,
        constrained=constrained,
    )


def a_slice(
    *devices: SliceDevice, node: str = "n1", generation: int = 1, slices: int = 1, name: str = "s"
) -> ResourceSliceView:
    there = devices or tuple(SliceDevice(f"gpu-{at}", {"index": str(at)}) for at in range(4))
    return ResourceSliceView(f"{name}-{node}-{generation}", name, "1", DRIVER, node, generation, slices, node, there)


def a_stock(*resource_claims: ResourceClaimView, slices: Sequence[ResourceSliceView] | None = None) -> DeviceStock:
    pools, holders = DevicePools(), DeviceHolders()
    for one in (a_slice(),) if slices is None else slices:
        pools.put(one)
    for resource_claim in resource_claims:
        holders.put(resource_claim)
    return DeviceStock(pools, holders)
