"""Mirror the Pods of some namespaces: one list and one watch for each, so that Roles there allow both."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Sequence

from extender.domain.printable import shortened
from extender.domain.views import PodView
from extender.kube.connection import ApiConnection
from extender.kube.pod_reads import pods_path
from extender.kube.reflector import Reflector, ReflectorStatus
from extender.kube.store import PodStore
from extender.kube.wire.stream import POD, UnreadableItem

MOST_TROUBLES = 3
"""Troubles that a status names; the others are counted."""


class NamespacedPods:
    """The reflectors of Pods where only some namespaces are read. `pods` is complete once each was listed."""

    def __init__(
        self, connection: ApiConnection, namespaces: Sequence[str], pods: PodStore, *, rng: random.Random
    ) -> None:
        self._namespaces = frozenset(namespaces)
        self._listed: set[str] = set()
        self._reflectors = tuple(
            Reflector(
                connection,
                pods_path(name),
                POD,
                _NamespaceSink(name, pods, self._is_complete),
                rng=rng,
                keep=pods.keep,
            )
            for name in namespaces
        )

    @property
    def status(self) -> ReflectorStatus:
        """Return the history of all of them: sums, all troubles, and the time of the one that was silent longest."""
        parts = [one.status for one in self._reflectors]
        heard = [one.last_heard for one in parts if one.last_heard is not None]
        total = ReflectorStatus(
            lists=sum(one.lists for one in parts),
            watches=sum(one.watches for one in parts),
            repeated=sum(one.repeated for one in parts),
            unreadable_items=sum(one.unreadable_items for one in parts),
            unreadable_events=sum(one.unreadable_events for one in parts),
            last_heard=min(heard) if len(heard) == len(parts) else None,
            trouble=shortened([one.trouble for one in parts if one.trouble], MOST_TROUBLES),
        )
        total.changes = sum((one.changes for one in parts), Counter[str]())
        total.relists = sum((one.relists for one in parts), Counter[str]())
        return total

    async def relist(self) -> None:
        """List every namespace now; returns when the store has all of it. `run` must be running."""
        await asyncio.gather(*(one.relist() for one in self._reflectors))

    async def run(self) -> None:
        """Mirror until cancelled."""
        async with asyncio.TaskGroup() as group:
            for one in self._reflectors:
                group.create_task(one.run())

    def _is_complete(self, namespace: str) -> bool:
        """Count a namespace as listed; return whether each was by now."""
        self._listed.add(namespace)
        return self._listed == self._namespaces


class _NamespaceSink:
    """Passes what one reflector sees to the store of all Pods."""

    def __init__(self, namespace: str, pods: PodStore, is_complete: Callable[[str], bool]) -> None:
        self._namespace = namespace
        self._pods = pods
        self._is_complete = is_complete

    def replaced(self, views: Sequence[PodView], unreadable: Sequence[UnreadableItem]) -> None:
        """Adopt a complete list of the namespace."""
        self._pods.replaced_in(self._namespace, views, unreadable, complete=self._is_complete(self._namespace))

    def changed(self, view: PodView) -> None:
        """Adopt one Pod."""
        self._pods.changed(view)

    def removed(self, uid: str, last: PodView | None) -> None:
        """Drop one Pod."""
        self._pods.removed(uid, last)
