"""Warn the authors of parallel Jobs, JobSets, PodGroups and the like that their Pods start one by one.

Slurm may start some of the Pods and let the others wait for days, while those that run wait for them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection

from extender.domain.gangs.membership import GangSource
from extender.domain.gangs.one_by_one import Parallel, parallel_of
from extender.domain.ports import Announcement, Announcer
from extender.domain.views import PodView
from extender.domain.wellknown import GANG, Reason

REMEMBERED = 4096
"""Owners that are remembered."""


class OneByOneWarnings:
    """Warn once for each owner, by an Event on a waiting Pod that is not the only one of its owner.

    `groups_read`: sources whose PodGroups are read, so that a Pod that names one is placed alone as it wants.
    """

    def __init__(
        self, announcer: Announcer, schedulers: Collection[str], groups_read: Collection[GangSource] = ()
    ) -> None:
        self._announcer = announcer
        self._groups_read = frozenset(groups_read)
        self._schedulers = frozenset(schedulers)
        self._first: OrderedDict[tuple[str, ...], str] = OrderedDict()
        """By owner: the UID of its only Pod so far; "" once its author was warned."""

    def placed_alone(self, pod: PodView) -> None:
        """Handle a Pod that is a workload of its own."""
        group = parallel_of(pod, self._groups_read)
        if group is None or pod.ended or pod.deleted_at is not None:
            return
        if not pod.node_name and (group.certain or self._first.get(group.key, pod.uid) != pod.uid):
            self._warn(pod, group)
        else:
            self._first.setdefault(group.key, pod.uid)
        self._bound(group)

    def pod_changed(self, old: PodView | None, new: PodView | None) -> None:
        """Handle a change of a Pod: one that ends no longer counts beside another."""
        pod = new or old
        if pod is None or pod.scheduler_name not in self._schedulers:
            return
        if new is None or new.ended or new.deleted_at is not None:
            group = parallel_of(pod, self._groups_read)
            if group is not None and self._first.get(group.key) == pod.uid:
                del self._first[group.key]

    def _warn(self, pod: PodView, group: Parallel) -> None:
        if self._first.get(group.key) == "":
            return
        self._first[group.key] = ""
        instead = f" instead of naming the {group.title.partition(' ')[0]}, which is not read" if group.unread else ""
        text = (
            f"Each Pod of {group.title} gets a Slurm job of its own, so they may start at different times. "
            f"If they need each other, make them a gang by the annotation {GANG}{instead} (docs/gangs.md)."
        )
        announcement = Announcement(
            "Pod", pod.namespace, pod.name, pod.uid, Reason.PODS_PLACED_ONE_BY_ONE, text, warning=True
        )
        self._announcer.announce(announcement)

    def _bound(self, group: Parallel) -> None:
        if group.key in self._first:
            self._first.move_to_end(group.key)
        if len(self._first) > REMEMBERED:
            self._first.popitem(last=False)
