"""Read and write nodes as JSON."""

from __future__ import annotations

from slurmclient.models.job import ResourceNode
from slurmclient.models.node import Node, NodeUpdate
from slurmclient.models.state import NodeState
from slurmclient.number import decode_integer, decode_limit, decode_time, encode_number
from slurmclient.tres import Gres
from slurmclient.wire.fields import Raw, gres, integer, require_text, text, words

_WITH_REASON = frozenset({"DRAIN", "DOWN", "FAIL", "FAILING", "MAINTENANCE"})


def read_node(raw: Raw) -> Node:
    """Read one node.

    Raises:
        ProtocolError: the record has no name.
    """
    state_words = words(raw, "state")
    state = NodeState.of(state_words)
    # RESUME keeps the reason at some sites; without one of these states it has no meaning.
    reasoned = not _WITH_REASON.isdisjoint(state_words)
    latest_reason, latest_reason_time = text(raw, "reason"), decode_time(raw.get("reason_changed_at"))
    return Node(
        name=require_text(raw, "name"),
        hostname=text(raw, "hostname"),
        address=text(raw, "address"),
        state=state,
        flags=frozenset(state_words) - {state.value},
        reason=latest_reason if reasoned else "",
        reason_user=text(raw, "reason_set_by_user") if reasoned else "",
        reason_time=latest_reason_time if reasoned else None,
        cpus=integer(raw, "cpus"),
        effective_cpus=integer(raw, "effective_cpus", integer(raw, "cpus")),
        real_memory_mb=integer(raw, "real_memory"),
        specialized_memory_mb=integer(raw, "specialized_memory"),
        allocated_cpus=integer(raw, "alloc_cpus"),
        allocated_memory_mb=integer(raw, "alloc_memory"),
        free_memory_mb=decode_limit(raw.get("free_mem")),
        gres=gres(raw, "gres"),
        gres_used=gres(raw, "gres_used"),
        features=words(raw, "features"),
        active_features=words(raw, "active_features"),
        partitions=words(raw, "partitions"),
        comment=text(raw, "comment"),
        extra=text(raw, "extra"),
        topology=text(raw, "topology"),
        weight=decode_integer(raw.get("weight")),
        version=text(raw, "version"),
        boot_time=decode_time(raw.get("boot_time")),
        last_busy=decode_time(raw.get("last_busy")),
        reservation=text(raw, "reservation"),
        mcs_label=text(raw, "mcs_label"),
        owner=text(raw, "owner"),
        latest_reason=latest_reason,
        latest_reason_time=latest_reason_time,
    )


def write_node_update(update: NodeUpdate) -> dict[str, object]:
    """Write the set fields. Empty texts are sent: they clear the field."""
    said: dict[str, object] = {
        "state": list(update.state) if update.state else None,
        "reason": update.reason,
        "resume_after": None if update.resume_after_s is None else encode_number(update.resume_after_s),
        "comment": update.comment,
        "extra": update.extra,
        "address": None if update.address is None else [update.address],
        "features": None if update.features is None else list(update.features),
        "features_act": None if update.active_features is None else list(update.active_features),
        "gres": update.gres,
        "topology_str": update.topology,
        "weight": None if update.weight is None else encode_number(update.weight),
    }
    return {key: value for key, value in said.items() if value is not None}


def read_resource(raw: Raw) -> ResourceNode:
    """Read one node of `GET /resources/{job_id}`.

    Raises:
        ProtocolError: the record has no name.
    """
    entries = raw.get("gres")
    return ResourceNode(
        node=require_text(raw, "node"),
        sockets=integer(raw, "sockets_per_node"),
        cores_per_socket=integer(raw, "cores_per_socket"),
        memory_mb=integer(raw, "mem_alloc"),
        core_bitmap=text(raw, "core_bitmap"),
        gres=tuple(
            Gres(text(entry, "name"), text(entry, "type") or None, integer(entry, "count"), text(entry, "index"))
            for entry in (entries if isinstance(entries, list) else ())
            if isinstance(entry, dict)
        ),
    )
