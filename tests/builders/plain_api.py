"""An API server for programs with sockets of their own: a few objects, a few rights, and `/debug` behind its proxy."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.builders.pod_port import serve_port

Json = dict[str, Any]


@dataclass
class PlainApi:
    """Answer requests from these objects. Paths in `forbidden` begin paths that no client may use."""

    pods: list[Json] = field(default_factory=list)
    nodes: list[Json] = field(default_factory=list)
    events: list[Json] = field(default_factory=list)
    lease: Json | None = None
    debug: dict[str, Any] | None = None
    """By path below `/debug/`; `None`: nothing listens there."""

    forwards: bool = False
    """`/debug` is reached by port-forward alone, and not by the proxy."""

    at_port: bytes | None = None
    """What a port that is forwarded answers, instead of `/debug`."""

    forwarded: list[tuple[str, str]] = field(default_factory=list)
    """Each port-forward: its path and the ports it asked for."""

    requests: list[str] = field(default_factory=list)
    """Each request: method, path and query."""

    date: str = ""
    """What its clock says; "": the time."""

    body: bytes | None = None
    """Every answer, instead of what would be said."""

    forbidden: tuple[str, ...] = ()
    unchangeable: bool = False
    """Reject every patch."""

    patches: list[tuple[str, Any]] = field(default_factory=list)
    changes: list[tuple[str, str, Any]] = field(default_factory=list)
    """Each deletion and creation: method, path and body."""

    refused: tuple[str, ...] = ()
    """Paths that cannot be written now."""

    headers: list[tuple[str, str]] = field(default_factory=list)
    """Of the last request."""

    expire: int = 0
    """How many second pages are of a list that is too old."""

    url: str = ""

    def answer(self, method: str, target: str, body: Any) -> tuple[int, Any]:
        self.requests.append(f"{method} {target}")
        parts = urlsplit(target)
        path, query = parts.path, parse_qs(parts.query)
        if any(path.startswith(one) for one in self.forbidden):
            return 403, _status(403, "Forbidden", f"{path} is forbidden")
        if method == "PATCH" and self.unchangeable:
            return 403, _status(403, "Forbidden", "nodes is forbidden: cannot patch")
        if method == "PATCH":
            self.patches.append((path, body))
            return 200, {"kind": "Node"}
        if method in {"DELETE", "POST"}:
            self.changes.append((method, path, body))
            if path in self.refused:
                return 429, _status(429, "TooManyRequests", "it would violate the disruption budget")
            return 200, {"kind": "Status", "status": "Success"}
        if path.endswith("/portforward"):
            return 403, _status(403, "Forbidden", "pods/portforward is forbidden")
        if "/debug/" in path:
            return self._debug(target if parts.query else path)
        if path.endswith("/events"):
            return 200, {"items": self._events(query["fieldSelector"][0])}
        if "/leases/" in path:
            return (200, self.lease) if self.lease else (404, _status(404, "NotFound", "no such lease"))
        return self._objects(path, query)

    def _debug(self, path: str) -> tuple[int, Any]:
        if self.debug is None or (self.forwards and "/proxy/" in path):
            return 503, _status(503, "ServiceUnavailable", "error trying to reach service: connection refused")
        name = path.partition("/debug/")[2]
        return (200, self.debug[name]) if name in self.debug else (404, {"error": f"nothing is known of {name}"})

    def _objects(self, path: str, query: dict[str, list[str]]) -> tuple[int, Any]:
        words = path.strip("/").split("/")
        kind = "nodes" if "nodes" in words else "pods"
        found = self.nodes if kind == "nodes" else self.pods
        if "namespaces" in words:
            namespace = words[words.index("namespaces") + 1]
            found = [one for one in found if one["metadata"].get("namespace") == namespace]
        if words[-1] != kind:
            named = [one for one in found if one["metadata"]["name"] == words[-1]]
            return (200, named[0]) if named else (404, _status(404, "NotFound", f"{kind} {words[-1]} not found"))
        if "fieldSelector" in query:
            wanted = query["fieldSelector"][0].partition("=")[2]
            found = [one for one in found if one["spec"].get("schedulerName") == wanted]
        if "labelSelector" in query:
            key, _, value = query["labelSelector"][0].partition("=")
            found = [one for one in found if one["metadata"].get("labels", {}).get(key) == value]
        if "continue" in query and self.expire:
            self.expire -= 1
            return 410, _status(410, "Expired", "the provided continue parameter is too old")
        return 200, _page(found, int(query.get("limit", ["0"])[0]), int(query.get("continue", ["0"])[0]))

    def _events(self, selector: str) -> list[Json]:
        """Return the Events that match the selector, of those about an object."""
        wanted = dict(term.split("=") for term in selector.replace("regarding.", "").split(","))
        found = []
        for one in self.events:
            about = one.get("regarding")
            if about is None or all(about.get(key, "Pod") == value for key, value in wanted.items()):
                found.append(one)
        return found

    def port(self, path: str) -> bytes:
        """Return the whole answer of `/debug` over a port that is forwarded."""
        if self.at_port is not None:
            return self.at_port
        code, said = self._debug(path)
        text = json.dumps(said).encode()
        return f"HTTP/1.1 {code} Any\r\ncontent-length: {len(text)}\r\n\r\n".encode() + text


@contextmanager
def plain_api() -> Iterator[PlainApi]:
    """Serve one on a port of its own."""
    api = PlainApi()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer("GET")

        def do_POST(self) -> None:
            self._answer("POST")

        def do_DELETE(self) -> None:
            self._answer("DELETE")

        def do_PATCH(self) -> None:
            self._answer("PATCH")

        def _answer(self, method: str) -> None:
            parts = urlsplit(self.path)
            if api.forwards and parts.path.endswith("/portforward"):
                api.forwarded.append((parts.path, parse_qs(parts.query)["ports"][0]))
                serve_port(self, api.port if api.debug is not None else None)
                return
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            api.headers = list(self.headers.items())
            code, said = api.answer(method, self.path, body)
            text = json.dumps(said).encode() if api.body is None else api.body
            self.send_response_only(code)
            self.send_header("Date", api.date or self.date_time_string())
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    api.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield api
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _page(found: list[Json], limit: int, begin: int) -> Json:
    end = begin + limit if limit else len(found)
    return {"metadata": {"continue": str(end)} if end < len(found) else {}, "items": found[begin:end]}


def _status(code: int, reason: str, message: str) -> Json:
    return {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}
