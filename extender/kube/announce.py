"""Write Events about Pods and Nodes. Implements `ports.Announcer`.

`events.k8s.io/v1`. The first announcement of its kind becomes an Event; a repetition about the same object only raises
the count of its series, twice a minute at most. Events are best effort: the queue is bounded, and an announcement that
does not fit is dropped and counted. While many Pods are being placed, an Event that is no warning waits, since it costs
the API server as much as a placement does; its text keeps its own instant.

Namespaces take turns, and a full queue drops an Event of the namespace that has the most: a namespace that floods the
queue loses only its own Events. A newer Event replaces a waiting one with the same object and reason.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import structlog

from extender.domain import wellknown
from extender.domain.backoff import Backoff
from extender.domain.fair_queue import FairQueue, QueueEntry
from extender.domain.ports import Announcement, Announcer, Clock
from extender.domain.printable import printable
from extender.domain.renewal import replace
from extender.kube.connection import MERGE_PATCH, ApiConnection
from extender.kube.errors import ApiError, ApiUnavailable, Conflict, NotFound, OutcomeUnknown, Throttled

_log = structlog.get_logger(__name__)

REPORTING_CONTROLLER = f"{wellknown.DOMAIN}/extender"
ACTION = "Scheduling"

LONGEST_NOTE = 1024
"""Bytes; the API server refuses a longer note (Kubernetes `pkg/apis/core/validation/events.go`)."""

LONGEST_NAME = 253
"""Characters of an object's name (RFC 1123 subdomain)."""

REPEAT_EVERY_S = 30.0
"""A series is counted up at most this often."""

REMEMBERED_S = 360.0
"""An announcement not repeated for so long begins a new Event; client-go's `finishTime` of a series."""

REMEMBERED = 10_000
"""Announcements remembered at most, to be recognised when they are repeated."""

TICK_S = 0.001
"""Nothing is sent more exactly than that."""

CHECK_EVERY_S = 0.25
"""Between two looks whether there is still more urgent work than the news that is held back."""

ATTEMPTS = 3
"""Requests for one Event before it is given up."""


@dataclass(frozen=True, slots=True)
class EventLimits:
    """`queued` warnings wait at most, and as much other news, of all namespaces together.

    `per_second` requests are sent on average, `burst` at once.
    """

    queued: int = 1000
    per_second: float = 20.0
    burst: int = 100
    request_s: float = 5.0
    held_s: float = 30.0
    """News that warns of nothing is held back so long at most while there is more urgent work."""


@dataclass(slots=True)
class _Series:
    """One Event and its repetitions. Times are seconds since the epoch, but for `due` and `touched`: the loop's."""

    announcement: Announcement
    name: str
    first: float
    last: float
    due: float
    touched: float
    count: int = 1
    written: int = 0
    """The count that the API server has; 0 while the Event does not exist."""

    queued: bool = True
    """In the queue, or being sent."""

    attempts: int = 0


@dataclass(slots=True)
class AnnouncerStatus:
    """For metrics."""

    sent: int = 0
    dropped: int = 0
    failed: int = 0


_Object = tuple[str, str, str, str, str, bool]
"""Kind, namespace, name and UID of an object, the reason, and whether it is a warning."""


