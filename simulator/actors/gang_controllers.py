"""Create gangs as their controllers do: plain Pods, with PodGroups or without, Jobs, JobSets and LeaderWorkerSets.

Members that fail or disappear are recreated.

It works by level: each tick compares the Pods of a gang with those that there should be, so that a restored etcd is one
more difference.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from extender.domain.gangs import labels
from extender.domain.gangs.context import ControllerView, GangContext, GroupView, ReplicatedJob
from extender.domain.gangs.membership import POD_GROUPS, SHARED_NAMES, Membership
from extender.domain.gangs.recognition import recognise
from extender.domain.nodes.fence_evidence import FenceScript
from extender.domain.views import OwnerReference
from extender.domain.wellknown import GANG, GANG_SIZE, OWN_PREFIX
from extender.kube.wire.pod import read_pod
from simulator.actors.gang_shapes import GROUPED, OWNED, RESTARTED, SERVING, Gang, GangKind, draw_gang
from simulator.cluster import SimCluster, prove_fence
from simulator.event_log import EventLog, pod_subject
from simulator.kube import rbac
from simulator.kube.kubelet import FAIL_AFTER, RUN_FOR, STOP_FOR
from simulator.kube.kubelet_admission import exceeded_resources
from simulator.kube.objects import Json, a_pod, owner_reference
from simulator.kube.pods import FINISHED_PHASES, pod_key
from simulator.kube.resources import (
    COSCHEDULING_POD_GROUPS,
    JOBS,
    KUBERNETES_POD_GROUPS,
    PODS,
    STATEFULSETS,
    Resource,
)
from simulator.kube.status_errors import StatusError
from simulator.kube.storage import ObjectKey

JOB_SETS = Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet")
LEADER_WORKER_SETS = Resource("leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "LeaderWorkerSet")

RING, INDEX, ATTEMPT = "sim/ring", "sim/index", "sim/attempt"
"""Labels of a member: its gang, its place in it, and the generation of the owner's Pods."""

OWNERS = (JOBS, JOB_SETS, LEADER_WORKER_SETS, KUBERNETES_POD_GROUPS, COSCHEDULING_POD_GROUPS)
"""Kinds of objects of which each gang has one at most."""

OTHER_GATE = "example.org/quota"
KUEUE_GATE = "kueue.x-k8s.io/admission"
GATES = frozenset({OTHER_GATE, KUEUE_GATE})
"""Gates of other controllers."""

TICK_S = 1.0
MAX_RECREATIONS = 5
"""Factor: a gang of n places creates at most this many times n members."""

