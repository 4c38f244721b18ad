"""Which Slurm nodes a job may use, told to Slurm as the nodes that it may not use.

Never as required nodes of our own: slurmctld ends a job at its next restart when a node that the job requires has been
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
    picture: SlurmSnapshot,
    request: JobRequest,
) -> tuple[str, ...]:
    """The Slurm nodes to exclude, sorted: all within the job's reach that are not a candidate's, and the user's own.

    `candidates` and `refused` are Kubernetes names; a refused node is no candidate. Only nodes that exist are named:
    slurmctld refuses a job that excludes an unknown one (error 2018).
    """
    unwanted = within_reach(picture, request) - node_map.to_slurm(candidates - refused)
    return tuple(sorted(unwanted | picture.nodes.keys() & set(request.excluded_nodes)))


def within_reach(picture: SlurmSnapshot, request: JobRequest) -> frozenset[str]:
    """Every existing node of the partitions that the job may run in.

    Where a partition is not known, or no partition is the default, every node: the job may end up anywhere then.
    """
    partitions = [picture.partitions.get(name) for name in picture.partition_names(request.partition)]
    everywhere = frozenset(picture.nodes)
    if not partitions or None in partitions:
        return everywhere
    return everywhere.intersection(frozenset[str]().union(*(p.nodes for p in partitions if p is not None)))


def reach(picture: SlurmSnapshot, request: JobRequest) -> Iterator[str]:
    """The same one by one, some of them perhaps twice: often the first few will do."""
    partitions = [picture.partitions.get(name) for name in picture.partition_names(request.partition)]
    if not partitions or None in partitions:
        yield from picture.nodes
        return
    yield from (name for p in partitions if p is not None for name in p.nodes if name in picture.nodes)
