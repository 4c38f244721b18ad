"""Routes that answer kube-scheduler with 200 whatever happens, and say in `Error` what did.

kube-scheduler takes exactly 200 for an answer and does not read the body of any other (`pkg/scheduler/extender.go
send`): FastAPI's 422 would reach its log as a bare number.

The body is read by its model, and the answer written by its own, in one go each: FastAPI would make Python objects of
the JSON first, and of the answer, which for lists of thousands of nodes costs more than to answer.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, get_type_hints

import structlog
from fastapi import Request, Response
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive

from extender.domain.ports import Clock
from extender.runtime.log_throttle import LogThrottle

_log = structlog.get_logger(__name__)

MOST_FAULTS = 3
"""So many wrong fields are named; the rest are counted."""

INTERNAL_ERROR = "internal error of the extender; see its log"


def go_route(max_body: int, clock: Clock) -> type[APIRoute]:
    """Return the class of the routes, each of a function of one model to another.

    A request of more than `max_body` bytes is not read to its end. FastAPI's own limit would answer 413 whatever the
    route says.
    """

    class GoRoute(APIRoute):
        """Turns everything that is not an answer into 200 with `Error`."""

        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            """Replace FastAPI's handler."""
            endpoint, request_model, throttle = self.endpoint, _request_model(self.endpoint), LogThrottle(clock)

            async def handle(request: Request) -> Response:
                try:
                    body = await _json_body(request, max_body)
                    answer: BaseModel = await endpoint(request_model.model_validate_json(body))
                    return Response(answer.model_dump_json(by_alias=True), media_type="application/json")
                except ValidationError as error:
                    text = f"malformed request: {_fields(error)}"
                except HTTPException as error:
                    text = f"malformed request: {error.detail}"
                except ClientDisconnect:
                    return Response(status_code=400)  # the client has gone
                except Exception:
                    if times := throttle.times("failed"):
                        _log.exception("request_failed", path=request.url.path, times=times)
                    return JSONResponse({"Error": INTERNAL_ERROR})
                if times := throttle.times("malformed"):
                    _log.warning("request_malformed", path=request.url.path, error=text, times=times)
                return JSONResponse({"Error": text})

            return handle

    return GoRoute


def _request_model(endpoint: Callable[..., Any]) -> type[BaseModel]:
    """Return the model of the one argument."""
    hints: dict[str, type[BaseModel]] = get_type_hints(endpoint)
    [kind] = (hint for name, hint in hints.items() if name != "return")
    return kind


def _check_json(request: Request) -> None:
    """Reject other content types than JSON: browsers send those to any address without a preflight request."""
    named = request.headers.get("content-type", "")
    if named.partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, f"Content-Type is {named[:80]!r}, not application/json")


async def _json_body(request: Request, most: int) -> bytes:
    """Return the body of a JSON request. Raises `HTTPException`: 415 for another content type, 413 above `most`."""
    _check_json(request)
    return await Request(request.scope, _limited(request.receive, most)).body()


def limited_route(max_body: int) -> type[APIRoute]:
    """Return the class of routes for others than kube-scheduler: 413 where a request has more than `max_body` bytes.

    FastAPI's handler is replaced here too. Its errors refer to the frame that holds the body, and the frame to them:
    hundreds of bodies stayed in memory until the next search for cycles, in no limit of their listener.
    """

    class LimitedRoute(APIRoute):
        """Reads no more than it may."""

        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            """Replace FastAPI's handler."""
            endpoint, request_model = self.endpoint, _request_model(self.endpoint)

            async def handle(request: Request) -> Response:
                try:
                    body = await _json_body(request, max_body)
                    return JSONResponse(await endpoint(request_model.model_validate_json(body)))
                except ValidationError as error:
                    return JSONResponse({"error": f"malformed request: {_fields(error)}"}, 400)
                except HTTPException as error:
                    return JSONResponse({"error": error.detail}, error.status_code)
                except ClientDisconnect:
                    return Response(status_code=400)  # the client has gone

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


def _fields(error: ValidationError) -> str:
    """Name the invalid fields without their values: those may be large, and belong to the caller."""
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    fault_texts = [
        f"{'.'.join(str(part) for part in ('body', *fault['loc']))}: {fault['msg']}" for fault in faults[:MOST_FAULTS]
    ]
    if len(faults) > MOST_FAULTS:
        fault_texts.append(f"and {len(faults) - MOST_FAULTS} more")
    return "; ".join(fault_texts)
