"""Count a part of a node: CPUs, memory and GRES, in Slurm's units."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Amount:
    """Hold an amount. `gres` counts by name with optional type: `gpu`, `gpu:h100`. Without a type: any of its types."""

    cpus: int = 0
    memory_mb: int = 0
    gres: Mapping[str, int] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """Return it as `4 CPUs, 1024 MiB, 1 gpu`; zeros are left out."""
        parts = [f"{self.cpus} CPU{'s' if self.cpus != 1 else ''}"] if self.cpus else []
        parts += [f"{self.memory_mb} MiB"] if self.memory_mb else []
        return ", ".join([*parts, *(f"{count} {name}" for name, count in sorted(self.gres.items()) if count)])

    @property
    def nothing(self) -> bool:
        """Return whether all counts are 0."""
        return not (self.cpus or self.memory_mb or any(self.gres.values()))


def total(amounts: Iterable[Amount]) -> Amount:
    """Return the sum."""
    cpus, memory_mb, gres = 0, 0, dict[str, int]()
    for one in amounts:
        cpus, memory_mb = cpus + one.cpus, memory_mb + one.memory_mb
        for name, count in one.gres.items():
            gres[name] = gres.get(name, 0) + count
    return Amount(cpus, memory_mb, gres)


def lacking(wanted: Amount, size: Amount, used: Amount) -> Amount:
    """Return the part of `wanted` that exceeds `size` less `used`. A GRES that the node has none of is left out."""
    gres = {}
    for name, count in wanted.gres.items():
        has, taken = _of(size, name), _of(used, name)
        if has and count > has - taken:
            gres[name] = count - max(0, has - taken)
    return Amount(
        max(0, wanted.cpus - max(0, size.cpus - used.cpus)),
        max(0, wanted.memory_mb - max(0, size.memory_mb - used.memory_mb)),
        gres,
    )


def at_most(wanted: Amount, size: Amount) -> Amount:
    """Return `wanted` cut to the size of a node."""
    gres = {name: min(count, _of(size, name)) for name, count in wanted.gres.items()}
    return Amount(
        min(wanted.cpus, size.cpus),
        min(wanted.memory_mb, size.memory_mb),
        {name: count for name, count in gres.items() if count},
    )


def _of(amount: Amount, wanted: str) -> int:
    """Return the count of a GRES. Devices that are counted without a type may be of any."""
    name = wanted.partition(":")[0]
    return sum(
        count
        for full, count in amount.gres.items()
        if full == wanted or (full.partition(":")[0] == name and (":" not in wanted or ":" not in full))
    )
