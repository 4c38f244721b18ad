"""Map Slurm's cores of a node to Linux CPUs.

slurmd numbers cores in the order of hwloc: by socket, NUMA node and core, each by its lowest CPU, and so the threads of
a core (`_abs_to_mac` in `slurmd/slurmd/slurmd.c`). A Node annotation holds its Linux CPUs in that order. Its author is
not trusted: the text is bounded, and the number of its CPUs must be that of the Node and of Slurm.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from extender.domain.cluster import SlurmNode
from extender.domain.jobs.devices import Cores
from extender.domain.views import NodeView
from extender.domain.wellknown import CPUS

MOST_CPUS = 1024
"""CPUs of one Node."""

HIGHEST_CPU = 8191
"""Number of a CPU: Linux is built for at most 8192."""

LONGEST_ORDER = 5 * MOST_CPUS
"""Characters of an order: four digits and a comma for each CPU."""

_PART = re.compile(r"([0-9]{1,4})(?:-([0-9]{1,4}))?", re.ASCII)
_LSCPU_COLUMNS = 4


def read_order(text: str) -> tuple[int, ...]:
    """Return the CPUs of `0,4,1,5` or `0-7`, in their order. Raises `ValueError`."""
    if len(text) > LONGEST_ORDER:
        raise ValueError(f"it has more than {LONGEST_ORDER} characters")
    order: dict[int, None] = {}
    for part in text.split(","):
        found = _PART.fullmatch(part)
        if found is None:
            raise ValueError(f"{part[:20]!r} is no CPU and no range of CPUs")
        first, last = int(found[1]), int(found[2] or found[1])
        if not first <= last <= HIGHEST_CPU:
            raise ValueError(f"{part!r} is no range of CPUs up to {HIGHEST_CPU}")
        if last - first + len(order) >= MOST_CPUS:
            raise ValueError(f"it has more than {MOST_CPUS} CPUs")
        for cpu in range(first, last + 1):
            if cpu in order:
                raise ValueError(f"it has CPU {cpu} twice")
            order[cpu] = None
    return tuple(order)


def order_text(cpus: Iterable[int]) -> str:
    """Return CPUs in their order, with ranges for runs: `0,4,1,5`, `0-7`. The form of a Linux cpuset, if sorted."""
    runs: list[list[int]] = []
    for cpu in cpus:
        if runs and runs[-1][1] == cpu - 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def cpuset_text(cpus: Iterable[int]) -> str:
    """Return CPUs as a Linux cpuset: `0-3,5`."""
    return order_text(sorted(cpus))


def order_of_lscpu(text: str) -> tuple[int, ...]:
    """Return the online CPUs in Slurm's order from `lscpu -p=CPU,CORE,SOCKET,NODE`. Raises `ValueError`."""
    rows: list[tuple[int, int, int, int]] = []
    for line in text.splitlines():
        if line.startswith("#") or not line.strip():
            continue
        cells = line.strip().split(",")
        if len(cells) != _LSCPU_COLUMNS or not all(cell.isascii() and cell.isdigit() for cell in cells if cell):
            raise ValueError(f"{line[:40]!r} is no line of lscpu -p=CPU,CORE,SOCKET,NODE")
        # Only a machine without NUMA nodes, or with one socket, leaves a cell empty.
        cpu, core, socket, numa = (int(cell or 0) for cell in cells)
        rows.append((socket, numa, core, cpu))
        if len(rows) > MOST_CPUS:
            raise ValueError(f"it has more than {MOST_CPUS} CPUs")
    if not rows:
        raise ValueError("it has no CPU")
    lowest: dict[tuple[int, ...], int] = {}
    for row in rows:
        for length in (1, 2, 3):
            unit = row[:length]
            lowest[unit] = min(lowest.get(unit, row[3]), row[3])
    ordered = sorted(rows, key=lambda row: (*(lowest[row[:length]] for length in (1, 2, 3)), row[3]))
    return read_order(",".join(str(row[3]) for row in ordered))


@dataclass(frozen=True, slots=True)
class NodeCpus:
    """The facts about the CPUs of a Node from which their order follows."""

    annotation: str = ""
    capacity: str = ""
    """`status.capacity.cpu`, which the kubelet reports."""

    registered: int | None = None
    """The CPUs of the Slurm node that the extender registered for the Node; `None`: Slurm has a slurmd there."""

    @classmethod
    def of(cls, node: NodeView, slurm_node: SlurmNode | None) -> NodeCpus:
        """Return what is known of the CPUs of a Node, and of its Slurm node."""
        registered = slurm_node is not None and slurm_node.registered_for == node.name
        count = slurm_node.cpus if slurm_node is not None and registered else None
        return cls(node.annotations.get(CPUS, ""), node.cpus, count)

    def order(self, reserved: frozenset[int] = frozenset()) -> tuple[int, ...]:
        """Return the Linux CPUs in Slurm's order. Raises `ValueError`.

        A registered node has one core for each CPU that the extender counted, and no reserved CPU.
        """
        count = int(self.capacity) if re.fullmatch(r"[0-9]{1,4}", self.capacity, re.ASCII) else 0
        if not 0 < count <= MOST_CPUS:
            raise ValueError(f"the Node has capacity {self.capacity[:20]!r} of CPUs")
        if not self.annotation and self.registered is None:
            raise ValueError(f"it has no annotation {CPUS}")
        try:
            order = read_order(self.annotation) if self.annotation else tuple(range(count))
        except ValueError as error:
            raise ValueError(f"annotation {CPUS}: {error}") from error
        if len(order) != count:
            raise ValueError(f"annotation {CPUS} has {len(order)} CPUs, and the Node has {count}")
        if self.registered is None:
            return order
        free = tuple(cpu for cpu in order if cpu not in reserved)
        if len(free) < self.registered:
            raise ValueError(f"it is registered with {self.registered} CPUs, and {len(free)} are not reserved")
        return free[: self.registered]


def linux_cpus(order: Sequence[int], cores: Cores) -> tuple[int, ...]:
    """Return the Linux CPUs of Slurm's cores, in the order of the cores. Raises `ValueError` if the counts differ."""
    if cores.total * cores.threads != len(order):
        raise ValueError(
            f"Slurm counts {cores.total} cores with {cores.threads} CPUs each, and the map has {len(order)} CPUs"
        )
    if any(core >= cores.total for core in cores.given):
        raise ValueError(f"Slurm names a core beyond its {cores.total}")
    return tuple(cpu for core in cores.given for cpu in order[core * cores.threads : (core + 1) * cores.threads])
