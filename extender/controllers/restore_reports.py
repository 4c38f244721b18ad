"""Report by one Event on each Node concerned that a restore of etcd may have taken back Pods that run there."""

from __future__ import annotations

from collections.abc import Callable, Collection

from extender.domain.ports import Announcement, Announcer
from extender.domain.views import NodeView
from extender.domain.wellknown import Reason
from extender.engine.mass_deletion_guard import RUNBOOK_FOR_MISSING_PODS
from extender.runtime.controller import Controller, Requeue, Resync

CHECK_EVERY = 5.0
"""Seconds between two checks."""

MOST_NODES = 10
"""Nodes that get the Event. `/readyz?verbose` says how many jobs are kept in all."""

TEXT = (
    "etcd was restored, or the Lease with the checkpoints was deleted: Pods that Kubernetes does not show any more may "
    "still run here. Their jobs are kept for orphans.massGracePeriod; if nothing of them runs, confirm as in "
    f"{RUNBOOK_FOR_MISSING_PODS}."
)


class RestoreReports:
    """`suspected`: the Nodes on which such Pods may run, now."""

    def __init__(
        self,
        announcer: Announcer,
        kube_node: Callable[[str], NodeView | None],
        suspected: Callable[[], Collection[str]],
    ) -> None:
        self._announcer = announcer
        self._kube_node = kube_node
        self._suspected = suspected
        self._reported: set[str] = set()
        """Nodes that got the Event, as long as they are suspected."""

        self._controller = Controller("restore reports", self._reconcile, resync=Resync(lambda: ("all",)))

    async def run(self) -> None:
        """Report until cancelled."""
        await self._controller.run()

    async def _reconcile(self, _all: str) -> Requeue:
        suspected = self._suspected()
        self._reported &= set(suspected)
        for name in sorted(set(suspected) - self._reported)[: MOST_NODES - len(self._reported)]:
            node = self._kube_node(name)
            if node is not None:
                self._reported.add(name)
                announcement = Announcement("Node", "", name, node.uid, Reason.RESTORE_SUSPECTED, TEXT, warning=True)
                self._announcer.announce(announcement)
        return Requeue(CHECK_EVERY)
