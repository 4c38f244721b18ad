"""One Pod as etcd has it, whatever the caches of the API servers say. Implements `ports.PodReads`.

A GET without a resource version is answered from etcd (Kubernetes' `apiserver/pkg/storage/cacher`), never from a cache;
lists have come from caches that lagged (kubernetes issue 59848).
"""

from __future__ import annotations

import random
from urllib.parse import quote

from extender.domain.events import MemberRef
from extender.domain.ports import PodReads
from extender.domain.views import PodView
from extender.kube.connection import ApiConnection, ApiResponse
from extender.kube.errors import ApiError, NotFound
from extender.kube.repeat import repeated
from extender.kube.wire.fields import MalformedObject
from extender.kube.wire.pod import read_pod


class PodReader:
    """Implements `ports.PodReads`. `within_s`: how long a read may take, unless the caller says otherwise."""

    def __init__(self, connection: ApiConnection, *, rng: random.Random, within_s: float = 3.0) -> None:
        self._connection = connection
        self._rng = rng
        self._within_s = within_s

    async def read(self, member: MemberRef) -> PodView | None:
        """Return the Pod as it is now; `None` if it is gone or another has its name. Raises ApiError."""
        return await self.read_within(member, self._within_s)

    async def read_within(self, member: MemberRef, within_s: float) -> PodView | None:
        """Return the Pod, as `read`, in so many seconds."""

        async def get(timeout_s: float) -> ApiResponse:
            return await self._connection.request("GET", pod_path(member), timeout_s=timeout_s)

        try:
            answer = await repeated(get, within_s=within_s, once_s=within_s, rng=self._rng)
        except NotFound:
            return None
        try:
            pod = read_pod(answer.body)
        except MalformedObject as error:
            raise ApiError(f"GET {pod_path(member)}: {error}") from error
        return pod if pod.uid == member.uid else None


def pods_path(namespace: str) -> str:
    """Return the path of the Pods of a namespace."""
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/pods"


def pod_path(member: MemberRef) -> str:
    """Return the path of the Pod."""
    return f"{pods_path(member.namespace)}/{quote(member.name, safe='')}"


_POD_READER_IS_POD_READS: type[PodReads] = PodReader
