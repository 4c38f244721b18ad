"""Describe the routes of all listeners as one OpenAPI document."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi

from extender import __version__

LISTENER = "x-listener"
"""Field of an operation: the setting with the address at which it is served."""

Faces = Iterable[tuple[str, APIRouter]]
"""Routers, each with the setting of its listener."""


def described(faces: Faces) -> dict[str, Any]:
    """Return the OpenAPI document. Each operation names the listener that serves it."""
    document: dict[str, Any] = {}
    paths: dict[str, dict[str, Any]] = {}
    schemas: dict[str, Any] = {}
    for listener, router in faces:
        app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
        app.include_router(router)
        found = get_openapi(title="slurm-extender", version=__version__, routes=app.routes)
        for path, operations in found["paths"].items():
            for operation in operations.values():
                operation[LISTENER] = listener
            paths.setdefault(path, {}).update(operations)
        document = {key: found[key] for key in ("openapi", "info")}
        schemas |= found.get("components", {}).get("schemas", {})
    return {**document, "paths": paths, "components": {"schemas": dict(sorted(schemas.items()))}}


def once(faces: Callable[[], Faces]) -> Callable[[], Mapping[str, Any]]:
    """Return a function that describes the routes when it is first called: few processes are ever asked."""
    kept: list[Mapping[str, Any]] = []

    def describe() -> Mapping[str, Any]:
        if not kept:
            kept.append(described(faces()))
        return kept[0]

    return describe
