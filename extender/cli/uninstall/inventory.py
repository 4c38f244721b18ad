"""Read the objects in Slurm and in Kubernetes when the command begins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from extender.cli.uninstall.options import InventoryError
from extender.config.document import ExtenderConfiguration
from extender.domain.cluster import SlurmSnapshot
from extender.domain.nodes.mapping import NodeMap, map_nodes
from extender.domain.nodes.slurmds import slurmd_nodes
from extender.domain.ports import PortError
from extender.domain.views import NodeView, PodView
from extender.kube.connection import ApiConnection
from extender.kube.errors import ApiError
from extender.kube.listing import list_all
from extender.kube.wire.stream import NODE, POD
from extender.slurm.nodes import SlurmrestdNodes


@dataclass(slots=True)
class Inventory:
    """The objects, and the jobs that this run keeps."""

    pods: Mapping[str, PodView] = field(default_factory=dict)
    unread: frozenset[str] = frozenset()
    """UIDs of Pods that exist and cannot be decoded."""

    odd: tuple[str, ...] = ()
    """Those Pods, and Nodes, each with the reason."""

    nodes: tuple[NodeView, ...] = ()
    picture: SlurmSnapshot = field(default_factory=SlurmSnapshot)
    node_map: NodeMap = field(default_factory=NodeMap)
    kept: set[int] = field(default_factory=set)
    """Jobs that stay."""

    kept_pods: set[str] = field(default_factory=set)
    """UIDs of the Pods that run on them."""

    busy: set[str] = field(default_factory=set)
    """Slurm nodes on which they run."""


async def take_inventory(
    config: ExtenderConfiguration, kubernetes: ApiConnection, slurm_nodes: SlurmrestdNodes
) -> Inventory:
    """Read all objects. Raises `InventoryError`."""
    found = Inventory()
    try:
        pods = await list_all(kubernetes, "/api/v1/pods", POD, lambda view: view)
        nodes = await list_all(kubernetes, "/api/v1/nodes", NODE, lambda view: view)
        found.picture = await slurm_nodes.picture()
    except (ApiError, PortError) as error:
        raise InventoryError(str(error)) from error
    found.pods = {pod.uid: pod for pod in pods.views}
    found.unread = frozenset(item.identity.uid for item in pods.odd)
    found.nodes = nodes.views
    found.odd = tuple(
        f"{kind} {'/'.join(filter(None, (one.identity.namespace, one.identity.name)))} cannot be read ({one.text})"
        for kind, listing in (("Pod", pods), ("Node", nodes))
        for one in listing.odd
    )
    selector = config.nodes.slurmd_selector
    slurmds = slurmd_nodes(pod for pod in pods.views if selector.labels and selector.selects(pod))
    found.node_map = map_nodes(nodes.views, found.picture, slurmds, pairing=config.nodes.pairing)
    return found
