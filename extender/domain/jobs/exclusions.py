"""Compute the excluded nodes of a job from the candidate nodes of its Pods.

The extender adds no required nodes: slurmctld ends a job at its next restart when a node that the job requires has been
deleted (SlinkyProject/slurm-bridge#43). Kubernetes names come in, Slurm names go out.
"""

from __future__ import annotations

from collections.abc import Iterator

from extender.domain.cluster import SlurmSnapshot
from extender.domain.jobs.job import JobRequest
from extender.domain.nodes.mapping import NodeMap


def exclusions(
    candidates: frozenset[str],
    refused: frozenset[str],
    node_map: NodeMap,
    slurm: SlurmSnapshot,
    request: JobRequest,
) -> tuple[str, ...]:
    """Return the Slurm nodes to exclude, sorted: all within reach that are no candidate nodes, and the user's own.

    `candidates` and `refused` are Kubernetes names; a refused node is no candidate. Only nodes that exist are named:
    slurmctld refuses a job that excludes an unknown one (error 2018).
    """
    unwanted = within_reach(slurm, request) - node_map.to_slurm(candidates - refused)
    return tuple(sorted(unwanted | slurm.nodes.keys() & set(request.excluded_nodes)))


def within_reach(slurm: SlurmSnapshot, request: JobRequest) -> frozenset[str]:
    """Return every existing node of the partitions that the job may run in.

    If a partition is not known, or no partition is the default, return every node: the job may run anywhere then.
    """
    partitions = [slurm.partitions.get(name) for name in slurm.partition_names(request.partition)]
    everywhere = frozenset(slurm.nodes)
    if not partitions or None in partitions:
        return everywhere
    return everywhere.intersection(frozenset[str]().union(*(p.nodes for p in partitions if p is not None)))


def reach(slurm: SlurmSnapshot, request: JobRequest) -> Iterator[str]:
    """Yield the nodes of `within_reach` one by one, some perhaps twice: callers often need only the first few."""
    partitions = [slurm.partitions.get(name) for name in slurm.partition_names(request.partition)]
    if not partitions or None in partitions:
        yield from slurm.nodes
        return
    yield from (name for p in partitions if p is not None for name in p.nodes if name in slurm.nodes)
