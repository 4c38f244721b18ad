"""Stand-ins for the kubelets of all nodes: bound Pods run, ending Pods are gone when their grace is over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from simulator.kube import pods
from simulator.kube.objects import Json, parse_timestamp, set_condition, timestamp
from simulator.kube.resources import LEASES, NODES, PODS
from simulator.kube.server import FakeApiServer
from simulator.kube.status_errors import StatusError
from simulator.kube.storage import ObjectKey, WatchEvent

RUN_FOR = "sim.slurm-extender.io/run-for"
"""Pod annotation: seconds after which its containers succeed."""

FAIL_AFTER = "sim.slurm-extender.io/fail-after"
"""Pod annotation: seconds after which its container fails with exit code 1."""

STOP_FOR = "sim.slurm-extender.io/stop-for"
"""Pod annotation: seconds that its containers take to end, instead of those of all Pods."""


HEARTBEAT_S = 300.0
"""kubelet's `nodeStatusReportFrequency`: how often it writes the status of a Node that does not change."""

LEASE_S = 10.0
"""How often kubelet renews the Lease of its Node: a quarter of `nodeLeaseDurationSeconds`."""

NODE_LEASES = "kube-node-lease"

TERMINATED, KILLED = 143, 137
"""Exit codes of a container that SIGTERM ends, and of one that outlives its grace."""


@dataclass(slots=True)
class _Watched:
    """One Pod on its node: what is due, and how far it has come."""

    node: str
    timers: dict[str, asyncio.TimerHandle] = field(default_factory=dict)


