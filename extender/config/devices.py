"""The map of devices: how Slurm's index of a GRES names a device of a ResourceSlice."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, PlainSerializer

from extender.config.domain_groups import InDocument
from extender.config.values import Group, Text
from extender.domain.devices.cpu_order import cpuset_text, read_order
from extender.domain.devices.device_map import CpuLine, DeviceLine, DeviceMap


class DeviceMatch(Group):
    """The device with Slurm's index. Exactly one of both keys is given."""

    attribute: Text | None = Field(
        None, description="Attribute whose value is Slurm's index: `index`, or `DOMAIN/NAME` for one of another domain."
    )
    name: Text | None = Field(None, description="Name of the device with `{index}` for Slurm's index: `gpu-{index}`.")


class DeviceMapping(Group):
    """One resource."""

    gres: Text = Field(description="GRES name, with `:type` if the devices of a type have a DeviceClass of their own.")
    driver: Text = Field(description="Driver that publishes the devices: `gpu.nvidia.com`.")
    device_classes: tuple[Text, ...] = Field(
        description="DeviceClasses whose devices are this GRES. A request of a ResourceClaim for one of them counts as "
        "the GRES; so does the extended resource that the DeviceClass offers.",
        min_length=1,
    )
    pool: Text = Field("{node}", description="Pool of the devices; `{node}` is the name of the Node.")
    match: DeviceMatch = Field(description="How Slurm's index names the device.")

    def line(self) -> DeviceLine:
        """Return the same for the domain. Raises `ValueError` where it can name no device."""
        classes = frozenset(self.device_classes)
        return DeviceLine(self.gres, self.driver, classes, self.pool, self.match.attribute or "", self.match.name or "")


def _read_reserved(text: str | None) -> frozenset[int]:
    return frozenset(read_order(text)) if text else frozenset()


def _write_reserved(cpus: frozenset[int]) -> str | None:
    return cpuset_text(cpus) or None


class _CpuMapping:
    """The CPUs of Guaranteed Pods."""

    driver: Text = Field(description="Driver that publishes the CPUs of a Node as one device.")
    device_classes: tuple[Text, ...] = Field(
        description="DeviceClasses whose device is all CPUs of a Node.",
        min_length=1,
    )
    pool: Text = Field(description="Pool of the device; `{node}` is the name of the Node.")
    device: Text = Field(description="Name of the device; dra-driver-cpu needs `groupBy: machine`.")
    reserved: Annotated[Text | None, AfterValidator(_read_reserved), PlainSerializer(_write_reserved)] = Field(
        None,
        validate_default=True,
        description="Linux CPUs that the driver gives to no container, as its `reservedCPUs`: `0-1`. Slurm must not "
        "allocate them either (`CpuSpecList` in slurm.conf); external nodes have none of them.",
    )


CpuMapping = Annotated[CpuLine, InDocument(_CpuMapping)]


def device_map(lines: tuple[DeviceMapping, ...], cpus: CpuLine | None = None) -> DeviceMap:
    """Return the map of all lines. Raises `ValueError` for two lines with one DeviceClass."""
    return DeviceMap(tuple(line.line() for line in lines), cpus)


def checked(lines: tuple[DeviceMapping, ...]) -> tuple[DeviceMapping, ...]:
    """Return the lines as they are. Raises `ValueError` where they make no map."""
    device_map(lines)
    return lines
