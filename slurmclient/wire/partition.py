"""Read partitions and reservations from JSON."""

from __future__ import annotations

from dataclasses import dataclass

from slurmclient.models.partition import Partition, Reservation
from slurmclient.number import Infinite, decode_integer, decode_limit, decode_time
from slurmclient.wire.fields import Raw, integer, mapping, names, require_text, text, tres, words


@dataclass(frozen=True, slots=True)
class Sharing:
    """Describe how a partition shares its nodes, and what else only some versions contain.

    Attributes:
        oversubscribe: NO, YES, FORCE, EXCLUSIVE.
        jobs: most jobs to a resource; None if the version does not report it.
        default: it is the default partition; None if the version does not report it.
    """

    oversubscribe: str
    jobs: int | None
    default: bool | None


def read_sharing(raw: Raw) -> Sharing:
    """Read `partition.oversubscribe` (`NO`, `FORCE:2`) and `partition.exclusive`, from v0.0.45 on."""
    partition = mapping(raw, "partition")
    word, _, jobs = text(partition, "oversubscribe").partition(":")
    if text(partition, "exclusive") not in ("", "NO"):
        word = "EXCLUSIVE"
    default = "DEFAULT" in words(raw, "flags") if "flags" in raw else None
    return Sharing(word, decode_integer(jobs) if jobs.isdecimal() else None, default)


def read_sharing_v0044(raw: Raw) -> Sharing:
    """Read `maximums.oversubscribe`, up to v0.0.44; 0 jobs mean whole nodes (max_share)."""
    oversubscribe = mapping(mapping(raw, "maximums"), "oversubscribe")
    jobs = decode_integer(oversubscribe.get("jobs"))
    if "FORCE" in (word.upper() for word in words(oversubscribe, "flags")):
        return Sharing("FORCE", jobs, None)
    if jobs is None:
        return Sharing("", None, None)
    return Sharing("EXCLUSIVE" if jobs == 0 else "NO" if jobs == 1 else "YES", jobs or None, None)


def read_partition(raw: Raw, sharing: Sharing) -> Partition:
    """Read one partition.

    Args:
        raw: the record.
        sharing: read by the version's codec.

    Raises:
        ProtocolError: the record has no name.
        HostlistError: its nodes cannot be read.
    """
    nodes, maximums, defaults = mapping(raw, "nodes"), mapping(raw, "maximums"), mapping(raw, "defaults")
    accounts, qos, priority = mapping(raw, "accounts"), mapping(raw, "qos"), mapping(raw, "priority")
    return Partition(
        name=require_text(raw, "name"),
        nodes=names(nodes, "configured"),
        node_list=text(nodes, "configured"),
        node_sets=text(raw, "node_sets"),
        state=frozenset(words(mapping(raw, "partition"), "state")),
        priority_tier=decode_integer(priority.get("tier")),
        priority_job_factor=decode_integer(priority.get("job_factor")),
        grace_time_s=integer(raw, "grace_time"),
        preempt_mode=frozenset(words(raw, "preempt_mode")),
        oversubscribe=sharing.oversubscribe,
        oversubscribe_jobs=sharing.jobs,
        default=sharing.default,
        max_time_minutes=decode_limit(maximums.get("time")),
        default_time_minutes=decode_limit(defaults.get("time")),
        over_time_limit_minutes=decode_limit(maximums.get("over_time_limit")),
        default_memory_per_cpu_mb=_memory(defaults, "partition_memory_per_cpu"),
        default_memory_per_node_mb=_memory(defaults, "partition_memory_per_node"),
        max_memory_per_cpu_mb=_memory(maximums, "partition_memory_per_cpu"),
        max_memory_per_node_mb=_memory(maximums, "partition_memory_per_node"),
        max_nodes=decode_limit(maximums.get("nodes")),
        min_nodes=decode_integer(mapping(raw, "minimums").get("nodes")),
        max_cpus_per_node=decode_limit(maximums.get("cpus_per_node")),
        total_cpus=decode_integer(mapping(raw, "cpus").get("total")),
        total_nodes=decode_integer(nodes.get("total")),
        allowed_accounts=words(accounts, "allowed"),
        denied_accounts=words(accounts, "deny"),
        allowed_groups=words(mapping(raw, "groups"), "allowed"),
        allowed_qos=words(qos, "allowed"),
        denied_qos=words(qos, "deny"),
        qos=text(qos, "assigned"),
        alternate=text(raw, "alternate"),
    )


def read_reservation(raw: Raw) -> Reservation:
    """Read one reservation.

    Raises:
        ProtocolError: the record has no name.
        HostlistError: its nodes cannot be read.
    """
    return Reservation(
        name=require_text(raw, "name"),
        nodes=names(raw, "node_list"),
        node_count=decode_integer(raw.get("node_count")),
        core_count=decode_integer(raw.get("core_count")),
        partition=text(raw, "partition"),
        features=text(raw, "features"),
        flags=frozenset(words(raw, "flags")),
        start_time=decode_time(raw.get("start_time")),
        end_time=decode_time(raw.get("end_time")),
        users=words(raw, "users"),
        groups=words(raw, "groups"),
        accounts=words(raw, "accounts"),
        licenses=text(raw, "licenses"),
        tres=tres(raw, "tres"),
    )


def _memory(raw: Raw, key: str) -> int | Infinite | None:
    """Return None for zero: as a limit it means none, as a default the whole node."""
    return decode_limit(raw.get(key)) or None
