"""Read the objects in Slurm and in Kubernetes when the command begins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from extender.cli.uninstall.options import InventoryError
from extender.config.devices import device_map
from extender.config.document import ExtenderConfiguration
from extender.domain.cluster import SlurmSnapshot
from extender.domain.devices.holders import is_in_use
from extender.domain.devices.views import ResourceClaimView
from extender.domain.nodes.mapping import NodeMap, map_nodes
from extender.domain.nodes.slurmds import slurmd_nodes
from extender.domain.ports import PortError
from extender.domain.views import NodeView, PodView
from extender.kube.connection import ApiConnection
from extender.kube.devices import RESOURCE_API
from extender.kube.errors import ApiError, NotFound
from extender.kube.listing import list_all
from extender.kube.wire.stream import NODE, POD, RESOURCE_CLAIM
from extender.slurm.nodes import SlurmrestdNodes


@dataclass(slots=True)
class Inventory:
    """The objects, and the jobs that this run keeps."""

    pods: Mapping[str, PodView] = field(default_factory=dict)
    unread: frozenset[str] = frozenset()
    """UIDs of Pods that exist and cannot be decoded."""

    unreadable: tuple[str, ...] = ()
    """Those Pods, and Nodes, each with the reason."""

    nodes: tuple[NodeView, ...] = ()
    reminders: tuple[ResourceClaimView, ...] = ()
    """ResourceClaims of the extender. None where the configuration maps no device."""

    reminders_in_use: frozenset[str] = frozenset()
    """UIDs of those whose devices the ResourceClaims hold that they remind of."""

    slurm: SlurmSnapshot = field(default_factory=SlurmSnapshot)
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
        found.slurm = await slurm_nodes.snapshot()
        found.reminders, found.reminders_in_use = await _reminders(config, kubernetes)
    except (ApiError, PortError) as error:
        raise InventoryError(str(error)) from error
    found.pods = {pod.uid: pod for pod in pods.views}
    found.unread = frozenset(item.identity.uid for item in pods.unreadable)
    found.nodes = nodes.views
    found.unreadable = tuple(
        f"{kind} {'/'.join(filter(None, (one.identity.namespace, one.identity.name)))} cannot be read ({one.text})"
        for kind, listing in (("Pod", pods), ("Node", nodes))
        for one in listing.unreadable
    )
    selector = config.nodes.slurmd_selector
    slurmds = slurmd_nodes(pod for pod in pods.views if selector.labels and selector.selects(pod))
    found.node_map = map_nodes(nodes.views, found.slurm, slurmds, pairing=config.nodes.pairing)
    return found


async def _reminders(
    config: ExtenderConfiguration, kubernetes: ApiConnection
) -> tuple[tuple[ResourceClaimView, ...], frozenset[str]]:
    """Return the reminders of devices, and the UIDs of those in use; none where ResourceClaims are not served.

    Raises ApiError.
    """
    if not device_map(config.devices, config.cpus):
        return (), frozenset()
    try:
        resource_claims = await list_all(
            kubernetes, f"{RESOURCE_API}/resourceclaims", RESOURCE_CLAIM, lambda view: view
        )
    except NotFound:
        return (), frozenset()
    holders = {one.uid: one for one in resource_claims.views}
    reminders = tuple(one for one in resource_claims.views if one.reminds_of)
    in_use = (one.uid for one in reminders if is_in_use(one, holders.get(one.reminds_of)))
    return reminders, frozenset(in_use)