class Kubelets:
    """Every node's kubelet. `start_s`: from the binding to Running. `stop_s`: how long containers take to end.

    A Pod whose containers take longer than its grace is killed when the grace is over. The grace at which the end began
    counts, and none that is shortened later. On a node that is `down` nothing starts and nothing ends.
    """

    def __init__(self, server: FakeApiServer, *, start_s: float = 1.0, stop_s: float = 1.0) -> None:
        self.start_s = start_s
        self.stop_s = stop_s
        self.heartbeat_s = HEARTBEAT_S
        self._server = server
        self._down: set[str] = set()
        self._pods: dict[str, _Watched] = {}
        self._beat: asyncio.TimerHandle | None = None

    async def run(self) -> None:
        """Run until cancelled."""
        stop_listening = self._server.storage.listen(self._on_event)
        self._server.before_read.append(self._renew)
        try:
            for pod in tuple(self._server.storage.of(PODS)):
                self._check(pod)
            await asyncio.get_running_loop().create_future()
        finally:
            stop_listening()
            self._server.before_read.remove(self._renew)
            if self._beat is not None:
                self._beat.cancel()
            for watched in self._pods.values():
                for timer in watched.timers.values():
                    timer.cancel()
            self._pods.clear()

    def take_down(self, node: str) -> None:
        """Stop one node's kubelet: its Pods stay as they are."""
        self._renew(_lease(node))
        self._down.add(node)
        for watched in self._pods.values():
            if watched.node == node:
                for timer in watched.timers.values():
                    timer.cancel()
                watched.timers.clear()

    def bring_back(self, node: str) -> None:
        """Start one node's kubelet again."""
        self._down.discard(node)
        if (one := self._server.node(node)) is not None:
            self._report(one)
        for pod in tuple(self._server.storage.of(PODS)):
            if pod["spec"].get("nodeName") == node:
                self._check(pod)

    def _beat_later(self) -> None:
        def beat() -> None:
            self._beat_later()
            for node in tuple(self._server.storage.of(NODES)):
                self._report(node)

        self._beat = asyncio.get_running_loop().call_later(self.heartbeat_s, beat)

    def _report(self, node: Json) -> None:
        """Write the status of a Node whose kubelet lives."""
        name, now = node["metadata"]["name"], self._server.wall()
        if name in self._down:
            return
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": timestamp(now)}
        self._server.change(ObjectKey(NODES, "", name), lambda one: set_condition(one["status"], ready, now))

    def _renew(self, key: ObjectKey) -> None:
        """Write the Lease of a Node as its kubelet has by now: when it is read, since no client watches it."""
        if key != _lease(key.name) or key.name in self._down or self._server.node(key.name) is None:
            return
        if self._server.storage.get(key) is None:
            meta = {"name": key.name, "namespace": NODE_LEASES}
            self._server.create({"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": meta})
        now = self._server.wall()
        spec = {
            "holderIdentity": key.name,
            "leaseDurationSeconds": int(4 * LEASE_S),
            "renewTime": f"{timestamp(now - now % LEASE_S)[:-1]}.000000Z",
        }
        self._server.change(key, lambda lease: lease.update(spec=spec))

    def _on_event(self, event: WatchEvent) -> None:
        if event.resource != PODS:
            return
        if self._beat is None:  # a cluster without Pods has no kubelet to wake
            self._beat_later()
        if event.type == "DELETED":
            gone = self._pods.pop(event.object["metadata"]["uid"], None)
            for timer in gone.timers.values() if gone else ():
                timer.cancel()
        else:
            self._check(event.object)

    def _check(self, pod: Json) -> None:
        """Have the next thing happen to a Pod, once."""
        meta, node = pod["metadata"], pod["spec"].get("nodeName", "")
        if not node or node in self._down:
            return
        watched = self._pods.setdefault(meta["uid"], _Watched(node))
        key = pods.pod_key(meta["namespace"], meta["name"])
        phase = pod["status"]["phase"]
        if "deletionTimestamp" in meta:
            # kubelet does not hurry containers that it is stopping (`SyncTerminatingPod` in `kubelet.go`).
            left = max(0.0, parse_timestamp(meta["deletionTimestamp"]) - self._server.wall())
            stop_s = float((meta.get("annotations") or {}).get(STOP_FOR, self.stop_s))
            code = TERMINATED if stop_s <= left else KILLED
            self._later(watched, "end", min(stop_s, left), lambda: self._finish(key, meta["uid"], code))
        elif phase == "Pending":
            self._later(watched, "start", self.start_s, lambda: self._change(key, meta["uid"], self._start))
        elif phase == "Running":
            annotations = meta.get("annotations") or {}
            for name, end in ((RUN_FOR, self._succeed), (FAIL_AFTER, self._fail)):
                if name in annotations:
                    self._end_later(watched, key, meta["uid"], float(annotations[name]), end)

    def _end_later(
        self, watched: _Watched, key: ObjectKey, uid: str, after_s: float, end: Callable[[Json], None]
    ) -> None:
        self._later(watched, end.__name__, after_s, lambda: self._change(key, uid, end))

    @staticmethod
    def _later(watched: _Watched, what: str, after_s: float, act: Callable[[], None]) -> None:
        if what not in watched.timers:
            watched.timers[what] = asyncio.get_running_loop().call_later(after_s, act)

    def _change(self, key: ObjectKey, uid: str, edit: Callable[[Json], None]) -> None:
        pod = self._server.storage.get(key)
        if pod is not None and pod["metadata"]["uid"] == uid:
            self._server.change(key, edit)

    def _start(self, pod: Json) -> None:
        now = self._server.wall()
        pod["status"] |= {"phase": "Running", "podIP": "10.0.0.1"}
        pod["status"]["containerStatuses"] = [
            {"name": container["name"], "ready": True, "state": {"running": {}}}
            for container in pod["spec"]["containers"]
        ]
        set_condition(pod["status"], {"type": "Ready", "status": "True"}, now)

    def _succeed(self, pod: Json) -> None:
        self._end(pod, "Succeeded", 0)

    def _fail(self, pod: Json) -> None:
        self._end(pod, "Failed", 1)

    def _end(self, pod: Json, phase: str, exit_code: int) -> None:
        pod["status"]["phase"] = phase
        for status in pod["status"].get("containerStatuses") or ():
            status["ready"] = False
            status["state"] = {"terminated": {"exitCode": exit_code, "reason": "Error" if exit_code else "Completed"}}
        set_condition(pod["status"], {"type": "Ready", "status": "False"}, self._server.wall())

    def _finish(self, key: ObjectKey, uid: str, exit_code: int) -> None:
        """Report that the containers have ended, then forget the Pod, as kubelet does with a delete of no grace."""
        pod = self._server.storage.get(key)
        if pod is not None and pod["metadata"]["uid"] == uid and pod["status"]["phase"] not in pods.FINISHED_PHASES:
            self._change(key, uid, lambda one: self._end(one, "Failed", exit_code))
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
        with suppress(StatusError):
            pods.delete_pod(self._server.storage, key, options, self._server.wall())


def _lease(node: str) -> ObjectKey:
    return ObjectKey(LEASES, NODE_LEASES, node)
