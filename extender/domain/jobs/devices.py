"""Write the devices that Slurm allocated to a job into the Pod's annotations.

Slurm numbers the devices of a node from 0 in the order of its gres.conf, and reports the numbers with the job
(`gres_detail`). It knows no UUIDs. A shared GRES (shard, mps) has the number of the GPU that it is a part of.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from extender.domain.wellknown import DEVICES, GPUS

OF_GPUS = frozenset({"gpu", "shard", "mps"})
"""GRES whose numbers are those of GPUs."""


CORES = "allocated cores"
"""Stands for a GRES name in the device for the cores of a node; no GRES has a space in its name."""


@dataclass(frozen=True, slots=True)
class Cores:
    """The cores that Slurm allocated on one node, by their numbers from 0 over all sockets of the node."""

    total: int
    """Cores of the node."""

    threads: int
    """CPUs of each core, as Slurm counts them."""

    given: tuple[int, ...]

    def as_device(self) -> Device:
        """Return them in the form of all devices of a node."""
        index = ",".join(map(str, self.given))
        return Device(CORES, f"{self.total}x{self.threads}", len(self.given), index)


@dataclass(frozen=True, slots=True)
class Device:
    """Hold some devices of one kind. `index` are their numbers as Slurm writes them, `0-1,3`; "": not reported."""

    name: str
    type: str
    count: int
    index: str = ""

    @property
    def text(self) -> str:
        """Return it in Slurm's notation: `gpu:h100:2(IDX:0,1)`."""
        name = f"{self.name}:{self.type}" if self.type else self.name
        indices = ",".join(map(str, numbers(self.index)))
        return f"{name}:{self.count}" + (f"(IDX:{indices})" if indices else "")


def written_devices(devices: tuple[Device, ...]) -> dict[str, str]:
    """Return the annotations about these devices; empty without devices."""
    devices = without_cores(devices)
    if not devices:
        return {}
    gpus = sorted({number for one in devices if one.name in OF_GPUS for number in numbers(one.index)})
    shown = {DEVICES: ",".join(one.text for one in devices)}
    return shown | ({GPUS: ",".join(map(str, gpus))} if gpus else {})


def without_cores(devices: tuple[Device, ...]) -> tuple[Device, ...]:
    """Return the devices that are GRES."""
    return tuple(one for one in devices if one.name != CORES)


def cores_of(devices: Iterable[Device]) -> Cores | None:
    """Return the cores among the devices of a node; `None`: Slurm did not report them."""
    found = next((one for one in devices if one.name == CORES), None)
    if found is None:
        return None
    total, _, threads = found.type.partition("x")
    return Cores(int(total), int(threads), tuple(numbers(found.index)))


MOST_NUMBERS = 1024
"""Devices of one kind that are listed by number; no node has more."""


def numbers(index: str) -> list[int]:
    """Expand `0-2,5` to 0, 1, 2, 5; at most `MOST_NUMBERS` of them."""
    found: list[int] = []
    for first, last in re.findall(r"(?<![0-9])([0-9]{1,9})(?:-([0-9]{1,9}))?(?![0-9])", index, re.ASCII):
        least = int(first)
        found += range(least, min(int(last or first) + 1, least + MOST_NUMBERS - len(found)))
    return found
