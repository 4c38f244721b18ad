"""Check the order of CPUs of each Node, where the CPUs that Slurm allocates are transferred to containers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from extender.doctor.checks.kubernetes import mapped_nodes
from extender.doctor.facts import Facts
from extender.doctor.finding import Finding, ok, warning
from extender.doctor.registry import CheckGroup
from extender.domain.cluster import SlurmNode
from extender.domain.devices.cpu_order import NodeCpus
from extender.domain.devices.device_map import CpuLine
from extender.domain.printable import shortened
from extender.domain.wellknown import CPUS

check = CheckGroup()

_NAME = "cpus"
_LISTED = 5
"""Nodes in a line; the rest is counted."""


def _orders(facts: Facts) -> tuple[CpuLine, Mapping[str, tuple[NodeCpus, SlurmNode]]] | None:
    found, settings = mapped_nodes(facts), facts.config.cpus
    if found is None or settings is None:
        return None
    slurm_nodes = facts.slurm.snapshot.nodes
    paired = {
        node.name: (NodeCpus.of(node, slurm_node), slurm_node)
        for node in facts.kube.nodes or ()
        if (slurm_node := slurm_nodes.get(found.slurm.get(node.name, ""))) is not None
    }
    return settings, paired


@check(needs=_orders)
def orders(settings: CpuLine, nodes: Mapping[str, tuple[NodeCpus, SlurmNode]]) -> Iterator[Finding]:
    """Compare each Node's order of CPUs with the Node and with its Slurm node."""
    without: dict[str, list[str]] = {}
    for name, (cpus, slurm_node) in sorted(nodes.items()):
        try:
            order = cpus.order(settings.reserved)
        except ValueError as error:
            without.setdefault(str(error), []).append(name)
            continue
        if len(order) != slurm_node.cpus:
            why = f"its order has {len(order)} CPUs, and its Slurm node {slurm_node.cpus}"
            without.setdefault(why, []).append(name)
    for why, names in without.items():
        yield warning(
            _NAME,
            f"ResourceClaims for CPUs are left to kube-scheduler on {shortened(names, _LISTED)}: {why}",
            f"write annotation {CPUS} by the Job of components/cpus, or correct the node in slurm.conf "
            "(docs/devices.md)",
        )
    if count := len(nodes) - sum(map(len, without.values())):
        yield ok(_NAME, f"{count} Nodes have an order of their CPUs that fits Slurm's")
