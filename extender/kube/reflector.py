"""Mirror one kind of object in a store: list once, watch, and list again when the watch cannot resume.

The same as client-go's reflector (`client-go/tools/cache/reflector.go`), on one asyncio task. A list shows what exists,
and thereby missed deletions; a watch shows changes, from the version of the last list, event or bookmark.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, Protocol, TypeVar

import structlog

from extender.domain.backoff import Backoff
from extender.kube.connection import ApiConnection
from extender.kube.errors import (
    ApiError,
    ApiUnavailable,
    Forbidden,
    Gone,
    NotFound,
    Silent,
    Throttled,
    Unauthorized,
    refused,
)
from extender.kube.listing import list_all
from extender.kube.order import OutOfOrder, VersionOrder
from extender.kube.watching import watch_from
from extender.kube.wire.fields import Unreadable
from extender.kube.wire.stream import ChangeType, ResourceKind, StreamEvent, UnreadableItem, View, ViewT

_log = structlog.get_logger(__name__)

ViewT_contra = TypeVar("ViewT_contra", bound=View, contravariant=True)

WATCH_TIMEOUT_S = (300, 600)
"""A watch is asked to end at random between these, so that a fleet does not reconnect at once (client-go's values)."""

SHORTEST_WATCH_S = 1.0
"""A watch that ends in good order is begun again at once, but never more often than this."""

FIRST_WAIT_S, LONGEST_WAIT_S = 0.8, 30.0
HEALTHY_AFTER_S = 120.0
"""Back-off: 0.8 s, doubled up to 30 s, with full jitter, forgotten after two minutes without a fault (client-go)."""

DOUBT_S = 10
"""Seconds for which the watch continues after an outage, before everything is listed once more.

The watch shows which deletions were missed. The list shows what no watch does: an etcd that was restored from a backup
under versions that were used before, and has passed the last seen one meanwhile, continues without a sign. Every API
server has to be stopped for that (etcd's disaster recovery), so that no watch can begin for a while.
"""

UNSEEN_S = 1.0
"""Who waited for so long before the next watch would not have seen such an outage."""

CHANGES = frozenset({ChangeType.ADDED, ChangeType.MODIFIED, ChangeType.DELETED, ChangeType.BOOKMARK})
"""Lines with a version."""

ABSENT_WAIT_S = 600.0
"""Seconds between two checks for a kind that this API server does not serve: upgrades are rare."""

LOCATE_WAIT_S = 30.0
"""The same for a kind whose version is looked up: an administrator may install its definition at any time."""

FORBIDDEN_WAIT_S = 30.0
"""Seconds between two checks for a missing permission: an administrator has to grant it."""


class Relist(StrEnum):
    """The reason for which a watch could not resume."""

    GONE = "gone"
    UNREADABLE = "unreadable"
    REFUSED = "refused"
    OUTAGE = "outage"
    DISORDER = "disorder"
    STALE = "stale"


class Sink(Protocol[ViewT_contra]):
    """The target of a reflector. Its methods are called on the loop, in order, and must not raise."""

    def replaced(self, views: Sequence[ViewT_contra], unreadable: Sequence[UnreadableItem]) -> None:
        """Replace all objects by these; `unreadable` objects exist too."""
        ...

    def changed(self, view: ViewT_contra) -> None:
        """Handle an object that was added or modified."""
        ...

    def removed(self, uid: str, last: ViewT_contra | None) -> None:
        """Handle an object that is gone; `last` is its last state, where it could be read."""
        ...


@dataclass(slots=True)
class ReflectorStatus:
    """The history of a reflector, for metrics and readiness. Times are of the loop's clock, in seconds."""

    lists: int = 0
    watches: int = 0
    changes: Counter[str] = field(default_factory=Counter)
    relists: Counter[str] = field(default_factory=Counter)
    repeated: int = 0
    """Changes that the API server sent again."""

    unreadable_items: int = 0
    unreadable_events: int = 0
    last_heard: float | None = None
    """When the API server last sent a list, an event or a bookmark."""

    trouble: str = ""
    """What keeps the mirror from being kept now; "" while a watch runs."""


class _CannotGoOn(Exception):
    """The watch is over and its resource version is of no use any more."""

    def __init__(self, why: Relist, text: str) -> None:
        super().__init__(text)
        self.why = why


class _Broken(Exception):
    """The watch is over; the next one may begin from `version`. `away`: it never began, for lack of an answer."""

    def __init__(self, version: str, error: ApiError, *, away: bool) -> None:
        super().__init__(str(error))
        self.version = version
        self.error = error
        self.away = away


class Reflector(Generic[ViewT]):
    """Mirrors everything at `path` into `sink`. `keep` may make each view smaller before it is kept.

    `optional`: an API server that does not serve the kind has none of it. One that does not serve it any more says
    nothing about what was read before. `locate` looks the path up before each list, and raises `NotFound` for such a
    kind.
    """

    def __init__(
        self,
        connection: ApiConnection,
        path: str,
        kind: ResourceKind[ViewT],
        sink: Sink[ViewT],
        *,
        rng: random.Random,
        keep: Callable[[ViewT], ViewT] = lambda view: view,
        optional: bool = False,
        locate: Callable[[], Awaitable[str]] | None = None,
    ) -> None:
        self.status = ReflectorStatus()
        self._connection = connection
        self._path = path
        self._kind = kind
        self._sink = sink
        self._rng = rng
        self._keep = keep
        self._optional = optional
        self._locate = locate
        self._absent_wait_s = ABSENT_WAIT_S if locate is None else LOCATE_WAIT_S
        self._order = VersionOrder()
        self._faults = 0
        self._healthy_since: float | None = None
        self._forbidden = ""
        """Which permission was last said to be missing; "" once it is there."""

        self._listed = asyncio.Event()
        self._mirroring: asyncio.Task[None] | None = None
        self._log = _log.bind(path=path)

    async def run(self) -> None:
        """Mirror until cancelled. Faults of the API server are waited out, faults of the sink are raised."""
        while True:
            self._mirroring = asyncio.create_task(self._mirror_or_wait(), name=f"mirror of {self._path}")
            try:
                await asyncio.wait([self._mirroring])
            finally:
                self._mirroring.cancel()
                await asyncio.wait([self._mirroring])
            if not self._mirroring.cancelled():
                self._mirroring.result()

    async def _mirror_or_wait(self) -> None:
        """Mirror until that cannot go on, and wait as long as is proper before the next list."""
        try:
            if self._locate is not None:
                self._path = await self._locate()
            await self._mirror()
        except _CannotGoOn as reason:
            self.status.relists[reason.why] += 1
            await self._wait_out(reason)
        except NotFound as error:
            if not self._optional:
                await self._wait_out(error)
                return
            if not self.status.lists:
                self._sink.replaced((), ())
            self.status.trouble = "" if not self.status.lists else str(error)
            self._listed.set()
            self._log.debug("resource_not_served")
            await asyncio.sleep(self._absent_wait_s)
        except ApiError as error:
            await self._wait_out(error)

    async def relist(self) -> None:
        """List everything now, whatever is under way; returns when the sink has it. `run` must be running."""
        listed = self._listed = asyncio.Event()
        if self._mirroring is not None:
            self._mirroring.cancel()
        await listed.wait()

    async def _mirror(self) -> None:
        """List, then watch for as long as each watch can resume where the last ended, and a little after an outage.

        Raises _CannotGoOn, ApiError.
        """
        try:
            listing = await list_all(self._connection, self._path, self._kind, self._keep)
        except Gone as error:
            raise _CannotGoOn(Relist.GONE, str(error)) from error
        if self._order.doubts(listing.resource_version, self._now()):
            text = f"the list is older than what was seen: version {listing.resource_version}"
            raise _CannotGoOn(Relist.STALE, text)
        self._order.listed(listing.resource_version)
        self.status.lists += 1
        self.status.trouble = ""
        self._hear()
        self._count_unreadable(listing.unreadable)
        self._sink.replaced(listing.views, listing.unreadable)
        self._listed.set()
        version, doubtful = listing.resource_version, False
        while True:
            begun = self._now()
            try:
                version = await self._watch(version, DOUBT_S if doubtful else self._rng.randint(*WATCH_TIMEOUT_S))
            except _Broken as broken:
                version, broke = broken.version, self._now()
                await self._wait_out(broken.error)
                doubtful = doubtful or broken.away or self._now() - broke >= UNSEEN_S
            else:
                if doubtful:
                    self.status.relists[Relist.OUTAGE] += 1
                    return
                await asyncio.sleep(max(0.0, begun + SHORTEST_WATCH_S - self._now()))

    async def _watch(self, version: str, timeout_s: int) -> str:
        """Run one watch; return the version that the next one begins from. Raises _CannotGoOn, _Broken."""
        began = False
        self.status.watches += 1
        try:
            async with watch_from(self._connection, self._path, self._kind, version, timeout_s) as changes:
                began, self._healthy_since = True, self._now()
                self.status.trouble = self._forbidden = ""
                async for change in changes:
                    self._hear()
                    version = self._take(change) or version
        except Unreadable as error:
            self.status.unreadable_events += 1
            raise _CannotGoOn(Relist.UNREADABLE, str(error)) from error
        except OutOfOrder as error:
            raise _CannotGoOn(Relist.DISORDER, str(error)) from error
        except Silent as error:
            self._log.debug("watch_restarted", error=str(error))
        except Gone as error:
            raise _CannotGoOn(Relist.GONE, str(error)) from error
        except ApiError as error:
            if _is_passing(error):
                raise _Broken(version, error, away=not began and isinstance(error, ApiUnavailable)) from error
            raise _CannotGoOn(Relist.REFUSED, str(error)) from error
        return version

    def _take(self, change: StreamEvent[ViewT]) -> str:
        """Hand one change on; its resource version, "" where it has none to go on from. Raises OutOfOrder."""
        self.status.changes[change.type] += 1
        if change.refusal is not None:
            raise refused(f"WATCH {self._path}", change.refusal, write=False)
        known = change.type in CHANGES and not self._order.is_news(change.resource_version)
        match change.type:
            case _ if known:
                self.status.repeated += 1
                return ""
            case ChangeType.ADDED | ChangeType.MODIFIED:
                if change.view is not None:
                    self._sink.changed(self._keep(change.view))
            case ChangeType.DELETED:
                self._sink.removed(change.uid, None if change.view is None else self._keep(change.view))
            case ChangeType.BOOKMARK:
                pass
            case _:
                return ""
        if change.unreadable is not None:
            self._count_unreadable((change.unreadable,))
        return change.resource_version

    async def _wait_out(self, error: Exception) -> None:
        now = self._now()
        if self._healthy_since is not None and now - self._healthy_since >= HEALTHY_AFTER_S:
            self._faults = 0
        self._healthy_since = None
        self.status.trouble = str(error)
        wait = self._rng.uniform(0, Backoff(FIRST_WAIT_S, LONGEST_WAIT_S).after(self._faults + 1))
        self._faults = min(self._faults + 1, 10)
        if isinstance(error, Forbidden):
            if self._forbidden != str(error):
                self._log.error("list_watch_forbidden", error=str(error))
            self._forbidden = str(error)
            wait = FORBIDDEN_WAIT_S + wait
        elif isinstance(error, Throttled):
            wait += error.retry_after_s
        else:
            self._log.warning("watch_interrupted", error=str(error), wait_s=round(wait, 3))
        await asyncio.sleep(wait)

    def _count_unreadable(self, unreadable: Sequence[UnreadableItem]) -> None:
        self.status.unreadable_items += len(unreadable)
        for item in unreadable:
            who = item.identity
            self._log.warning("object_unreadable", namespace=who.namespace, name=who.name, error=item.text)

    def _hear(self) -> None:
        self.status.last_heard = self._now()

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


def _is_passing(error: ApiError) -> bool:
    """Return whether the same watch may succeed later, from the same version.

    Other refusals, 500 and 504 among them, may be about the version itself (in the future, for an API server whose etcd
    was restored): only a list helps, as in client-go.
    """
    if isinstance(error, ApiUnavailable):
        return error.code in {0, 503}
    return isinstance(error, Throttled | Forbidden | Unauthorized)
