"""PodGroups are read where the API server serves them, in the version that it serves, and looked for until then."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from extender.domain.gangs.context import GroupRef, GroupView
from extender.domain.gangs.membership import GangSource
from extender.domain.gangs.pod_groups import POD_GROUP_KINDS, PodGroupApi, PodGroupView
from extender.kube.pod_groups import PodGroupInformers
from extender.kube.reflector import LOCATE_WAIT_S
from extender.kube.wire.fields import MalformedObject
from extender.kube.wire.pod_group import pod_group_reader
from simulator.kube.objects import Json
from simulator.kube.resources import (
    BUILT_IN,
    COSCHEDULING_POD_GROUPS,
    KUBERNETES_POD_GROUPS,
    VOLCANO_POD_GROUPS,
    Resource,
)
from simulator.kube.storage import ObjectKey
from tests.builders.fake_api import FakeApi, a_rng, fake_api, running

pytestmark = pytest.mark.looptime

KINDS = {kind.api: kind for kind in POD_GROUP_KINDS}
RING = GroupRef(GangSource.COSCHEDULING, "default", "ring")


def a_group(resource: Resource, spec: Json, name: str = "ring") -> Json:
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": resource.api_version, "kind": "PodGroup", "metadata": meta, "spec": spec}


@asynccontextmanager
async def informers(
    api: FakeApi, apis: Sequence[PodGroupApi] = tuple(PodGroupApi)
) -> AsyncIterator[tuple[PodGroupInformers, list[GroupRef]]]:
    found, told = PodGroupInformers(api.connection, apis, rng=a_rng()), list[GroupRef]()
    found.on_change(told.append)
    async with running(found.run()):
        yield found, told


@pytest.mark.parametrize("version", ["v1alpha2", "v1alpha3", "v1beta1"])
async def test_the_version_that_is_served_is_read(version: str) -> None:
    served = replace(KUBERNETES_POD_GROUPS, version=version)
    async with fake_api(resources=(*BUILT_IN, served)) as api:
        made = api.server.create(a_group(served, {"schedulingPolicy": {"gang": {"minCount": 3}}}))
        async with informers(api) as (found, told):
            await found.wait_synced()
            ref = GroupRef(GangSource.POD_GROUP, "default", "ring")
            assert found.group(ref) == GroupView(made["metadata"]["uid"], 3)
            assert told == [ref]


@pytest.mark.parametrize(
    ("resource", "source"),
    [(COSCHEDULING_POD_GROUPS, GangSource.COSCHEDULING), (VOLCANO_POD_GROUPS, GangSource.VOLCANO)],
)
async def test_pod_groups_of_other_projects_give_their_minimum(resource: Resource, source: GangSource) -> None:
    async with fake_api(resources=(*BUILT_IN, resource)) as api:
        made = api.server.create(a_group(resource, {"minMember": 4}))
        async with informers(api) as (found, _):
            await found.wait_synced()
            assert found.group(GroupRef(source, "default", "ring")) == GroupView(made["metadata"]["uid"], 4)
            assert found.sources == {GangSource.POD_GROUP, GangSource.COSCHEDULING, GangSource.VOLCANO}


async def test_a_kind_that_is_not_served_has_no_objects_and_is_found_once_it_is_installed() -> None:
    async with fake_api() as api, informers(api, [PodGroupApi.COSCHEDULING]) as (found, told):
        await found.wait_synced()
        assert (found.group(RING), found.trouble) == (None, "")
        api.server.resources = (*BUILT_IN, COSCHEDULING_POD_GROUPS)
        api.server.create(a_group(COSCHEDULING_POD_GROUPS, {"minMember": 2}))
        await asyncio.sleep(LOCATE_WAIT_S + 1)
        assert told == [RING]


async def test_a_kind_that_is_not_served_any_more_says_nothing_about_its_objects() -> None:
    async with fake_api(resources=(*BUILT_IN, COSCHEDULING_POD_GROUPS)) as api:
        api.server.create(a_group(COSCHEDULING_POD_GROUPS, {"minMember": 2}))
        async with informers(api, [PodGroupApi.COSCHEDULING]) as (found, told):
            await found.wait_synced()
            api.server.resources = BUILT_IN
            api.app.drop_watches()
            await asyncio.sleep(120)
            assert (found.group(RING) is None, told) == (False, [RING])
            assert "does not serve podgroups" in found.trouble
            api.server.resources = (*BUILT_IN, COSCHEDULING_POD_GROUPS)
            api.server.storage.remove(ObjectKey(COSCHEDULING_POD_GROUPS, "default", "ring"))
            await asyncio.sleep(LOCATE_WAIT_S + 1)
            assert (found.group(RING), told, found.trouble) == (None, [RING, RING], "")


async def test_only_another_number_of_members_is_reported() -> None:
    async with fake_api(resources=(*BUILT_IN, COSCHEDULING_POD_GROUPS)) as api:
        api.server.create(a_group(COSCHEDULING_POD_GROUPS, {"minMember": 2}))
        key = ObjectKey(COSCHEDULING_POD_GROUPS, "default", "ring")
        async with informers(api, [PodGroupApi.COSCHEDULING]) as (found, told):
            await found.wait_synced()
            await asyncio.sleep(1)
            api.server.change(key, lambda one: one.update(status={"phase": "Pending"}))
            await asyncio.sleep(1)
            assert len(told) == 1
            api.server.change(key, lambda one: one["spec"].update(minMember=3))
            await asyncio.sleep(1)
            assert len(told) == 2


async def test_without_an_api_group_nothing_is_requested() -> None:
    async with fake_api() as api, informers(api, ()) as (found, _):
        await found.wait_synced()
        await found.relist()
        await asyncio.sleep(60)
        assert (found.synced, list(api.server.requests)) == (True, [])


@pytest.mark.parametrize(
    ("api", "spec", "least"),
    [
        (PodGroupApi.KUBERNETES, {"schedulingPolicy": {"basic": {}}}, 0),
        (PodGroupApi.KUBERNETES, {"schedulingPolicy": {"gang": {"minCount": 2}}}, 2),
        (PodGroupApi.KUBERNETES, {"minMember": 2}, 0),
        (PodGroupApi.COSCHEDULING, {}, 0),
        (PodGroupApi.COSCHEDULING, {"minMember": -3}, 0),
        (PodGroupApi.VOLCANO, {"minMember": 5, "minTaskMember": {"worker": 4}}, 5),
    ],
)
def test_the_minimum_is_read(api: PodGroupApi, spec: Json, least: int) -> None:
    meta = {"namespace": "team", "name": "ring", "uid": "u", "resourceVersion": "7"}
    said = pod_group_reader(KINDS[api])({"metadata": meta, "spec": spec})
    assert said == PodGroupView(KINDS[api], "team", "ring", "u", "7", least)


@pytest.mark.parametrize(
    "malformed",
    [
        {"metadata": {"name": "ring"}, "spec": {"minMember": 2}},
        {"metadata": {"uid": "u"}, "spec": {"minMember": 2}},
        {"metadata": {"name": "ring", "uid": "u"}, "spec": {"minMember": "many"}},
        {"metadata": {"name": "ring", "uid": "u"}, "spec": {"minMember": 10**40}},
        {"metadata": {"name": "ring", "uid": "u"}, "spec": []},
    ],
)
def test_a_pod_group_of_another_form_is_malformed(malformed: Any) -> None:
    with pytest.raises(MalformedObject):
        pod_group_reader(KINDS[PodGroupApi.COSCHEDULING])(malformed)
