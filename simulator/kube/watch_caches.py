"""Simulate the watch caches of the API servers behind one address: one may stand still, another reorder watch lines.

An API server answers from its cache what may be old, and asks etcd for what may not (a list without a resource
version). That it answers the latter from a cache is against the rules, and has happened (kubernetes issue 59848).
Each etcd watch sends changes in the order of their versions, every one of them once.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum

from simulator.kube.resources import Resource
from simulator.kube.storage import Snapshot, Storage, WatchEvent

GATHER_S = 0.5
"""For how long lines are kept back so that there are several to put in another order."""

AGAIN = 20
"""So many of the last lines may be sent again."""


class WatchDisorder(StrEnum):
    """A disorder in the lines of a watch."""

    TWICE = "every line twice"
    AGAIN = "older lines once more"
    MIXED = "lines of different objects in another order"
    SHUFFLED = "lines in any order"


class WatchCaches:
    """Serve `storage` to clients, in disorder until `heal`."""

    def __init__(self, storage: Storage) -> None:
        self.disorder: WatchDisorder | None = None
        self.behind_s = 0.0
        """Seconds after which a watch delivers a change, with what changed meanwhile."""

        self._storage = storage
        self._still: Snapshot | None = None
        self._meets: Callable[[], bool] = lambda: False
        self._moves = asyncio.Event()
        self._moves.set()
        self._rng = random.Random(0)  # noqa: S311 - a simulation sets its own
        self._notified: list[WatchEvent] = []

    def stand_still(self, meets: Callable[[], bool]) -> None:
        """Stop one of the caches; `meets` says of each request whether it is answered from that one."""
        self._still, self._meets = self._storage.save(), meets
        self._moves.clear()

    def disturb(self, disorder: WatchDisorder, rng: random.Random) -> None:
        """Deliver changes to watches in this disorder from now on."""
        self.disorder, self._rng, self.behind_s = disorder, rng, GATHER_S

    def heal(self) -> None:
        """End the disorder, and let every cache follow the storage."""
        self._still = self.disorder = None
        self.behind_s = 0.0
        self._meets = lambda: False
        self._moves.set()

    def snapshot(self) -> Snapshot | None:
        """Return the state of the cache that answers this request; `None`: the current one."""
        return self._still if self._still is not None and self._meets() else None

    def of(self, still: Snapshot, resource: Resource, namespace: str) -> list[dict[str, object]]:
        """List objects of a snapshot, as `Storage.of`."""
        keys = [key for key in still.objects if key.resource == resource and namespace in {"", key.namespace}]
        return [still.objects[key] for key in sorted(keys, key=lambda key: (key.namespace, key.name))]

    async def moves(self) -> None:
        """Wait until the cache that stood still goes on."""
        await self._moves.wait()

    def delivered(self, events: Sequence[WatchEvent]) -> list[WatchEvent]:
        """Return these changes in the order in which a watch delivers them."""
        found, rng = list(events), self._rng
        match self.disorder:
            case WatchDisorder.TWICE:
                found = [one for one in events for _ in range(2)]
            case WatchDisorder.AGAIN:
                kinds = {one.resource for one in events}
                old = [one for one in self._notified[-AGAIN:] if one.resource in kinds]
                found += rng.sample(old, min(len(old), rng.randrange(4)))
            case WatchDisorder.MIXED:
                found = _mixed(events, rng)
            case WatchDisorder.SHUFFLED:
                rng.shuffle(found)
            case None:
                return found
        self._notified = [*self._notified, *events][-AGAIN:]
        return found


def _mixed(events: Iterable[WatchEvent], rng: random.Random) -> list[WatchEvent]:
    """Return the events in another order, but for those of one object."""
    lines: dict[str, list[WatchEvent]] = {}
    for one in events:
        lines.setdefault(one.object["metadata"]["uid"], []).append(one)
    found: list[WatchEvent] = []
    while lines:
        uid = rng.choice(sorted(lines))
        found.append(lines[uid].pop(0))
        if not lines[uid]:
            del lines[uid]
    return found
