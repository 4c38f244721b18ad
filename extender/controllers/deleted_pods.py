"""Remember Pods whose deletion the watch reported, for as long as their jobs may outlive them.

A follower that becomes the leader has no record of a Pod that was deleted while there was no leader, but its watch has
seen the deletion. Absence from a list is not a fact; a reported deletion is.
"""

from __future__ import annotations

from collections import OrderedDict

from extender.domain.views import PodView

REMEMBERED = 10_000
"""More leave unseen only in a cluster that places several Pods a second for an hour."""


class DeletedPods:
    """The last state of each deleted Pod, by UID; the oldest are forgotten."""

    def __init__(self, scheduler: str) -> None:
        self._scheduler = scheduler
        self._pods: OrderedDict[str, PodView] = OrderedDict()

    def changed(self, old: PodView | None, new: PodView | None) -> None:
        """Handle a change of a Pod."""
        if old is None or new is not None or old.scheduler_name != self._scheduler:
            return
        self._pods[old.uid] = old
        while len(self._pods) > REMEMBERED:
            self._pods.popitem(last=False)

    def get(self, uid: str) -> PodView | None:
        """Return a Pod that was seen to leave, as it was then."""
        return self._pods.get(uid)