TENANT = ("", "", "", "")
"""Every Pod of the simulation is charged to one user, account and QOS."""


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

    kept: set[str] = field(default_factory=set)
    """Workloads whose job the next incarnation of their gang takes over."""

    made: int = 0
    stopped: bool = False

    def begin(self) -> None:
        """Serve the kinds of owners and PodGroups, and write evidence of working fence scripts on every Node."""
        kube, names = self.cluster.kube, self.cluster.names
        kube.resources = (*kube.resources, *(one for one in OWNERS if one != JOBS))
        groups = ", ".join(one.group for one in (KUBERNETES_POD_GROUPS, COSCHEDULING_POD_GROUPS))
        kube.rbac = rbac.shipped("pod-groups")
        self.cluster.config += f"gangs: {{podGroups: [{groups}]}}\n"
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
                said = {OWN_PREFIX + "required-nodes": node, RUN_FOR: "1", STOP_FOR: "0.2"}
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
        gated = any(map(is_gated, live))
        led = gang.kind is not GangKind.LEADER_READY or any(_index(one) == 0 for one in live)
        return gang.fits and led and len(live) >= gang.expected and not gated

    def _begin_gang(self) -> None:
        gang = draw_gang(self.rng, len(self.gangs), self.widest, self.modes)
        if gang.is_packed:
            gang.size = min(gang.size, self._most_packed(gang))
        self.gangs[gang.name] = gang
        cpu, annotations = gang.fields["cpu"], gang.fields["annotations"]
        self.event_log.add(f"a gang of {gang.size} begins: {gang.name}, {cpu} CPUs each, {annotations}")

    def _most_packed(self, gang: Gang) -> int:
        """Return how many members of a packed gang Kubernetes has room for, wherever Slurm puts them.

        Slurm does not know that Kubernetes has less room on a Node, and may put all members there.
        """
        names, nodes = self.cluster.names, self.cluster.slurm.controller.nodes.values()
        member = a_pod(gang.name, cpu=gang.fields["cpu"], memory=gang.fields["memory"])
        least = gang.size
        for slurm_node in nodes:
            node = self.cluster.kube.node(names.kube(slurm_node.name))
            tasks = min(gang.size, slurm_node.cpus // int(gang.fields["cpu"]))
            if node is not None and exceeded_resources(node, [member] * tasks):
                least = min(least, next(k for k in range(tasks) if exceeded_resources(node, [member] * (k + 1))))
        return least

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
        if gang.owner is None and gang.kind in OWNED | GROUPED:
            self._make_owner(gang)
        for index in self._missing(gang, pods):
            if gang.made >= gang.size * MAX_RECREATIONS or self.rng.random() < 0.4:
                continue
            self._make(gang, index)
        for pod in pods:
            if is_gated(pod) and self._may_open(gang, pods) and self.rng.random() < 0.1:
                self._open_gate(pod)
            elif pod["status"]["phase"] in FINISHED_PHASES and self.rng.random() < 0.02:
                self._delete(pod)

    def _may_open(self, gang: Gang, pods: list[Json]) -> bool:
        """Return whether the gates of the members may go: Kueue admits a group once it is complete."""
        return gang.kind is not GangKind.KUEUE or sum(map(_is_live, pods)) + len(gang.done) >= gang.size

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
        elif gang.kind is GangKind.POD_GROUP:
            spec, resource = {"schedulingPolicy": {"gang": {"minCount": gang.size}}}, KUBERNETES_POD_GROUPS
        elif gang.kind is GangKind.COSCHEDULING:
            spec, resource = {"minMember": gang.size}, COSCHEDULING_POD_GROUPS
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
        gates += [KUEUE_GATE] if gang.kind is GangKind.KUEUE else []
        tags = {RING: gang.name, INDEX: str(index), ATTEMPT: str(gang.attempt)} | said
        fields = gang.fields | {"annotations": annotations, "labels": tags, "gates": gates, "owner": owner}
        if gang.kind is GangKind.POD_GROUP:
            fields["spec_more"] = {"schedulingGroup": {"podGroupName": gang.name}}
        try:
            pod = self.cluster.kube.add_pod(name, **fields)
        except StatusError:  # its forerunner is still there
            return
        self.made += 1
        gang.made += 1
        group = GroupView(gang.owner["metadata"]["uid"], gang.size) if gang.owner is not None else None
        found = recognise(read_pod(pod), GangContext(controllers, lambda _: group, POD_GROUPS))
        if isinstance(found, Membership):
            tenant = TENANT if found.source in SHARED_NAMES else ()
            key = self.keys[pod["metadata"]["uid"]] = found.key(tenant)
            if gang.keeps_allocation:
                self.kept.add(key)
        self.event_log.add(f"created as member {index} of {gang.name}, generation {gang.attempt}", pod_subject(name))

    def _of_kind(
        self, gang: Gang, index: int
    ) -> tuple[str, Json | None, dict[str, str], dict[str, str], tuple[ControllerView, ...]] | None:
        """Return name, owner, labels and annotations of a member, and the controllers above it."""
        match gang.kind:
            case GangKind.ANNOTATED:
                return f"{gang.name}-{index}", None, {}, {GANG: gang.name, GANG_SIZE: str(gang.size)}, ()
            case GangKind.POD_GROUP:
                return f"{gang.name}-{index}", None, {}, {}, ()
            case GangKind.COSCHEDULING:
                return f"{gang.name}-{index}", None, {labels.COSCHEDULING_GROUP: gang.name}, {}, ()
            case GangKind.KUEUE:
                marks = {labels.KUEUE_SIZE: str(gang.size)}
                return f"{gang.name}-{index}", None, {labels.KUEUE_GROUP: gang.name}, marks, ()
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
            one["spec"]["schedulingGates"] = [gate for gate in gates if gate["name"] not in GATES]

        self.event_log.add("its quota is granted", pod_subject(pod["metadata"]["name"]))
        with suppress(StatusError):
            self.cluster.kube.change(pod_key("default", pod["metadata"]["name"]), edit)

    def _delete(self, pod: Json) -> None:
        if "deletionTimestamp" not in pod["metadata"]:
            with suppress(StatusError):
                self.cluster.kube.delete_pod(pod["metadata"]["name"])


def _key_of(owner: Json) -> ObjectKey:
    resource = next(one for one in OWNERS if (one.api_version, one.kind) == (owner["apiVersion"], owner["kind"]))
    return ObjectKey(resource, "default", owner["metadata"]["name"])


def _is_live(pod: Json) -> bool:
    return "deletionTimestamp" not in pod["metadata"] and pod["status"]["phase"] not in FINISHED_PHASES


def is_gated(pod: Json) -> bool:
    """Return whether another controller still keeps a Pod from being scheduled."""
    return any(gate["name"] in GATES for gate in pod["spec"].get("schedulingGates") or ())


def _index(pod: Json) -> int:
    return int(pod["metadata"]["labels"][INDEX])


def _attempt(pod: Json) -> int:
    return int(pod["metadata"]["labels"][ATTEMPT])


def _view(obj: Json, **fields: Any) -> ControllerView:
    meta = obj["metadata"]
    owner = OwnerReference(obj["apiVersion"], obj["kind"], meta["name"], meta["uid"])
    return ControllerView(owner, meta.get("annotations") or {}, **fields)
