"""Write the status of PodGroups by server-side apply. Implements `ports.PodGroupStatuses`.

Others may write the same fields: kube-scheduler with its feature gate on, the controller of scheduler-plugins. The API
server knows who owns each field. It rejects an apply without `force` that would take one over, and nothing is written.
"""

from __future__ import annotations

from typing import Any

import structlog

from extender.domain.gangs.pod_groups import GroupProgress, GroupStatus, PodGroupView
from extender.domain.ports import PodGroupStatuses, StatusAnswer, StatusResult
from extender.domain.wellknown import GROUP_STATUS_MANAGER
from extender.kube.connection import APPLY_PATCH, ApiConnection
from extender.kube.errors import ApiError, ApiUnavailable, Conflict, Invalid, NotFound
from extender.kube.pod_groups import PodGroupInformers
from extender.kube.wire.fields import Unreadable
from extender.kube.wire.stream import POD_GROUPS

_log = structlog.get_logger(__name__)


class PodGroupStatusWriter:
    """Implements `ports.PodGroupStatuses`. `informers` know which version the API server serves."""

    def __init__(self, connection: ApiConnection, informers: PodGroupInformers, timeout_s: float = 5.0) -> None:
        self._connection = connection
        self._informers = informers
        self._timeout_s = timeout_s

    async def write(self, group: PodGroupView, status: GroupStatus) -> StatusAnswer:
        """Apply the status to this very PodGroup. Never raises."""
        version = self._informers.version(group.kind.api)
        api_version = f"{group.kind.api}/{version}"
        path = f"/apis/{api_version}/namespaces/{group.namespace}/podgroups/{group.name}/status"
        body = {
            "apiVersion": api_version,
            "kind": "PodGroup",
            "metadata": {"name": group.name, "namespace": group.namespace, "uid": group.uid},
            "status": _applied(status),
        }
        try:
            if await self._uid(path.removesuffix(f"/{group.name}/status"), group) != group.uid:
                return StatusAnswer(StatusResult.GONE, f"another PodGroup has the name {group.name}")
            await self._connection.request(
                "PATCH",
                path,
                query={"fieldManager": GROUP_STATUS_MANAGER},
                body=body,
                content_type=APPLY_PATCH,
                timeout_s=self._timeout_s,
            )
        except (NotFound, Invalid) as error:  # another one of the same name has another UID, which cannot be changed
            _log.info("pod_group_status_refused", group=group.name, namespace=group.namespace, error=str(error))
            return StatusAnswer(StatusResult.GONE, str(error))
        except Conflict as error:
            return StatusAnswer(StatusResult.CONFLICT, error.message)
        except ApiError as error:
            _log.info("pod_group_status_not_written", group=group.name, namespace=group.namespace, error=str(error))
            return StatusAnswer(StatusResult.FAILED, str(error))
        return StatusAnswer(StatusResult.WRITTEN)

    async def _uid(self, path: str, group: PodGroupView) -> str:
        """Return the UID of the PodGroup that has this name now, "" without one.

        The API server ignores the UID in a write of the status of a custom resource (apiextensions-apiserver
        `status_strategy.go` keeps the metadata that is there). The extender may list and watch, and not get.
        """
        answer = await self._connection.request(
            "GET", path, query={"fieldSelector": f"metadata.name={group.name}"}, timeout_s=self._timeout_s
        )
        try:
            found = POD_GROUPS[group.kind.api].page(answer.body).views
        except Unreadable as error:
            raise ApiUnavailable(f"GET {path}: {error}") from error
        return found[0].uid if found else ""


def _applied(status: GroupStatus) -> dict[str, Any]:
    if isinstance(status, GroupProgress):
        counts = {"running": status.running, "succeeded": status.succeeded, "failed": status.failed}
        return {"phase": str(status.phase), **counts}
    condition = {
        "type": status.type,
        "status": "True" if status.holds else "False",
        "reason": status.reason,
        "message": status.message,
        "lastTransitionTime": status.since,
    }
    return {"conditions": [condition]}


_POD_GROUP_STATUS_WRITER_IS_POD_GROUP_STATUSES: type[PodGroupStatuses] = PodGroupStatusWriter
