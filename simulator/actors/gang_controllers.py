"""Create gangs as their controllers do: annotated Pods, Jobs, JobSets and LeaderWorkerSets, and recreate members.

It works by level: each tick compares the Pods of a gang with those that there should be, so that a restored etcd is one
more difference.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from extender.domain.gangs import labels
from extender.domain.gangs.context import ControllerView, GangContext, ReplicatedJob
from extender.domain.gangs.membership import SHARED_NAMES, Membership
from extender.domain.gangs.recognition import recognise
from extender.domain.nodes.fence_evidence import FenceScript
from extender.domain.views import OwnerReference
from extender.domain.wellknown import GANG, GANG_SIZE
from extender.kube.wire.pod import read_pod
from simulator.cluster import SimCluster, prove_fence
from simulator.event_log import EventLog, pod_subject
from simulator.kube.kubelet import FAIL_AFTER, RUN_FOR, STOP_FOR
from simulator.kube.objects import Json, owner_reference
from simulator.kube.pods import OVER, pod_key
from simulator.kube.resources import JOBS, PODS, STATEFULSETS, Resource
from simulator.kube.status_errors import StatusError
from simulator.kube.storage import ObjectKey

JOB_SETS = Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet")
LEADER_WORKER_SETS = Resource("leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "LeaderWorkerSet")

RING, INDEX, ATTEMPT = "sim/ring", "sim/index", "sim/attempt"
"""Labels of a member: its gang, its place in it, and the generation of the owner's Pods."""

OTHER_GATE = "example.org/quota"
TICK_S = 1.0
DEAREST = 5
"""Members are created at most so many times as the gang has places."""

SETTING = "slurm-extender.io/"
TENANT = ("", "", "", "")
"""Every Pod of the simulation is charged to one user, account and QOS."""


class GangKind(StrEnum):
    """The controller of a gang."""

    ANNOTATED = "annotated"
    """Pods without an owner; one that is gone is created again under its name."""

    JOB = "job"
    """An Indexed Job: a member that fails or is being deleted is replaced at once, under another name."""

    JOB_SET = "jobset"
    """A failed or deleted member has all Pods of the set created again, by new Jobs."""

    WORKERS = "lws"
    """A LeaderWorkerSet: a failed or deleted member has the group recreated under the same names."""

    LEADER_READY = "lws-ready"
    """The same, whose workers are created once the leader runs."""


RESTARTED = frozenset({GangKind.JOB_SET, GangKind.WORKERS, GangKind.LEADER_READY})
"""Kinds of which all members are created again when one fails."""

SERVING = frozenset({GangKind.WORKERS, GangKind.LEADER_READY})
"""Kinds whose Pods never succeed."""


@dataclass(slots=True)
class Gang:
    """One gang, with its present generation of Pods."""

    name: str
    kind: GangKind
    size: int
    fields: dict[str, Any]
    fits: bool
    """An empty cluster has enough nodes for it."""

    attempt: int = 0
    made: int = 0
    restarting: bool = False
    owner: Json | None = None
    done: set[int] = field(default_factory=set)
    """Places whose Pod has succeeded."""

    @property
    def expected(self) -> int:
        """Return how many Pods complete the gang."""
        if self.kind is GangKind.LEADER_READY:
            return 1
        return self.size - len(self.done) if self.kind is GangKind.JOB else self.size


