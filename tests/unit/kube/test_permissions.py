"""What the adapter must be allowed to do, found out by doing all it can."""

from __future__ import annotations

import asyncio

import pytest

from extender.domain import wellknown
from extender.domain.events import MemberRef
from extender.domain.ports import Announcement
from extender.domain.views import OwnerReference
from extender.kube.announce import EventWriter
from extender.kube.cluster import cluster_id
from extender.kube.lease import KubeNodeLeases
from extender.kube.owners import OwnerReader
from extender.kube.reflector import Reflector
from extender.kube.store import NodeStore, PodStore
from extender.kube.wire.stream import NODE, POD
from extender.kube.writes import PodWriter
from simulator.kube.objects import owner_reference
from simulator.kube.rbac import Permission
from tests.builders.fake_api import a_rng, fake_api, running

ALLOCATION_RECORD = {"status.slurm-extender.io/job-id": "42", "status.slurm-extender.io/node": "n1"}

pytestmark = pytest.mark.looptime

NEEDED = {
    Permission("list", "", "pods"),
    Permission("watch", "", "pods"),
    Permission("get", "", "pods"),
    Permission("patch", "", "pods"),
    Permission("delete", "", "pods"),
    Permission("create", "", "pods/binding"),
    Permission("create", "", "pods/eviction"),
    Permission("patch", "", "pods/status"),
    Permission("list", "", "nodes"),
    Permission("watch", "", "nodes"),
    Permission("get", "", "namespaces"),
    Permission("get", "coordination.k8s.io", "leases"),
    Permission("create", "events.k8s.io", "events"),
    Permission("patch", "events.k8s.io", "events"),
}
"""Without the owners: `get` on whatever kinds a site wants annotations read from."""


async def test_the_adapter_needs_these_permissions_and_no_others() -> None:
    async with fake_api() as api:
        pods, nodes = PodStore({"slurm"}), NodeStore()
        informers = [
            Reflector(api.connection, "/api/v1/pods", POD, pods, rng=a_rng()).run(),
            Reflector(api.connection, "/api/v1/nodes", NODE, nodes, rng=a_rng()).run(),
        ]
        async with running(informers[0]), running(informers[1]):
            await cluster_id(api.connection)
            await KubeNodeLeases(api.connection).renewed("n1")
            writer = PodWriter(api.connection, clock=api.clock, rng=a_rng(), max_grace_s=1)
            for name, voluntary in (("p", True), ("q", False)):
                pod = api.server.add_pod(name, gates=[wellknown.GATE])
                member = MemberRef(pod["metadata"]["uid"], "default", name)
                await writer.annotate(member, {wellknown.CANCELLED: "{}"})
                await writer.wake(member, ALLOCATION_RECORD)
                await writer.bind(member, "n1", {})
                await writer.bind(member, "n1", {})
                await writer.end(member, "R", "text", voluntary)
            announcer = EventWriter(api.connection, clock=api.clock, instance="i")
            for _ in range(2):
                announcer.announce(Announcement("Pod", "default", "p", "u", "R", "text"))
            await announcer.flush(within_s=5)
            await asyncio.sleep(1)
        assert set(api.server.used) == NEEDED


async def test_owners_need_get_on_their_own_kinds() -> None:
    async with fake_api() as api:
        job = api.server.create({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}})
        reference = owner_reference(job)
        owner = OwnerReference("batch/v1", "Job", "j", reference["uid"])
        await OwnerReader(api.connection, rng=a_rng()).controllers("default", owner)
        assert set(api.server.used) == {Permission("get", "batch", "jobs")}
