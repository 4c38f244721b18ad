"""Reads pages of lists and lines of watches. Each is parsed once; one unreadable object does not hide the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, Protocol, TypeVar

from extender.domain.gangs.pod_groups import POD_GROUP_KINDS
from extender.kube.wire.device_class import read_device_class
from extender.kube.wire.fields import Fields, MalformedObject, Unreadable, parsed
from extender.kube.wire.meta import Identity, read_identity
from extender.kube.wire.namespace import read_namespace
from extender.kube.wire.node import read_node
from extender.kube.wire.pod import read_pod
from extender.kube.wire.pod_group import pod_group_reader
from extender.kube.wire.resource_claim import read_resource_claim
from extender.kube.wire.resource_slice import read_resource_slice

LONGEST_PAUSE_S = 300.0
"""An API server that asks for a longer pause is asked again after this one."""

_DIGITS = 10
"""Of a number of seconds."""


class View(Protocol):
    """A view of any kind of object."""

    @property
    def uid(self) -> str:
        """Return `metadata.uid`."""

    @property
    def resource_version(self) -> str:
        """Return `metadata.resourceVersion`."""


ViewT = TypeVar("ViewT", bound=View)


class ChangeType(StrEnum):
    """`type` of a watch event (Kubernetes `apimachinery/pkg/watch`)."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"
    ERROR = "ERROR"


@dataclass(frozen=True, slots=True)
class UnreadableItem:
    """An object that could not be read, and why. The API server still has it."""

    identity: Identity
    text: str


@dataclass(frozen=True, slots=True)
class Page(Generic[ViewT]):
    """One page of a list. `continue_token` is "" on the last one."""

    views: tuple[ViewT, ...]
    unreadable: tuple[UnreadableItem, ...]
    resource_version: str
    continue_token: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """A Status: why the API server did not do as asked. `retry_after_s` is 0 where it did not say."""

    code: int
    reason: str
    message: str
    retry_after_s: float = 0.0


@dataclass(frozen=True, slots=True)
class StreamEvent(Generic[ViewT]):
    """One line of a watch. `type` is the word as sent; kinds of events that do not exist yet may come.

    `uid` and `resource_version` are the object's; `uid` is "" for a bookmark.
    """

    type: str
    resource_version: str = ""
    uid: str = ""
    view: ViewT | None = None
    unreadable: UnreadableItem | None = None
    refusal: Refusal | None = None


class ResourceKind(Generic[ViewT]):
    """The readers of one kind of object; the instances are below."""

    def __init__(self, read: Callable[[Mapping[str, Any]], ViewT]) -> None:
        self._read = read

    def page(self, data: bytes) -> Page[ViewT]:
        """Read one page of a list; an object that cannot be read is named and skipped. Raises Unreadable."""
        views: list[ViewT] = []
        unreadable: list[UnreadableItem] = []
        try:
            found = parsed("list of objects", data)
            meta, items = found.inner("metadata"), found.maps("items")
            version, more = meta.text("resourceVersion"), meta.text("continue")
        except MalformedObject as error:
            raise Unreadable(str(error)) from error
        for item in items:
            try:
                views.append(self._read(item))
            except MalformedObject as error:
                unreadable.append(UnreadableItem(_identity_or_none(item), str(error)))
        return Page(tuple(views), tuple(unreadable), version, more)

    def change(self, line: bytes) -> StreamEvent[ViewT]:
        """Read one line of a watch. Raises Unreadable."""
        try:
            event = parsed("watch event", line)
            word, obj = event.required_text("type"), event.map("object")
            if word == ChangeType.ERROR:
                return StreamEvent(word, refusal=_as_refusal(Fields("Status", obj), 0))
            if word == ChangeType.BOOKMARK:
                return StreamEvent(word, read_identity(obj).resource_version)
        except MalformedObject as error:
            raise Unreadable(str(error)) from error
        try:
            view = self._read(obj)
        except MalformedObject as error:
            return _unreadable_change(word, obj, error)
        return StreamEvent(word, view.resource_version, view.uid, view)


POD = ResourceKind(read_pod)
NAMESPACE = ResourceKind(read_namespace)
NODE = ResourceKind(read_node)
DEVICE_CLASS = ResourceKind(read_device_class)
RESOURCE_CLAIM = ResourceKind(read_resource_claim)
RESOURCE_SLICE = ResourceKind(read_resource_slice)
POD_GROUPS = {kind.api: ResourceKind(pod_group_reader(kind)) for kind in POD_GROUP_KINDS}
"""By API group."""


def _unreadable_change(word: str, obj: Mapping[str, Any], error: MalformedObject) -> StreamEvent[ViewT]:
    try:
        identity = read_identity(obj)
    except MalformedObject as nameless:
        raise Unreadable(f"not a watch event: {nameless}") from nameless
    if not identity.uid:
        raise Unreadable(f"a watch event of type {word!r} about an object without metadata.uid")
    return StreamEvent(word, identity.resource_version, identity.uid, unreadable=UnreadableItem(identity, str(error)))


def read_refusal(body: bytes, code: int) -> Refusal:
    """Return the Status of a refused request; `code` is HTTP's own. A body of another form becomes the message."""
    try:
        return _as_refusal(parsed("Status", body), code)
    except MalformedObject:
        return Refusal(code, "", body[:200].decode("utf-8", "replace").strip())


def _as_refusal(status: Fields, code: int) -> Refusal:
    wait = pause_of(status.inner("details").value("retryAfterSeconds"))
    return Refusal(status.number("code") or code, status.text("reason"), status.text("message"), wait)


def pause_of(retry_after: object) -> float:
    """Return seconds to wait, at most LONGEST_PAUSE_S; 0.0 for what is no number of seconds."""
    if isinstance(retry_after, str):
        retry_after = (
            int(retry_after) if retry_after.isascii() and retry_after.isdigit() and len(retry_after) <= _DIGITS else 0
        )
    if isinstance(retry_after, bool) or not isinstance(retry_after, int | float) or not retry_after > 0:
        return 0.0
    return float(min(retry_after, LONGEST_PAUSE_S))


def _identity_or_none(item: Mapping[str, Any]) -> Identity:
    try:
        return read_identity(item)
    except MalformedObject:
        return Identity()