class EventWriter:
    """Implements `ports.Announcer`. `instance` is the name of this replica. `run` sends.

    `busy`: there is work for the API server that matters more than Events.
    """

    def __init__(
        self,
        connection: ApiConnection,
        *,
        clock: Clock,
        instance: str,
        limits: EventLimits = EventLimits(),
        busy: Callable[[], bool] = lambda: False,
    ) -> None:
        self.status = AnnouncerStatus()
        self._busy = busy
        self._connection = connection
        self._clock = clock
        self._instance = instance
        self._limits = limits
        self._series: OrderedDict[Announcement, _Series] = OrderedDict()
        self._warnings: FairQueue[_Series] = FairQueue()
        self._others: FairQueue[_Series] = FairQueue()
        self._pending: dict[_Object, QueueEntry[_Series]] = {}
        """Queued series of which nothing was sent yet."""

        self._arrived = asyncio.Event()
        self._allowance = float(limits.burst)
        self._allowance_at: float | None = None

    @property
    def waiting(self) -> int:
        """Return how many Events wait to be sent."""
        return len(self._warnings) + len(self._others)

    def announce(self, announcement: Announcement) -> None:
        """Queue it. Never blocks, never raises."""
        # No character becomes shorter: the first ones are enough, whatever the rest is.
        announcement = replace(announcement, text=_note(announcement.text[: LONGEST_NOTE + 1]))
        now, wall = _now(), self._clock.wall()
        series = self._series.get(announcement)
        if series is not None and now - series.touched < REMEMBERED_S:
            series.count += 1
            series.last = wall
            series.touched = now
            self._series.move_to_end(announcement)
            if not series.queued and self._has_room(announcement):
                self._enqueue(series, max(now, series.due))
            return
        older = self._pending.get(_object(announcement))
        if older is None and not self._has_room(announcement):
            return
        self._forget(now)
        series = _Series(announcement, _event_name(announcement, wall), wall, wall, now, now)
        self._series[announcement] = series
        if older is None:
            self._enqueue(series, now)
            return
        self._lose(older.item)
        older.item = series

    async def run(self) -> None:
        """Send what is queued until cancelled. Never raises anything of the API server."""
        while True:
            await self._wait_for_work()
            await self._wait_for_allowance()
            series = self._next()
            if series is None:
                continue
            try:
                await self._send(series)
            except asyncio.CancelledError:
                self._enqueue(series, _now())
                raise

    async def flush(self, within_s: float) -> None:
        """Send what was never sent, before the process ends; give up after `within_s` seconds. Call it after `run`."""
        try:
            async with asyncio.timeout(within_s):
                for queue in (self._warnings, self._others):
                    for _ in range(len(queue)):
                        series = queue.pop()
                        if series is not None and series.written == 0:
                            self._pending.pop(_object(series.announcement), None)
                            await self._send(series)
        except TimeoutError:
            _log.warning("events_not_sent_at_shutdown")
        self._warnings, self._others = FairQueue(), FairQueue()
        self._pending.clear()

    def _queue(self, announcement: Announcement) -> FairQueue[_Series]:
        return self._warnings if announcement.warning else self._others

    def _has_room(self, announcement: Announcement) -> bool:
        """Return whether it fits, if need be after an Event of the namespace that has the most was dropped."""
        queue = self._queue(announcement)
        if len(queue) < self._limits.queued:
            return True
        self.status.dropped += 1
        last = queue.make_room(announcement.namespace)
        if last is None:
            return False
        last.queued = False
        self._pending.pop(_object(last.announcement), None)
        if last.written == 0:
            self._lose(last)
        return True

    def _enqueue(self, series: _Series, due: float) -> None:
        series.queued = True
        about = series.announcement
        entry = self._queue(about).push(about.namespace, series, due)
        if series.written == 0:
            self._pending[_object(about)] = entry
        self._arrived.set()

    def _lose(self, series: _Series) -> None:
        """Forget a series that has no Event."""
        series.queued = False
        if self._series.get(series.announcement) is series:
            del self._series[series.announcement]

    def _forget(self, now: float) -> None:
        """Drop series that are no longer repeated, and the oldest of too many."""
        while self._series:
            announcement, oldest = next(iter(self._series.items()))
            stale = now - oldest.touched >= REMEMBERED_S or len(self._series) > REMEMBERED
            if not stale:
                return
            if oldest.queued:
                self._series.move_to_end(announcement)
                return
            del self._series[announcement]

    async def _wait_for_work(self) -> None:
        # Less than a tick is no wait: the loop ends a time-out up to its clock's resolution early (asyncio
        # `base_events.py`, `_run_once`). A wait until the same instant would end at once, again and again.
        while not (self._warnings.has(self._due) or self._others.has(self._due_and_free)):
            self._arrived.clear()
            try:
                async with asyncio.timeout_at(self._next_check()):
                    await self._arrived.wait()
            except TimeoutError:
                continue

    def _next(self) -> _Series | None:
        """Take what is to be sent now."""
        series = self._warnings.pop(self._due) or self._others.pop(self._due_and_free) or self._others.pop(self._due)
        if series is not None and series.written == 0:
            self._pending.pop(_object(series.announcement), None)
        return series

    def _due(self, at: float) -> bool:
        return at - _now() <= TICK_S

    def _due_and_free(self, at: float) -> bool:
        """Return whether news of this time is not held back for more urgent work."""
        return self._due(at) and (_now() - at >= self._limits.held_s or not self._busy())

    def _next_check(self) -> float | None:
        """Return when the next announcement may become due, on the loop's clock."""
        times = [at for queue in (self._warnings, self._others) if (at := queue.earliest()) is not None]
        return max(min(times), _now() + CHECK_EVERY_S) if times else None

    async def _wait_for_allowance(self) -> None:
        """Wait until the token bucket allows another Event."""
        now = _now()
        since = now - self._allowance_at if self._allowance_at is not None else 0.0
        self._allowance = min(self._limits.burst, self._allowance + since * self._limits.per_second)
        self._allowance_at = now
        if self._allowance < 1:
            wait = (1 - self._allowance) / self._limits.per_second
            await asyncio.sleep(wait)
            self._allowance, self._allowance_at = 1.0, _now()
        self._allowance -= 1

    async def _send(self, series: _Series) -> None:
        count = series.count
        try:
            if series.written == 0:
                await self._create(series)
            if count > 1:
                await self._count_up(series, count)
        except (ApiUnavailable, OutcomeUnknown, Throttled) as error:
            self._again(series, error)
            return
        except ApiError as error:
            self._give_up(series, error)
            return
        self.status.sent += 1
        series.written, series.attempts = count, 0
        series.due = _now() + REPEAT_EVERY_S
        series.queued = False
        if series.count > count:
            self._enqueue(series, series.due)

    def _again(self, series: _Series, error: ApiError) -> None:
        series.attempts += 1
        if series.attempts >= ATTEMPTS:
            self._give_up(series, error)
            return
        if series.written == 0 and _object(series.announcement) in self._pending:
            self._lose(series)  # what is newer is sent
            return
        wait = error.retry_after_s if isinstance(error, Throttled) else 0.0
        self._enqueue(series, _now() + max(wait, Backoff(2.0).after(series.attempts)))

    def _give_up(self, series: _Series, error: ApiError) -> None:
        self.status.failed += 1
        if self._series.get(series.announcement) is series:
            del self._series[series.announcement]
        _log.warning("event_not_sent", reason=series.announcement.reason, error=str(error))

    async def _create(self, series: _Series) -> None:
        path, body = _events_path(series), self._event(series)
        # A conflict: the answer was lost, or the previous leader wrote the same Event in the same second.
        with suppress(Conflict):
            await self._connection.request("POST", path, body=body, timeout_s=self._limits.request_s)
        series.written = 1

    async def _count_up(self, series: _Series, count: int) -> None:
        patch = {"series": {"count": count, "lastObservedTime": _micro_time(series.last)}}
        try:
            await self._connection.request(
                "PATCH",
                f"{_events_path(series)}/{series.name}",
                body=patch,
                content_type=MERGE_PATCH,
                timeout_s=self._limits.request_s,
            )
        except NotFound:
            await self._create(series)  # Events live an hour.

    def _event(self, series: _Series) -> dict[str, Any]:
        about = series.announcement
        regarding = {"apiVersion": "v1", "kind": about.kind, "name": about.name, "uid": about.uid}
        if about.namespace:
            regarding["namespace"] = about.namespace
        return {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": series.name, "namespace": _namespace(about)},
            "eventTime": _micro_time(series.first),
            "reportingController": REPORTING_CONTROLLER,
            "reportingInstance": self._instance,
            "action": ACTION,
            "reason": about.reason,
            "regarding": regarding,
            "note": about.text,
            "type": "Warning" if about.warning else "Normal",
        }


