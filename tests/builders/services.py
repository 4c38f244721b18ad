"""Stand-ins for what the HTTP routes ask, and clients that reach the routes without a socket."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
from fastapi import FastAPI

from extender.domain.events import MemberRef
from extender.domain.ports import PortError
from extender.domain.verdict import FilterVerdict, Wait
from extender.domain.views import PodView
from extender.http.service import (
    Check,
    ConsoleQuery,
    DebugService,
    HookAnswer,
    HooksService,
    SchedulingService,
)

WAITING = "waiting for Slurm to allocate a node"


class StillClock:
    """A clock that a test moves by hand."""

    def __init__(self, now: float = 1000.0) -> None:
        self.time = now

    def now(self) -> float:
        return self.time

    def wall(self) -> float:
        return 1_700_000_000.0 + self.time


@dataclass
class FakeScheduling:
    """Answer as configured, and remember the calls."""

    verdict: FilterVerdict = field(default_factory=lambda: Wait(WAITING))
    bind_error: str = ""
    failure: Exception | None = None
    ready: bool = True
    offers: list[tuple[PodView, tuple[str, ...], bool]] = field(default_factory=list)
    binds: list[tuple[MemberRef, str]] = field(default_factory=list)

    def offer(self, pod: PodView, nodes: Sequence[str], full: bool) -> FilterVerdict:
        self.offers.append((pod, tuple(nodes), full))
        if self.failure:
            raise self.failure
        return self.verdict

    async def bind(self, pod: MemberRef, node: str) -> str:
        self.binds.append((pod, node))
        if self.failure:
            raise self.failure
        return self.bind_error


@dataclass
class FakeHooks:
    """Answer every hook with `answer`, after `takes` seconds."""

    answer: HookAnswer = field(default_factory=lambda: HookAnswer(200, {"gone": True}))
    takes: float = 0.0
    calls: list[tuple[Any, ...]] = field(default_factory=list)

    async def started(self, job_id: int, token: str) -> HookAnswer:
        return await self._answer("started", job_id, token)

    async def teardown(self, job_id: int, token: str, wait_s: float, slurm_node: str = "") -> HookAnswer:
        return await self._answer("teardown", job_id, token, wait_s, *([slurm_node] if slurm_node else []))

    async def drain(self, slurm_node: str, token: str, reason: str) -> HookAnswer:
        return await self._answer("drain", slurm_node, token, reason)

    async def clear(self, slurm_node: str, token: str, wait_s: float, jobs: Sequence[int], limit_s: int) -> HookAnswer:
        return await self._answer("clear", slurm_node, token, wait_s, tuple(jobs), limit_s)

    async def empty(self, slurm_node: str, token: str) -> HookAnswer:
        return await self._answer("empty", slurm_node, token)

    async def lock(self, slurm_node: str, token: str, job_id: int) -> HookAnswer:
        return await self._answer("lock", slurm_node, token, job_id)

    async def unlock(self, slurm_node: str, token: str, job_id: int) -> HookAnswer:
        return await self._answer("unlock", slurm_node, token, job_id)

    async def _answer(self, *call: Any) -> HookAnswer:
        self.calls.append(call)
        await asyncio.sleep(self.takes)
        return self.answer


@dataclass
class FakeDebug:
    """Answer `/debug` for one Pod."""

    health: tuple[Check, ...] = (Check("pods", True), Check("slurm", False, "no poll for 70 s", required=False))
    leader_hint: str = ""
    shares_error: str = ""
    searches: list[str] = field(default_factory=list)
    """Of the console: each answer that was made."""

    def placeholders(self) -> Iterable[Mapping[str, Any]]:
        return [{"key": "u1", "state": "WAITING"}]

    def placeholder(self, uid: str) -> Mapping[str, Any] | None:
        return {"key": "u1", "history": ["ABSENT -> WAITING"]} if uid == "u1" else None

    def gangs(self, namespace: str) -> Iterable[Mapping[str, Any]]:
        return [{"name": "gang ring", "namespace": namespace}]

    def gang(self, uid: str) -> Mapping[str, Any] | None:
        return {"name": "gang ring", "members": [{"uid": "u1"}]} if uid == "u1" else None

    def nodes(self) -> Mapping[str, Any]:
        return {"slurm": ["n1"]}

    def orphans(self) -> Mapping[str, Any]:
        return {"jobs": []}

    async def queue(self) -> Mapping[str, Any]:
        return {"partitions": [{"name": "batch"}]}

    async def shares(self, accounts: Sequence[str]) -> Mapping[str, Any]:
        if self.shares_error:
            raise PortError(self.shares_error)
        return {"shares": [{"account": one} for one in accounts]}

    async def console(self, query: ConsoleQuery) -> Mapping[str, Any]:
        self.searches.append(query.search)
        return {"error": "", "workloads": [{"uid": "u1", "pods": ["a/b"]}]}

    def console_pod(self, uid: str) -> Mapping[str, Any] | None:
        return {"uid": "u1", "timeline": []} if uid == "u1" else None

    def configuration(self) -> Mapping[str, Any]:
        return {"kind": "ExtenderConfiguration"}

    def checks(self) -> Sequence[Check]:
        return self.health


@dataclass
class FakeServices:
    """Services that stay as they are."""

    scheduling: SchedulingService = field(default_factory=FakeScheduling)
    hooks: HooksService = field(default_factory=FakeHooks)
    debug: DebugService = field(default_factory=FakeDebug)

    def checks(self) -> Sequence[Check]:
        return self.debug.checks()


def client(app: FastAPI) -> httpx.AsyncClient:
    """Connect to the application directly; an error that it raises is its own answer, as with a server."""
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://localhost")


def pod_json(**spec: Any) -> dict[str, Any]:
    """Return a Pod as kube-scheduler sends one: without kind and apiVersion."""
    return {
        "metadata": {"name": "p", "namespace": "ns", "uid": "u1", "resourceVersion": "7"},
        "spec": {
            "schedulerName": "slurm",
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
            **spec,
        },
        "status": {"phase": "Pending"},
    }


def args(*names: str, **more: Any) -> dict[str, Any]:
    """Return the request of `/filter` with `nodeCacheCapable: true`."""
    return {"Pod": pod_json(), "Nodes": None, "NodeNames": list(names), **more}