@dataclass(slots=True)
class GangControllers:
    """Create at most `limit` gangs within `duration_s`. After `stop` no member is created."""

    cluster: SimCluster
    rng: random.Random
    event_log: EventLog
    limit: int
    duration_s: float
    modes: tuple[str, ...]
    widest: int
    """Nodes that one gang may have."""

    gangs: dict[str, Gang] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    """The workload of each member that was created, by UID."""

    made: int = 0
    stopped: bool = False

    def begin(self) -> None:
        """Serve the kinds of owners, and write the evidence of earlier calls of the fence scripts on every Node."""
        kube, names = self.cluster.kube, self.cluster.names
        kube.resources = (*kube.resources, JOB_SETS, LEADER_WORKER_SETS)
        for node in self.cluster.slurm.controller.nodes:
            if kube.node(names.kube(node)) is not None:
                prove_fence(kube, names.kube(node), node, FenceScript)

    async def run(self) -> None:
        """Create gangs and act as their controllers until cancelled."""
        if not self.limit:
            return
        loop = asyncio.get_running_loop()
        due = sorted(self.rng.uniform(0, self.duration_s * 0.7) for _ in range(self.limit))
        while True:
            await asyncio.sleep(TICK_S)
            while due and due[0] <= loop.time():
                due.pop(0)
                self._begin_gang()
            for gang in self.gangs.values():
                if not self.stopped:
                    self._reconcile(gang)

    def stop(self) -> None:
        """Create no more members."""
        self.stopped = True

    def try_fences(self) -> None:
        """Create a short Pod on each Slurm node without a working fence, as an administrator would: its end calls."""
        if not self.gangs:
            return
        fenced = self.cluster.extender.node_controllers.fence_evidence.fenced()
        nodes = self.cluster.slurm.controller.nodes
        for node in sorted(fenced.unfenced(nodes, {name for name, one in nodes.items() if one.external})):
            name = f"try-{node}"
            if self.cluster.kube.pod(name) is None:
                said = {SETTING + "required-nodes": node, RUN_FOR: "1", STOP_FOR: "0.2"}
                self.cluster.kube.add_pod(name, annotations=said)

    def gang_of(self, pod: Json) -> Gang | None:
        """Return the gang of a Pod; `None` for any other."""
        return self.gangs.get((pod["metadata"].get("labels") or {}).get(RING, ""))

    def workload_of(self, uid: str) -> str:
        """Return the key of a Pod's workload."""
        return self.keys.get(uid, uid)

    def is_complete(self, pod: Json) -> bool:
        """Return whether every member of the Pod's gang exists and waits for nothing else, so that it can start."""
        gang = self.gang_of(pod)
        if gang is None:
            return True
        key = self.keys.get(pod["metadata"]["uid"])
        live = [one for one in self._pods(gang) if _is_live(one) and self.keys.get(one["metadata"]["uid"]) == key]
        gated = any(gate["name"] == OTHER_GATE for one in live for gate in one["spec"].get("schedulingGates") or ())
        led = gang.kind is not GangKind.LEADER_READY or any(_index(one) == 0 for one in live)
        return gang.fits and led and len(live) >= gang.expected and not gated

    def _begin_gang(self) -> None:
        rng, kind = self.rng, self.rng.choice([GangKind.ANNOTATED, GangKind.ANNOTATED, GangKind.JOB, *GangKind])
        size = rng.randint(2, self.widest)
        fits = rng.random() > 0.05
        annotations = {SETTING + "mode": rng.choice(self.modes), STOP_FOR: str(rng.choice([0.2, 1, 3, 10]))}
        if partition := rng.choice(["", "", "batch", "graced", "requeued", "urgent"]):
            annotations[SETTING + "partition"] = partition
        if rng.random() < 0.2:
            annotations[SETTING + "time-limit"] = str(rng.choice([2, 5, 20]))
        fields: dict[str, Any] = {
            "cpu": str(rng.choice([1, 2, 4, 8, 12])),
            "memory": rng.choice(["1Gi", "4Gi"]),
            "grace_s": rng.choice([0, 1, 5, 30]),
            "annotations": annotations,
        }
        name = f"{kind}-{len(self.gangs)}"
        gang = Gang(name, kind, size if fits else self.widest + 20, fields, fits)
        self.gangs[name] = gang
        self.event_log.add(f"a gang of {gang.size} begins: {name}, {fields['cpu']} CPUs each, {annotations}")

    def _reconcile(self, gang: Gang) -> None:
        pods = self._pods(gang)
        if gang.kind is GangKind.JOB and self._recorded(gang) < len(gang.done):
            gang.done.clear()  # etcd was restored to an instant before some of them had succeeded
        for pod in pods:
            if pod["status"]["phase"] == "Succeeded":
                self._succeeded(gang, pod)
        if gang.kind in RESTARTED and self._restarts(gang, pods):
            return
        if gang.owner is not None and self._is_other(gang.owner):
            gang.owner = self.cluster.kube.storage.get(_key_of(gang.owner))  # etcd was restored to another instant
            gang.done.clear()
        if gang.owner is None and gang.kind is not GangKind.ANNOTATED:
            self._make_owner(gang)
        for index in self._missing(gang, pods):
            if gang.made >= gang.size * DEAREST or self.rng.random() < 0.4:
                continue
            self._make(gang, index)
        for pod in pods:
            gates = pod["spec"].get("schedulingGates") or ()
            if any(gate["name"] == OTHER_GATE for gate in gates) and self.rng.random() < 0.1:
                self._open_gate(pod)
            elif pod["status"]["phase"] in OVER and self.rng.random() < 0.02:
                self._delete(pod)

    def _recorded(self, gang: Gang) -> int:
        """Return how many Pods of a Job have succeeded, as its status says."""
        job = None if gang.owner is None else self.cluster.kube.storage.get(_key_of(gang.owner))
        return 0 if job is None else (job.get("status") or {}).get("succeeded", 0)

    def _is_other(self, owner: Json) -> bool:
        """Return whether there is no such object any more, or another one of its name."""
        stored = self.cluster.kube.storage.get(_key_of(owner))
        return stored is None or stored["metadata"]["uid"] != owner["metadata"]["uid"]

    def _pods(self, gang: Gang) -> list[Json]:
        pods = self.cluster.kube.storage.of(PODS)
        return [pod for pod in pods if (pod["metadata"].get("labels") or {}).get(RING) == gang.name]

    def _succeeded(self, gang: Gang, pod: Json) -> None:
        index = _index(pod)
        if index in gang.done or _attempt(pod) != gang.attempt:
            return
        gang.done.add(index)
        if gang.kind is GangKind.JOB and gang.owner is not None:
            key = _key_of(gang.owner)
            if self.cluster.kube.storage.get(key) is not None:
                self.cluster.kube.change(key, lambda job: job.update(status={"succeeded": len(gang.done)}))

    def _restarts(self, gang: Gang, pods: list[Json]) -> bool:
        """Return whether the group is being recreated, and continue that."""
        failed = [pod for pod in pods if "deletionTimestamp" in pod["metadata"] or pod["status"]["phase"] == "Failed"]
        lost = len({_index(pod) for pod in pods}) < min(gang.made, gang.size) and not gang.done and gang.made
        if not gang.restarting and not failed and not (lost and gang.made >= gang.size):
            return False
        if not gang.restarting:
            self.event_log.add(f"{gang.name} is recreated")
        gang.restarting = True
        for pod in pods:
            self._delete(pod)
        if pods and gang.kind is not GangKind.JOB_SET:
            return True  # the next generation has the same names
        gang.restarting, gang.attempt = False, gang.attempt + 1
        gang.done.clear()
        return False

    def _missing(self, gang: Gang, pods: list[Json]) -> Iterator[int]:
        for index in range(gang.size):
            of_index = [pod for pod in pods if _index(pod) == index and _attempt(pod) == gang.attempt]
            if index in gang.done or any(_is_live(pod) for pod in of_index):
                continue
            if gang.kind is GangKind.JOB or not of_index:
                if gang.kind is GangKind.LEADER_READY and index and not self._leads(pods, gang):
                    continue
                yield index

    def _leads(self, pods: list[Json], gang: Gang) -> bool:
        return any(
            _index(pod) == 0 and _attempt(pod) == gang.attempt and pod["status"]["phase"] == "Running" for pod in pods
        )

    def _make_owner(self, gang: Gang) -> None:
        said = {GANG: {GangKind.JOB: "true", GangKind.JOB_SET: "set"}.get(gang.kind, "")}
        meta: Json = {"name": gang.name, "namespace": "default", "annotations": said if said[GANG] else {}}
        spec: Json = {"completionMode": "Indexed", "parallelism": gang.size, "completions": gang.size}
        resource = JOBS
        if gang.kind is GangKind.JOB_SET:
            pod_spec = {"parallelism": 1, "completions": 1}
            spec = {"replicatedJobs": [{"name": "w", "replicas": gang.size, "template": {"spec": pod_spec}}]}
            resource = JOB_SETS
        elif gang.kind in RESTARTED:
            spec = {"startupPolicy": "LeaderReady" if gang.kind is GangKind.LEADER_READY else "LeaderCreated"}
            resource = LEADER_WORKER_SETS
        body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta, "spec": spec}
        gang.owner = self.cluster.kube.create(body)

    def _make(self, gang: Gang, index: int) -> None:
        own = self._of_kind(gang, index)
        if own is None:
            return
        name, owner, said, marks, controllers = own
        annotations = dict(gang.fields["annotations"]) | marks
        fails = self.rng.random() < 0.15
        if self.rng.random() < 0.5 and (fails or gang.kind not in SERVING):
            what = FAIL_AFTER if fails else RUN_FOR
            annotations[what] = str(round(self.rng.expovariate(1 / 180.0) + 1, 1))
        gates = [OTHER_GATE] if self.rng.random() < 0.03 else []
        tags = {RING: gang.name, INDEX: str(index), ATTEMPT: str(gang.attempt)} | said
        fields = gang.fields | {"annotations": annotations, "labels": tags, "gates": gates, "owner": owner}
        try:
            pod = self.cluster.kube.add_pod(name, **fields)
        except StatusError:  # its forerunner is still there
            return
        self.made += 1
        gang.made += 1
        found = recognise(read_pod(pod), GangContext(controllers))
        if isinstance(found, Membership):
            tenant = TENANT if found.source in SHARED_NAMES else ()
            self.keys[pod["metadata"]["uid"]] = found.key(tenant)
        self.event_log.add(f"created as member {index} of {gang.name}, generation {gang.attempt}", pod_subject(name))

    def _of_kind(
        self, gang: Gang, index: int
    ) -> tuple[str, Json | None, dict[str, str], dict[str, str], tuple[ControllerView, ...]] | None:
        """Return name, owner, labels and annotations of a member, and the controllers above it."""
        match gang.kind:
            case GangKind.ANNOTATED:
                return f"{gang.name}-{index}", None, {}, {GANG: gang.name, GANG_SIZE: str(gang.size)}, ()
            case GangKind.JOB if gang.owner is not None:
                view = _view(gang.owner, pods=gang.size, indexed=True)
                marks = {labels.JOB_INDEX: str(index)}
                return f"{gang.name}-{index}-{gang.made}", owner_reference(gang.owner), marks, marks, (view,)
            case GangKind.JOB_SET if gang.owner is not None:
                return self._of_job_set(gang, index, gang.owner)
            case _ if gang.owner is not None:
                return self._of_group(gang, index, gang.owner)
        return None

    def _of_job_set(
        self, gang: Gang, index: int, job_set: Json
    ) -> tuple[str, Json | None, dict[str, str], dict[str, str], tuple[ControllerView, ...]] | None:
        name = f"{gang.name}-w-{index}-{gang.attempt}"
        job = self._owned(JOBS, name, {"parallelism": 1, "completions": 1}, job_set)
        entry = ReplicatedJob("w", gang.size, 1)
        views = (_view(job, pods=1), _view(job_set, replicated=(entry,)))
        tags = {
            labels.JOBSET_NAME: gang.name,
            labels.JOBSET_UID: job_set["metadata"]["uid"],
            labels.JOBSET_REPLICATED_JOB: "w",
            labels.JOBSET_GLOBAL_INDEX: str(index),
            labels.JOBSET_ATTEMPT: str(gang.attempt),
            labels.JOB_INDEX: "0",
        }
        return f"{name}-0", owner_reference(job), tags, {}, views

    def _of_group(
        self, gang: Gang, index: int, group: Json
    ) -> tuple[str, Json | None, dict[str, str], dict[str, str], tuple[ControllerView, ...]] | None:
        tags = {labels.LWS_NAME: gang.name, labels.LWS_GROUP_INDEX: "0", labels.LWS_WORKER_INDEX: str(index)}
        marks = {labels.LWS_SIZE: str(gang.size)}
        set_view = _view(group, in_order=gang.kind is GangKind.LEADER_READY)
        if not index:
            leaders = self._owned(STATEFULSETS, gang.name, {}, group)
            return f"{gang.name}-0", owner_reference(leaders), tags, marks, (_view(leaders), set_view)
        leader = self.cluster.kube.pod(f"{gang.name}-0")
        if leader is None or not _is_live(leader):
            return None
        workers = self._owned(STATEFULSETS, f"{gang.name}-workers-{gang.attempt}", {}, leader | {"kind": "Pod"})
        views = (_view(workers), _view(leader | {"kind": "Pod", "apiVersion": "v1"}), set_view)
        return f"{gang.name}-0-{index}", owner_reference(workers), tags, marks, views

    def _owned(self, resource: Resource, name: str, spec: Json, above: Json) -> Json:
        known = self.cluster.kube.storage.get(ObjectKey(resource, "default", name))
        owners = [owner_reference({"apiVersion": "v1"} | above)]
        if known is not None and known["metadata"]["ownerReferences"] == owners:
            return known
        if known is not None:
            self.cluster.kube.storage.remove(ObjectKey(resource, "default", name))
        meta = {"name": name, "namespace": "default", "ownerReferences": owners}
        return self.cluster.kube.create(
            {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta, "spec": spec}
        )

    def _open_gate(self, pod: Json) -> None:
        def edit(one: Json) -> None:
            gates = one["spec"].get("schedulingGates") or ()
            one["spec"]["schedulingGates"] = [gate for gate in gates if gate["name"] != OTHER_GATE]

        self.event_log.add("its quota is granted", pod_subject(pod["metadata"]["name"]))
        with suppress(StatusError):
            self.cluster.kube.change(pod_key("default", pod["metadata"]["name"]), edit)

    def _delete(self, pod: Json) -> None:
        if "deletionTimestamp" not in pod["metadata"]:
            with suppress(StatusError):
                self.cluster.kube.delete_pod(pod["metadata"]["name"])


def _key_of(owner: Json) -> ObjectKey:
    resource = {"Job": JOBS, "JobSet": JOB_SETS}.get(owner["kind"], LEADER_WORKER_SETS)
    return ObjectKey(resource, "default", owner["metadata"]["name"])


def _is_live(pod: Json) -> bool:
    return "deletionTimestamp" not in pod["metadata"] and pod["status"]["phase"] not in OVER


def _index(pod: Json) -> int:
    return int(pod["metadata"]["labels"][INDEX])


def _attempt(pod: Json) -> int:
    return int(pod["metadata"]["labels"][ATTEMPT])


def _view(obj: Json, **fields: Any) -> ControllerView:
    meta = obj["metadata"]
    owner = OwnerReference(obj["apiVersion"], obj["kind"], meta["name"], meta["uid"])
    return ControllerView(owner, meta.get("annotations") or {}, **fields)
