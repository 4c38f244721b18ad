"""The fake API server as an ASGI application: requests in, answers and watches out."""

from __future__ import annotations

import asyncio
import json
import math
import urllib.parse
from collections.abc import Awaitable, Callable, Coroutine
from email.utils import formatdate
from typing import Any

from simulator.kube import reviews
from simulator.kube.objects import Json
from simulator.kube.resources import Resource, Target
from simulator.kube.server import ApiRequest, FakeApiServer, permission_for
from simulator.kube.status_errors import StatusError, expired
from simulator.kube.storage import WatchEvent, watch_line

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

TICK_S = 0.001
"""Nothing happens more exactly than that."""

BOOKMARK_EVERY_S = 60.0
"""The real one sends a bookmark about once a minute, and one shortly before the time of the watch is over
(`apiserver/pkg/storage/cacher/cache_watcher.go`)."""

LAST_BOOKMARK_S = 2.0


class ApiServerApp:
    """ASGI; serve it with `simulator.network.asgi_server.serve`."""

    def __init__(self, server: FakeApiServer) -> None:
        self.server = server
        self.watches = 0
        """Watches that are open now."""

        self.watched = asyncio.Event()
        """Set while a watch is open."""

        self._dropping = asyncio.Event()

    def drop_watches(self) -> None:
        """End every watch in good order, as a restarting API server does."""
        self._dropping.set()
        self._dropping = asyncio.Event()

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            raise TypeError(f"only HTTP is served, not {scope['type']}")
        request, send = await _read(scope, receive), self._dated(send)
        gone = asyncio.create_task(_disconnected(receive), name="disconnected")
        try:
            await self._answer(request, send, gone)
        except StatusError as refused:
            await _send_json(send, refused.code, refused.status())
        finally:
            gone.cancel()
            await asyncio.wait([gone])

    def _dated(self, send: Send) -> Send:
        """Add the time of this cluster to every answer, as `net/http` of Go does it."""

        async def send_dated(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"].append((b"date", formatdate(int(self.server.wall()), usegmt=True).encode()))
            await send(message)

        return send_dated

    async def _answer(self, request: ApiRequest, send: Send, gone: asyncio.Task[None]) -> None:
        self.server.requests.append(request)
        fault = self.server.faults.take(request.method, request.path, request.watch)
        if fault is not None:
            if fault.delay_s:
                await asyncio.wait([gone], timeout=fault.delay_s)
            if fault.after:
                self._execute(request)
            if fault.code == 0:
                await asyncio.wait([gone])
                return
            if fault.garbage:
                await _send_half(send, b"{}" if request.watch else json.dumps(self._execute(request)[1]).encode())
                return
            if fault.code is not None:
                raise fault.refusal()
        if request.watch:
            target = self._checked(request)
            await self._watch(request, target, send, gone)
        else:
            code, body = self._execute(request)
            if "as=PartialObjectMetadata" in request.accept and code == 200:
                body = _metadata_only(body)
            await _send_json(send, code, body)

    def _checked(self, request: ApiRequest) -> Target:
        """Return the target of the request, once it is known to be allowed. Raises StatusError."""
        server = self.server
        if server.tokens is not None and request.token not in server.tokens:
            raise StatusError(401, "Unauthorized", "Unauthorized")
        target = server.target(request.path)
        if target is None:
            raise StatusError(404, "NotFound", "the server could not find the requested resource")
        permission = permission_for(request, target)
        server.used[permission] += 1
        forbidden = server.allowed is not None and not server.allowed(permission)
        if server.rbac is not None and not server.rbac.allows(permission, target.namespace, target.name):
            forbidden = True
        if forbidden:
            what = f"{permission.verb} resource {permission.resource!r} in API group {permission.group!r}"
            raise StatusError(403, "Forbidden", f"the user cannot {what}")
        return target

    def _execute(self, request: ApiRequest) -> tuple[int, Json]:
        said = reviews.answer_review(self.server, request)
        if said is not None:
            return said
        discovered = self.server.discovery(request.path) if request.method == "GET" else None
        if discovered is not None:
            return 200, discovered
        target = self._checked(request)
        self.server.in_client_request = True
        try:
            return self.server.answer(request, target)
        finally:
            self.server.in_client_request = False

    async def _watch(self, request: ApiRequest, target: Target, send: Send, gone: asyncio.Task[None]) -> None:
        server, loop = self.server, asyncio.get_running_loop()
        queue: asyncio.Queue[WatchEvent] = asyncio.Queue()

        def concerns(event: WatchEvent) -> bool:
            if event.resource != target.resource:
                return False
            return target.namespace in {"", event.object["metadata"].get("namespace", "")}

        first, continues = self._begin(request, target, concerns, queue)
        moves = asyncio.create_task(continues, name="cache moves")
        stop_listening = server.storage.listen(lambda each: queue.put_nowait(each) if concerns(each) else None)
        deadline = loop.time() + float(request.query.get("timeoutSeconds") or 1800)
        begun = int(request.query.get("resourceVersion") or 0)
        bookmarks = request.query.get("allowWatchBookmarks") in {"1", "true"}
        dropping = asyncio.create_task(self._dropping.wait(), name="watch dropped")
        next_bookmark = _next_bookmark(loop.time(), deadline)
        self.watches += 1
        self.watched.set()
        try:
            await _start(send, 200)
            await _send_body(send, first, more=True)
            await asyncio.wait(
                [moves, gone, dropping], timeout=deadline - loop.time(), return_when=asyncio.FIRST_COMPLETED
            )
            while loop.time() < deadline and not gone.done() and not dropping.done():
                coming = asyncio.create_task(queue.get(), name="next change")
                until = min(deadline, next_bookmark) if bookmarks else deadline
                try:
                    await asyncio.wait(
                        [coming, gone, dropping],
                        # At least a tick: a clock that rounds may never reach `until`.
                        timeout=max(TICK_S, until - loop.time()),
                        return_when=asyncio.FIRST_COMPLETED,
                    )
                    if coming.done():
                        if server.caches.behind_s:
                            await asyncio.sleep(server.caches.behind_s)
                        batch = [coming.result()]
                        while not queue.empty():
                            batch.append(queue.get_nowait())
                        await _send_body(
                            send, b"".join(each.line for each in server.caches.delivered(batch)), more=True
                        )
                finally:
                    coming.cancel()
                    await asyncio.wait([coming])
                # A bookmark says that everything up to its version was sent.
                if bookmarks and loop.time() >= next_bookmark and queue.empty():
                    # A kind of object that did not change has no new version to report, and the watch stays silent.
                    if server.storage.latest(target.resource) > begun:
                        bookmark = _bookmark(target.resource, server.storage.latest(target.resource))
                        await _send_body(send, bookmark, more=True)
                    next_bookmark = _next_bookmark(loop.time(), deadline)
            await _send_body(send, b"", more=False)
        finally:
            self.watches -= 1
            if not self.watches:
                self.watched.clear()
            stop_listening()
            for task in (dropping, moves):
                task.cancel()
            await asyncio.wait([dropping, moves])

    def _begin(
        self,
        request: ApiRequest,
        target: Target,
        concerns: Callable[[WatchEvent], bool],
        queue: asyncio.Queue[WatchEvent],
    ) -> tuple[bytes, Coroutine[None, None, None]]:
        """Return the first lines of a watch, and what it waits for then; what its cache does not know yet is queued."""
        before = [each for each in self._before(request, target) if concerns(each)]
        still = self.server.caches.snapshot()
        newer = [each for each in before if still is not None and each.version > still.version]
        for each in newer:
            queue.put_nowait(each)
        first = b"".join(each.line for each in before if each not in newer)
        return first, _nothing() if still is None else self.server.caches.moves()

    def _before(self, request: ApiRequest, target: Target) -> list[WatchEvent]:
        """Return the first events of the watch: the changes since its version, or without one all objects."""
        storage, text = self.server.storage, request.query.get("resourceVersion") or "0"
        if text == "0":
            return [
                WatchEvent(storage.version, "ADDED", target.resource, obj, watch_line("ADDED", obj))
                for obj in storage.of(target.resource, target.namespace)
            ]
        try:
            return storage.since(int(text))
        except StatusError as refused:
            if refused.code != 410:
                raise
            # A watch that is too old is refused within its stream, with HTTP status 200.
            gone = expired(str(refused)).status()
            return [
                WatchEvent(0, "ERROR", target.resource, {"metadata": {"namespace": target.namespace}}, _error(gone))
            ]


def _metadata_only(obj: Json) -> Json:
    if "items" in obj or "resources" in obj or obj.get("kind") == "Status":
        return obj
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}


