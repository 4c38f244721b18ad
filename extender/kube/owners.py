"""Find the owners of a Pod: from controller to controller up to the topmost readable one. Implements `ports.Owners`.

The kinds are not known beforehand (Deployments, Jobs, but also those that a site installs), so the path of each is
requested from the API server. Only metadata is read, but of kinds whose specification says how large a gang is.

The author of the Pod writes the reference: the API server checks neither that it is true nor that its name is valid. So
it is quoted, cached for its namespace alone, and not retried when the API server has rejected it. One that can be that
of no object is never requested.
"""

from __future__ import annotations

import asyncio
import random
import urllib.parse
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, replace
from weakref import WeakValueDictionary

import structlog

from extender.domain.gangs.context import ControllerView
from extender.domain.ports import Owners
from extender.domain.views import OwnerReference
from extender.kube.connection import METADATA_ONLY, ApiConnection, ApiResponse
from extender.kube.errors import ApiRefused, ApiUnavailable, NotFound, Throttled, Unauthorized
from extender.kube.repeat import repeated
from extender.kube.wire.controllers import has_size, with_size
from extender.kube.wire.fields import Fields, MalformedObject, parsed
from extender.kube.wire.meta import names_an_object, read_object_meta

_log = structlog.get_logger(__name__)

DEEPEST = 32
"""Controllers above a Pod that are followed; real chains have two or three, more is a loop."""

KEPT = 4096
"""Owners remembered."""

TTL_S = 30.0
"""Seconds for which an owner is cached: users edit annotations, and wait for the next Pod."""

KEPT_VERSIONS = 256
"""API versions whose kinds are remembered."""

FAILED_FOR_S = 5.0
"""Seconds for which an owner is not requested again, nor the kinds of an API version, after no answer came."""

DOUBTED_FOR_S = 60.0
"""Seconds for which one failure counts for all owners of an API version: each is requested once, by patient callers."""

KINDS_TTL_S = 600.0
"""How long the kinds of an API version are remembered; one that is missing is read again after `TTL_S`."""


