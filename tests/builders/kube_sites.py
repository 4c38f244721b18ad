"""One face for a fake API server and a real one, so that both can be asked the same questions."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, Protocol

from extender.domain.ports import Clock
from extender.kube.connection import JSON, MERGE_PATCH, ApiConnection, connect, connect_plainly
from extender.kube.errors import ApiRefused, Conflict, NotFound, Throttled
from extender.kube.write_check import WriteCheck
from lab.clock import elapsed, now
from lab.kube import Kubernetes
from simulator.kube.kubelet import Kubelets
from simulator.kube.objects import Json, a_pod
from simulator.kube.resources import COSCHEDULING_POD_GROUPS
from simulator.network.aiohttp_connector import MemoryConnector
from tests.builders.fake_api import URL, FakeApi, fake_api, running
from tests.builders.pod_group_kinds import COSCHEDULING, DEFINITIONS

NODE = "node-1"
"""A Node that is there and Ready; bound Pods run on it."""


class Site(Protocol):
    """An API server with a namespace for one test."""

    connection: ApiConnection
    namespace: str
    clock: Clock

    async def too_old(self) -> str:
        """Return a resource version from which no watch can begin any more."""
        ...

    async def serve_pod_groups(self) -> None:
        """Serve the PodGroups of scheduler-plugins from now on."""
        ...

    def unknown_token(self) -> AbstractAsyncContextManager[ApiConnection]:
        """Connect with an unknown token."""
        ...

    def silenced(self) -> AbstractAsyncContextManager[ApiConnection]:
        """Connect as a user that may not write."""
        ...


class SimSite:
    """Run the test against the fake API server."""

    def __init__(self, api: FakeApi, namespace: str) -> None:
        self.connection = api.connection
        self.namespace = namespace
        self.clock: Clock = api.clock
        self._api = api

    async def too_old(self) -> str:
        version = str(self._api.server.storage.version)
        self._api.server.storage.forget_history()
        return version

    async def serve_pod_groups(self) -> None:
        self._api.server.resources = (*self._api.server.resources, COSCHEDULING_POD_GROUPS)

    @asynccontextmanager
    async def unknown_token(self) -> AsyncIterator[ApiConnection]:
        self._api.server.tokens = {"a-token"}
        connection = connect_plainly(URL, lambda: "unknown", lambda: MemoryConnector(self._api.network))
        try:
            yield connection
        finally:
            await connection.close()

    @asynccontextmanager
    async def silenced(self) -> AsyncIterator[ApiConnection]:
        connection = connect_plainly(
            URL, lambda: "a-token", lambda: MemoryConnector(self._api.network), WriteCheck(lambda: False)
        )
        try:
            yield connection
        finally:
            await connection.close()


class MachineClock:
    """`ports.Clock` on the machine's time, for real API servers."""

    def now(self) -> float:
        return elapsed()

    def wall(self) -> float:
        return now()


class LabSite:
    """Run the test against a real API server."""

    def __init__(self, connection: ApiConnection, namespace: str, kubernetes: Kubernetes) -> None:
        self.connection = connection
        self.namespace = namespace
        self.clock: Clock = MachineClock()
        self._kubernetes = kubernetes

    async def too_old(self) -> str:
        """Return an old resource version: a restarted API server remembers no earlier ones."""
        await asyncio.to_thread(self._kubernetes.restart_apiserver)
        return "1"

    async def serve_pod_groups(self) -> None:
        with suppress(Conflict):
            await self.connection.request("POST", DEFINITIONS, body=COSCHEDULING)

        async def served() -> bool:
            try:
                await self.connection.request("GET", "/apis/scheduling.x-k8s.io/v1alpha1/podgroups")
            except (NotFound, Throttled):  # "storage is (re)initializing"
                return False
            return True

        await until(served, "PodGroups are served")

    @asynccontextmanager
    async def unknown_token(self) -> AsyncIterator[ApiConnection]:
        known = self._kubernetes.kubeconfig.read_text()
        with tempfile.NamedTemporaryFile("w") as kubeconfig:
            kubeconfig.write(known.replace(self._kubernetes.token(), "unknown"))
            kubeconfig.flush()
            connection = await connect(kubeconfig.name, environ={})
            try:
                yield connection
            finally:
                await connection.close()

    @asynccontextmanager
    async def silenced(self) -> AsyncIterator[ApiConnection]:
        connection = await connect(str(self._kubernetes.kubeconfig), environ={}, write_check=WriteCheck(lambda: False))
        try:
            yield connection
        finally:
            await connection.close()


