"""Warn the authors of parallel Jobs, JobSets, LeaderWorkerSets and Kubeflow jobs that their Pods start one by one.

Slurm may start some of the Pods and let the others wait for days, while those that run wait for them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection

from extender.domain.gangs.one_by_one import Parallel, parallel_of
from extender.domain.ports import Announcement, Announcer
from extender.domain.views import PodView
from extender.domain.wellknown import Reason

REMEMBERED = 4096
"""Owners that are remembered."""


class OneByOneWarnings:
    """Warn once for each owner, by an Event on a waiting Pod that is not the only one of its owner."""

    def __init__(self, announcer: Announcer, schedulers: Collection[str]) -> None:
        self._announcer = announcer
        self._schedulers = frozenset(schedulers)
        self._first: OrderedDict[tuple[str, ...], str] = OrderedDict()
        """By owner: the UID of its only Pod so far; "" once its author was warned."""

    def pod_changed(self, old: PodView | None, new: PodView | None) -> None:
        """The watch brought a change of a Pod."""
        pod = new or old
        if pod is None or pod.scheduler_name not in self._schedulers or not (new is None or old is None or new.over):
            return
        group = parallel_of(pod)
        if group is None:
            return
        if new is None or new.over or new.deleted_at is not None:
            if self._first.get(group.key) == pod.uid:
                del self._first[group.key]
        elif not new.node_name and (group.certain or self._first.get(group.key, pod.uid) != pod.uid):
            self._warn(new, group)
        else:
            self._first.setdefault(group.key, pod.uid)
        self._bound(group)

    def _warn(self, pod: PodView, group: Parallel) -> None:
        if self._first.get(group.key) == "":
            return
        self._first[group.key] = ""
        text = (
            f"Each Pod of {group.title} gets a Slurm job of its own, so they may start at different times. "
            "If they need each other, let each wait for the others before it computes."
        )
        said = Announcement("Pod", pod.namespace, pod.name, pod.uid, Reason.ONE_BY_ONE, text, warning=True)
        self._announcer.announce(said)

    def _bound(self, group: Parallel) -> None:
        if group.key in self._first:
            self._first.move_to_end(group.key)
        if len(self._first) > REMEMBERED:
            self._first.popitem(last=False)
