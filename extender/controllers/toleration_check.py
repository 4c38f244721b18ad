"""Warn about Pods that do not tolerate the taint of Slurm nodes.

Admission adds the tolerations (docs/nodes.md). A Pod without them waits without end: kube-scheduler finds no Node for
it, and does not call the extender.
"""

from __future__ import annotations

from collections.abc import Collection

from extender.domain.placing.taints import not_tolerated
from extender.domain.ports import Announcement, Announcer
from extender.domain.views import PodView, Taint
from extender.domain.wellknown import Reason


class TolerationCheck:
    """Warns about each Pod once, and again when its tolerations change and still do not suffice."""

    def __init__(self, announcer: Announcer, schedulers: Collection[str], taints: tuple[Taint, ...]) -> None:
        self._announcer = announcer
        self._schedulers = frozenset(schedulers)
        self._taints = taints

    def pod_changed(self, old: PodView | None, new: PodView | None) -> None:
        """Handle a change of a Pod."""
        if not self._taints or new is None or new.scheduler_name not in self._schedulers:
            return
        if new.node_name or new.deleted_at is not None or (old is not None and old.tolerations == new.tolerations):
            return
        for taint in not_tolerated(new.tolerations, self._taints):
            text = (
                f"The Pod does not tolerate {taint.key}:{taint.effect}, which the Nodes of Slurm have: it needs the "
                f'toleration {{"key": "{taint.key}", "operator": "Exists"}}, which admission puts on new Pods.'
            )
            announcement = Announcement(
                "Pod", new.namespace, new.name, new.uid, Reason.TAINT_NOT_TOLERATED, text, warning=True
            )
            self._announcer.announce(announcement)