def _error(status: Json) -> bytes:
    return watch_line("ERROR", status)


def _next_bookmark(now: float, deadline: float) -> float:
    coming = min(now + BOOKMARK_EVERY_S, deadline - LAST_BOOKMARK_S)
    return coming if coming > now else math.inf


def _bookmark(resource: Resource, version: int) -> bytes:
    meta = {"resourceVersion": str(version), "creationTimestamp": None}
    return watch_line("BOOKMARK", {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": meta})


async def _read(scope: dict[str, Any], receive: Receive) -> ApiRequest:
    data = b""
    more = True
    while more:
        message = await receive()
        data += message.get("body", b"")
        more = message.get("more_body", False)
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
    return ApiRequest(
        method=scope["method"],
        path=scope["path"],
        query=dict(urllib.parse.parse_qsl(scope["query_string"].decode(), keep_blank_values=True)),
        body=json.loads(data) if data else None,
        accept=headers.get("accept", ""),
        content_type=headers.get("content-type", "application/json").split(";")[0],
        token=headers.get("authorization", "").removeprefix("Bearer "),
    )


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _nothing() -> None:
    """Do nothing."""


async def _start(send: Send, code: int, length: int | None = None) -> None:
    headers = [(b"content-type", b"application/json")]
    if length is not None:
        headers.append((b"content-length", str(length).encode()))
    await send({"type": "http.response.start", "status": code, "headers": headers})


async def _send_body(send: Send, data: bytes, *, more: bool) -> None:
    await send({"type": "http.response.body", "body": data, "more_body": more})


async def _send_half(send: Send, whole: bytes) -> None:
    half = whole[: len(whole) // 2]
    await _start(send, 200, len(half))
    await _send_body(send, half, more=False)


async def _send_json(send: Send, code: int, body: Json) -> None:
    data = json.dumps(body, separators=(",", ":")).encode()
    await _start(send, code, len(data))
    await _send_body(send, data, more=False)
