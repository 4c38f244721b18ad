"""Nodes that are made, changed and deleted while slurmctld runs (`slurmctld/node_mgr.c`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simulator.slurm.errors import SlurmRefusal
from simulator.slurm.records import SimNode
from simulator.slurm.slurmctld import Slurmctld

_CREATE, _DELETE = "slurm_create_node", "slurm_delete_node"
_KEYS = frozenset(
    {
        "NodeName", "NodeAddr", "CPUs", "Sockets", "CoresPerSocket", "ThreadsPerCore", "RealMemory", "Feature", "Gres",
        "GresConf", "Topology", "Weight", "State",
    }
)  # fmt: skip
_STATES = frozenset({"EXTERNAL", "CLOUD", "FUTURE"})


def read_new_node(conf: str, controller: Slurmctld) -> SimNode:
    """Return the node of one line of slurm.conf. Raises `SlurmRefusal`."""
    settings = dict(part.split("=", 1) for part in conf.split() if "=" in part)
    name = settings.get("NodeName", "")
    if not name or not settings.keys() <= _KEYS:
        raise SlurmRefusal(-1, _CREATE)
    if settings.get("State") not in _STATES:
        raise SlurmRefusal(2028, _CREATE)
    if bool(settings.get("Gres")) != bool(settings.get("GresConf")) or "[" in name:
        raise SlurmRefusal(22, _CREATE)
    if name in controller.nodes:
        raise SlurmRefusal(2168, _CREATE)
    if len(controller.nodes) >= controller.config.max_node_count:
        raise SlurmRefusal(2169, _CREATE)
    if name in controller.deleted and not controller.release.renews_nodes:
        raise SlurmRefusal(22, _CREATE)
    gres = (part.rsplit(":", 1) for part in settings.get("Gres", "").split(",") if part)
    features = tuple(filter(None, settings.get("Feature", "").split(",")))
    return SimNode(
        name=name,
        cpus=int(settings.get("CPUs", 1)),
        memory_mb=int(settings.get("RealMemory", 1)),
        gres={key: int(count) for key, count in gres if key.partition(":")[0] in controller.config.gres_types},
        features=features,
        sets=features,
        external=settings.get("State") == "EXTERNAL",
        made=True,
        address=settings.get("NodeAddr", name),
        topology=settings.get("Topology", ""),
    )


def edit_node(node: SimNode, said: Mapping[str, Any], version: int) -> None:
    """Change what is no state. Raises `SlurmRefusal`. Node sets are as they were."""
    features, active = said.get("features"), said.get("features_act")
    if features:  # an empty list changes nothing
        if not set(active if active is not None else node.features) <= set(features):
            raise SlurmRefusal(2031, "_update_node")
        node.sets = node.features if node.sets is None else node.sets
        node.features = tuple(features)
    for key in ("comment", "extra"):
        if said.get(key) is not None:
            setattr(node, key, str(said[key]))
    if address := said.get("address"):
        node.address = address if isinstance(address, str) else address[0]
    if version >= 43 and said.get("topology_str") is not None:
        node.topology = str(said["topology_str"])


def delete_node(name: str, controller: Slurmctld) -> None:
    """Delete a node that was created while slurmctld ran, and that is not in use. Raises `SlurmRefusal`."""
    node = controller.nodes.get(name)
    if node is None:
        raise SlurmRefusal(2018, _DELETE)
    if controller.cluster.holders(name):
        raise SlurmRefusal(2016, _DELETE)
    if not (node.made or node.external):
        raise SlurmRefusal(2028, _DELETE)
    del controller.nodes[name]
    controller.deleted.add(name)
    for listener in controller.node_listeners:
        listener(node)
    controller.changed()
