"""Delete the Slurm nodes that the extender registered, and remove its drains."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from extender.cli.uninstall.actions import ActionLog, each
from extender.cli.uninstall.inventory import Inventory
from extender.domain.cluster import SlurmNode
from extender.domain.nodes.drain_reasons import is_own_drain, reason
from extender.domain.nodes.removals import removals_in
from extender.domain.pods.allocation_record import AllocationRecords
from extender.slurm.external_nodes import Registrar
from extender.slurm.nodes import SlurmrestdNodes


class SlurmNodeCleanup:
    """`owner` marks the extender's drains. `force`: remove also drains that protect Pods without a job."""

    def __init__(
        self,
        actions: ActionLog,
        nodes: SlurmrestdNodes,
        registrar: Registrar,
        allocation_records: AllocationRecords,
        *,
        scheduler: str,
        owner: str,
        force: bool,
    ) -> None:
        self._actions = actions
        self._slurm_nodes = nodes
        self._registrar = registrar
        self._allocation_records = allocation_records
        self._scheduler = scheduler
        self._owner = owner
        self._force = force

    async def delete_registered(self, found: Inventory) -> None:
        """Delete the nodes that the extender registered."""

        async def one(node: SlurmNode) -> None:
            if node.name in found.busy:
                self._actions.left(f"Slurm node {node.name}, which the extender registered: kept jobs run there")
                return

            async def delete() -> str:
                await self._slurm_nodes.drain(node.name, reason(self._owner, ["is taken out of Slurm"]))
                answer = await self._registrar.delete(node.name)
                return "" if answer.done else answer.text

            await self._actions.do(f"delete Slurm node {node.name}, which the extender registered", delete)

        await each((node for node in found.slurm.nodes.values() if node.registered_for), one)

    async def remove_drains(self, found: Inventory) -> None:
        """Remove the extender's drains, except those that protect a Pod that is still there."""
        without_job = self._without_job(found)

        async def one(node: SlurmNode) -> None:
            here = node.name in found.node_map.kubernetes
            own_drain = (
                "DRAIN" in node.flags
                and is_own_drain(node.reason, self._owner)
                and (here or self._owner in node.reason)
            )
            if not own_drain or node.registered_for:
                return
            if (why := _needed(node, without_job, found.unread)) and not self._force:
                self._actions.left(f"the drain of Slurm node {node.name}: {why}; run this again, or --force")
                return

            async def lift() -> str:
                await self._slurm_nodes.resume(node.name)
                return ""

            await self._actions.do(f"remove the drain of Slurm node {node.name} ({node.reason})", lift)

        await each(found.slurm.nodes.values(), one)

    def _without_job(self, found: Inventory) -> dict[str, str]:
        """Return the Slurm nodes with a running Pod of the extender and without its job, each with the Pod."""
        there: dict[str, str] = {}
        for pod in found.pods.values():
            if pod.scheduler_name == self._scheduler and pod.node_name and not pod.ended:
                record = self._allocation_records.read(pod.annotations, pod.uid)
                if pod.uid not in found.kept_pods and record.job_on(pod.node_name) not in found.kept:
                    there.setdefault(record.slurm_node or found.node_map.slurm.get(pod.node_name, ""), pod.full_name)
        return there


def _needed(node: SlurmNode, without_job: Mapping[str, str], unread: Collection[str]) -> str:
    """Return why Slurm must not allocate this node yet; "": it may."""
    if node.name in without_job:
        return f"Pod {without_job[node.name]} runs there and has no job"
    if unread:
        return f"{len(unread)} Pods cannot be read, and may run there"
    removed = removals_in(node.reason)
    return f"Pod {removed[0].pod} was removed without a report of its kubelet" if removed else ""
