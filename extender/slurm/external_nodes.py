"""Nodes of Slurm that stand for Nodes of Kubernetes, through slurmrestd: implements `ports.ExternalNodes`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TYPE_CHECKING

from extender.domain.nodes.drain_reasons import is_own_drain
from extender.domain.nodes.external_nodes import DesiredNode, mark, marked
from extender.domain.ports import Clock, ExternalNodes, Updated
from extender.domain.translation.gres import GPU
from extender.slurm.api_requests import ObserveRequest, timed, unobserved
from slurmclient import (
    CapacityError,
    NewNode,
    NodeUpdate,
    NotFoundError,
    RefusedError,
    SlurmClient,
    SlurmError,
    UnsupportedError,
)

EXISTS = 2168
"""Slurm's number for a node that is there already."""

HINTS: Mapping[int, str] = {
    2010: "the owner of Slurm's token must be root or SlurmUser",
    2169: "MaxNodeCount of slurm.conf must leave room for it",
    2178: "topology.yaml must have every topology of nodes.external.topology, with these units or a switch above them",
}
"""What a site has to do about a refusal, by Slurm's number (`slurm_errno.h`)."""


class _NotNowError(Exception):
    """The node is not to be touched as it is now."""


class Registrar:
    """Makes, changes and deletes external nodes in the name of `owner` (`drains.drainer`)."""

    def __init__(
        self, client: SlurmClient, clock: Clock, owner: str, *, observe_request: ObserveRequest = unobserved
    ) -> None:
        self._client = client
        self._clock = clock
        self._owner = owner
        self._observe = observe_request

    async def create(self, node: DesiredNode) -> Updated:
        """Create the node, with the extender's mark among its features."""
        return await self._request("new node", lambda: self._client.new_node(new_node(node, self._owner)))

    async def change(self, node: DesiredNode, keys: Collection[str]) -> Updated:
        """Make these keys of the node what is wanted."""
        features = (*node.features, mark(self._owner, node.node)) if "features" in keys else None
        update = NodeUpdate(
            address=node.address if "address" in keys else None,
            features=features,
            active_features=features,
            topology=node.topology if "topology" in keys else None,
        )
        return await self._request("change of node", lambda: self._client.update_node(node.name, update))

    async def delete(self, name: str) -> Updated:
        """Delete a node. slurmctld refuses while a job is on it (2016).

        The node is read once more before: one without the mark, or drained by another author, stays.
        """

        async def check_and_delete() -> None:
            node = await self._client.node(name)
            registrar, _ = marked(node.features)
            if registrar != self._owner:
                raise _NotNowError(f"Slurm node {name} was not registered by this extender")
            if not (node.drained and is_own_drain(node.reason, self._owner)):
                raise _NotNowError(f"Slurm node {name} is not drained by this extender any more ({node.reason!r})")
            # slurmctld would delete it nevertheless, and the reservation would lose it.
            reserved = [one.name for one in await self._client.reservations() if name in one.nodes]
            if reserved:
                raise _NotNowError(f"Slurm node {name} is in the reservation {', '.join(reserved)}")
            await self._client.delete_node(name)

        return await self._request("end of node", check_and_delete)

    async def _request(self, operation: str, send: Callable[[], Awaitable[None]]) -> Updated:
        try:
            async with timed(operation, self._clock, self._observe):
                await send()
        except NotFoundError as error:
            return Updated(operation == "end of node" or None, str(error))
        except (CapacityError, _NotNowError) as error:
            return Updated(None, str(error))
        except (RefusedError, UnsupportedError) as error:
            hint = HINTS.get(error.slurm_errno or 0, "")
            if error.slurm_errno == EXISTS:
                return Updated(None, str(error))  # a lost answer, or another request was first: the next poll decides
            return Updated(False, f"{error}{'; ' if hint else ''}{hint}")
        except SlurmError as error:
            return Updated(None, str(error))
        return Updated(True)


def new_node(node: DesiredNode, owner: str) -> NewNode:
    """Return the node as `POST /new/node` wants it: one socket, every CPU a core of its own."""
    gres, conf, first = [], [], 0
    for full, count in sorted(node.gres.items()):
        name, _, kind = full.partition(":")
        device = ""
        if name == GPU:
            # No process opens these files. GPUs without one have no numbers in slurmctld's answers.
            device, first = f",file=/dev/nvidia{_range(first, count)}", first + count
        gres.append(f"{full}:{count}")
        conf.append(f"name={name},{f'type={kind},' if kind else ''}count={count}{device}")
    return NewNode(
        name=node.name,
        address=node.address,
        cpus=node.cpus,
        sockets=1,
        cores_per_socket=node.cpus,
        threads_per_core=1,
        real_memory_mb=node.memory_mb,
        features=(*node.features, mark(owner, node.node)),
        gres=",".join(gres) or None,
        gres_conf="+".join(conf) or None,
        topology=node.topology or None,
    )


def _range(first: int, count: int) -> str:
    return str(first) if count == 1 else f"[{first}-{first + count - 1}]"


if TYPE_CHECKING:

    def _implements(registrar: Registrar) -> ExternalNodes:
        return registrar
