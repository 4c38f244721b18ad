"""Keep the state of the fake API server: objects, one resource version for all of them, and a window of changes."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass

from simulator.kube.objects import Json
from simulator.kube.resources import Resource
from simulator.kube.status_errors import StatusError, expired

WINDOW = 10_000
"""Changes that a watch can go back over."""


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One change, as a watch delivers it. `line` ends with a newline."""

    version: int
    type: str
    resource: Resource
    object: Json
    line: bytes


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that was kept at a version, as a backup of etcd has it."""

    version: int
    objects: Mapping[ObjectKey, Json]


@dataclass(frozen=True, slots=True)
class ObjectKey:
    """The key under which an object is kept."""

    resource: Resource
    namespace: str
    name: str


def watch_line(change_type: str, obj: Json) -> bytes:
    """Return one line of a watch."""
    return json.dumps({"type": change_type, "object": obj}, separators=(",", ":")).encode() + b"\n"


class Storage:
    """Objects by key. They are never changed in place: a reader may keep one."""

    def __init__(self) -> None:
        self.version = 1
        self._objects: dict[ObjectKey, Json] = {}
        self._history: deque[WatchEvent] = deque()
        self._forgotten = 0
        self.listeners: list[Callable[[WatchEvent], None]] = []
        self._uids = 0
        self._latest: dict[Resource, int] = {}
        self.restores = 0
        """How often the storage was set back to a backup."""

    def new_uid(self) -> str:
        """Return a UID that no other object has: a counter in the form of a UUID, so that runs repeat."""
        self._uids += 1
        return f"00000000-0000-4000-8000-{self._uids:012d}"

    def get(self, key: ObjectKey) -> Json | None:
        """Return one object."""
        return self._objects.get(key)

    def of(self, resource: Resource, namespace: str = "") -> Iterator[Json]:
        """Return all objects of a kind, of one namespace or of all, in the order of their keys, as etcd has them."""
        keys = (key for key in self._objects if key.resource == resource and namespace in {"", key.namespace})
        for key in sorted(keys, key=lambda key: (key.namespace, key.name)):
            yield self._objects[key]

    def put(self, key: ObjectKey, obj: Json) -> Json:
        """Create or replace. An object that is as it was makes no new version. Returns what is kept now."""
        old = self._objects.get(key)
        new = deepcopy(obj)
        if old is not None:
            new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
            if new == old:
                return old
        self.version += 1
        new["metadata"]["resourceVersion"] = str(self.version)
        self._objects[key] = new
        self._notify("ADDED" if old is None else "MODIFIED", key.resource, new)
        return new

    def remove(self, key: ObjectKey) -> Json:
        """Forget an object for good. Returns its last state, which carries the version of the removal."""
        self.version += 1
        gone = deepcopy(self._objects.pop(key))
        gone["metadata"]["resourceVersion"] = str(self.version)
        self._notify("DELETED", key.resource, gone)
        return gone

    def save(self) -> Snapshot:
        """Return a backup. Objects are never changed in place, so that it needs no copies."""
        return Snapshot(self.version, dict(self._objects))

    def restore(self, snapshot: Snapshot, *, bump: bool = True) -> None:
        """Restore a backup. Listeners receive every difference; watches must have ended before.

        Versions go on from where they were, and every older one is compacted, as with `etcdutl snapshot restore
        --bump-revision --mark-compacted`: otherwise (`bump` False) versions are given out a second time, and a watch
        from one of the time between goes on as if nothing had happened as soon as that is reached again.
        """
        self.restores += 1
        was = self._objects
        self._objects = dict(snapshot.objects)
        self.version = self.version + 1 if bump else snapshot.version
        self._forgotten = self.version
        self._history.clear()
        self._latest = dict.fromkeys(self._latest, self.version)
        same = {key for key, new in self._objects.items() if key in was and _uid(was[key]) == _uid(new)}
        changes = [("DELETED", key, old) for key, old in was.items() if key not in same]
        changes += [
            ("MODIFIED" if key in same else "ADDED", key, new)
            for key, new in self._objects.items()
            if was.get(key) is not new
        ]
        for change_type, key, obj in changes:
            event = WatchEvent(self.version, change_type, key.resource, obj, watch_line(change_type, obj))
            for listener in tuple(self.listeners):
                listener(event)

    def listen(self, listener: Callable[[WatchEvent], None]) -> Callable[[], None]:
        """Call `listener` with every change from now on, at once; calling the result ends it."""
        self.listeners.append(listener)
        return lambda: self.listeners.remove(listener)

    def since(self, version: int) -> list[WatchEvent]:
        """Return the changes after `version`. Raises StatusError: 410 beyond the window, 504 for a later version."""
        if version < self._forgotten:
            raise expired(f"too old resource version: {version} ({self._forgotten})")
        if version > self.version:
            raise StatusError(504, "Timeout", f"Too large resource version: {version}, current: {self.version}")
        return [event for event in self._history if event.version > version]

    def forget_history(self) -> None:
        """Compact the history: a watch or a page from before now gets 410."""
        self.version += 1
        self._forgotten = self.version
        self._history.clear()

    def latest(self, resource: Resource) -> int:
        """Return the version of the last change of this kind of object, 0 before the first."""
        return self._latest.get(resource, 0)

    @property
    def forgotten(self) -> int:
        """Return the version at which the window begins."""
        return self._forgotten

    def _notify(self, change_type: str, resource: Resource, obj: Json) -> None:
        event = WatchEvent(self.version, change_type, resource, obj, watch_line(change_type, obj))
        self._history.append(event)
        self._latest[resource] = self.version
        if len(self._history) > WINDOW:
            self._forgotten = self._history.popleft().version
        for listener in tuple(self.listeners):
            listener(event)


def _uid(obj: Json) -> str:
    """Return the identity of the object: another one may have had its name."""
    return str(obj["metadata"]["uid"])
