"""Build the Slurm snapshot of a test from its partitions alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from extender.domain.cluster import SlurmNode, SlurmPartition, SlurmSnapshot


def a_slurm_snapshot(
    partitions: Mapping[str, Iterable[str]], default: str = "", hostnames: Mapping[str, str] | None = None
) -> SlurmSnapshot:
    """Return partitions with their nodes; a node exists if a partition has it. `hostnames`: node -> NodeHostname."""
    hosts = hostnames or {}
    members = {name: frozenset(nodes) for name, nodes in partitions.items()}
    nodes = sorted(frozenset[str]().union(*members.values()))
    return SlurmSnapshot(
        nodes={node: SlurmNode(node, hostname=hosts.get(node, "")) for node in nodes},
        partitions={name: SlurmPartition(name, nodes=m, default=name == default) for name, m in members.items()},
        known=True,
    )
