"""Keep the devices that drivers publish in ResourceSlices, by pool and in the newest generation of each."""

from __future__ import annotations

from dataclasses import dataclass

from extender.domain.devices.views import ResourceSliceView, SliceDevice


@dataclass(frozen=True, slots=True)
class Pool:
    """The newest generation of a pool, as far as its devices are on one Node."""

    devices: tuple[SliceDevice, ...]
    complete: bool
    """All ResourceSlices of the generation are known."""


class DevicePools:
    """Index ResourceSlices. A driver publishes a pool again, in a higher generation, when its devices change."""

    def __init__(self) -> None:
        self._slices: dict[tuple[str, str], dict[str, ResourceSliceView]] = {}

    def put(self, one: ResourceSliceView) -> None:
        """Add a ResourceSlice, or replace it."""
        self._slices.setdefault((one.driver, one.pool), {})[one.uid] = one

    def drop(self, one: ResourceSliceView) -> None:
        """Remove a ResourceSlice."""
        there = self._slices.get((one.driver, one.pool))
        if there is not None and there.pop(one.uid, None) is not None and not there:
            del self._slices[one.driver, one.pool]

    def pool(self, driver: str, name: str, node: str) -> Pool | None:
        """Return a pool with its devices on a Node; `None`: no ResourceSlice of it exists."""
        there = self._slices.get((driver, name))
        if not there:
            return None
        newest = max(one.generation for one in there.values())
        slices = [one for one in there.values() if one.generation == newest]
        devices = (device for one in slices if one.node == node for device in one.devices)
        return Pool(tuple(sorted(devices, key=lambda one: one.name)), len(slices) >= slices[0].slices)
