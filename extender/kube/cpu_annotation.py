"""Write the order of a Node's CPUs into its annotation: by a Job of its own, never by the extender."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from urllib.parse import quote

from extender.domain.wellknown import CPUS
from extender.kube.connection import MERGE_PATCH, CredentialsError, connect
from extender.kube.errors import ApiError

WITHIN_S = 10.0
"""Seconds for the one request."""


class CpuAnnotationError(Exception):
    """The annotation was not written; the text says why."""


def annotate(node: str, order: str, environ: Mapping[str, str]) -> None:
    """Write the annotation with the identity of the Pod or of kubectl. Raises CpuAnnotationError."""
    try:
        asyncio.run(_annotate(node, order, environ))
    except (ApiError, CredentialsError) as error:
        raise CpuAnnotationError(f"Node {node}: {error}") from error


async def _annotate(node: str, order: str, environ: Mapping[str, str]) -> None:
    connection = await connect(None, None, connections=1, environ=environ)
    try:
        body = {"metadata": {"annotations": {CPUS: order}}}
        path = f"/api/v1/nodes/{quote(node, safe='')}"
        await connection.request("PATCH", path, body=body, content_type=MERGE_PATCH, timeout_s=WITHIN_S)
    finally:
        await connection.close()
