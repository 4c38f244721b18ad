"""PodGroups are read, and their status is applied, on a real API server as on the fake one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from extender.domain.gangs.context import GroupRef
from extender.domain.gangs.membership import GangSource
from extender.domain.gangs.pod_groups import GroupProgress, PodGroupApi, PodGroupView
from extender.domain.ports import StatusResult
from extender.kube.connection import MERGE_PATCH
from extender.kube.pod_group_status import PodGroupStatusWriter
from extender.kube.pod_groups import PodGroupInformers
from simulator.kube.objects import Json
from tests.builders.fake_api import a_rng, running
from tests.builders.kube_sites import Caller, Site, until
from tests.contract.kube.conftest import OpenSite

SCHEDULING = GroupProgress("Scheduling", 0, 0, 0)
RUNNING = GroupProgress("Running", 2, 0, 0)


class Groups:
    """A PodGroup `ring` of two members, as the informer shows it, and the writer of its status."""

    def __init__(self, site: Site, informers: PodGroupInformers) -> None:
        self.caller = Caller(site)
        self.path = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{site.namespace}/podgroups"
        self.ref = GroupRef(GangSource.COSCHEDULING, site.namespace, "ring")
        self.informers = informers
        self.writer = PodGroupStatusWriter(site.connection, informers)

    async def add(self) -> PodGroupView:
        meta = {"name": "ring", "namespace": self.ref.namespace}
        body = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "metadata": meta}
        code, made = await self.caller.call("POST", self.path, {**body, "spec": {"minMember": 2}})
        assert code == 201, made
        return await self.shown(lambda _view: True)

    async def shown(self, condition: object) -> PodGroupView:
        """The PodGroup, once the watch shows it so."""
        assert callable(condition)

        async def there() -> bool:
            view = self.informers.named(self.ref)
            return view is not None and bool(condition(view))

        await until(there, "the watch shows it")
        view = self.informers.named(self.ref)
        assert view is not None
        return view

    async def write_as_another(self, **status: object) -> None:
        query = f"{self.path}/ring/status?fieldManager=podgroup-controller"
        code, said = await self.caller.call("PATCH", query, {"status": status}, MERGE_PATCH)
        assert code == 200, said

    async def status(self) -> Json:
        _, group = await self.caller.call("GET", f"{self.path}/ring")
        said: Json = group.get("status", {})
        return said


@asynccontextmanager
async def groups(site: Site) -> AsyncIterator[Groups]:
    await site.serve_pod_groups()
    informers = PodGroupInformers(site.connection, [PodGroupApi.COSCHEDULING], rng=a_rng())
    async with running(informers.run()):
        await asyncio.wait_for(informers.wait_synced(), 60)
        yield Groups(site, informers)


async def test_a_status_is_applied_and_changed(open_site: OpenSite) -> None:
    async with open_site() as site, groups(site) as found:
        view = await found.add()
        assert (view.least, view.status, view.writer) == (2, None, "")
        for status in (SCHEDULING, RUNNING):
            assert (await found.writer.write(view, status)).result is StatusResult.WRITTEN
            view = await found.shown(lambda one, status=status: one.status == status)
            assert view.writer == ""
        assert await found.status() == {"phase": "Running", "running": 2, "succeeded": 0, "failed": 0}


async def test_a_field_of_another_controller_is_seen_and_not_adopted(open_site: OpenSite) -> None:
    async with open_site() as site, groups(site) as found:
        view = await found.add()
        assert (await found.writer.write(view, SCHEDULING)).result is StatusResult.WRITTEN
        await found.write_as_another(phase="Pending")
        view = await found.shown(lambda one: bool(one.writer))
        assert view.writer == "podgroup-controller"
        assert abs(view.written_at - site.clock.wall()) < 60
        answer = await found.writer.write(view, RUNNING)
        assert answer.result is StatusResult.CONFLICT
        assert "podgroup-controller" in answer.text
        assert (await found.status())["phase"] == "Pending"


async def test_the_status_of_another_pod_group_of_the_name_is_not_written(open_site: OpenSite) -> None:
    async with open_site() as site, groups(site) as found:
        view = await found.add()
        older = replace(view, uid="11111111-2222-3333-4444-555555555555")
        assert (await found.writer.write(older, RUNNING)).result is StatusResult.GONE
        assert await found.status() == {}
        code, said = await found.caller.call("DELETE", f"{found.path}/ring")
        assert code == 200, said
        assert (await found.writer.write(view, RUNNING)).result is not StatusResult.WRITTEN
