"""What we write on Nodes is taken by a real API server as by the fake one, and touches nothing of others."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import count

import pytest

from extender.domain.nodes.marks import MarkRules, NodePatch, NodeStatus, change, report
from extender.domain.nodes.unavailable import Unavailable
from extender.domain.views import NodeView, Taint
from extender.domain.wellknown import (
    CORDONED_BY,
    MANAGED_TAINT,
    SLURM_AVAILABLE_CONDITION,
    UNAVAILABLE_REASON,
    UNAVAILABLE_TAINT,
)
from extender.kube.connection import MERGE_PATCH, STRATEGIC_PATCH
from extender.kube.node_writes import NodeWriter
from extender.kube.wire.node import read_node
from simulator.kube.objects import Json, a_node
from tests.builders.kube_sites import Caller, Site
from tests.contract.kube.conftest import OpenSite

NAMES = count(1)
RULES = MarkRules("slurm", taint="NoSchedule", cordon=True, managed="NoExecute")
ILL = NodeStatus(managed=True, unavailable=Unavailable("SlurmDrained", 'Slurm node n1 is DRAIN: "disk" é'))
WELL = NodeStatus(managed=True)
ADDED = "2026-01-01T00:00:00Z"
THEIRS: Json = {"key": "gpu", "effect": "NoExecute", "value": "lost", "timeAdded": ADDED}


@asynccontextmanager
async def a_fresh_node(caller: Caller) -> AsyncIterator[str]:
    name = f"marked-{next(NAMES)}"
    body = a_node(name, taints=[THEIRS])
    code, _ = await caller.call("POST", "/api/v1/nodes", body)
    assert code == 201
    try:
        yield name
    finally:
        await caller.call("DELETE", f"/api/v1/nodes/{name}")


async def raw(caller: Caller, name: str) -> Json:
    code, node = await caller.call("GET", f"/api/v1/nodes/{name}")
    assert code == 200
    return node


async def settle(site: Site, caller: Caller, name: str, standing: NodeStatus) -> NodeView:
    writer, node = NodeWriter(site.connection, clock=site.clock), read_node(await raw(caller, name))
    wanted = change(node, standing, RULES)
    if wanted is not None:
        assert await writer.mark(node, wanted)
    said = report(node, standing, RULES)
    if said is not None:
        assert await writer.report(node, said)
    after = read_node(await raw(caller, name))
    assert change(after, standing, RULES) is None
    assert report(after, standing, RULES) is None
    return after


async def test_marks_come_and_go_and_what_others_wrote_stays_as_it_was(open_site: OpenSite) -> None:
    async with open_site() as site:
        caller = Caller(site)
        async with a_fresh_node(caller) as name:
            before = await raw(caller, name)
            ill = await settle(site, caller, name, ILL)
            assert (ill.unschedulable, ill.annotations[CORDONED_BY]) == (True, "slurm")
            assert ill.annotations[UNAVAILABLE_REASON] == f"slurm: {ILL.unavailable and ILL.unavailable.text}"
            assert {MANAGED_TAINT, UNAVAILABLE_TAINT} < {taint.key for taint in ill.taints}
            now = await raw(caller, name)
            assert THEIRS in now["spec"]["taints"]
            [said] = [one for one in now["status"]["conditions"] if one["type"] == SLURM_AVAILABLE_CONDITION]
            assert (said["status"], said["reason"]) == ("False", "SlurmDrained")
            assert said["lastTransitionTime"] == said["lastHeartbeatTime"]
            well = await settle(site, caller, name, WELL)
            assert (well.unschedulable, well.conditions[SLURM_AVAILABLE_CONDITION]) == (False, "True")
            assert {taint.key for taint in well.taints} == {"gpu", MANAGED_TAINT}
            await settle(site, caller, name, NodeStatus())
            after = await raw(caller, name)
            assert after["spec"]["taints"] == before["spec"]["taints"]
            assert (CORDONED_BY in after["metadata"].get("annotations", {}), after["spec"].get("unschedulable")) == (
                False,
                None,
            )


async def test_nothing_is_marked_on_a_node_that_has_changed_since(open_site: OpenSite) -> None:
    async with open_site() as site:
        caller = Caller(site)
        async with a_fresh_node(caller) as name:
            writer, seen = NodeWriter(site.connection, clock=site.clock), read_node(await raw(caller, name))
            patch = {"spec": {"unschedulable": True}}
            await caller.call("PATCH", f"/api/v1/nodes/{name}", patch, MERGE_PATCH)
            assert not await writer.mark(seen, NodePatch(unschedulable=True, annotations={CORDONED_BY: "slurm"}))
            assert CORDONED_BY not in read_node(await raw(caller, name)).annotations


async def test_a_cordon_of_an_administrator_in_place_of_the_extenders_is_left_alone(open_site: OpenSite) -> None:
    async with open_site() as site:
        caller = Caller(site)
        async with a_fresh_node(caller) as name:
            await settle(site, caller, name, ILL)
            for cordoned in (None, True):
                patch = {"spec": {"unschedulable": cordoned}}
                code, _ = await caller.call("PATCH", f"/api/v1/nodes/{name}", patch, MERGE_PATCH)
                assert code == 200
            seen = read_node(await raw(caller, name))
            assert seen.annotations[CORDONED_BY] == "slurm"
            well = await settle(site, caller, name, WELL)
            assert (well.unschedulable, CORDONED_BY in well.annotations) == (True, False)


@pytest.mark.parametrize("part", ["report", "mark"])
async def test_another_node_of_the_name_is_not_touched(open_site: OpenSite, part: str) -> None:
    async with open_site() as site:
        caller = Caller(site)
        async with a_fresh_node(caller) as name:
            before = read_node(await raw(caller, name))
            seen = replace(before, uid="11111111-2222-3333-4444-555555555555")
            writer, wanted, said = NodeWriter(site.connection, clock=site.clock), change, report(seen, ILL, RULES)
            assert said is not None
            done = (
                await writer.report(seen, said)
                if part == "report"
                else await writer.mark(seen, wanted(seen, ILL, RULES) or NodePatch())
            )
            after = read_node(await raw(caller, name))
            assert (done, after.annotations, after.unschedulable) == (False, before.annotations, False)


async def test_a_patch_of_taints_replaces_the_whole_list(open_site: OpenSite) -> None:
    async with open_site() as site:
        caller = Caller(site)
        async with a_fresh_node(caller) as name:
            patch = {"spec": {"taints": [{"key": "other", "effect": "NoSchedule"}]}}
            code, _ = await caller.call("PATCH", f"/api/v1/nodes/{name}", patch, STRATEGIC_PATCH)
            assert code == 200
            assert read_node(await raw(caller, name)).taints == (Taint("other", "NoSchedule"),)
