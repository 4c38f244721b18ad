"""The map of devices: how Slurm's index of a GRES names a device of a ResourceSlice."""

from __future__ import annotations

from pydantic import Field

from extender.config.values import Group, Text
from extender.domain.devices.device_map import DeviceLine, DeviceMap


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
        """The same for the domain. Raises `ValueError` where it can name no device."""
        classes = frozenset(self.device_classes)
        return DeviceLine(self.gres, self.driver, classes, self.pool, self.match.attribute or "", self.match.name or "")


def device_map(lines: tuple[DeviceMapping, ...]) -> DeviceMap:
    """Return the map of all lines. Raises `ValueError` for two lines with one DeviceClass."""
    return DeviceMap(tuple(line.line() for line in lines))


def checked(lines: tuple[DeviceMapping, ...]) -> tuple[DeviceMapping, ...]:
    """Return the lines as they are. Raises `ValueError` where they make no map."""
    device_map(lines)
    return lines
