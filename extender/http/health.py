"""Probes, in the form of the API server's: `/livez`, `/readyz`, `/healthz`, each with `?verbose`.

Live is what answers at all: the event loop runs, and whatever task dies ends the process. Ready is who knows the
cluster. Neither depends on Slurm: the fences are needed most when Slurm is ill.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse

from extender.http.service import Check

Checks = Callable[[], Sequence[Check]]


def router(ready: Callable[[], bool], checks: Checks) -> APIRouter:
    """Return the routes. `ready` decides `/readyz`; `checks` are shown by `?verbose`."""
    routes = APIRouter(tags=["health"])

    @routes.get("/livez", operation_id="livez")
    @routes.get("/healthz", operation_id="healthz")
    async def livez(request: Request) -> PlainTextResponse:
        """Return 200: the process runs."""
        return _answer(request, "livez", True, tuple)

    @routes.get("/readyz", operation_id="readyz")
    async def readyz(request: Request) -> PlainTextResponse:
        """Return 200 once everything that was in the cluster at the start is known."""
        return _answer(request, "readyz", ready(), checks)

    return routes


def _answer(request: Request, name: str, ok: bool, checks: Checks) -> PlainTextResponse:
    status = 200 if ok else 503
    # kube-apiserver takes `?verbose` without a value; any value is taken for yes.
    if ok and "verbose" not in request.query_params:
        return PlainTextResponse("ok", status)
    lines = [_line(check) for check in checks()]
    lines.append(f"{name} check {'passed' if ok else 'failed'}")
    return PlainTextResponse("\n".join(lines) + "\n", status)


def _line(check: Check) -> str:
    mark = "+" if check.ok else "-"
    text = check.text or ("ok" if check.ok else "failed")
    return f"[{mark}]{check.name} {text}{'' if check.required else ' (for information)'}"