@dataclass(frozen=True, slots=True)
class _Known:
    """One owner as read, and until when that is remembered."""

    until: float
    view: ControllerView
    above: OwnerReference | None = None


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of an API version: `name` is what paths call it."""

    kind: str
    name: str
    namespaced: bool


class _Failures:
    """Remember for so many seconds what could not be read. The oldest of more than `kept` failures is dropped."""

    def __init__(self, kept: int, for_s: float) -> None:
        self._kept = kept
        self._for_s = for_s
        self._failed: OrderedDict[Hashable, tuple[float, str]] = OrderedDict()

    def check(self, key: Hashable, *, under_way: bool) -> None:
        """Raise `ApiUnavailable` if this failed just now, or if it failed and the next request is under way.

        Without that each of a thousand Pods would cost the time after which a request is given up.
        """
        if key in self._failed and (under_way or self.lately(key)):
            raise ApiUnavailable(self._failed[key][1])

    def lately(self, key: Hashable) -> bool:
        """Return whether this failed in the time for which that is remembered."""
        return key in self._failed and _now() < self._failed[key][0]

    def put(self, key: Hashable, text: str) -> None:
        """Remember a failure."""
        self._failed[key] = (_now() + self._for_s, text)
        self._failed.move_to_end(key)
        if len(self._failed) > self._kept:
            self._failed.popitem(last=False)

    def drop(self, key: Hashable) -> None:
        """Forget the failure: an answer came."""
        self._failed.pop(key, None)


class OwnerReader:
    """Implements `ports.Owners`. Many Pods of one owner that come at once cost one request."""

    def __init__(
        self, connection: ApiConnection, *, rng: random.Random, within_s: float = 10.0, once_s: float = 3.0
    ) -> None:
        self._connection = connection
        self._rng = rng
        self._within_s = within_s
        self._once_s = once_s
        self._known: OrderedDict[tuple[str, OwnerReference], _Known] = OrderedDict()
        self._kinds: OrderedDict[str, tuple[float, dict[str, _Kind]]] = OrderedDict()
        self._failed = _Failures(KEPT, FAILED_FOR_S)
        """Owners that could not be read last. One of them says nothing about the others of its API version."""

        self._failed_versions = _Failures(KEPT_VERSIONS, FAILED_FOR_S)
        """API versions whose kinds could not be read last."""

        self._doubted = _Failures(KEPT_VERSIONS, DOUBTED_FOR_S)
        """API versions of which a request was not answered lately."""

        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @property
    def remembered(self) -> int:
        """Return how many API versions' kinds are cached."""
        return len(self._kinds)

    async def controllers(
        self, namespace: str, owner: OwnerReference, *, patient: bool = True
    ) -> tuple[ControllerView, ...]:
        """Return the controllers from `owner` up to the topmost that may be read, and the known part of the next.

        Raises `PortError`.
        """
        found: list[ControllerView] = []
        current: OwnerReference | None = owner
        while current is not None and len(found) < DEEPEST:
            known = await self._read(namespace, current, patient)
            found.append(known.view)
            current = known.above
        if current is not None:
            _log.warning("owner_chain_too_long", namespace=namespace, kind=owner.kind, name=owner.name)
        return tuple(found)

    async def _read(self, namespace: str, owner: OwnerReference, patient: bool) -> _Known:
        key = (namespace, owner)
        lock = self._locks.setdefault(f"owner {key!r}", asyncio.Lock())
        self._failed.check(key, under_way=lock.locked())
        async with lock:
            known = self._known.get(key)
            if known is None or known.until <= _now():
                self._failed.check(key, under_way=False)  # another caller may have found that out meanwhile
                if not patient and self._doubted.lately(owner.api_version):
                    raise ApiUnavailable(f"an object of {owner.api_version} could not be read lately")
                known = await self._read_owner(namespace, owner)
                self._known[key] = known
            self._known.move_to_end(key)
            if len(self._known) > KEPT:
                self._known.popitem(last=False)
            return known

    async def _read_owner(self, namespace: str, owner: OwnerReference) -> _Known:
        unread = _Known(_now() + TTL_S, ControllerView(owner, read=False))
        if not names_an_object(owner):
            return unread
        try:
            kind = await self._kind(owner)
            if kind is None:
                return unread
            within = f"/namespaces/{namespace}" if kind.namespaced else ""
            path = f"{_root(owner.api_version)}{within}/{kind.name}/{_quoted(owner.name)}"
            answer = await self._get_object(namespace, owner, path)
        except (Throttled, Unauthorized):
            raise
        except ApiRefused:
            self._failed.drop((namespace, owner))
            self._failed_versions.drop(owner.api_version)
            return unread
        _check_json(path, answer.body)
        try:
            meta = read_object_meta(answer.body)
            view = ControllerView(owner, meta.annotations)
            view = with_size(view, answer.body) if has_size(owner) else view
        except MalformedObject as error:
            _log.warning("owner_not_read", kind=owner.kind, name=owner.name, error=str(error))
            return unread
        if meta.uid != owner.uid:  # Deleted, and made again under the same name.
            return unread
        return replace(unread, view=view, above=meta.owner)

    async def _get_object(self, namespace: str, owner: OwnerReference, path: str) -> ApiResponse:
        """Request an owner. Where no answer comes, the next one of its API version requests the kinds again first.

        Remembered kinds would hide that the whole API is away, and each owner would cost the full time.
        """
        try:
            within_s = self._once_s if self._doubted.lately(owner.api_version) else self._within_s
            answer = await self._get(path, whole=has_size(owner), within_s=within_s)
        except ApiUnavailable as error:
            self._failed.put((namespace, owner), str(error))
            self._doubted.put(owner.api_version, str(error))
            if (known := self._kinds.get(owner.api_version)) is not None:
                self._kinds[owner.api_version] = (float("-inf"), known[1])
            raise
        self._failed.drop((namespace, owner))
        return answer

    async def _kind(self, owner: OwnerReference) -> _Kind | None:
        """Return the kind of `owner` as paths name it; `None` if there is no such kind. Raises ApiError."""
        version = owner.api_version
        lock = self._locks.setdefault(f"kinds {version}", asyncio.Lock())
        self._failed_versions.check(version, under_way=lock.locked())
        async with lock:
            read_at, kinds = self._kinds.get(version, (float("-inf"), {}))
            ttl = KINDS_TTL_S if owner.kind in kinds else TTL_S
            if read_at + ttl <= _now():
                self._failed_versions.check(version, under_way=False)
                try:
                    kinds = await self._read_kinds(version)
                except ApiUnavailable as error:
                    self._failed_versions.put(version, str(error))
                    self._doubted.put(version, str(error))
                    raise
                self._failed_versions.drop(version)
                self._kinds[version] = (_now(), kinds)
                self._kinds.move_to_end(version)
                if len(self._kinds) > KEPT_VERSIONS:
                    self._kinds.popitem(last=False)
            return kinds.get(owner.kind)

    async def _read_kinds(self, api_version: str) -> dict[str, _Kind]:
        path = _root(api_version)
        try:
            answer = await self._get(path)
        except NotFound:
            return {}
        try:
            kinds = [_kind_of(one) for one in parsed("list of kinds", answer.body).each("resources")]
        except MalformedObject as error:
            raise ApiUnavailable(f"GET {path}: {error}") from error
        return {kind.kind: kind for kind in kinds if "/" not in kind.name}

    async def _get(self, path: str, *, whole: bool = False, within_s: float | None = None) -> ApiResponse:
        accept = "application/json" if whole else METADATA_ONLY

        async def get(timeout_s: float) -> ApiResponse:
            return await self._connection.request("GET", path, accept=accept, timeout_s=timeout_s)

        return await repeated(get, within_s=within_s or self._within_s, once_s=self._once_s, rng=self._rng)


def _check_json(path: str, body: bytes) -> None:
    """Raise `ApiUnavailable` where an answer is cut off, or is none of the API server's: it says nothing of the owner.

    A Pod whose owner was taken for one that says nothing would be placed without its gang.
    """
    try:
        parsed("controller", body)
    except MalformedObject as error:
        raise ApiUnavailable(f"GET {path}: {error}") from error


def _kind_of(found: Fields) -> _Kind:
    namespaced = found.flag("namespaced") or "namespaced" not in found
    return _Kind(found.required_text("kind"), found.required_text("name"), namespaced)


def _root(api_version: str) -> str:
    path = "/".join(map(_quoted, api_version.split("/")))
    return f"/apis/{path}" if "/" in api_version else f"/api/{path}"


def _quoted(part: str) -> str:
    return urllib.parse.quote(part, safe="")


def _now() -> float:
    return asyncio.get_running_loop().time()


_OWNER_READER_IS_OWNERS: type[Owners] = OwnerReader
