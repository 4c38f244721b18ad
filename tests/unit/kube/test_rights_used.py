"""Every right that the manifests give is used by the program, and the program uses no other: by doing all it can."""

from __future__ import annotations

import asyncio
import json

import pytest

from extender.assembly.informers import DEVICE_CLASSES as DEVICE_CLASSES_PATH
from extender.domain import wellknown
from extender.domain.election import LeaseRecord
from extender.domain.events import MemberRef
from extender.domain.nodes.marks import NodePatch, Report
from extender.domain.ports import Announcement
from extender.domain.views import OwnerReference
from extender.kube.announce import EventWriter
from extender.kube.checkpoints import CheckpointLease
from extender.kube.cluster import cluster_id
from extender.kube.lease import KubeNodeLeases, LeaseLock
from extender.kube.node_writes import NodeWriter
from extender.kube.owners import OwnerReader
from extender.kube.pod_reads import PodReader
from extender.kube.reflector import Reflector
from extender.kube.store import DeviceClassStore, NamespaceStore, NodeStore, PodStore
from extender.kube.wire.node import read_node
from extender.kube.wire.stream import DEVICE_CLASS, NODE, POD
from extender.kube.wire.stream import NAMESPACE as NAMESPACE_KIND
from extender.kube.writes import PodWriter
from simulator.kube.objects import owner_reference
from simulator.kube.rbac import ACCOUNT, NAMESPACE, Permission
from simulator.kube.resources import BUILT_IN, DEVICE_CLASSES, NAMESPACES, Resource
from tests.builders.fake_api import FakeApi, a_rng, fake_api, running
from tests.builders.kustomize import CORE, documents
from tests.builders.rights import shipped_rights

ALLOCATION_RECORD = {"status.slurm-extender.io/job-id": "42", "status.slurm-extender.io/node": "n1"}

pytestmark = pytest.mark.looptime

OF_OTHERS = (
    Resource("", "v1", "replicationcontrollers", "ReplicationController"),
    Resource("apps", "v1", "daemonsets", "DaemonSet"),
    Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet"),
    Resource("leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "LeaderWorkerSet"),
    DEVICE_CLASSES,
)
OWNERS = (
    ("v1", "ReplicationController"),
    *(("apps/v1", kind) for kind in ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet")),
    *(("batch/v1", kind) for kind in ("CronJob", "Job")),
    ("jobset.x-k8s.io/v1alpha2", "JobSet"),
    ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"),
)


def granted(account: str = ACCOUNT) -> set[Permission]:
    """All that the roles of an account say."""
    found = documents(CORE / "rbac-extender.yaml")
    roles = {
        one["roleRef"]["name"]
        for one in found
        if one["kind"].endswith("RoleBinding") and account in {subject["name"] for subject in one["subjects"]}
    }
    return {
        Permission(verb, group, resource)
        for role in found
        if role["kind"] in {"Role", "ClusterRole"} and role["metadata"]["name"] in roles
        for rule in role["rules"]
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


async def do_all(api: FakeApi) -> None:
    """Everything that the adapter can do, by its own means."""
    connection = api.connection
    rng = a_rng()
    reflectors = (
        Reflector(connection, "/api/v1/pods", POD, PodStore({"slurm"}), rng=rng),
        Reflector(connection, "/api/v1/nodes", NODE, NodeStore(), rng=rng),
        Reflector(connection, "/api/v1/namespaces", NAMESPACE_KIND, NamespaceStore(), rng=rng),
        Reflector(connection, DEVICE_CLASSES_PATH, DEVICE_CLASS, DeviceClassStore(), rng=rng, optional=True),
    )
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one.run()) for one in reflectors]
        await asyncio.sleep(5)
        for task in tasks:
            task.cancel()
    await cluster_id(connection)
    await KubeNodeLeases(connection).renewed("n1")
    lease = LeaseLock(connection, NAMESPACE, "slurm-extender")
    kept = await lease.write(await lease.read(1), LeaseRecord("a"), 1)
    await lease.write(kept, LeaseRecord("b"), 1)
    checkpoints = CheckpointLease(connection, NAMESPACE, "slurm-extender-checkpoints")
    await checkpoints.begin("0" * 16)
    assert await checkpoints.advance("0" * 16, 2)
    await write_pods(api)
    node = read_node(json.dumps(api.server.node("n1")).encode())
    nodes = NodeWriter(connection, clock=api.clock)
    assert await nodes.report(node, Report(True, "R", "text", None, True))
    for cordoned in (True, False):
        node = read_node(json.dumps(api.server.node("n1")).encode())
        assert await nodes.mark(node, NodePatch(unschedulable=cordoned))
    for version, kind in OWNERS:
        owner = api.server.create({"apiVersion": version, "kind": kind, "metadata": {"name": "o"}})
        uid = owner_reference(owner)["uid"]
        await OwnerReader(connection, rng=rng).controllers("default", OwnerReference(version, kind, "o", uid))


async def write_pods(api: FakeApi) -> None:
    writer = PodWriter(api.connection, clock=api.clock, rng=a_rng(), max_grace_s=1)
    for name, voluntary in (("p", True), ("q", False)):
        pod = api.server.add_pod(name, gates=[wellknown.GATE])
        member = MemberRef(pod["metadata"]["uid"], "default", name)
        await PodReader(api.connection, rng=a_rng()).read(member)
        await writer.wake(member, ALLOCATION_RECORD)
        await writer.bind(member, "n1", {})
        await writer.end(member, "R", "text", voluntary)
    announcer = EventWriter(api.connection, clock=api.clock, instance="i")
    for _ in range(2):
        announcer.announce(Announcement("Pod", "default", "p", "u", "R", "text"))
    await announcer.flush(within_s=5)
    async with running(announcer.run()):
        await asyncio.sleep(60)


async def test_every_right_is_used_and_no_other_is_needed() -> None:
    async with fake_api(resources=(*BUILT_IN, *OF_OTHERS)) as api:
        for name in (NAMESPACE, "kube-node-lease", "kube-system"):
            if not any(one["metadata"]["name"] == name for one in api.server.storage.of(NAMESPACES)):
                api.server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        api.server.add_node("n1")
        api.server.rbac = shipped_rights()
        await do_all(api)
        assert set(api.server.used) == granted()
