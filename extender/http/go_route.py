"""Routes that answer kube-scheduler with 200 whatever happens, and say in `Error` what did.

kube-scheduler takes exactly 200 for an answer and does not read the body of any other (`pkg/scheduler/extender.go
send`): FastAPI's 422 would reach its log as a bare number.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import structlog
from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.types import Message, Receive

_log = structlog.get_logger(__name__)

MOST_FAULTS = 3
"""So many wrong fields are named; the rest are counted."""

INTERNAL_ERROR = "internal error of the extender; its log says more"


def go_route(max_body: int) -> type[APIRoute]:
    """The class of the routes. A request of more than `max_body` bytes is not read to its end.

    FastAPI's own limit would answer 413 whatever the route says.
    """

    class GoRoute(APIRoute):
        """Turns everything that is not an answer into 200 with `Error`."""

        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            """Wrap FastAPI's handler."""
            inner = super().get_route_handler()

            async def handle(request: Request) -> Response:
                try:
                    return await inner(Request(request.scope, _limited(request.receive, max_body)))
                except RequestValidationError as error:
                    text = f"malformed request: {_fields(error)}"
                except HTTPException as error:
                    text = f"malformed request: {error.detail}"
                except Exception:
                    _log.exception("request_failed", path=request.url.path)
                    return JSONResponse({"Error": INTERNAL_ERROR})
                _log.warning("request_malformed", path=request.url.path, text=text)
                return JSONResponse({"Error": text})

            return handle

    return GoRoute


def limited_route(max_body: int) -> type[APIRoute]:
    """The class of routes for others than kube-scheduler: 413 where a request has more than `max_body` bytes."""

    class LimitedRoute(APIRoute):
        """Reads no more than it may."""

        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            """Wrap FastAPI's handler."""
            inner = super().get_route_handler()

            async def handle(request: Request) -> Response:
                return await inner(Request(request.scope, _limited(request.receive, max_body)))

            return handle

    return LimitedRoute


def _limited(receive: Receive, most: int) -> Receive:
    seen = 0

    async def receive_some() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > most:
            raise HTTPException(413, f"the body has more than {most} bytes")
        return message

    return receive_some


def _fields(error: RequestValidationError) -> str:
    """Which fields are wrong and how, without the values: they may be large, and are the caller's own."""
    faults = error.errors()
    said = [f"{'.'.join(str(part) for part in fault['loc'])}: {fault['msg']}" for fault in faults[:MOST_FAULTS]]
    if len(faults) > MOST_FAULTS:
        said.append(f"and {len(faults) - MOST_FAULTS} more")
    return "; ".join(said)
