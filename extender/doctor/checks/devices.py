"""Compare the devices in ResourceSlices with the GRES of Slurm, node by node (docs/devices.md)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from extender.config.devices import device_map
from extender.doctor.checks.kubernetes import mapped_nodes
from extender.doctor.facts import DeviceFacts, Facts
from extender.doctor.finding import Finding, error, ok, skipped, warning
from extender.doctor.registry import CheckGroup
from extender.domain.devices.device_map import DeviceLine, DeviceMap
from extender.domain.devices.pools import DevicePools, Pool
from extender.domain.devices.views import ResourceSliceView
from extender.domain.printable import shortened

check = CheckGroup()

EXTENDED_BY_DEFAULT = (1, 36)
"""From this Kubernetes on a DeviceClass may offer an extended resource unless the feature gate is switched off."""

_NAME = "devices"

_LISTED = 5
"""Nodes, devices or indexes that a line names; the rest is counted."""


def _configured(facts: Facts) -> tuple[DeviceFacts, DeviceMap, str] | None:
    return None if facts.devices is None else (facts.devices, device_map(facts.config.devices), facts.kube.account)


@check(needs=_configured)
def access(found: DeviceFacts, _lines: DeviceMap, account: str) -> Iterator[Finding]:
    """Say whether dynamic resource allocation is served, and whether the extender may use it."""
    if not found.served:
        yield error(
            _NAME,
            "devices is configured, and the API server does not serve resource.k8s.io/v1",
            "use Kubernetes 1.34 or later, or remove devices from the configuration",
        )
        return
    denied = sorted(str(right) for right, allowed in (found.may or {}).items() if not allowed)
    if denied:
        yield error(
            _NAME,
            f"{account} may not {', '.join(denied)}: no ResourceClaim gets the devices that Slurm allocated",
            "apply the component devices (docs/reference/rights.md)",
        )
    if found.slices is None or found.classes is None:
        yield skipped(
            _NAME,
            f"no access to ResourceSlices or DeviceClasses: {found.trouble}",
            "compare `kubectl get resourceslices -o yaml` with `scontrol show nodes` as an administrator",
        )


@check(needs=_configured)
def device_classes(found: DeviceFacts, lines: DeviceMap, _account: str) -> Iterator[Finding]:
    """Find DeviceClasses of the map that do not exist."""
    wanted = {name for line in lines.lines for name in line.device_classes}
    if found.classes is not None and (absent := sorted(wanted - found.classes.keys())):
        yield warning(
            _NAME,
            f"DeviceClasses that devices names do not exist: {shortened(absent, _LISTED)}",
            "create them, or correct devices[].deviceClasses",
        )


def _extended(facts: Facts) -> tuple[DeviceFacts, DeviceMap, str] | None:
    configured = _configured(facts)
    return None if configured is None else (*configured[:2], facts.kube.server.version)


@check(needs=_extended)
def extended_resources(found: DeviceFacts, lines: DeviceMap, version: str) -> Iterator[Finding]:
    """Say why extended resources get no devices of Slurm before Kubernetes 1.36."""
    release = re.match(r"v?(\d+)\.(\d+)", version)
    if release is None or (int(release[1]), int(release[2])) >= EXTENDED_BY_DEFAULT or found.classes is None:
        return
    mapped = {name for line in lines.lines for name in line.device_classes}
    if not any(found.classes.get(name) for name in mapped):
        yield ok(
            _NAME,
            f"only ResourceClaims get the devices of Slurm: Kubernetes {release[1]}.{release[2]} has "
            "extended resources of DeviceClasses only with the feature gate DRAExtendedResource",
        )


@dataclass(frozen=True, slots=True)
class GresNode:
    """A Node that is a Slurm node, with the GRES of the latter."""

    node: str
    slurm_node: str
    gres: Mapping[str, int]

    def count(self, line: DeviceLine) -> int:
        """Return how many devices of a line Slurm has there."""
        name, _, kind = line.gres.partition(":")
        return sum(n for full, n in self.gres.items() if full == line.gres or (not kind and _name(full) == name))

    def indexes(self, line: DeviceLine) -> range:
        """Return the numbers that Slurm can give devices of a line: it numbers all types of a GRES together."""
        name = _name(line.gres)
        return range(sum(n for full, n in self.gres.items() if _name(full) == name))


def _name(gres: str) -> str:
    return gres.partition(":")[0]


@dataclass(frozen=True, slots=True)
class _Difference:
    """Return how the devices of a Node differ from its GRES, and what to do."""

    seen: str
    advice: str
    minor: bool = False
    """Pods get devices anyway."""

    def finding(self, where: str) -> Finding:
        """Return the finding for the Nodes of which it is true."""
        return (warning if self.minor else error)(_NAME, f"{where}: {self.seen}", self.advice)


def _compared(facts: Facts) -> tuple[Sequence[ResourceSliceView], DeviceMap, Sequence[GresNode]] | None:
    mapped = mapped_nodes(facts)
    if facts.devices is None or facts.devices.slices is None or mapped is None:
        return None
    slurm = facts.slurm.snapshot.nodes
    pairs = [
        GresNode(node, name, slurm[name].gres) for name, node in sorted(mapped.kubernetes.items()) if name in slurm
    ]
    return facts.devices.slices, device_map(facts.config.devices), pairs


@check(needs=_compared)
def slices(found: Sequence[ResourceSliceView], lines: DeviceMap, pairs: Sequence[GresNode]) -> Iterator[Finding]:
    """Compare the devices of each Node with the GRES of its Slurm node, line by line."""
    pools = DevicePools()
    for one in found:
        pools.put(one)
    for line in lines.lines:
        differing: dict[_Difference, list[str]] = {}
        devices = nodes = 0
        for pair in pairs:
            if not (count := pair.count(line)):
                continue
            difference = _difference(line, pair, pools.pool(line.driver, line.pool_of(pair.node), pair.node))
            if difference is not None:
                differing.setdefault(difference, []).append(pair.node)
            else:
                devices, nodes = devices + count, nodes + 1
        for difference, names in differing.items():
            yield difference.finding(f"GRES {line.gres} of {shortened(names, _LISTED)}")
        if nodes:
            yield ok(_NAME, f"GRES {line.gres}: {devices} devices on {nodes} Nodes have the indexes of Slurm")
        elif not differing:
            yield warning(
                _NAME,
                f"GRES {line.gres}: no Slurm node that is a Node has any",
                "add Gres= to the nodes in slurm.conf, or correct devices[].gres",
            )
    yield from _without_gres(found, lines, pairs)


def _difference(line: DeviceLine, pair: GresNode, pool: Pool | None) -> _Difference | None:
    """Return how the devices of a Node differ from its GRES; `None`: they agree."""
    count, indexes = pair.count(line), pair.indexes(line)
    if pool is None:
        return _Difference(
            f"Slurm has {count}, and driver {line.driver} publishes no ResourceSlice of pool {line.pool}",
            "check that the driver runs there, and compare the names of its pools with devices[].pool",
        )
    if not pool.complete:
        return _Difference(f"ResourceSlices of pool {line.pool} are missing", "check the driver's log", minor=True)
    by_index: dict[int, list[str]] = {}
    for device in pool.devices:
        if (index := line.index_of(device)) is not None:
            by_index.setdefault(index, []).append(device.name)
    for index, names in by_index.items():
        if len(names) > 1:
            return _Difference(f"{shortened(names, _LISTED)} all match index {index}", "correct devices[].match")
    matched = [index for index in indexes if index in by_index]
    if len(matched) < count:
        lacking = [str(index) for index in indexes if index not in by_index]
        there = shortened([one.name for one in pool.devices], _LISTED) or "no device"
        return _Difference(
            f"Slurm has {count}, and no device matches index {shortened(lacking, _LISTED)}; the pool has {there}",
            "compare gres.conf with the ResourceSlices, or correct devices[].match",
        )
    if beyond := [name for index, names in sorted(by_index.items()) if index not in indexes for name in names]:
        return _Difference(
            f"Slurm has {count}, and does not count {shortened(beyond, _LISTED)}",
            "add them to gres.conf and to Gres= in slurm.conf: no job of Slurm gets them",
            minor=True,
        )
    return None


def _without_gres(found: Sequence[ResourceSliceView], lines: DeviceMap, pairs: Sequence[GresNode]) -> Iterator[Finding]:
    """Name the Nodes with devices that Slurm does not have."""
    by_node = {pair.node: pair for pair in pairs}
    for driver in dict.fromkeys(line.driver for line in lines.lines):
        nodes = sorted({one.node for one in found if one.driver == driver and one.devices})
        own = [line for line in lines.lines if line.driver == driver]
        if unpaired := [name or "no single Node" for name in nodes if name not in by_node]:
            yield warning(
                _NAME,
                f"driver {driver} publishes devices of {shortened(unpaired, _LISTED)}, which are no Slurm nodes",
                "pair these Nodes with Slurm nodes (docs/nodes.md): until then no job of Slurm gets their devices",
            )
        lacking = [name for name in nodes if name in by_node and not any(by_node[name].count(line) for line in own)]
        if lacking:
            yield warning(
                _NAME,
                f"driver {driver} publishes devices of {shortened(lacking, _LISTED)}, where Slurm has no such GRES",
                "add Gres= in slurm.conf, and gres.conf",
            )
