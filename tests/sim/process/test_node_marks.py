"""How Slurm's nodes are stands on their Nodes, and what the site wants to be there for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from extender.domain.wellknown import (
    CORDONED_BY,
    MANAGED_TAINT,
    SLURM_AVAILABLE_CONDITION,
    SLURM_NODE,
    UNAVAILABLE_REASON,
    UNAVAILABLE_TAINT,
)
from simulator.kube.faults import KubeFault
from simulator.kube.objects import Json, a_pod
from simulator.kube.resources import NODES
from simulator.kube.storage import ObjectKey
from simulator.node_names import NodeNaming
from tests.builders.process_site import NAMES, Site, unhurried_site

pytestmark = pytest.mark.looptime
MARKS = """
nodes: {unavailableTaint: {effect: NoSchedule}, unavailableCordon: true}
"""
MANAGED = """
nodes: {managedTaint: {effect: NoSchedule}}
"""
FIRST = NAMES[0]


def node(site: Site) -> Json:
    found = site.kube.node(site.names.kube(FIRST))
    assert found is not None
    return found


def condition(site: Site) -> tuple[str, str, str]:
    """Status, reason and message; "" where there is none."""
    for one in node(site)["status"]["conditions"]:
        if one["type"] == SLURM_AVAILABLE_CONDITION:
            return one["status"], one["reason"], one["message"]
    return "", "", ""


def taints(site: Site) -> set[str]:
    return {taint["key"] for taint in node(site)["spec"].get("taints") or ()}


def cordoned(site: Site) -> bool:
    return bool(node(site)["spec"].get("unschedulable"))


def marks_in(site: Site) -> dict[str, str]:
    found: dict[str, str] = node(site)["metadata"].get("annotations") or {}
    return {key: value for key, value in found.items() if key in {UNAVAILABLE_REASON, CORDONED_BY}}


def writes(site: Site) -> int:
    return sum(one.method == "PATCH" and one.path.startswith("/api/v1/nodes/") for one in site.kube.requests)


def set_down(site: Site, so: bool) -> None:
    if so:
        site.slurm.controller.set_down(FIRST)
    else:
        site.slurm.controller.nodes[FIRST].down = False


STATES: dict[str, tuple[Callable[[Site, bool], Any], str, str]] = {
    "drained": (
        lambda site, so: site.slurm.controller.drain(FIRST, "disk") if so else site.slurm.controller.resume(FIRST),
        "SlurmDrained",
        "Slurm node n1 is DRAIN: disk (set by root)",
    ),
    "down": (set_down, "SlurmDown", "Slurm node n1 is DOWN: Not responding (set by root)"),
    "failing": (
        lambda site, so: site.slurm.controller.fail(FIRST, "fan") if so else site.slurm.controller.resume(FIRST),
        "SlurmFail",
        "Slurm node n1 is FAIL: fan (set by root)",
    ),
    "maintenance": (
        lambda site, so: site.slurm.controller.maintain(FIRST, so),
        "SlurmMaintenance",
        "Slurm node n1 is MAINTENANCE",
    ),
    "silent": (
        lambda site, so: setattr(site.slurm.controller.nodes[FIRST], "silent", so),
        "SlurmNotResponding",
        "Slurm node n1 is NOT_RESPONDING",
    ),
}


@pytest.mark.parametrize("state", STATES)
async def test_the_condition_says_how_slurm_s_node_is_until_it_is_well_again(state: str) -> None:
    make, reason, text = STATES[state]
    async with unhurried_site(naming=NodeNaming.LABEL) as site, site.running():
        await asyncio.sleep(20)
        assert (writes(site), condition(site)) == (0, ("", "", ""))
        make(site, True)
        await site.until(lambda: condition(site)[0] == "False", "the condition", within=15)
        assert condition(site) == ("False", reason, text)
        assert marks_in(site) == {UNAVAILABLE_REASON: f"slurm: {text}"}
        assert (cordoned(site), taints(site)) == (False, set())
        assert await site.metric(f'unavailable_nodes{{reason="{reason}"}}') == 1
        await asyncio.sleep(120)
        assert writes(site) == 1
        make(site, False)
        await site.until(lambda: condition(site)[0] == "True", "its end", within=15)
        assert marks_in(site) == {}
        assert await site.metric(f'unavailable_nodes{{reason="{reason}"}}') == 0
        await asyncio.sleep(120)
        assert writes(site) == 2


async def test_drains_of_the_extender_are_announced_to_no_pod() -> None:
    async with unhurried_site() as site, site.running(changed=MARKS):
        site.cordon(FIRST)
        await site.until(lambda: site.drained() == [FIRST], "the drain")
        await asyncio.sleep(60)
        assert (condition(site)[0], taints(site), marks_in(site)) == ("", set(), {})
        site.cordon(FIRST, False)
        await site.until(lambda: not site.drained(), "its end")
        await asyncio.sleep(60)
        assert (cordoned(site), site.drained(), writes(site)) == (False, [], 0)


async def test_taint_and_cordon_come_and_go_where_the_site_wants_them_and_cause_no_drain_of_the_extender() -> None:
    async with unhurried_site() as site, site.running(changed=MARKS):
        site.slurm.controller.drain(FIRST, "disk")
        await site.until(lambda: cordoned(site) and UNAVAILABLE_TAINT in taints(site), "the marks", within=15)
        assert marks_in(site)[CORDONED_BY] == "slurm"
        await asyncio.sleep(60)
        site.slurm.controller.resume(FIRST)
        await site.until(lambda: not cordoned(site) and not taints(site), "their end", within=15)
        await asyncio.sleep(60)
        assert (site.drained(), marks_in(site)) == ([], {})


async def test_the_cordon_of_an_administrator_stays_and_an_uncordon_of_the_extenders_is_obeyed() -> None:
    async with unhurried_site() as site, site.running(changed=MARKS):
        site.cordon(FIRST)
        await asyncio.sleep(5)
        site.slurm.controller.drain(FIRST, "disk")
        await asyncio.sleep(30)
        site.slurm.controller.resume(FIRST)
        await asyncio.sleep(30)
        assert (cordoned(site), CORDONED_BY in marks_in(site)) == (True, False)
        site.cordon(FIRST, False)
        await site.until(lambda: not site.drained(), "no drain")
        site.slurm.controller.drain(FIRST, "disk")
        await site.until(lambda: cordoned(site), "our cordon", within=15)
        site.cordon(FIRST, False)
        await asyncio.sleep(60)
        assert not cordoned(site)
        site.cordon(FIRST)
        await asyncio.sleep(5)
        site.slurm.controller.resume(FIRST)
        await asyncio.sleep(30)
        assert (cordoned(site), marks_in(site)) == (True, {})


async def test_a_restart_takes_its_own_marks_away_by_reading() -> None:
    async with unhurried_site() as site:
        async with site.running(changed=MARKS):
            site.slurm.controller.drain(FIRST, "disk")
            await site.until(lambda: cordoned(site) and condition(site)[0] == "False", "the marks", within=15)
        site.slurm.controller.resume(FIRST)
        async with site.running():
            await site.until(lambda: not cordoned(site) and condition(site)[0] == "True", "their end", within=15)
            assert (marks_in(site), taints(site)) == ({}, set())


async def test_a_cordon_of_an_administrator_in_place_of_the_extenders_while_no_extender_was_there_stays() -> None:
    async with unhurried_site() as site:
        async with site.running(changed=MARKS):
            site.slurm.controller.drain(FIRST, "disk")
            await site.until(lambda: cordoned(site), "our cordon", within=15)
        site.cordon(FIRST, False)
        site.cordon(FIRST)
        site.slurm.controller.resume(FIRST)
        async with site.running(changed=MARKS):
            await asyncio.sleep(60)
            assert (cordoned(site), marks_in(site), site.drained()) == (True, {}, [FIRST])


async def test_while_slurm_does_not_answer_every_mark_stays() -> None:
    async with unhurried_site() as site:
        async with site.running(changed=MARKS):
            site.slurm.controller.drain(FIRST, "disk")
            await site.until(lambda: cordoned(site) and condition(site)[0] == "False", "the marks", within=15)
            site.network.refuse("slurm", 6820)
            site.network.cut("slurm", 6820)
            site.slurm.controller.resume(FIRST)
            await asyncio.sleep(120)
            assert (cordoned(site), condition(site)[0]) == (True, "False")
        async with site.running(changed=MARKS, ready=False):
            await asyncio.sleep(60)
            key = ObjectKey(NODES, "", FIRST)
            site.kube.change(key, lambda one: one["metadata"]["labels"].update(more="x"))
            await asyncio.sleep(60)
            assert (cordoned(site), condition(site)[0]) == (True, "False")


async def test_a_write_that_fails_is_repeated_rarely() -> None:
    async with unhurried_site() as site, site.running(changed=MARKS):
        site.kube.faults.add(KubeFault(code=500, method="PATCH", path="/api/v1/nodes", times=1000))
        site.slurm.controller.drain(FIRST, "disk")
        await asyncio.sleep(60)
        assert 10 <= writes(site) <= 50
        site.kube.faults.clear()
        await site.until(lambda: cordoned(site) and condition(site)[0] == "False", "the marks", within=15)


async def test_the_nodes_of_slurm_are_tainted_and_no_others_and_the_taint_goes_with_the_setting() -> None:
    async with unhurried_site() as site:
        site.kube.add_node("other", annotations={"slurm-extender.io/slurm-node": "nowhere"})
        async with site.running(changed=MANAGED):
            await site.until(lambda: MANAGED_TAINT in taints(site), "the taint", within=15)
            await asyncio.sleep(20)
            tainted = [one["metadata"]["name"] for one in site.kube.storage.of(NODES) if one["spec"].get("taints")]
            assert sorted(tainted) == list(NAMES)
            pod = a_pod("web")
            pod["spec"]["tolerations"] = [{"key": MANAGED_TAINT, "operator": "Exists"}]
            site.kube.create(pod)
            await site.bound("web")
            site.kube.add_pod("late")
            await site.until(lambda: "TaintNotTolerated" in site.events("late"), "its Event")
            assert "TaintNotTolerated" not in site.events("web")
        async with site.running():
            await site.until(lambda: not taints(site), "no taint", within=15)
            await site.bound("late")


@pytest.mark.parametrize("tolerates", [True, False])
async def test_no_slurmd_in_a_pod_is_kept_off_its_own_node(tolerates: bool) -> None:
    async with unhurried_site(naming=NodeNaming.SLURMD) as site:
        if tolerates:
            for name in NAMES:
                key = ObjectKey(next(r for r in site.kube.resources if r.kind == "Pod"), "kube-system", name)
                site.kube.change(key, lambda pod: pod["spec"].update(tolerations=[{"operator": "Exists"}]))
        site.config = site.config.replace("nodes: {slurmdPods", "nodes: {managedTaint: {effect: NoExecute}, slurmdPods")
        async with site.running():
            await asyncio.sleep(30)
            assert (MANAGED_TAINT in taints(site)) is tolerates
            told = site.events(site.names.kube(FIRST))
            assert ("TaintNotTolerated" in told) is not tolerates


@pytest.mark.parametrize(
    "config",
    [
        "nodes: {unavailableTaint: {effect: NoSchedule}, unavailableCordon: true}",
        "nodes: {managedTaint: {effect: NoSchedule}}",
    ],
)
async def test_a_node_that_an_administrator_takes_out_of_slurm_by_its_label_loses_the_marks(config: str) -> None:
    async with unhurried_site(naming=NodeNaming.LABEL) as site, site.running(changed=f"\n{config}\n"):
        site.slurm.controller.drain(FIRST, "to be taken out")
        await site.until(lambda: bool(taints(site)), "the taint", within=15)
        await asyncio.sleep(10)
        site.edit_node(site.names.kube(FIRST), lambda one: one["metadata"]["labels"].pop(SLURM_NODE))
        await site.until(lambda: not taints(site) and not cordoned(site), "their end", within=15)
        await asyncio.sleep(30)
        assert (condition(site)[0], marks_in(site), taints(site)) == ("True", {}, set())
        assert site.slurm.controller.nodes[FIRST].reason == "to be taken out"


async def test_a_node_whose_name_is_in_dispute_keeps_its_marks() -> None:
    async with unhurried_site(naming=NodeNaming.LABEL) as site, site.running(changed=MARKS):
        site.slurm.controller.drain(FIRST, "disk")
        await site.until(lambda: cordoned(site) and condition(site)[0] == "False", "the marks", within=15)
        site.kube.add_node("other", labels={SLURM_NODE: FIRST})
        await asyncio.sleep(60)
        assert (cordoned(site), condition(site)[0], UNAVAILABLE_TAINT in taints(site)) == (True, "False", True)
