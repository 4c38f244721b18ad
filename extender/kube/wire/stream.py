"""Lists and watches: pages of objects, and the lines of a watch.

Each is parsed once. Only where that fails is it parsed again, object by object, so that one odd object is named and
skipped while the others are read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, TypeVar

from pydantic import Field, ValidationError

from extender.domain.views import DeviceClassView, NamespaceView, NodeView, PodView
from extender.kube.wire.device_class import DeviceClassWire, read_device_class
from extender.kube.wire.meta import Identity, OddObject, StatusWire, Unreadable, Wire, explain, read_identity
from extender.kube.wire.namespace import NamespaceWire, read_namespace
from extender.kube.wire.node import NodeWire, read_node
from extender.kube.wire.pod import PodWire, read_pod

LONGEST_PAUSE_S = 300.0
"""An API server that asks for a longer pause is asked again after this one."""

_DIGITS = 10
"""Of a number of seconds."""

ViewT = TypeVar("ViewT")
WireT = TypeVar("WireT")


class ChangeType(StrEnum):
    """`type` of a watch event (Kubernetes `apimachinery/pkg/watch`)."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"
    ERROR = "ERROR"


@dataclass(frozen=True, slots=True)
class OddItem:
    """An object that could not be read, and why. The API server still has it."""

    identity: Identity
    text: str


@dataclass(frozen=True, slots=True)
class Page(Generic[ViewT]):
    """One page of a list. `continue_token` is "" on the last one."""

    views: tuple[ViewT, ...]
    odd: tuple[OddItem, ...]
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
    odd: OddItem | None = None
    refusal: Refusal | None = None


class _ListMetaWire(Wire):
    resource_version: str | None = None
    continue_: str | None = Field(default=None, alias="continue")


class _ListWire(Wire, Generic[WireT]):
    metadata: _ListMetaWire = _ListMetaWire()
    items: list[WireT] | None = None


class _ChangeWire(Wire, Generic[WireT]):
    type: str
    object: WireT


class ResourceKind(Generic[ViewT]):
    """How one kind of object is read; those there are stand below."""

    def __init__(
        self,
        pages: type[_ListWire[Any]],
        changes: type[_ChangeWire[Any]],
        read: Callable[[Mapping[str, Any]], ViewT],
    ) -> None:
        self._pages = pages
        self._changes = changes
        self._read = read

    def page(self, data: bytes) -> Page[ViewT]:
        """Read one page of a list. Raises Unreadable."""
        try:
            wire = self._pages.model_validate_json(data)
        except ValidationError:
            return self._page_item_by_item(data)
        views = tuple(item.view() for item in wire.items or ())
        return Page(views, (), wire.metadata.resource_version or "", wire.metadata.continue_ or "")

    def change(self, line: bytes) -> StreamEvent[ViewT]:
        """Read one line of a watch. Raises Unreadable."""
        try:
            wire = self._changes.model_validate_json(line)
        except ValidationError:
            return self._odd_change(line)
        if wire.type == ChangeType.ERROR:
            return StreamEvent(wire.type, refusal=_refusal(line))
        meta = wire.object.metadata
        view = None if wire.type == ChangeType.BOOKMARK else wire.object.view()
        return StreamEvent(wire.type, meta.resource_version or "", meta.uid or "", view)

    def _page_item_by_item(self, data: bytes) -> Page[ViewT]:
        try:
            wire = _ListWire[dict[str, Any]].model_validate_json(data)
        except ValidationError as error:
            raise Unreadable(f"not a list of objects: {explain(error)}") from error
        views: list[ViewT] = []
        odd: list[OddItem] = []
        for item in wire.items or ():
            try:
                views.append(self._read(item))
            except OddObject as error:
                odd.append(OddItem(_identity_or_none(item), str(error)))
        return Page(tuple(views), tuple(odd), wire.metadata.resource_version or "", wire.metadata.continue_ or "")

    def _odd_change(self, line: bytes) -> StreamEvent[ViewT]:
        try:
            wire = _ChangeWire[dict[str, Any]].model_validate_json(line)
            identity = read_identity(wire.object)
        except (ValidationError, OddObject) as error:
            text = explain(error) if isinstance(error, ValidationError) else str(error)
            raise Unreadable(f"not a watch event: {text}") from error
        if wire.type == ChangeType.ERROR:
            return StreamEvent(wire.type, refusal=_refusal(line))
        if not identity.uid:
            raise Unreadable(f"a watch event of type {wire.type!r} about an object without metadata.uid")
        try:
            self._read(wire.object)
        except OddObject as error:
            return StreamEvent(wire.type, identity.resource_version, identity.uid, odd=OddItem(identity, str(error)))
        raise Unreadable("a watch event that is wrong though its object is not")


POD: ResourceKind[PodView] = ResourceKind(_ListWire[PodWire], _ChangeWire[PodWire], read_pod)
NAMESPACE: ResourceKind[NamespaceView] = ResourceKind(
    _ListWire[NamespaceWire], _ChangeWire[NamespaceWire], read_namespace
)
NODE: ResourceKind[NodeView] = ResourceKind(_ListWire[NodeWire], _ChangeWire[NodeWire], read_node)
DEVICE_CLASS: ResourceKind[DeviceClassView] = ResourceKind(
    _ListWire[DeviceClassWire], _ChangeWire[DeviceClassWire], read_device_class
)


def read_refusal(body: bytes, code: int) -> Refusal:
    """The Status in the body of a refused request; `code` is HTTP's own. A body of another form becomes the message."""
    try:
        return _as_refusal(StatusWire.model_validate_json(body), code)
    except ValidationError:
        return Refusal(code, "", body[:200].decode("utf-8", "replace").strip())


def _refusal(line: bytes) -> Refusal:
    try:
        return _as_refusal(_ChangeWire[StatusWire].model_validate_json(line).object, 0)
    except ValidationError as error:
        raise Unreadable(f"not a Status: {explain(error)}") from error


def _as_refusal(wire: StatusWire, code: int) -> Refusal:
    wait = pause_of((wire.details or {}).get("retryAfterSeconds", 0))
    return Refusal(wire.code or code, wire.reason or "", wire.message or "", wait)


def pause_of(said: object) -> float:
    """Seconds to wait, at most LONGEST_PAUSE_S; 0.0 for what is no number of seconds."""
    if isinstance(said, str):
        said = int(said) if said.isascii() and said.isdigit() and len(said) <= _DIGITS else 0
    if isinstance(said, bool) or not isinstance(said, int | float) or not said > 0:
        return 0.0
    return float(min(said, LONGEST_PAUSE_S))


def _identity_or_none(item: Mapping[str, Any]) -> Identity:
    try:
        return read_identity(item)
    except OddObject:
        return Identity()
