"""Read the owners of Pods in rounds whose cost is bounded, however many owners fail or hang."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from extender.domain.gangs.context import ControllerView
from extender.domain.ports import Clock, Owners, PortError
from extender.domain.views import OwnerReference, PodView
from extender.runtime.cooperative_yield import CooperativeYield

AT_ONCE = 8
"""Owners that are read at a time."""

LOST_IN_NAMESPACE = 30.0
"""Seconds that failed reads of one Namespace's owners may take in a round, in all places together."""

LOST_IN_VERSION = 240.0
"""Seconds that failed reads of the owners of one API version may take in a round, in all places together."""

Controllers = tuple[ControllerView, ...]

Owned = tuple[str, OwnerReference]
"""A Namespace and an owner of Pods in it."""


class OwnerRounds:
    """Read each owner at most once in a round. Owners that failed follow all others, and Namespaces take turns.

    The rest of a Namespace, or of an API version, whose owners have cost too much waits for the next round.
    """

    def __init__(self, owners: Owners, clock: Clock) -> None:
        self._owners = owners
        self._clock = clock
        self._rounds = 0
        self._failed_in: dict[Owned, int] = {}
        """The last round in which each owner failed."""

    async def read(self, pods: Iterable[PodView]) -> tuple[dict[str, Controllers], dict[str, str]]:
        """Read the owners of these Pods. Return what was read and what failed, by the UIDs of the Pods."""
        self._rounds += 1
        read: dict[str, Controllers] = {}
        failed: dict[str, str] = {}
        wanted: dict[Owned, list[str]] = {}
        for pod in pods:
            if pod.owner is None:
                read[pod.uid] = ()
            else:
                wanted.setdefault((pod.namespace, pod.owner), []).append(pod.uid)
        self._failed_in = {owned: text for owned, text in self._failed_in.items() if owned in wanted}
        left, costs, turns = iter(self._in_order(wanted)), _Costs(), CooperativeYield()

        async def work() -> None:
            for owned in left:
                await turns.maybe_yield()
                uids, since = wanted[owned], self._clock.now()
                if text := costs.exceeded(owned):
                    failed.update(dict.fromkeys(uids, text))
                    continue
                try:
                    read.update(dict.fromkeys(uids, await self._owners.controllers(*owned)))
                except PortError as error:
                    failed.update(dict.fromkeys(uids, str(error)))
                    self._failed_in[owned] = self._rounds
                    costs.add(owned, self._clock.now() - since, str(error))
                else:
                    self._failed_in.pop(owned, None)

        async with asyncio.TaskGroup() as group:
            for _ in range(min(AT_ONCE, len(wanted))):
                group.create_task(work())
        return read, failed

    def _in_order(self, wanted: Mapping[Owned, object]) -> Iterator[Owned]:
        """Return owners, those first that did not fail, then those whose failure is oldest; Namespaces alternate."""
        before: Counter[tuple[str, int]] = Counter()
        order: list[tuple[int, int, Owned]] = []
        for owned in wanted:
            of_namespace = owned[0], self._failed_in.get(owned, 0)
            order.append((of_namespace[1], before[of_namespace], owned))
            before[of_namespace] += 1
        order.sort(key=lambda one: one[:2])
        return (owned for _, _, owned in order)


class _Costs:
    """Count the milliseconds that the failed reads of a round have taken, by Namespace and by API version."""

    def __init__(self) -> None:
        self._in_namespace: Counter[str] = Counter()
        self._in_version: Counter[str] = Counter()
        self._texts: dict[str, str] = {}
        """The last error in each Namespace: authors of other Namespaces are not shown it."""

    def add(self, owned: Owned, seconds: float, text: str) -> None:
        """Add a failed read, and the error as text."""
        self._in_namespace[owned[0]] += round(seconds * 1000)
        self._in_version[owned[1].api_version] += round(seconds * 1000)
        self._texts[owned[0]] = text

    def exceeded(self, owned: Owned) -> str:
        """Return why this owner is not requested in the round; "" if it may be."""
        if self._in_namespace[owned[0]] >= LOST_IN_NAMESPACE * 1000:
            return f"too many owners in the Namespace do not answer: {self._texts[owned[0]]}"
        if self._in_version[owned[1].api_version] >= LOST_IN_VERSION * 1000:
            return f"too many owners of {owned[1].api_version} do not answer"
        return ""