class Caller:
    """Send requests to a site, in short calls; a rejection is an answer too."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.pods = f"/api/v1/namespaces/{site.namespace}/pods"

    async def call(self, method: str, path: str, body: Any = None, content_type: str = JSON) -> tuple[int, Json]:
        """Return status code and body; of a rejection the body is `reason` and `message`."""
        try:
            answer = await self.site.connection.request(method, path, body=body, content_type=content_type)
        except ApiRefused as error:
            return error.code, {"reason": error.reason, "message": error.message}
        return answer.status, json.loads(answer.body)

    async def code(self, method: str, path: str, body: Any = None, content_type: str = JSON) -> tuple[int, str]:
        """Return status code and reason, "" for success."""
        code, answer = await self.call(method, path, body, content_type)
        return code, str(answer.get("reason", "")) if code >= 400 else ""

    async def add_pod(self, name: str, **fields: Any) -> Json:
        """Create a Pod; `fields` as for `objects.a_pod`."""
        code, pod = await self.call("POST", self.pods, a_pod(name, self.site.namespace, **fields))
        assert code == 201, pod
        return pod

    async def pod(self, name: str) -> Json:
        """Return a Pod as it is."""
        code, pod = await self.call("GET", f"{self.pods}/{name}")
        assert code == 200, pod
        return pod

    async def running_pod(self, name: str, **fields: Any) -> Json:
        """Create a Pod that runs on NODE."""
        await self.add_pod(name, node=NODE, **fields)

        async def runs() -> bool:
            return bool((await self.pod(name))["status"]["phase"] == "Running")

        await until(runs, f"Pod {name} runs")
        return await self.pod(name)

    async def annotate(self, name: str, **annotations: str) -> Json:
        """Change a Pod's annotations."""
        patch = {"metadata": {"annotations": annotations}}
        code, pod = await self.call("PATCH", f"{self.pods}/{name}", patch, MERGE_PATCH)
        assert code == 200, pod
        return pod


async def until(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    """Check until it is true; the fake ones need virtual time for it, the real ones real time."""
    for _ in range(600):
        if await condition():
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"never: {what}")


@asynccontextmanager
async def sim_site() -> AsyncIterator[Site]:
    """Start a fake API server with NODE and kubelets."""
    async with fake_api() as api:
        api.server.add_node(NODE)
        api.server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "contract"}})
        async with running(Kubelets(api.server, start_s=0.1, stop_s=5).run()):
            yield SimSite(api, "contract")


@asynccontextmanager
async def lab_site(kubernetes: Kubernetes, namespace: str) -> AsyncIterator[Site]:
    """Use the real API server; `namespace` is made for the test, and emptied of Pods after it."""
    connection = await connect(str(kubernetes.kubeconfig), environ={})
    try:
        site = LabSite(connection, namespace, kubernetes)
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        await connection.request("POST", "/api/v1/namespaces", body=body)
        yield site
        caller = Caller(site)
        _, listed = await caller.call("GET", caller.pods)
        for pod in listed["items"]:
            try:
                path = f"{caller.pods}/{pod['metadata']['name']}"
                await connection.request(
                    "PATCH", path, body={"metadata": {"finalizers": None}}, content_type=MERGE_PATCH
                )
                await connection.request("DELETE", path, body={"gracePeriodSeconds": 0})
            except NotFound:
                continue
    finally:
        await connection.close()
