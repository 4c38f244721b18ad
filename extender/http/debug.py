"""Serve what the extender knows and why: placeholders with their histories, gangs, nodes, configuration, the console.

All of it is read-only, except for the log level. `browser_rules` keeps pages of other sites away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from fastapi.responses import JSONResponse, Response

from extender.config.serving import LogLevel
from extender.domain.ports import Clock, PortError
from extender.http.browser_rules import loopback_host, no_browser, same_site
from extender.http.console import add_console
from extender.http.service import CurrentServices
from extender.observability import logs
from extender.runtime.cooperative_yield import CooperativeYield

PREFIX = "/debug"
MOST_ACCOUNTS = 100
"""Accounts that one request may name."""


def router(
    services: CurrentServices,
    description: Callable[[], Mapping[str, Any]],
    *,
    console: Clock | None = None,
    loopback: bool = True,
) -> APIRouter:
    """Return the routes. `description` is the OpenAPI document of this process.

    `console`: serve the console, with this clock. `loopback`: the listener is on the loopback interface, so that every
    request must name it as its host; elsewhere only what a browser is meant to show, or changes something.
    """
    routes = APIRouter(prefix=PREFIX, tags=["debug"], dependencies=_rules(loopback))
    _add_workloads(routes, services)
    _add_slurm(routes, services)
    _add_process(routes, services)
    for_browsers = APIRouter(dependencies=_rules(True))
    _add_description(for_browsers, description)
    if console is not None:
        add_console(for_browsers, services, console)
    routes.include_router(for_browsers)
    return routes


def _rules(loopback: bool) -> list[Any]:
    return [Depends(same_site), *([Depends(loopback_host)] if loopback else [])]


def _add_workloads(routes: APIRouter, services: CurrentServices) -> None:
    """Add the routes of placeholders and gangs."""

    @routes.get("/placeholders", operation_id="placeholders")
    async def placeholders() -> Response:
        """Return every placeholder, short."""
        return _not_leader(services) or await _in_slices(services.debug.placeholders())

    @routes.get("/placeholders/{uid}", operation_id="placeholder")
    async def placeholder(uid: str) -> JSONResponse:
        """Return the placeholder of the Pod with this UID, with its history."""
        found = services.debug.placeholder(uid)
        if found is None:
            return _not_leader(services) or JSONResponse(
                {"error": f"no placeholder of a Pod with UID {uid!a} is known"}, 404
            )
        return JSONResponse(dict(found))

    @routes.get("/gangs", operation_id="gangs")
    async def gangs(namespace: str = "") -> Response:
        """Return gangs, short: those of one namespace, or of all."""
        return _not_leader(services) or await _in_slices(services.debug.gangs(namespace))

    @routes.get("/gangs/{uid}", operation_id="gang")
    async def gang(uid: str) -> JSONResponse:
        """Return the gang of the Pod with this UID, with its members."""
        found = services.debug.gang(uid)
        if found is None:
            return _not_leader(services) or JSONResponse({"error": f"no gang of a Pod with UID {uid!a} is known"}, 404)
        return JSONResponse(dict(found))


def _add_slurm(routes: APIRouter, services: CurrentServices) -> None:
    """Add the routes of Slurm's partitions, accounts and nodes."""

    @routes.get("/queue", operation_id="queue")
    async def queue() -> JSONResponse:
        """Return the partitions with their nodes, CPUs and GPUs, and the Pods that wait for each, by reason."""
        return _not_leader(services) or JSONResponse(dict(await services.debug.queue()))

    @routes.get("/shares", operation_id="shares")
    async def shares(account: Annotated[list[str] | None, Query(max_length=MOST_ACCOUNTS)] = None) -> JSONResponse:
        """Return fair shares and limits of these accounts, of all without any, as Slurm reports them."""
        try:
            return JSONResponse(dict(await services.debug.shares(account or ())))
        except PortError as error:
            return JSONResponse({"error": str(error)}, 503)

    @routes.get("/nodes", operation_id="nodes")
    async def nodes() -> JSONResponse:
        """Return both sides' nodes, how they belong together, and what is held."""
        return JSONResponse(dict(services.debug.nodes()))

    @routes.get("/orphans", operation_id="orphans")
    async def orphans() -> JSONResponse:
        """Return jobs without a Pod, and running Pods without a job, as long as they are not ended."""
        return _not_leader(services) or JSONResponse(dict(services.debug.orphans()))


def _add_process(routes: APIRouter, services: CurrentServices) -> None:
    """Add the routes of the process itself."""

    @routes.get("/config", operation_id="config")
    async def config() -> JSONResponse:
        """Return the configuration in force, without its secrets."""
        return JSONResponse(dict(services.debug.configuration()))

    @routes.get("/log-level", operation_id="log_level")
    async def log_level() -> JSONResponse:
        """Return the least severity that is logged."""
        return JSONResponse({"level": str(logs.level())})

    @routes.put("/log-level", operation_id="set_log_level", dependencies=[Depends(no_browser)])
    async def set_log_level(level: LogLevel) -> JSONResponse:
        """Set the least severity that is logged, until the next start."""
        logs.set_level(level)
        return JSONResponse({"level": str(logs.level())})

    @routes.get("/checks", operation_id="checks")
    async def checks() -> JSONResponse:
        """Return the health checks, one line each."""
        return JSONResponse([_check(one.name, one.ok, one.text, one.required) for one in services.checks()])


def _add_description(routes: APIRouter, description: Callable[[], Mapping[str, Any]]) -> None:
    """Add the description of all routes."""

    @routes.get("/openapi.json", operation_id="openapi")
    async def openapi() -> JSONResponse:
        """Return this document: the routes of all listeners of the process."""
        return JSONResponse(dict(description()))


async def _in_slices(rows: Iterable[Mapping[str, Any]]) -> Response:
    """Return a list of possibly thousands of rows, and let kube-scheduler be answered meanwhile."""
    turns, form, texts = CooperativeYield(), JSONResponse(None), list[bytes]()
    for row in rows:
        texts.append(form.render(row))
        await turns.maybe_yield()
    return Response(b"[" + b",".join(texts) + b"]", media_type=JSONResponse.media_type)


def _not_leader(services: CurrentServices) -> JSONResponse | None:
    """Return an error on followers: only the leader knows placeholders."""
    return JSONResponse({"error": services.debug.leader_hint}, 503) if services.debug.leader_hint else None


def _check(name: str, ok: bool, text: str, required: bool) -> dict[str, Any]:
    return {"name": name, "ok": ok, "text": text, "required": required}
