"""What of ours stands on Nodes: taints, cordons, conditions, annotations."""

from __future__ import annotations

from extender.cli.uninstall.deeds import Deeds, each
from extender.cli.uninstall.found import Inventory
from extender.domain.nodes.marks import MarkRules, NodeStatus, change, report
from extender.domain.views import NodeView
from extender.kube.connection import ApiConnection
from extender.kube.errors import NotFound
from extender.kube.node_writes import NodeWriter
from extender.kube.wire.node import read_node

TRIES = 5
"""Of a write to a Node that others change."""


class KubernetesNodes:
    """`rules` say which marks are ours."""

    def __init__(self, deeds: Deeds, kubernetes: ApiConnection, writer: NodeWriter, rules: MarkRules) -> None:
        self._deeds = deeds
        self._kubernetes = kubernetes
        self._node_writer = writer
        self._rules = rules

    async def clean(self, found: Inventory) -> None:
        """Taints, cordons, conditions and annotations of ours."""
        await each(found.nodes, self._clean)

    async def _clean(self, node: NodeView) -> None:
        wanted, said = change(node, NodeStatus(), self._rules), report(node, NodeStatus(), self._rules)
        if wanted is not None:  # first: it is held to the version that was read

            async def mark() -> str:
                return await self._cleaned(node)

            await self._deeds.do(f"take taints and cordon off Node {node.name}", mark)
        if said is not None:

            async def notify() -> str:
                given = report(node, NodeStatus(), self._rules)
                told = given is None or await self._node_writer.report(node, given)
                return "" if told else "the Node was changed meanwhile, or the API server did not take it"

            await self._deeds.do(f"take condition and annotation off Node {node.name}", notify)

    async def _cleaned(self, node: NodeView) -> str:
        """What kept it from being done; kubelets and controllers write to Nodes all the time, so it is tried again."""
        now: NodeView | None = node
        for _ in range(TRIES):
            owed = None if now is None else change(now, NodeStatus(), self._rules)
            if now is None or owed is None or await self._node_writer.mark(now, owed):
                return ""
            now = await self._read_again(node)
        return "the Node was changed meanwhile, or the API server did not take it"

    async def _read_again(self, node: NodeView) -> NodeView | None:
        """The Node as it is now, `None` where it is gone. Raises ApiError, OddObject."""
        try:
            answer = await self._kubernetes.request("GET", f"/api/v1/nodes/{node.name}")
        except NotFound:
            return None
        found = read_node(answer.body)
        return found if found.uid == node.uid else None
