"""The applications: which routes are served at which address."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce

import structlog
from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.requests import ClientDisconnect

from extender import __version__
from extender.config.derive import mark_rules
from extender.config.document import ExtenderConfiguration
from extender.config.serving import ServerTls
from extender.config.values import BindAddress, is_loopback
from extender.domain.ports import Clock
from extender.http import admission, debug, health, hooks, openapi, scheduling
from extender.http.browser_rules import BrowserRefused
from extender.http.connections import DEFAULT_BOUNDS, ListenerLimits
from extender.http.forward import App
from extender.http.fresh_text import FreshText
from extender.http.service import CurrentServices
from extender.observability.metrics.registry import CONTENT_TYPE, Metrics

_log = structlog.get_logger(__name__)

LARGE_HELD = 64 * 1024 * 1024
"""Bytes of requests that are held at an address at which lists of nodes, or Pods, are sent."""


@dataclass(frozen=True, slots=True)
class Services:
    """Name what the routes use."""

    current: CurrentServices
    metrics: Metrics
    clock: Clock
    gates: bool = True
    """Whether new Pods get the gate and tolerations; else they are admitted as they come."""

    ready: Callable[[], bool] | None = None
    """What `/readyz` says; `None`: what the scheduling service says of itself."""

    wrap: Callable[[App], App] = lambda app: app
    """Put around each application."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One address, what is served there, and with which certificate. `names` are the settings that led here."""

    bind: BindAddress
    app: FastAPI
    tls: ServerTls | None
    names: tuple[str, ...]
    around: App | None = None
    """What is served instead of `app`, and asks it."""

    bounds: ListenerLimits = DEFAULT_BOUNDS
    """What its connections may take."""


def endpoints(configuration: ExtenderConfiguration, services: Services) -> list[Endpoint]:
    """Return one listener for each address of the configuration. Endpoints with the same address share one."""
    http, hook, shown = configuration.http, configuration.hooks, configuration.observability
    faces: list[tuple[str, BindAddress, ServerTls | None, APIRouter]] = [
        (
            "http.bind",
            http.bind,
            http.tls,
            scheduling.router(services.current, services.metrics, services.clock, http.max_request_bytes),
        )
    ]
    gate, scope = configuration.admission, configuration.scope.namespaces
    if gate.bind is not None:
        # Whose marks they are plays no part in what tolerates them.
        tolerated = mark_rules(configuration, "").tolerated
        schedulers = [configuration.scheduler.name] if services.gates else []
        gates_resource_claims = bool(configuration.devices or configuration.cpus)
        face = admission.router(
            schedulers,
            scope,
            http.max_request_bytes,
            services.clock,
            tolerated=tolerated,
            gates_resource_claims=gates_resource_claims,
        )
        faces.append(("admission.bind", gate.bind, gate.tls, face))
    if hook.bind is not None:
        faces.append(("hooks.bind", hook.bind, hook.tls, hooks.router(services.current, services.metrics, hook.wait)))
    probes = health.router(services.ready or (lambda: services.current.scheduling.ready), services.current.checks)
    faces.append(("observability.healthBind", shown.health_bind, None, probes))
    numbers = metrics_router(services.metrics, services.clock)
    faces.append(("observability.metricsBind", shown.metrics_bind, None, numbers))
    if shown.debug_bind is not None:
        description = openapi.once(lambda: [(face[0], face[3]) for face in faces])
        console = services.clock if shown.console.is_served(scope) else None
        loopback = is_loopback(shown.debug_bind.host)
        face = debug.router(services.current, description, console=console, loopback=loopback)
        faces.append(("observability.debugBind", shown.debug_bind, None, face))
    found: list[Endpoint] = []
    for bind in dict.fromkeys(face[1] for face in faces):
        here = [face for face in faces if face[1] == bind]
        app = application(face[3] for face in here)
        tls = next((face[2] for face in here if face[2] is not None), None)
        bounds = reduce(ListenerLimits.or_more, (_bounds(face[0], configuration) for face in here))
        found.append(Endpoint(bind, app, tls, tuple(face[0] for face in here), services.wrap(app), bounds))
    return found


def _bounds(name: str, configuration: ExtenderConfiguration) -> ListenerLimits:
    """Return what one face needs: a kube-scheduler calls from one address, scripts from each node's own.

    Any client may call the admission webhook. One address has half of its connections, so that another API server is
    always served; an API server, or several behind one address, needs far fewer.
    """
    http, hook = configuration.http, configuration.hooks
    if name == "http.bind":
        return ListenerLimits(http.connections, http.connections, LARGE_HELD, body_bytes=http.max_request_bytes)
    if name == "admission.bind":
        return ListenerLimits(http.connections, http.connections // 2, LARGE_HELD, body_bytes=http.max_request_bytes)
    if name == "hooks.bind":
        return ListenerLimits(hook.connections, hook.connections_per_address)
    return DEFAULT_BOUNDS


def application(routers: Iterable[APIRouter]) -> FastAPI:
    """Return an application of these routes. Only kube-scheduler's read a body, and they limit it themselves."""
    app = FastAPI(
        title="slurm-extender",
        version=__version__,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        telemetry={"tracing": False, "logs": False, "operation_spans": False, "auto_configure": False},
        exception_handlers={
            RequestValidationError: _malformed,
            ClientDisconnect: _gone,
            BrowserRefused: _refused,
            Exception: _failed,
        },
    )
    for router in routers:
        app.include_router(router)
    return app


def metrics_router(metrics: Metrics, clock: Clock) -> APIRouter:
    """Return the route of `/metrics`."""
    routes = APIRouter(tags=["metrics"])
    text = FreshText(metrics.parts, clock)

    @routes.get("/metrics", operation_id="metrics")
    async def show() -> Response:
        """Return everything that is counted, for Prometheus; at most a second old."""
        return Response(await text.get(), headers={"Content-Type": CONTENT_TYPE})

    return routes


async def _malformed(_request: Request, error: Exception) -> JSONResponse:
    faults = error.errors() if isinstance(error, RequestValidationError) else []
    fault_texts = [f"{'.'.join(str(part) for part in fault['loc'])}: {fault['msg']}" for fault in faults]
    return JSONResponse({"error": f"malformed request: {'; '.join(fault_texts)}"}, 400)


async def _gone(_request: Request, _error: Exception) -> Response:
    """Answer a caller that has closed its connection; the answer is not read, and it is no error of the extender."""
    return Response(status_code=400)


async def _refused(_request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"error": str(error)}, 403)


async def _failed(request: Request, error: Exception) -> JSONResponse:
    _log.error("request_failed", path=request.url.path, exc_info=error)
    return JSONResponse({"error": "internal error of the extender; see its log"}, 500)
