"""Report where Slurm does not hold what Pods use that it did not place: Events on Nodes, metrics, `/debug`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import structlog

from extender.controllers.foreign_pods.controller import ForeignPodController
from extender.domain.amount import Amount, lacking, total
from extender.domain.ports import Announcement, Announcer
from extender.domain.views import NodeView
from extender.domain.wellknown import Reason
from extender.engine.engine import Engine
from extender.runtime.controller import Controller, Requeue, Resync

_log = structlog.get_logger(__name__)

CHECK_EVERY = 1.0
"""Seconds between two comparisons of all nodes with such Pods."""

HELD = "Jobs reserve the resources of all foreign Pods on this Node."
NAMED = 3
"""Pods that a sentence names."""


class Overcommitment:
    """Compare what is held on each node with what is used there."""

    def __init__(
        self,
        engine: Engine,
        foreign_pods: ForeignPodController,
        announcer: Announcer,
        kube_node: Callable[[str], NodeView | None],
    ) -> None:
        self._engine = engine
        self._foreign_pods = foreign_pods
        self._announcer = announcer
        self._kube_node = kube_node
        self._notified: dict[str, str] = {}
        self._controller = Controller("overcommitment", self._reconcile, resync=Resync(lambda: ("all",)))

    async def run(self) -> None:
        """Report what changed, until cancelled."""
        await self._controller.run()

    async def _reconcile(self, _all: str) -> Requeue:
        self.check()
        return Requeue(CHECK_EVERY)

    def check(self) -> None:
        """Say once of each node what is so, and when it is over."""
        overcommitted = {node: text for node in self._foreign_pods.nodes() if (text := self._sentence(node))}
        for node, text in overcommitted.items():
            if self._notified.get(node) != text:
                _log.warning("foreign_pods_not_reserved", node=node, why=text)
                short = self._foreign_pods.shortages.get(node) is not None
                self._announce(
                    node, Reason.NODE_OVERCOMMITTED if short else Reason.FOREIGN_PODS_NOT_RESERVED, text, warning=True
                )
        for node in self._notified.keys() - overcommitted.keys():
            _log.info("foreign_pods_reserved", node=node)
            self._announce(node, Reason.FOREIGN_PODS_RESERVED, HELD, warning=False)
        self._notified = overcommitted

    def pods(self) -> Mapping[str, int]:
        """Return how many foreign Pods there are, by whether a job reserves their resources."""
        held = sum(self._foreign_pods.held(node) for node in self._foreign_pods.nodes())
        unheld = sum(len(self._foreign_pods.unheld(node)) for node in self._foreign_pods.nodes())
        return {"reserved": held, "unreserved": unheld}

    def unreserved(self) -> Amount:
        """Return what those foreign Pods request for which no job reserves anything."""
        return total(
            foreign_pod.amount for node in self._foreign_pods.nodes() for foreign_pod in self._foreign_pods.unheld(node)
        )

    def nodes_by_state(self) -> Mapping[str, int]:
        """Count the nodes with foreign Pods that have no job: drained, or still given to jobs."""
        states = Counter(
            "drained" if self._foreign_pods.shortages.get(node) else "undrained" for node in self._notified
        )
        return {"drained": states["drained"], "undrained": states["undrained"]}

    def shown(self) -> list[dict[str, Any]]:
        """Return every node with such Pods, for `/debug`."""
        found = []
        for node in self._foreign_pods.nodes():
            unheld, shortage = self._foreign_pods.unheld(node), self._foreign_pods.shortages.get(node)
            found.append(
                {
                    "node": node,
                    "held": self._foreign_pods.held(node),
                    "unheld": [{"pod": foreign_pod.pod, "requests": foreign_pod.amount.text} for foreign_pod in unheld],
                    "tooLittle": self._too_little(node).text,
                    "phase": str(shortage.phase) if shortage is not None else "",
                    "why": self._foreign_pods.why(node) if unheld else "",
                }
            )
        return found

    def _too_little(self, node: str) -> Amount:
        slurm = self._engine.snapshot.slurm.nodes.get(node)
        if slurm is None or slurm.size is None:
            return Amount()
        return lacking(
            total(foreign_pod.amount for foreign_pod in self._foreign_pods.unheld(node)), slurm.size, slurm.used
        )

    def _sentence(self, node: str) -> str:
        unheld, why = self._foreign_pods.unheld(node), self._foreign_pods.why(node)
        if not unheld or not why:
            return ""
        named = ", ".join(foreign_pod.pod for foreign_pod in unheld[:NAMED]) + (" and others" if unheld[NAMED:] else "")
        amount, short = total(foreign_pod.amount for foreign_pod in unheld).text, self._too_little(node)
        taken = "" if short.nothing else f" (of these, {short.text} are allocated to jobs)"
        drained = self._foreign_pods.shortages.get(node) is not None
        action = "Drain the node, or move these Pods."
        if drained:
            action = "The node stays drained until a job reserves that; end jobs there, or move these Pods."
        return f"No Slurm job reserves {amount}{taken} on Slurm node {node} for {named}: {why.rstrip('.')}. {action}"

    def _announce(self, node: str, reason: Reason, text: str, *, warning: bool) -> None:
        name = self._engine.snapshot.node_map.last_kubernetes(node)
        if (view := self._kube_node(name)) is not None:
            self._announcer.announce(Announcement("Node", "", name, view.uid, reason, text, warning=warning))
