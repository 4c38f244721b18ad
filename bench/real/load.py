"""The load: creates Pods, and sees on a watch when each is bound and gone."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from bench.real.fleet import a_pod
from bench.real.jobs import together
from extender.domain.wellknown import GATE, JOB_ID
from extender.kube.connection import MERGE_PATCH, STRATEGIC_PATCH, ApiConnection, connect
from extender.kube.errors import ApiUnavailable, NotFound, Throttled
from lab.clock import now

PODS = "/api/v1/pods"
UNGATING = {"spec": {"schedulingGates": [{"$patch": "delete", "name": GATE}]}}
AGAIN_S = 0.01
"""Seconds before a watch that broke is opened again."""

CREATING = 16
"""Pods that are being created at a time."""

THROTTLED_S = 1.0
"""Before a throttled request is repeated where the API server does not say when; client-go waits as long."""


@dataclass(slots=True)
class Life:
    """Instants of one Pod, seconds since the epoch."""

    created: float = 0.0
    """When its creation was about to be sent."""

    accepted: float = 0.0
    """When the API server answered that it has created it."""

    shown: asyncio.Future[float] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    """When the watch first showed it."""

    bound: asyncio.Future[float] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    ending: asyncio.Future[float] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    """When its deletion was seen to be asked for."""

    finished: asyncio.Future[float] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    """When it was seen to have finished."""

    gone: asyncio.Future[float] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    job_id: int = 0
    """Its job, as the Pod says; 0: it says none."""

    named: asyncio.Future[float] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    """When the Pod was seen to say its job."""

    @property
    def seen(self) -> bool:
        """Whether the watch has shown the Pod."""
        return self.shown.done()


@dataclass(slots=True)
class Load:
    """Who asks, and what was seen, by name of Pod in one namespace."""

    kube: ApiConnection
    namespace: str
    lives: dict[str, Life] = field(default_factory=dict)
    made: int = 0
    nodes: set[str] = field(default_factory=set)
    """Every node that any of them was bound to."""

    patient: bool = False
    """Repeat creations and deletions that the API server throttles, as client-go does."""

    request_s: float = 10.0
    """Within which a creation or deletion must be answered."""

    throttled: int = 0
    """Answers 429 to them."""

    async def create(
        self, scheduler: str, settings: Mapping[str, str], *, gated: bool, spec: Mapping[str, Any] | None = None
    ) -> str:
        """Create one Pod; its name. `spec`: further fields."""
        self.made += 1
        name = f"{scheduler}-{self.made}"
        body = a_pod(name, self.namespace, scheduler, settings, gated=gated, spec=spec)
        life = self.lives[name] = Life()
        life.created = now()
        await self._write("POST", f"/api/v1/namespaces/{self.namespace}/pods", body=body)
        life.accepted = now()
        return name

    async def burst(self, count: int, scheduler: str, settings: Mapping[str, str], *, gated: bool) -> list[str]:
        """Create many at once; their names."""
        return await together([partial(self.create, scheduler, settings, gated=gated)] * count, CREATING)

    async def annotate(self, name: str, annotations: Mapping[str, str]) -> None:
        """Write annotations on one."""
        path = f"/api/v1/namespaces/{self.namespace}/pods/{name}"
        await self.kube.request(
            "PATCH", path, body={"metadata": {"annotations": annotations}}, content_type=MERGE_PATCH
        )

    async def ungate(self, name: str) -> None:
        """Take our gate away from one."""
        path = f"/api/v1/namespaces/{self.namespace}/pods/{name}"
        await self.kube.request("PATCH", path, body=UNGATING, content_type=STRATEGIC_PATCH)

    async def status(self, name: str, status: Mapping[str, Any]) -> None:
        """Say what kubelet says of one."""
        path = f"/api/v1/namespaces/{self.namespace}/pods/{name}/status"
        await self.kube.request("PATCH", path, body={"status": status}, content_type=MERGE_PATCH)

    async def delete(self, name: str, *, grace_s: int | None = None) -> None:
        """Delete one, with its own grace or with this one."""
        query = {} if grace_s is None else {"gracePeriodSeconds": str(grace_s)}
        await self._write("DELETE", f"/api/v1/namespaces/{self.namespace}/pods/{name}", query=query)

    async def evict(self, name: str) -> None:
        """Ask for the end of one as disruption budgets allow it."""
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": self.namespace}}
        await self.kube.request("POST", f"/api/v1/namespaces/{self.namespace}/pods/{name}/eviction", body=body)

    async def clear(self) -> None:
        """End all and wait until they are gone."""
        await together([partial(self._end, name) for name in self.lives], CREATING)
        await asyncio.gather(*(life.gone for life in self.lives.values()))
        self.lives.clear()

    async def _write(self, method: str, path: str, *, body: Any = None, query: Mapping[str, str] | None = None) -> None:
        while True:
            try:
                await self.kube.request(method, path, body=body, query=query, timeout_s=self.request_s)
            except Throttled as error:
                self.throttled += 1
                if not self.patient:
                    raise
                await asyncio.sleep(error.retry_after_s or THROTTLED_S)
            else:
                return

    async def _end(self, name: str) -> None:
        life = self.lives[name]
        if not life.gone.done():
            try:
                await self.delete(name)
            except NotFound:  # it went a moment ago, or its creation was refused
                if not life.seen and not life.gone.done():
                    life.gone.set_result(now())

    def _changed(self, kind: str, pod: Mapping[str, Any], at: float) -> None:
        life = self.lives.get(pod["metadata"]["name"])
        if life is None:
            return
        if node := pod["spec"].get("nodeName"):
            self.nodes.add(node)
        life.job_id = int((pod["metadata"].get("annotations") or {}).get(JOB_ID, 0))
        for seen, future in (
            (True, life.shown),
            (bool(pod["spec"].get("nodeName")), life.bound),
            (life.job_id > 0, life.named),
            ("deletionTimestamp" in pod["metadata"], life.ending),
            (pod["status"].get("phase") in {"Succeeded", "Failed"}, life.finished),
            (kind == "DELETED", life.gone),
        ):
            if seen and not future.done():
                future.set_result(at)

    async def _watch(self, version: str) -> None:
        path = f"/api/v1/namespaces/{self.namespace}/pods"
        while True:  # the API server ends a watch whose client is slow
            query = {"watch": "true", "resourceVersion": version}
            try:
                async with self.kube.watch(path, query, silence_s=3600) as lines:
                    async for line in lines:
                        seen = now()
                        change = json.loads(line)
                        version = change["object"]["metadata"]["resourceVersion"]
                        self._changed(change["type"], change["object"], seen)
            except (ApiUnavailable, Throttled):
                await asyncio.sleep(AGAIN_S)


@asynccontextmanager
async def load(kubeconfig: str, namespace: str) -> AsyncIterator[Load]:
    """Watch as long as it is open; resume a watch that breaks where it was."""
    kube = await connect(kubeconfig, environ=os.environ)
    try:
        async with load_on(kube, namespace) as found:
            yield found
    finally:
        await kube.close()


@asynccontextmanager
async def load_on(kube: ApiConnection, namespace: str) -> AsyncIterator[Load]:
    """As `load`, on a connection that is there."""
    found = Load(kube, namespace)
    listed = await kube.request("GET", f"/api/v1/namespaces/{namespace}/pods")
    async with asyncio.TaskGroup() as group:
        watching = group.create_task(found._watch(json.loads(listed.body)["metadata"]["resourceVersion"]))
        try:
            yield found
        finally:
            watching.cancel()
