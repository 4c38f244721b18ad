"""Simulate kube-scheduler: pass one Pod at a time to the extender's `/filter`, then to its `/bind`.

It reproduces what an extender observes (`pkg/scheduler/schedule_one.go`, `backend/queue`, 1.32 and later):
gated Pods are never tried, one cycle runs at a time while bindings run beside it, a rejected Pod comes back at every
change of a bound Pod, of a Node or of itself, no sooner than its back-off allows, an error comes back on a timer, a
rejection is written to the Pod as a condition (which is a change of the Pod), and a Pod whose binding was reported is
not tried again.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import httpx

from extender.domain.placing.candidates import NeedsKubeScheduler, demands
from extender.domain.views import NodeView
from extender.kube.wire.node import read_node
from extender.kube.wire.pod import read_pod
from simulator.kube import pods
from simulator.kube.dynamic_resources import DynamicResources
from simulator.kube.objects import Json, set_condition
from simulator.kube.resources import NODES, PODS
from simulator.kube.server import FakeApiServer
from simulator.kube.status_errors import StatusError
from simulator.kube.storage import WatchEvent
from simulator.network.httpcore_backend import http_transport
from simulator.network.memory import Network

FIRST_BACKOFF_S, LONGEST_BACKOFF_S = 1.0, 10.0
"""`podInitialBackoffSeconds` and `podMaxBackoffSeconds`."""

LONGEST_DELAY = 0.5
"""By which share of its length a back-off lasts longer at most: a Pod then waits for others in the queue."""


@dataclass(slots=True)
class _Queued:
    """A pending Pod. Times are of the loop's clock."""

    uid: str
    namespace: str
    name: str
    attempts: int = 0
    ready_at: float = 0.0
    """End of the back-off."""

    woken: bool = True
    """An event since the last attempt may make the Pod schedulable."""

    errored: bool = False
    """The last attempt was an error: time alone brings it back."""


@dataclass(slots=True)
class SchedulerStatus:
    """Counters for assertions. `outcomes` has the Pod and the result of each attempt."""

    filters: int = 0
    binds: int = 0
    slowest_s: float = 0.0
    """How long the extender took for its slowest answer."""

    outcomes: list[tuple[str, str]] = field(default_factory=list)


TICK_S = 0.001
"""The shortest pause of the queue."""


class ExtenderCallFailed(Exception):
    """The extender did not answer as the protocol wants: kube-scheduler calls that an error, not a rejection."""


