"""Partitions and reservations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slurmclient.number import Infinite


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """Describe a partition.

    Attributes:
        name: of the partition.
        nodes: expanded names.
        node_list: the same as Slurm writes it.
        node_sets: names of node sets it is made of.
        state: UP, DOWN, DRAIN, INACTIVE.
        priority_tier: partitions of a higher tier are served first, and preempt lower ones with preempt/partition_prio.
        priority_job_factor: its share in a job's priority.
        grace_time_s: that a preempted job gets.
        preempt_mode: words: CLUSTER_GLOBAL, DISABLED, CANCEL …; empty before v0.0.45, which shows it first.
        oversubscribe: NO, YES, FORCE; EXCLUSIVE where whole nodes are given.
        oversubscribe_jobs: most jobs to a resource; None if the version does not report it.
        default: jobs that name no partition come here; None before v0.0.45, which shows it first.
        max_time_minutes: most a job may ask for.
        default_time_minutes: a job gets that asks for none.
        over_time_limit_minutes: jobs may overrun.
        default_memory_per_cpu_mb: None where unset.
        default_memory_per_node_mb: None where unset: the whole node.
        max_memory_per_cpu_mb: most by CPU.
        max_memory_per_node_mb: most by node.
        max_nodes: most nodes to a job.
        min_nodes: fewest nodes to a job.
        max_cpus_per_node: most CPUs on a node for the partition's jobs.
        total_cpus: in it.
        total_nodes: in it.
        allowed_accounts: empty is all.
        denied_accounts: none of these.
        allowed_groups: empty is all.
        allowed_qos: empty is all.
        denied_qos: none of these.
        qos: its own QOS.
        alternate: takes its jobs when it is down.
    """

    name: str
    nodes: tuple[str, ...]
    node_list: str
    node_sets: str
    state: frozenset[str]
    priority_tier: int | None
    priority_job_factor: int | None
    grace_time_s: int
    preempt_mode: frozenset[str]
    oversubscribe: str
    oversubscribe_jobs: int | None
    default: bool | None
    max_time_minutes: int | Infinite | None
    default_time_minutes: int | Infinite | None
    over_time_limit_minutes: int | Infinite | None
    default_memory_per_cpu_mb: int | Infinite | None
    default_memory_per_node_mb: int | Infinite | None
    max_memory_per_cpu_mb: int | Infinite | None
    max_memory_per_node_mb: int | Infinite | None
    max_nodes: int | Infinite | None
    min_nodes: int | None
    max_cpus_per_node: int | Infinite | None
    total_cpus: int | None
    total_nodes: int | None
    allowed_accounts: tuple[str, ...]
    denied_accounts: tuple[str, ...]
    allowed_groups: tuple[str, ...]
    allowed_qos: tuple[str, ...]
    denied_qos: tuple[str, ...]
    qos: str
    alternate: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """Describe a reservation; times are epoch seconds.

    Attributes:
        name: of the reservation.
        nodes: expanded names.
        node_count: how many.
        core_count: how many, for reservations of cores.
        partition: it is limited to.
        features: its nodes must have.
        flags: MAINT, IGNORE_JOBS, …
        start_time: begin.
        end_time: end.
        users: that may use it.
        groups: that may use it.
        accounts: that may use it.
        licenses: reserved.
        tres: counts by name; memory in MiB.
    """

    name: str
    nodes: tuple[str, ...]
    node_count: int | None
    core_count: int | None
    partition: str
    features: str
    flags: frozenset[str]
    start_time: int | None
    end_time: int | None
    users: tuple[str, ...]
    groups: tuple[str, ...]
    accounts: tuple[str, ...]
    licenses: str
    tres: Mapping[str, int]
