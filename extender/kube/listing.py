"""One complete, consistent list of a kind of object."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic

from extender.kube.connection import ApiConnection
from extender.kube.errors import AnswerTooLong, ApiUnavailable
from extender.kube.wire.fields import Unreadable
from extender.kube.wire.stream import ResourceKind, UnreadableItem, ViewT

PAGE = 100
"""Objects a page: with more, decoding one holds the loop up for tens of milliseconds; with fewer, requests dominate.

A page above the limit of bytes is requested again with half as many, and the next one has twice as many again."""

PAGE_TIMEOUT_S = 60.0
"""client-go's own limit for one list request (`client-go/tools/cache/reflector.go`)."""


@dataclass(frozen=True, slots=True)
class ObjectList(Generic[ViewT]):
    """All objects at one resource version. `unreadable`: those that the API server has and that could not be read."""

    views: tuple[ViewT, ...]
    unreadable: tuple[UnreadableItem, ...]
    resource_version: str


async def list_all(
    connection: ApiConnection, path: str, kind: ResourceKind[ViewT], keep: Callable[[ViewT], ViewT]
) -> ObjectList[ViewT]:
    """List everything at `path`, page by page, all pages of one snapshot; `keep` may make each view smaller.

    The first page asks for no resource version: the answer is the present, not what some API server has cached. Raises
    ApiError; `Gone` when the snapshot became too old between two pages: start again; `AnswerTooLong` when one object
    alone is above the limit of a page.
    """
    views: list[ViewT] = []
    unreadable: list[UnreadableItem] = []
    token, limit = "", PAGE
    while True:
        query = {"limit": str(limit)} | ({"continue": token} if token else {})
        # Waiting for each page also lets calls of kube-scheduler in between: to decode one takes milliseconds.
        try:
            answer = await connection.request("GET", path, query=query, timeout_s=PAGE_TIMEOUT_S, page=True)
        except AnswerTooLong as error:
            if limit == 1:
                raise AnswerTooLong(f"object {len(views) + len(unreadable) + 1} of the list alone: {error}") from error
            limit //= 2
            continue
        try:
            page = kind.page(answer.body)
        except Unreadable as error:
            raise ApiUnavailable(f"GET {path}: {error}") from error
        views.extend(keep(view) for view in page.views)
        unreadable.extend(page.unreadable)
        token, limit = page.continue_token, min(PAGE, 2 * limit)
        if not token:
            return ObjectList(tuple(views), tuple(unreadable), page.resource_version)
