"""Serve the console: one read-only page that shows the queue, the nodes, and one Pod's timeline.

The page is one file without any outside resource. Its content security policy allows its own style and script by their
hashes, and requests to this address, and nothing else. Whatever Pods and jobs are named, the page writes as text.
"""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import asdict
from functools import cache
from importlib import resources
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse, JSONResponse, Response

from extender.domain.ports import Clock
from extender.http.service import ConsoleQuery, CurrentServices

LONGEST_SEARCH = 100
"""Characters of a search."""

FRESH_S = 1.0
"""For this long an answer serves every request for the same rows."""

MOST_KEPT = 8
"""Answers that are kept, one for each search."""

BURST = 8
"""Answers that may be made at once; after that, `RATE`."""

RATE = 4.0
"""Answers a second for all pages together. A page asks every 2 s."""

HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""Of every answer of the console."""


@cache
def page() -> str:
    """Return the page."""
    return resources.files("extender.http").joinpath("console.html").read_text(encoding="utf-8")


@cache
def content_security_policy() -> str:
    """Return the policy of the page: its own style and script by hash, requests to its own address, nothing else."""
    style, script = (_hash(_element(name)) for name in ("style", "script"))
    return (
        f"default-src 'none'; style-src {style}; script-src {script}; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def add_console(routes: APIRouter, services: CurrentServices, clock: Clock) -> None:
    """Add the page and the answers that it reads."""
    answers = _Answers(services, clock)

    @routes.get("/console", operation_id="console", response_class=HTMLResponse)
    async def console() -> HTMLResponse:
        """Return the console, a page for a browser: queue, nodes, and one Pod's timeline."""
        policy = {"Content-Security-Policy": content_security_policy(), "X-Frame-Options": "DENY"}
        return HTMLResponse(page(), headers={**HEADERS, **policy})

    @routes.get("/console/state", operation_id="console_state")
    async def state(search: Annotated[str, Query(max_length=LONGEST_SEARCH)] = "") -> Response:
        """Return a limited number of rows for the console: workloads that match a search, partitions, nodes, checks."""
        found = await answers.state(ConsoleQuery(search))
        if found is None:
            return JSONResponse(
                {"error": f"more than {RATE:g} answers a second are asked for; ask again in a second"},
                429,
                headers={**HEADERS, "Retry-After": "1"},
            )
        return Response(found, media_type=JSONResponse.media_type, headers=HEADERS)

    @routes.get("/console/pods/{uid}", operation_id="console_pod")
    async def pod(uid: str) -> JSONResponse:
        """Return the timeline of the Pod with this UID."""
        if services.debug.leader_hint:
            return JSONResponse({"error": services.debug.leader_hint}, 503, headers=HEADERS)
        found = services.debug.console_pod(uid)
        if found is None:
            return JSONResponse({"error": "the extender knows no such Pod: it is gone"}, 404, headers=HEADERS)
        return JSONResponse(dict(found), headers=HEADERS)


class _Answers:
    """Keeps answers for a second, and makes no more than `RATE` a second: each reads all workloads."""

    def __init__(self, services: CurrentServices, clock: Clock) -> None:
        self._services = services
        self._clock = clock
        self._kept: dict[ConsoleQuery, tuple[float, bytes]] = {}
        self._allowed, self._at = float(BURST), clock.now()

    async def state(self, query: ConsoleQuery) -> bytes | None:
        """Return the answer as JSON; `None`: too many were made just now."""
        now = self._clock.now()
        kept = self._kept.get(query)
        if kept is not None and now - kept[0] < FRESH_S:
            return kept[1]
        self._allowed, self._at = min(float(BURST), self._allowed + (now - self._at) * RATE), now
        if self._allowed < 1:
            return None
        self._allowed -= 1
        found = {
            **await self._services.debug.console(query),
            "checks": [asdict(check) for check in self._services.checks()],
        }
        body = bytes(JSONResponse(found).body)
        self._kept.pop(query, None)
        self._kept[query] = (now, body)
        while len(self._kept) > MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        return body


def _element(name: str) -> str:
    """Return the text of the page's only element of this name."""
    (found,) = re.findall(rf"<{name}>(.*?)</{name}>", page(), re.DOTALL)
    return str(found)


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
