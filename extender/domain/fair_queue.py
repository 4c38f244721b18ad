"""Queue items so that flows take turns: a flow with very many items delays only itself."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(eq=False, slots=True)
class QueueEntry(Generic[T]):
    """Hold one item of a queue."""

    item: T
    flow: str


class FairQueue(Generic[T]):
    """Items by flow, such as those of a namespace. Each call of `pop` serves the flow that was served least recently.

    A flow that has nothing queued is forgotten: memory is proportional to the items.
    """

    def __init__(self) -> None:
        self._heaps: dict[str, list[tuple[float, int, QueueEntry[T]]]] = {}
        """By flow, in the order of turns: the flow that was served last is last. Items by time, then by arrival."""

        self._size = 0
        self._order = 0

    def __len__(self) -> int:
        return self._size

    def count(self, flow: str) -> int:
        """Return the number of queued items of this flow."""
        return len(self._heaps.get(flow, ()))

    def push(self, flow: str, item: T, at: float = 0.0) -> QueueEntry[T]:
        """Queue it; `at` is the time from which it may be taken."""
        self._order += 1
        entry = QueueEntry(item, flow)
        heapq.heappush(self._heaps.setdefault(flow, []), (at, self._order, entry))
        self._size += 1
        return entry

    def pop(self, ready: Callable[[float], bool] = lambda _at: True) -> T | None:
        """Take the first item of the next flow whose first item is ready by its time; `None`: there is none."""
        flow = self._next(ready)
        if flow is None:
            return None
        heap = self._heaps.pop(flow)
        _, _, entry = heapq.heappop(heap)
        self._size -= 1
        if heap:
            self._heaps[flow] = heap  # behind all others
        return entry.item

    def has(self, ready: Callable[[float], bool]) -> bool:
        """Return whether `pop` would return an item."""
        return self._next(ready) is not None

    def earliest(self) -> float | None:
        """Return the earliest time of all items; `None`: nothing is queued."""
        return min((heap[0][0] for heap in self._heaps.values()), default=None)

    def make_room(self, flow: str) -> T | None:
        """Take the last item out of the longest share, if that is longer than `flow`'s would be with one more."""
        longest = max(self._heaps, key=lambda one: len(self._heaps[one]), default=None)
        if longest is None or len(self._heaps[longest]) <= self.count(flow) + 1:
            return None
        heap = self._heaps[longest]
        last = max(heap)
        heap.remove(last)
        heapq.heapify(heap)
        self._size -= 1
        return last[2].item

    def __iter__(self) -> Iterator[T]:
        """Iterate over all items, in no order."""
        return (entry.item for heap in self._heaps.values() for _, _, entry in heap)

    def _next(self, ready: Callable[[float], bool]) -> str | None:
        for flow, heap in self._heaps.items():
            if ready(heap[0][0]):
                return flow
        return None


def in_turns(items: Iterable[T], flow_of: Callable[[T], str]) -> Iterator[T]:
    """Reorder the items: the first one of each flow, then the second one of each, and so on."""
    groups: dict[str, list[T]] = {}
    for item in items:
        groups.setdefault(flow_of(item), []).append(item)
    for group in groups.values():
        group.reverse()
    while groups:
        for flow, group in tuple(groups.items()):
            yield group.pop()
            if not group:
                del groups[flow]
