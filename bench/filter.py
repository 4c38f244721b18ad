"""CPU time of one `/filter` call with 5,000 node names, beside its floor: reading that JSON and writing the answer."""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import cast

import httpx

from extender.domain.events import CandidatesChanged, MemberRef
from extender.domain.lifecycle.machine import step
from extender.domain.placeholder import Member, Placeholder, Timing
from extender.domain.verdict import FilterVerdict, filter_verdict
from extender.domain.views import PodView
from extender.http.app import application
from extender.http.scheduling import router
from extender.http.service import CurrentServices
from extender.observability.metrics.registry import Metrics
from simulator.kube.objects import a_pod

MOST = 4 * 1024 * 1024
NAMES = 5000
CALLS = 100
ROUNDS = 5


class _Clock:
    def now(self) -> float:
        return time.perf_counter()

    def wall(self) -> float:
        return 0.0


class _Service:
    """A waiting Pod: what is asked most often, and again at every event of the cluster."""

    @property
    def ready(self) -> bool:
        return True

    def __init__(self) -> None:
        self._placeholder = Placeholder("uid", members=(Member(MemberRef("uid", "default", "web")),))

    def offer(self, pod: PodView, nodes: Sequence[str], full: bool) -> FilterVerdict:
        del full
        self._placeholder, _ = step(self._placeholder, CandidatesChanged(frozenset(nodes)), 0.0, Timing())
        return filter_verdict(self._placeholder, pod.uid, nodes)

    async def bind(self, pod: MemberRef, node: str) -> str:
        del pod, node
        return ""


@dataclass(frozen=True, slots=True)
class Figure:
    """Milliseconds of CPU a call, one value a round."""

    name: str
    rounds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The figure to quote."""
        return statistics.median(self.rounds)


def _body() -> bytes:
    pod = a_pod("web")
    pod["metadata"]["uid"] = "uid"
    return json.dumps({"Pod": pod, "Nodes": None, "NodeNames": [f"node-{n:05d}" for n in range(NAMES)]}).encode()


async def _timed(call: Callable[[], Awaitable[None]]) -> float:
    began = time.process_time()
    for _ in range(CALLS):
        await call()
    return (time.process_time() - began) / CALLS * 1000


async def measure() -> tuple[Figure, Figure]:
    """The floor and the extender, in alternating rounds."""
    body = _body()
    clock = _Clock()
    services = cast("CurrentServices", SimpleNamespace(scheduling=_Service()))
    app = application([router(services, Metrics(clock), clock, MOST)])
    transport = httpx.ASGITransport(app)
    headers = {"Content-Type": "application/json"}
    async with httpx.AsyncClient(transport=transport, base_url="http://extender") as client:

        async def filter_call() -> None:
            answer = await client.post("/scheduler/filter", content=body, headers=headers)
            if answer.status_code != 200 or answer.json()["Error"]:
                raise RuntimeError(answer.text)

        async def floor() -> None:
            names = json.loads(body)["NodeNames"]
            json.dumps({"NodeNames": [], "FailedAndUnresolvableNodes": {names[0]: "waiting"}})

        await filter_call()
        floors: list[float] = []
        ourses: list[float] = []
        for _ in range(ROUNDS):
            floors.append(await _timed(floor))
            ourses.append(await _timed(filter_call))
    return Figure("floor: json.loads and json.dumps", tuple(floors)), Figure("POST /scheduler/filter", tuple(ourses))


def run() -> dict[str, object]:
    """Measure, and give what is written down."""
    floor, ours = asyncio.run(measure())
    return {
        "what": f"CPU of one /filter call with {NAMES} names for a waiting Pod, {ROUNDS} rounds of {CALLS} calls",
        "floor_ms": floor.median,
        "ours_ms": ours.median,
        "ratio": ours.median / floor.median,
        "rounds": {floor.name: floor.rounds, ours.name: ours.rounds},
    }
