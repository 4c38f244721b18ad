"""Checkpoints in annotations of a Lease, one for each writer. Implements `ports.CheckpointStore`.

A Lease, since the extender may write one already, and reads no ConfigMap. No replica holds it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic_core import from_json

from extender.domain import ports
from extender.domain.jobs.checkpoint import HIGHEST, WRITER
from extender.domain.wellknown import CHECKPOINT_PREFIX
from extender.kube.connection import JSON_PATCH, MERGE_PATCH, ApiConnection
from extender.kube.errors import ApiUnavailable, Conflict, Invalid, NotFound
from extender.kube.lease import API

KEPT = 256
"""Writers of which the last checkpoint is kept, the newest: each start that submits a job is one."""

_DIGITS = len(str(HIGHEST))


class CheckpointLease:
    """The checkpoints of one extender."""

    def __init__(self, connection: ApiConnection, namespace: str, name: str, timeout_s: float = 2.0) -> None:
        self._connection = connection
        self._namespace = namespace
        self._name = name
        self._path = f"/apis/{API}/namespaces/{namespace}/leases"
        self._timeout_s = timeout_s

    async def read(self) -> Mapping[str, int]:
        """Return the last number of each writer; none where there is no such Lease. Raises ApiError."""
        found = await self._read()
        return {} if found is None else found

    async def begin(self, writer: str) -> None:
        """Write the first checkpoint of a writer, and forget the oldest of too many. Raises ApiError."""
        found = await self._read()
        first = {CHECKPOINT_PREFIX + writer: "1"}
        if found is None:
            metadata = {"name": self._name, "namespace": self._namespace, "annotations": first}
            body: dict[str, Any] = {"apiVersion": API, "kind": "Lease", "metadata": metadata, "spec": {}}
            try:
                await self._connection.request("POST", self._path, body=body, timeout_s=self._timeout_s)
            except Conflict:
                found = {}
            else:
                return
        old = {CHECKPOINT_PREFIX + one: None for one in sorted(found)[: max(0, len(found) + 1 - KEPT)]}
        await self._patch({"metadata": {"annotations": {**old, **first}}}, MERGE_PATCH)

    async def advance(self, writer: str, number: int) -> bool:
        """Raise the number of a writer to this one; False: the number before it is not there. Raises ApiError."""
        path = "/metadata/annotations/" + (CHECKPOINT_PREFIX + writer).replace("/", "~1")
        operations = [
            {"op": "test", "path": path, "value": str(number - 1)},
            {"op": "replace", "path": path, "value": str(number)},
        ]
        try:
            await self._patch(operations, JSON_PATCH)
        except (Invalid, Conflict, NotFound):
            return False
        return True

    async def _patch(self, body: Any, content_type: str) -> None:
        path = f"{self._path}/{self._name}"
        await self._connection.request("PATCH", path, body=body, content_type=content_type, timeout_s=self._timeout_s)

    async def _read(self) -> dict[str, int] | None:
        """Return the numbers, as `read`; `None`: there is no such Lease."""
        try:
            answer = await self._connection.request("GET", f"{self._path}/{self._name}", timeout_s=self._timeout_s)
        except NotFound:
            return None
        try:
            annotations = from_json(answer.body)["metadata"].get("annotations") or {}
            return {
                key.removeprefix(CHECKPOINT_PREFIX): _number(value) for key, value in annotations.items() if _is(key)
            }
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise ApiUnavailable(f"the checkpoints cannot be read: {error!r}") from error


def _is(key: str) -> bool:
    """Return whether an annotation is a checkpoint of a writer."""
    return key.startswith(CHECKPOINT_PREFIX) and WRITER.fullmatch(key, len(CHECKPOINT_PREFIX)) is not None


def _number(text: object) -> int:
    """Return the number of a checkpoint. Raises ValueError where the text is none."""
    if not isinstance(text, str) or not text.isdecimal() or not text.isascii() or len(text) > _DIGITS:
        raise ValueError(f"{str(text)[:20]!r} is not the number of a checkpoint")
    return int(text)


_CHECKPOINT_LEASE_IS_A_STORE: type[ports.CheckpointStore] = CheckpointLease
