"""Remove the extender's taints, cordons, conditions and annotations from Nodes."""

from __future__ import annotations

from dataclasses import replace

from extender.cli.uninstall.actions import ActionLog, each
from extender.cli.uninstall.inventory import Inventory
from extender.domain.nodes.marks import MarkRules, NodePatch, NodeStatus, change, report
from extender.domain.views import NodeView
from extender.domain.wellknown import FENCE_EVIDENCE
from extender.kube.connection import ApiConnection
from extender.kube.errors import NotFound
from extender.kube.node_writes import NodeWriter
from extender.kube.wire.node import read_node

TRIES = 5
"""Attempts to write to a Node that others change."""


class KubeNodeCleanup:
    """`rules` say which marks are the extender's."""

    def __init__(self, actions: ActionLog, kubernetes: ApiConnection, writer: NodeWriter, rules: MarkRules) -> None:
        self._actions = actions
        self._kubernetes = kubernetes
        self._node_writer = writer
        self._rules = rules

    async def clean(self, found: Inventory) -> None:
        """Remove the marks from all Nodes."""
        await each(found.nodes, self._clean)

    async def _clean(self, node: NodeView) -> None:
        wanted, status_report = self._owed(node), report(node, NodeStatus(), self._rules)
        if wanted is not None:  # first: it requires the version that was read

            async def mark() -> str:
                return await self._cleaned(node)

            await self._actions.do(f"remove taints and cordon of Node {node.name}", mark)
        if status_report is not None:

            async def write() -> str:
                given = report(node, NodeStatus(), self._rules)
                done = given is None or await self._node_writer.report(node, given)
                return "" if done else "the Node was changed meanwhile, or the API server refused the change"

            await self._actions.do(f"remove condition and annotation of Node {node.name}", write)

    async def _cleaned(self, node: NodeView) -> str:
        """Remove the marks, with retries since other writers change Nodes too. Return an error text or ""."""
        now: NodeView | None = node
        for _ in range(TRIES):
            owed = None if now is None else self._owed(now)
            if now is None or owed is None or await self._node_writer.mark(now, owed):
                return ""
            now = await self._read_again(node)
        return "the Node was changed meanwhile, or the API server refused the change"

    def _owed(self, node: NodeView) -> NodePatch | None:
        """Return the patch that takes off every mark, and the evidence of a fence."""
        owed = change(node, NodeStatus(), self._rules)
        if not node.annotations.get(FENCE_EVIDENCE, "").startswith(f"{self._rules.owner}: "):
            return owed
        owed = owed or NodePatch()
        return replace(owed, annotations={**owed.annotations, FENCE_EVIDENCE: None})

    async def _read_again(self, node: NodeView) -> NodeView | None:
        """Return the Node as it is now; `None`: it is gone. Raises ApiError, MalformedObject."""
        try:
            answer = await self._kubernetes.request("GET", f"/api/v1/nodes/{node.name}")
        except NotFound:
            return None
        found = read_node(answer.body)
        return found if found.uid == node.uid else None
