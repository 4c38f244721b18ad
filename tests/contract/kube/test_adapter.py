"""The adapter does on a real API server what it does on the fake one."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from extender.domain import wellknown
from extender.domain.events import MemberRef
from extender.domain.gangs.context import root_annotations
from extender.domain.ports import Announcement, BindResult
from extender.kube.announce import EventWriter
from extender.kube.cluster import cluster_id
from extender.kube.owners import OwnerReader
from extender.kube.reflector import Reflector
from extender.kube.store import NodeStore, PodStore
from extender.kube.wire.pod import read_pod
from extender.kube.wire.stream import NODE as NODE_KIND
from extender.kube.wire.stream import POD
from extender.kube.writes import PodWriter
from simulator.kube.objects import Json, owner_reference
from tests.builders.fake_api import a_rng, running
from tests.builders.kube_sites import NODE, Caller, Site, until
from tests.contract.kube.conftest import OpenSite

ALLOCATION_RECORD = {"status.slurm-extender.io/job-id": "42", "status.slurm-extender.io/node": "n1"}


def a_writer(site: Site) -> PodWriter:
    return PodWriter(site.connection, clock=site.clock, rng=a_rng())


def ref(pod: Json, uid: str = "") -> MemberRef:
    meta = pod["metadata"]
    return MemberRef(uid or meta["uid"], meta["namespace"], meta["name"])


def cause(pod: Json) -> tuple[str, str]:
    found = next(each for each in pod["status"]["conditions"] if each["type"] == "DisruptionTarget")
    return found["reason"], found["message"]


async def test_a_pod_is_woken_bound_and_ended(open_site: OpenSite) -> None:
    async with open_site() as site:
        caller, writer = Caller(site), a_writer(site)
        member = ref(await caller.add_pod("p", gates=[wellknown.GATE], grace_s=20))
        assert (await writer.bind(member, NODE, {})).result is BindResult.REFUSED
        assert (await writer.wake(member, ALLOCATION_RECORD)).accepted
        assert (await writer.bind(member, NODE, {"x.io/bound-by": "us"})).result is BindResult.BOUND
        assert (await writer.bind(member, NODE, {})).result is BindResult.BOUND
        assert (await writer.bind(member, "elsewhere", {})).result is BindResult.REFUSED
        view = read_pod(await caller.pod("p"))
        assert (view.node_name, view.gates) == (NODE, ())
        assert view.annotations == {**ALLOCATION_RECORD, "x.io/bound-by": "us"}
        assert (await writer.end(member, "SlurmJobPreempted", "job 42 was preempted", voluntary=False)).accepted
        pod = await caller.pod("p")
        assert cause(pod) == ("SlurmJobPreempted", "job 42 was preempted")
        assert pod["metadata"]["deletionGracePeriodSeconds"] == 20


async def test_an_evicted_pod_names_the_extenders_cause(open_site: OpenSite) -> None:
    async with open_site() as site:
        caller = Caller(site)
        member = ref(await caller.running_pod("p", grace_s=20))
        assert (await a_writer(site).end(member, "SlurmJobCancelled", "job 42 was cancelled", voluntary=True)).accepted
        assert cause(await caller.pod("p")) == ("SlurmJobCancelled", "job 42 was cancelled")


@pytest.mark.parametrize("voluntary", [True, False])
async def test_another_pod_of_the_name_is_never_touched(open_site: OpenSite, voluntary: bool) -> None:
    async with open_site() as site:
        caller, writer = Caller(site), a_writer(site)
        before = await caller.running_pod("p")
        older = ref(before, uid="11111111-2222-3333-4444-555555555555")
        assert not (await writer.wake(older, ALLOCATION_RECORD)).accepted
        assert (await writer.bind(older, "elsewhere", {})).result is BindResult.REFUSED
        assert (await writer.end(older, "R", "text", voluntary)).accepted
        after = await caller.pod("p")
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        assert "deletionTimestamp" not in after["metadata"]
        assert "DisruptionTarget" not in {each["type"] for each in after["status"]["conditions"]}


async def test_a_mirror_follows_pods_and_nodes(open_site: OpenSite) -> None:
    async with open_site() as site:
        caller, pods, nodes = Caller(site), PodStore({"slurm"}), NodeStore()
        for number in range(3):
            await caller.add_pod(f"p{number}")
        pod_mirror = Reflector(site.connection, "/api/v1/pods", POD, pods, rng=a_rng(), keep=pods.keep)
        node_mirror = Reflector(site.connection, "/api/v1/nodes", NODE_KIND, nodes, rng=a_rng())
        async with running(pod_mirror.run()), running(node_mirror.run()):
            await pods.wait_synced()
            await nodes.wait_synced()

            def own() -> list[str]:
                return sorted(pod.name for pod in pods.all() if pod.namespace == site.namespace)

            assert own() == ["p0", "p1", "p2"]
            assert nodes.named(NODE) is not None
            member = ref(await caller.pod("p0"))
            await a_writer(site).bind(member, NODE, {})
            await caller.call("DELETE", f"{caller.pods}/p1")

            async def followed() -> bool:
                return own() == ["p0", "p2"] and any(pod.uid == member.uid for pod in pods.on_node(NODE))

            await until(followed, "the mirror follows")
            node = nodes.named(NODE)
            assert node is not None
            assert node.ready
            assert (pod_mirror.status.unreadable_items, pod_mirror.status.unreadable_events) == (0, 0)


async def test_an_event_arrives(open_site: OpenSite) -> None:
    async with open_site() as site:
        caller = Caller(site)
        pod = await caller.add_pod("p")
        writer = EventWriter(site.connection, clock=site.clock, instance="extender-0")
        said = Announcement("Pod", site.namespace, "p", pod["metadata"]["uid"], "SlurmJobPending", "é" * 2000, True)
        about_node = Announcement("Node", "", NODE, f"uid-of-{site.namespace}", "EvictionPaused", "a Pod ends")
        for announcement in (said, about_node):
            writer.announce(announcement)
        await writer.flush(within_s=10)
        assert (writer.status.sent, writer.status.failed) == (2, 0)
        _, events = await caller.call("GET", f"/apis/events.k8s.io/v1/namespaces/{site.namespace}/events")
        [event] = events["items"]
        assert (event["type"], event["reason"]) == ("Warning", "SlurmJobPending")


async def test_a_repeated_event_is_counted_up(open_site: OpenSite) -> None:
    async with open_site() as site:
        caller = Caller(site)
        writer = EventWriter(site.connection, clock=site.clock, instance="extender-0")
        for _ in range(3):
            writer.announce(Announcement("Pod", site.namespace, "p", "u", "SlurmJobPending", "waits"))
        await writer.flush(within_s=10)
        _, events = await caller.call("GET", f"/apis/events.k8s.io/v1/namespaces/{site.namespace}/events")
        assert [event["series"]["count"] for event in events["items"]] == [3]


async def test_the_topmost_owner_is_found(open_site: OpenSite) -> None:
    async with open_site() as site:
        caller = Caller(site)
        apps = f"/apis/apps/v1/namespaces/{site.namespace}"
        template = {
            "metadata": {"labels": {"app": "x"}},
            "spec": {"containers": [{"name": "c", "image": "i"}], "automountServiceAccountToken": False},
        }
        spec: dict[str, Any] = {"replicas": 0, "selector": {"matchLabels": {"app": "x"}}, "template": template}
        meta: Json = {"name": "d", "annotations": {f"{wellknown.BRIDGE_PREFIX}account": "a", "other": "b"}}
        body: Json = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}
        code, deployment = await caller.call("POST", f"{apps}/deployments", body)
        assert code == 201
        meta = {"name": "r", "ownerReferences": [owner_reference(body | deployment)]}
        body = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": meta, "spec": spec}
        code, replicas = await caller.call("POST", f"{apps}/replicasets", body)
        assert code == 201
        pod = await caller.add_pod("p", owner=owner_reference(body | replicas))
        owner = read_pod(pod).owner
        assert owner is not None
        reader = OwnerReader(site.connection, rng=a_rng())
        read = root_annotations(await reader.controllers(site.namespace, owner))
        assert read == {f"{wellknown.BRIDGE_PREFIX}account": "a"}


async def test_a_cluster_has_one_identity(open_site: OpenSite) -> None:
    async with open_site() as site:
        first, again = await asyncio.gather(cluster_id(site.connection), cluster_id(site.connection))
        assert len(first) == 36
        assert first == again
        answer = await site.connection.request("GET", "/api/v1/namespaces/kube-system")
        assert json.loads(answer.body)["metadata"]["uid"] == first
