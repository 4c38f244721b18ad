"""Create Pods of several kinds, recreate them as their controllers do, and change and delete them as users do."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from simulator.actors.pod_shapes import demands
from simulator.cluster import SimCluster
from simulator.event_log import EventLog, pod_subject
from simulator.kube.kubelet import FAIL_AFTER, RUN_FOR, STOP_FOR
from simulator.kube.objects import Json
from simulator.kube.pods import FINISHED_PHASES, pod_key
from simulator.kube.resources import PODS
from simulator.kube.status_errors import StatusError
from simulator.kube.storage import WatchEvent
from simulator.site import FEATURE

PARTITIONS = ("", "batch", "batch", "graced", "requeued", "urgent")
"""Partitions with repetitions as weights; "" requests none."""

SETTING = "slurm-extender.io/"


class OwnerKind(StrEnum):
    """The kind of controller that recreates a Pod."""

    PLAIN = "plain"
    TASK = "task"
    """Like a Job: a Pod that failed or was evicted is recreated under another name."""

    REPLICA = "replica"
    """Like a Deployment: recreated under another name as soon as it terminates."""

    STATEFUL = "stateful"
    """Like a StatefulSet: recreated under the same name after it is gone."""


@dataclass(slots=True)
class _PodLineage:
    """A Pod and its successors."""

    kind: OwnerKind
    name: str
    fields: dict[str, Any]
    made: int = 0
    current: str = ""
    """The UID of the current Pod."""


@dataclass(slots=True)
class PodCreator:
    """Create at most `limit` Pods within `duration_s`. After `stop` no Pod is recreated."""

    cluster: SimCluster
    rng: random.Random
    event_log: EventLog
    limit: int
    duration_s: float
    modes: tuple[str, ...]
    """The modes that Pods request."""

    shapes: random.Random | None = None
    """Random generator of resources that Slurm does not count; None: no Pod requests them."""

    made: int = 0
    stopped: bool = False
    _lines: dict[str, _PodLineage] = field(default_factory=dict)
    _finished: set[str] = field(default_factory=set)

    async def run(self) -> None:
        """Create Pods until cancelled."""
        stop_listening = self.cluster.kube.storage.listen(self._on_event)
        try:
            fresh = max(1, self.limit * 2 // 3)  # The rest is for those that are made again.
            for at in sorted(self.rng.uniform(0, self.duration_s * 0.8) for _ in range(fresh)):
                await asyncio.sleep(max(0.0, at - asyncio.get_running_loop().time()))
                self._begin_line()
            await asyncio.get_running_loop().create_future()
        finally:
            stop_listening()

    async def act_as_users(self) -> None:
        """Delete Pods and change settings of waiting Pods, as users do."""
        while True:
            await asyncio.sleep(self.rng.expovariate(1 / max(20.0, self.duration_s / max(1, self.limit))))
            pods = [pod for pod in self.cluster.pods() if "deletionTimestamp" not in pod["metadata"]]
            if not pods or self.stopped:
                continue
            pod = self.rng.choice(pods)
            name = pod["metadata"]["name"]
            if not pod["spec"].get("nodeName") and self.rng.random() < 0.5:
                self._change_request(name)
            else:
                grace = self.rng.choice([None, None, 0, 5, 60])
                self.event_log.add(f"a user deletes it, grace {grace}", pod_subject(name))
                with suppress(StatusError):
                    self.cluster.kube.delete_pod(name, grace_s=grace)

    def stop(self) -> None:
        """Recreate no more Pods."""
        self.stopped = True

    def _begin_line(self) -> None:
        rng, number = self.rng, len(self._lines)
        kind = rng.choice([*OwnerKind, OwnerKind.TASK])
        name = f"{kind}-{number}"
        annotations = {
            SETTING + "mode": rng.choice(self.modes),
            STOP_FOR: str(rng.choice([0.2, 1, 3, 10, 45])),
        }
        if partition := rng.choice(PARTITIONS):
            annotations[SETTING + "partition"] = partition
        if rng.random() < 0.1:
            annotations[SETTING + "constraints"] = FEATURE
        if rng.random() < 0.2:
            annotations[SETTING + "time-limit"] = str(rng.choice([2, 5, 20]))
        if kind is OwnerKind.TASK or rng.random() < 0.2:
            what = FAIL_AFTER if rng.random() < 0.3 else RUN_FOR
            annotations[what] = str(round(rng.expovariate(1 / 240.0) + 1, 1))
        fields: dict[str, Any] = {
            "cpu": str(rng.choice([1, 2, 4, 8, 12])),
            "gpus": rng.choice([0, 0, 0, 1, 2]),
            "memory": rng.choice(["1Gi", "4Gi"]),
            "grace_s": rng.choice([0, 1, 5, 30, 60]),
            "annotations": annotations,
        }
        if self.shapes is not None:
            fields |= demands(self.shapes)
        line = self._lines[name] = _PodLineage(kind, name, fields)
        self._make(line)

    def _make(self, line: _PodLineage) -> None:
        if self.stopped or self.made >= self.limit:
            return
        name = line.name if line.kind is OwnerKind.STATEFUL or not line.made else f"{line.name}-{line.made}"
        try:
            pod = self.cluster.kube.add_pod(name, labels={"line": line.name}, **line.fields)
        except StatusError:  # Its forerunner is still there.
            asyncio.get_running_loop().call_later(1.0, self._make, line)
            return
        self.made += 1
        line.made += 1
        line.current = pod["metadata"]["uid"]
        requested = {key.removeprefix(SETTING): value for key, value in line.fields["annotations"].items()}
        self.event_log.add(
            f"created, {line.fields['cpu']} CPUs, {line.fields['gpus']} GPUs, {requested}", pod_subject(name)
        )

    def _change_request(self, name: str) -> None:
        partition = self.rng.choice(PARTITIONS[1:])

        def edit(pod: Json) -> None:
            pod["metadata"].setdefault("annotations", {})[SETTING + "partition"] = partition

        self.event_log.add(f"a user asks for partition {partition}", pod_subject(name))
        self.cluster.kube.change(pod_key("default", name), edit)

    def _on_event(self, event: WatchEvent) -> None:
        if event.resource != PODS or self.stopped:
            return
        pod = event.object
        meta = pod["metadata"]
        line = self._lines.get((meta.get("labels") or {}).get("line", ""))
        if line is None or line.current != meta["uid"]:
            return
        finished, gone = pod["status"]["phase"] in FINISHED_PHASES, event.type == "DELETED"
        failed = gone or pod["status"]["phase"] == "Failed"
        again = {
            OwnerKind.PLAIN: False,
            OwnerKind.TASK: failed,
            OwnerKind.REPLICA: finished or "deletionTimestamp" in meta,
            OwnerKind.STATEFUL: gone,
        }[line.kind]
        loop = asyncio.get_running_loop()
        if again:
            line.current = ""
            loop.call_later(self.rng.uniform(0.01, 5.0), self._make, line)
        if finished and meta["uid"] not in self._finished:
            self._finished.add(meta["uid"])
            loop.call_later(self.rng.uniform(5.0, 300.0), self._tidy, meta["name"], meta["uid"])

    def _tidy(self, name: str, uid: str) -> None:
        pod = self.cluster.kube.pod(name)
        if pod is not None and pod["metadata"]["uid"] == uid:
            self.cluster.kube.delete_pod(name)