class SimScheduler:
    """Schedules the Pods that name `scheduler`. `url` is the extender's `urlPrefix`; without `network` by sockets."""

    def __init__(
        self,
        server: FakeApiServer,
        network: Network | None,
        url: str,
        *,
        scheduler: str = "slurm",
        timeout_s: float = 5.0,
        bind_timeout_s: float = 30.0,
    ) -> None:
        self.status = SchedulerStatus()
        self._server = server
        self._scheduler = scheduler
        self._client = httpx.AsyncClient(transport=http_transport(network) if network else None, timeout=timeout_s)
        self._bind_timeout_s = bind_timeout_s
        self._url = url.rstrip("/")
        self._queue: dict[str, _Queued] = {}
        self._assumed: set[str] = set()
        self._binding: set[asyncio.Task[None]] = set()
        self._news = asyncio.Event()
        self._nodes: dict[str, NodeView] = {}
        self.judge: Callable[[Json, str], str] | None = None
        """Another filter: why a Pod does not fit a Node; "" if it does."""

        self.unreached: frozenset[str] = frozenset()
        """Names of Pods behind others in a long queue: their turn does not come."""

        self.rng: random.Random | None = None
        """Draws by how much each back-off lasts longer, so that Pods rejected together come back apart; `None`: none.

        Without it the members of a gang come back in a fixed order, and no run tries any other.
        """

        self.dynamic_resources: DynamicResources | None = None
        """The plugin for ResourceClaims, where the cluster has them."""

    def set_timeout(self, seconds: float) -> None:
        """Give up any call of the extender after this time, as with one entry for both verbs: `httpTimeout`."""
        self._client.timeout = seconds
        self._bind_timeout_s = seconds

    def restart(self) -> None:
        """Forget everything, as a new process does, and read the Pods again. Calls that are open are dropped."""
        for task in self._binding:
            task.cancel()
        self._queue.clear()
        self._assumed.clear()
        for pod in tuple(self._server.storage.of(PODS)):
            self._consider(pod)

    async def run(self) -> None:
        """Schedule until cancelled."""
        stop_listening = self._server.storage.listen(self._on_event)
        try:
            for pod in tuple(self._server.storage.of(PODS)):
                self._consider(pod)
            while True:
                await self._cycle(await self._next())
        finally:
            stop_listening()
            for task in self._binding:
                task.cancel()
            await asyncio.gather(*self._binding, return_exceptions=True)
            await self._client.aclose()

    # The queue.

    def _on_event(self, event: WatchEvent) -> None:
        if event.resource == PODS:
            self._on_pod_event(event)
        elif event.resource == NODES:
            self._wake_all()

    def _on_pod_event(self, event: WatchEvent) -> None:
        pod = event.object
        uid = pod["metadata"]["uid"]
        if event.type == "DELETED":
            self._queue.pop(uid, None)
            self._assumed.discard(uid)
            if pod["spec"].get("nodeName"):
                self._wake_all()
        elif pod["spec"].get("nodeName"):
            self._queue.pop(uid, None)
            self._assumed.discard(uid)
            self._wake_all()
        else:
            self._consider(pod)

    def _consider(self, pod: Json) -> None:
        """Queue a pending Pod of this scheduler, or wake it: it changed."""
        spec, meta = pod["spec"], pod["metadata"]
        uid = meta["uid"]
        if spec.get("schedulerName") != self._scheduler or spec.get("nodeName") or uid in self._assumed:
            return
        if spec.get("schedulingGates") or "deletionTimestamp" in meta:
            self._queue.pop(uid, None)
            return
        queued = self._queue.setdefault(uid, _Queued(uid, meta["namespace"], meta["name"]))
        if not queued.errored:
            queued.woken = True
        self._news.set()

    def reach_all(self) -> None:
        """Let the turn of every Pod come."""
        self.unreached = frozenset()
        self._news.set()

    def _wake_all(self) -> None:
        for queued in self._queue.values():
            if not queued.errored:
                queued.woken = True
        self._news.set()

    async def _next(self) -> _Queued:
        """Return the Pod that may be tried now, longest waiting first."""
        loop = asyncio.get_running_loop()
        while True:
            self._news.clear()
            candidates = [
                queued for queued in self._queue.values() if queued.woken and queued.name not in self.unreached
            ]
            soonest = min(candidates, key=lambda queued: queued.ready_at, default=None)
            if soonest is not None and soonest.ready_at <= loop.time():
                return soonest
            with suppress(TimeoutError):
                # Not by less than a tick: rounded, an instant may seem to lie ahead although its timer has fired.
                async with asyncio.timeout_at(max(soonest.ready_at, loop.time() + TICK_S) if soonest else None):
                    await self._news.wait()

    def _back_off(self, queued: _Queued) -> None:
        queued.attempts += 1
        wait = min(LONGEST_BACKOFF_S, FIRST_BACKOFF_S * 2 ** (queued.attempts - 1))
        if self.rng is not None:
            wait *= self.rng.uniform(1.0, 1.0 + LONGEST_DELAY)
        queued.ready_at = asyncio.get_running_loop().time() + wait

    # One Pod.

    async def _cycle(self, queued: _Queued) -> None:
        queued.woken = False
        queued.errored = False
        pod = self._server.storage.get(pods.pod_key(queued.namespace, queued.name))
        if pod is None or pod["metadata"]["uid"] != queued.uid:
            self._queue.pop(queued.uid, None)
            return
        names, reasons = self._judged(pod, self._feasible(pod))
        if not names:  # The extender is not asked where the built-in filters leave nothing.
            self._post_filter(pod)
            self._reject(
                queued, f"0 nodes are available: {', '.join(reasons)}." if reasons else "0 nodes are available"
            )
            return
        try:
            chosen, why = await self._filter(pod, names)
        except (httpx.HTTPError, ExtenderCallFailed) as error:
            self._fail(queued, str(error))
            return
        if not chosen:
            self._post_filter(pod)
            # The message has the reasons of all filters and extenders (FitError.Error, schedule_one.go).
            self._reject(queued, f"0/{len(names)} nodes are available: {', '.join((why, *reasons))}.")
            return
        self._assumed.add(queued.uid)
        self._queue.pop(queued.uid, None)
        task = asyncio.create_task(self._bind(queued, chosen[0]), name=f"bind {queued.name}")
        self._binding.add(task)
        task.add_done_callback(self._binding.discard)

    def _feasible(self, pod: Json) -> list[str]:
        """Return the Nodes that pass the built-in filters; the other filters of the real one pass all."""
        wanted = demands(replace(read_pod(pod), beyond=(), containers=(), init_containers=()))
        if isinstance(wanted, NeedsKubeScheduler):
            return []
        nodes = {node["metadata"]["uid"]: node for node in self._server.storage.of(NODES)}
        for uid, node in nodes.items():
            known = self._nodes.get(uid)
            if known is None or known.resource_version != node["metadata"]["resourceVersion"]:
                self._nodes[uid] = read_node(node)
        self._nodes = {uid: self._nodes[uid] for uid in nodes}
        return [node.name for node in self._nodes.values() if node.ready and wanted.met_by(node)]

    def _judged(self, pod: Json, names: list[str]) -> tuple[list[str], list[str]]:
        """Return the Nodes that the other filters pass, and why they reject the rest."""
        judges = [self.judge] if self.judge is not None else []
        judges += [self.dynamic_resources.why_not] if self.dynamic_resources is not None else []
        if not judges:
            return names, []
        found = {name: next((why for judge in judges if (why := judge(pod, name))), "") for name in names}
        reasons = sorted({why for why in found.values() if why})
        return [name for name, why in found.items() if not why], reasons

    def _post_filter(self, pod: Json) -> None:
        if self.dynamic_resources is not None:
            self.dynamic_resources.post_filter(pod)

    async def _filter(self, pod: Json, names: list[str]) -> tuple[list[str], str]:
        """Return the nodes that pass, or why none does. Raises ExtenderCallFailed, httpx.HTTPError."""
        self.status.filters += 1
        meta = {key: value for key, value in pod["metadata"].items() if key != "managedFields"}
        stripped = {"metadata": meta, "spec": pod["spec"], "status": pod["status"]}
        answer = await self._call("filter", {"Pod": stripped, "Nodes": None, "NodeNames": names})
        chosen = answer.get("NodeNames") or []
        foreign = set(chosen) - set(names)
        if foreign:
            raise ExtenderCallFailed(f"the extender returns nodes that are not in the list: {sorted(foreign)}")
        reasons = (answer.get("FailedAndUnresolvableNodes") or {}) | (answer.get("FailedNodes") or {})
        return chosen, ", ".join(sorted(set(reasons.values())))

    async def _bind(self, queued: _Queued, node: str) -> None:
        self.status.binds += 1
        pod = self._server.storage.get(pods.pod_key(queued.namespace, queued.name))
        if self.dynamic_resources is not None and pod is not None:
            self.dynamic_resources.pre_bind(pod, node)
        body = {"PodName": queued.name, "PodNamespace": queued.namespace, "PodUID": queued.uid, "Node": node}
        try:
            await self._call("bind", body)
        except (httpx.HTTPError, ExtenderCallFailed) as error:
            self._assumed.discard(queued.uid)
            pod = self._server.storage.get(pods.pod_key(queued.namespace, queued.name))
            if self.dynamic_resources is not None and pod is not None and not pod["spec"].get("nodeName"):
                self.dynamic_resources.unreserve(pod)
            if pod is not None and pod["metadata"]["uid"] == queued.uid and not pod["spec"].get("nodeName"):
                self._queue[queued.uid] = queued
                self._fail(queued, str(error))
            self._wake_all()
            return
        self.status.outcomes.append((queued.name, f"bound to {node}"))

    async def _call(self, verb: str, body: Mapping[str, Any]) -> dict[str, Any]:
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            timeout = self._bind_timeout_s if verb == "bind" else self._client.timeout
            response = await self._client.post(f"{self._url}/{verb}", json=body, timeout=timeout)
        finally:
            self.status.slowest_s = max(self.status.slowest_s, loop.time() - began)
        if response.status_code != 200:
            raise ExtenderCallFailed(
                f"failed {verb} with extender at URL {self._url}/{verb}, code {response.status_code}"
            )
        answer: dict[str, Any] = response.json()
        if answer.get("Error"):
            raise ExtenderCallFailed(answer["Error"])
        return answer

    def _reject(self, queued: _Queued, why: str) -> None:
        self.status.outcomes.append((queued.name, "rejected"))
        self._back_off(queued)
        self._write_condition(queued, "Unschedulable", why)

    def _fail(self, queued: _Queued, why: str) -> None:
        self.status.outcomes.append((queued.name, f"error: {why}"))
        self._back_off(queued)
        queued.errored = queued.woken = True
        self._write_condition(queued, "SchedulerError", why)
        self._news.set()

    def _write_condition(self, queued: _Queued, reason: str, why: str) -> None:
        """Write the condition, which the API server takes as a change only when it says something new."""

        def edit(pod: Json) -> None:
            condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": why}
            set_condition(pod["status"], condition, self._server.wall())

        with suppress(StatusError):
            self._server.change(pods.pod_key(queued.namespace, queued.name), edit)
