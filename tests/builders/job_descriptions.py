"""Jobs without a Pod, as a user requests them."""

from __future__ import annotations

from typing import Any

from slurmclient import JobDescription


def one_cpu(name: str, /, **wishes: Any) -> JobDescription:
    """Return an allocation of one CPU on one node; `wishes` are fields of the description, and add to it or replace."""
    base: dict[str, Any] = {
        "name": name,
        "tasks": 1,
        "cpus_per_task": 1,
        "minimum_nodes": 1,
        "maximum_nodes": 1,
        "memory_per_node_mb": 100,
        "requeue": False,
        "current_working_directory": "/",
    }
    return JobDescription(**base | wishes)
