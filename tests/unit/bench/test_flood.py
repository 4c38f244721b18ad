"""The flood is a process of its own, has the rights of a tenant, and counts what it got through."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from bench.real.fleet import ALONE, NARROW_NODES, OURS
from bench.real.flood import KEYS, Flooder
from bench.real.flood_process import flood_process
from bench.real.load import load
from extender.domain.wellknown import GATE
from lab.tenants import RULES
from simulator.kube.app import ApiServerApp
from simulator.kube.rbac import Permission
from simulator.kube.resources import PODS
from simulator.kube.server import FakeApiServer
from simulator.kube.status_errors import StatusError
from simulator.kube.storage import ObjectKey
from simulator.network.asgi_server import serve_on_loopback

NAMESPACE = "flood"
ENOUGH = 40
"""Pods after which a test ends the flood."""


class FloodedServer:
    """An API server that keeps every Pod that a client creates, or throttles their creation."""

    def __init__(self) -> None:
        self.kube = FakeApiServer(lambda: 1.7e9)
        self.kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        self.kube.mutate = self._admit
        self.full = asyncio.Event()
        """`ENOUGH` Pods were created."""

        self.pods: list[dict[str, Any]] = []
        self.largest = 0
        """Annotations of the Pod that has most."""

        self.throttle = False
        self.refused = 0
        self.throttled = asyncio.Event()
        """Twenty creations were throttled."""

    def _admit(self, obj: dict[str, Any]) -> None:
        if obj["kind"] != "Pod":
            return
        if self.throttle:
            self.refused += 1
            if self.refused >= 20:
                self.throttled.set()
            raise StatusError(429, "TooManyRequests", "later")
        annotations = obj["metadata"]["annotations"]
        self.largest = max(self.largest, len(annotations))
        for key in list(annotations)[20:]:  # the simulated server copies an object with each write
            del annotations[key]
        self.pods.append(obj)
        if len(self.pods) >= ENOUGH:
            self.full.set()


@pytest.fixture
async def flooded(tmp_path: Path) -> AsyncIterator[tuple[FloodedServer, str]]:
    async with serving(tmp_path) as found:
        yield found


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[tuple[FloodedServer, str]]:
    server = FloodedServer()
    async with serve_on_loopback(ApiServerApp(server.kube)) as port:
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
            "users": [{"name": "mallory", "user": {"token": "t"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "mallory"}}],
            "current-context": "c",
        }
        (folder / "kubeconfig").write_text(yaml.safe_dump(config))
        yield server, str(folder / "kubeconfig")


def tenants_permissions() -> set[Permission]:
    return {
        Permission(verb, group, resource)
        for rule in RULES
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


async def test_the_process_floods_halts_and_clears_with_the_rights_of_a_tenant(
    flooded: tuple[FloodedServer, str],
) -> None:
    server, kubeconfig = flooded
    async with flood_process(kubeconfig, NAMESPACE) as flood:
        await flood.attack(OURS)
        await server.full.wait()
        told = await flood.halt()
        # Not one more comes after the answer, which would outlive what follows.
        created = len(server.pods)
        assert told["created"] == created >= ENOUGH
        assert told["requests"] == sum(
            told[name] for name in ("created", "flapped", "deleted", "forced", "throttled", "failed")
        )
        assert await flood.clear() == set()
        assert not any(server.kube.pod(pod["metadata"]["name"], NAMESPACE) for pod in server.pods)
        assert len(server.pods) == created
    assert set(server.kube.used) <= tenants_permissions()
    assert server.largest > KEYS
    assert {pod["metadata"]["namespace"] for pod in server.pods} == {NAMESPACE}


async def test_a_flood_of_kube_scheduler_alone_has_no_gate_and_keeps_to_nodes_of_its_own(
    flooded: tuple[FloodedServer, str],
) -> None:
    server, kubeconfig = flooded
    async with load(kubeconfig, NAMESPACE) as hostile:
        flooder = Flooder(hostile)
        await flooder.attack(ALONE)
        await server.full.wait()
        await flooder.halt()
        await flooder.clear()
    for pod in server.pods:
        assert GATE not in json.dumps(pod["spec"])
        [term] = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
            "nodeSelectorTerms"
        ]
        assert term["matchExpressions"][0]["values"] == list(NARROW_NODES)


async def test_throttled_requests_are_counted_and_do_not_end_the_flood(flooded: tuple[FloodedServer, str]) -> None:
    server, kubeconfig = flooded
    async with load(kubeconfig, NAMESPACE) as hostile:
        flooder = Flooder(hostile)
        server.throttle = True
        await flooder.attack(OURS)
        await server.throttled.wait()
        server.throttle = False
        await server.full.wait()
        told = await flooder.halt()
        assert told["throttled"] == server.refused
        assert told["created"] == len(server.pods)
        await flooder.clear()


async def test_a_client_that_is_patient_repeats_a_throttled_creation(flooded: tuple[FloodedServer, str]) -> None:
    server, kubeconfig = flooded
    async with load(kubeconfig, NAMESPACE) as innocent:
        innocent.patient = True
        server.throttle = True
        creating = [asyncio.create_task(innocent.create(OURS, {}, gated=True)) for _ in range(20)]
        await server.throttled.wait()
        server.throttle = False
        lives = [innocent.lives[name] for name in await asyncio.gather(*creating)]
        assert innocent.throttled >= 20
        assert all(life.accepted > life.created for life in lives)
        await innocent.clear()


async def test_nodes_of_an_earlier_flood_are_not_those_of_the_next(flooded: tuple[FloodedServer, str]) -> None:
    server, kubeconfig = flooded
    async with load(kubeconfig, NAMESPACE) as hostile:
        flooder = Flooder(hostile)
        name = await hostile.create(ALONE, {}, gated=False)
        server.kube.change(ObjectKey(PODS, NAMESPACE, name), lambda pod: pod["spec"].update(nodeName="narrow-0"))
        await hostile.lives[name].bound
        assert hostile.nodes == {"narrow-0"}
        await flooder.attack(OURS)
        await flooder.halt()
        assert hostile.nodes == set()


async def test_a_process_that_ends_is_an_error_and_no_hang(tmp_path: Path) -> None:
    program = [sys.executable, "-c", "import sys; print('{}', flush=True); sys.stdin.readline()"]
    with pytest.raises(RuntimeError, match="has ended"):
        async with flood_process("kubeconfig", NAMESPACE, program) as flood:
            await flood.attack(OURS)
