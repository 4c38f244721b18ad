"""Map a GRES and its index to a device of a ResourceSlice: one line of the configuration for each resource."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from extender.domain.devices.views import SliceDevice
from extender.domain.jobs.devices import Device

NODE, INDEX = "{node}", "{index}"
"""What stands for the name of the Node in the name of a pool, and for Slurm's index in the name of a device."""

_GRES = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}(:[A-Za-z0-9_.-]{1,64})?", re.ASCII)

_INDEX = re.compile(r"0|[1-9][0-9]{0,8}", re.ASCII)


@dataclass(frozen=True, slots=True)
class DeviceLine:
    """One line of the map. Raises `ValueError` where it can name no device."""

    gres: str
    """A GRES with its type, if it has one: `gpu`, `gpu:1g.10gb`."""

    driver: str
    device_classes: frozenset[str] = frozenset()
    """DeviceClasses whose devices are this GRES."""

    pool: str = NODE
    attribute: str = ""
    """The attribute whose value is Slurm's index; "": the device has it in its name."""

    name: str = ""
    """The name of the device, with `{index}` for Slurm's index; "": an attribute has it."""

    def __post_init__(self) -> None:
        if not _GRES.fullmatch(self.gres):
            raise ValueError(f"{self.gres!r} is no GRES; it must read <name> or <name>:<type>")
        if bool(self.attribute) == bool(self.name):
            raise ValueError(f"{self.gres}: match must have either attribute or name")
        if self.name and self.name.count(INDEX) != 1:
            raise ValueError(f"{self.gres}: match.name is {self.name!r}; it must have {INDEX} once")
        if self.pool.count(NODE) > 1:
            raise ValueError(f"{self.gres}: pool is {self.pool!r}; it may have {NODE} once")

    def pool_of(self, node: str) -> str:
        """Return the name of the pool of a Node."""
        return self.pool.replace(NODE, node)

    def counts(self, given: Device) -> bool:
        """Return whether devices that Slurm allocated are of this line."""
        name, _, kind = self.gres.partition(":")
        return given.name == name and (not kind or given.type == kind)

    def is_index(self, device: SliceDevice, index: int) -> bool:
        """Return whether this device is the one with Slurm's index."""
        return self.index_of(device) == index

    def index_of(self, device: SliceDevice) -> int | None:
        """Return Slurm's index of a device; `None`: it is not of this line."""
        if self.name:
            before, _, after = self.name.partition(INDEX)
            if len(device.name) < len(before) + len(after) or not device.name.startswith(before):
                return None
            if not device.name.endswith(after):
                return None
            found = device.name[len(before) : len(device.name) - len(after)]
        else:
            own = device.attributes.get(f"{self.driver}/{self.attribute}", "")
            found = device.attributes.get(self.attribute, own)
        return int(found) if _INDEX.fullmatch(found) else None


@dataclass(frozen=True, slots=True)
class CpuLine:
    """Say how the CPUs that Slurm allocated are written into a ResourceClaim: as a cpuset of one device of the Node.

    The driver takes the cpuset from the opaque configuration of the allocation (dra-driver-cpu, `groupBy: machine`).
    """

    driver: str = "dra.cpu"
    device_classes: tuple[str, ...] = ("dra.cpu",)
    pool: str = NODE
    device: str = "cpudevmachine"
    reserved: frozenset[int] = frozenset()
    """CPUs that the driver gives to no container."""

    @property
    def capacity(self) -> str:
        """Return the name of the capacity whose amount is the number of CPUs."""
        return f"{self.driver}/cpu"

    def pool_of(self, node: str) -> str:
        """Return the name of the pool of a Node."""
        return self.pool.replace(NODE, node)


@dataclass(frozen=True, slots=True)
class DeviceMap:
    """All lines. An empty map switches dynamic resource allocation off."""

    lines: tuple[DeviceLine, ...] = ()
    cpus: CpuLine | None = None
    _by_class: dict[str, DeviceLine] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        by_class: dict[str, DeviceLine] = {}
        for line in self.lines:
            for name in sorted(line.device_classes):
                if name in by_class:
                    raise ValueError(f"DeviceClass {name!r} is in the lines of {by_class[name].gres} and {line.gres}")
                by_class[name] = line
        for name in sorted(self.cpus.device_classes if self.cpus is not None else ()):
            if name in by_class:
                raise ValueError(f"DeviceClass {name!r} is in the line of {by_class[name].gres} and in cpus")
        object.__setattr__(self, "_by_class", by_class)

    def __bool__(self) -> bool:
        return bool(self.lines) or self.cpus is not None

    def line_of(self, device_class: str) -> DeviceLine | None:
        """Return the line that has a DeviceClass."""
        return self._by_class.get(device_class)

    def is_cpus(self, device_class: str) -> bool:
        """Return whether the devices of a DeviceClass are CPUs that Slurm chooses."""
        return self.cpus is not None and device_class in self.cpus.device_classes

    def knows(self, device_class: str) -> bool:
        """Return whether Slurm chooses the devices of a DeviceClass."""
        return device_class in self._by_class or self.is_cpus(device_class)