def _object(about: Announcement) -> _Object:
    return about.kind, about.namespace, about.name, about.uid, about.reason, about.warning


def _namespace(about: Announcement) -> str:
    """Return the namespace of an Event: `default` for cluster-wide objects (client-go
    `tools/events/event_recorder.go`).
    """
    return about.namespace or "default"


def _events_path(series: _Series) -> str:
    return f"/apis/events.k8s.io/v1/namespaces/{_namespace(series.announcement)}/events"


def _event_name(about: Announcement, wall: float) -> str:
    """Return the object's name and a hash of the rest: the same announcement in the same second has the same name."""
    identity = "\0".join((about.kind, about.uid, about.reason, about.text, str(int(wall))))
    suffix = f".{hashlib.sha256(identity.encode(errors='replace')).hexdigest()[:16]}"
    return about.name[: LONGEST_NAME - len(suffix)].rstrip(".-") + suffix


@lru_cache(maxsize=64)
def _note(text: str) -> str:
    """Return at most LONGEST_NOTE bytes of printable UTF-8, no character cut in two; once for all members of a gang."""
    data = printable(text).encode()
    if len(data) <= LONGEST_NOTE:
        return data.decode()
    return data[: LONGEST_NOTE - 3].decode(errors="ignore") + "..."


def _micro_time(seconds: float) -> str:
    """Return the time as a `metav1.MicroTime`."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _now() -> float:
    return asyncio.get_running_loop().time()


_EVENT_WRITER_IS_AN_ANNOUNCER: type[Announcer] = EventWriter
