"""What Kubernetes says of a Node keeps Slurm from it, for as long as it is so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from extender.domain.wellknown import SLURM_NODE
from simulator.kube.objects import Json, set_condition
from simulator.kube.pods import pod_key
from simulator.kube.resources import NODES
from simulator.kube.storage import ObjectKey
from simulator.node_names import SLURMD_NAMESPACE, NodeNaming
from tests.builders.process_site import NAMES, Site, unhurried_site

pytestmark = pytest.mark.looptime
TAINT = {"key": "bad", "effect": "NoSchedule"}
RULES = """
nodes: {drain: {taints: [bad], conditions: [KernelDeadlock]}}
"""
NONE = """
nodes: {drain: {cordoned: false, notReadyAfter: null, deleted: false}}
"""


def node_of(site: Site) -> str:
    """The Kubernetes name of the first Slurm node."""
    return site.names.kube(NAMES[0])


def edit(site: Site, change: Callable[[Json], object]) -> None:
    site.kube.change(ObjectKey(NODES, "", node_of(site)), lambda one: (change(one), None)[1])


def condition(site: Site, status: str) -> None:
    said = {"type": "KernelDeadlock", "status": status}
    edit(site, lambda one: set_condition(one["status"], said, site.kube.wall()))


def delete(site: Site, deleted: bool) -> None:
    if deleted:
        site.delete_node(node_of(site))
    else:
        site.kube.add_node(node_of(site), labels=site.names.labels(NAMES[0]))


def not_ready(site: Site, so: bool) -> None:
    if so:
        site.kubelets.take_down(node_of(site))
        site.report_ready(node_of(site), ready=False)
    else:
        site.kubelets.bring_back(node_of(site))


CAUSES: dict[str, tuple[Callable[[Site, bool], object], float]] = {
    "cordoned": (lambda site, so: site.cordon(node_of(site), so), 0.5),
    "not Ready": (not_ready, 32.0),
    "deleted": (delete, 0.5),
    "taint bad": (lambda site, so: edit(site, lambda n: n["spec"].update(taints=[TAINT] if so else [])), 0.5),
    "KernelDeadlock": (lambda site, so: condition(site, "True" if so else "False"), 0.5),
}


def reason(site: Site) -> str:
    return site.slurm.controller.nodes[NAMES[0]].reason


def drained(site: Site) -> bool:
    return site.drained() == [NAMES[0]]


@pytest.mark.parametrize("cause", CAUSES)
async def test_a_cause_drains_the_node_until_it_is_gone_and_again_where_the_drain_was_lifted(cause: str) -> None:
    make, within = CAUSES[cause]
    async with unhurried_site(naming=NodeNaming.LABEL) as site, site.running(changed=RULES):
        await asyncio.sleep(10)
        assert not site.drained()
        make(site, True)
        await site.until(lambda: drained(site), "the drain", within=within)
        assert reason(site).startswith("slurm-extender: [")
        assert cause in reason(site)
        site.slurm.controller.resume(NAMES[0])
        await site.until(lambda: drained(site), "the drain again", within=5)
        await asyncio.sleep(60)
        assert drained(site)
        make(site, False)
        await site.until(lambda: not site.drained(), "the end of the drain", within=60)
        await asyncio.sleep(30)
        assert not site.drained()


@pytest.mark.parametrize("cause", CAUSES)
async def test_a_restart_keeps_the_drain_and_lifts_it_when_the_cause_is_gone(cause: str) -> None:
    make, within = CAUSES[cause]
    async with unhurried_site(naming=NodeNaming.LABEL) as site:
        async with site.running(changed=RULES):
            await asyncio.sleep(10)
            make(site, True)
            await site.until(lambda: drained(site), "the drain", within=within)
        lifted: list[float] = []
        async with site.running(changed=RULES):
            for _ in range(600):
                await asyncio.sleep(0.1)
                lifted += [] if drained(site) else [asyncio.get_running_loop().time()]
            assert not lifted
        make(site, False)
        async with site.running(changed=RULES):
            await site.until(lambda: not site.drained(), "the end of the drain", within=60)


async def test_a_cordon_waits_behind_a_fail_of_another_and_overwrites_nothing() -> None:
    async with unhurried_site() as site, site.running(changed=RULES):
        site.slurm.controller.fail(NAMES[0], "fan")
        await asyncio.sleep(10)
        site.cordon(NAMES[0])
        await asyncio.sleep(30)
        assert (reason(site), site.drained()) == ("fan", [])
        site.slurm.controller.resume(NAMES[0])
        await site.until(lambda: drained(site), "the drain", within=10)
        assert "cordoned" in reason(site)
        site.slurm.controller.fail(NAMES[0], "fan")  # as scontrol does: its reason takes the place of ours
        await asyncio.sleep(10)
        site.cordon(NAMES[0], False)
        await asyncio.sleep(30)
        assert (reason(site), drained(site)) == ("fan", True)
        site.slurm.controller.resume(NAMES[0])
        await asyncio.sleep(30)
        assert not site.drained()


async def test_a_foreign_drain_is_neither_overwritten_nor_lifted() -> None:
    async with unhurried_site() as site, site.running(changed=RULES):
        site.slurm.controller.drain(NAMES[0], "disk")
        await asyncio.sleep(10)
        site.cordon(NAMES[0])
        await asyncio.sleep(30)
        assert reason(site) == "disk"
        site.cordon(NAMES[0], False)
        await asyncio.sleep(30)
        assert (drained(site), reason(site)) == (True, "disk")
        site.cordon(NAMES[0])
        await asyncio.sleep(10)
        site.slurm.controller.resume(NAMES[0])
        await site.until(lambda: drained(site) and "cordoned" in reason(site), "our drain in its turn", within=30)
        site.slurm.controller.drain(NAMES[0], "disk")
        await asyncio.sleep(10)
        site.cordon(NAMES[0], False)
        await asyncio.sleep(60)
        assert (drained(site), reason(site)) == (True, "disk")


async def test_no_job_starts_on_a_cordoned_node_and_one_that_runs_continues() -> None:
    async with unhurried_site() as site, site.running(changed=RULES):
        await site.fill()
        job_id = await site.submit_as_another_user()
        there = next(name for name in site.bound_pods() if site.node_of(name) == NAMES[0])
        site.cordon(NAMES[0])
        await site.until(lambda: drained(site), "the drain", within=0.5)
        assert len(site.bound_pods()) == len(NAMES)
        site.kube.delete_pod(there, grace_s=1)
        await site.gone(there)
        await asyncio.sleep(60)
        assert site.slurm.controller.jobs[job_id].state == "PENDING"
        assert len(site.bound_pods()) == len(NAMES) - 1
        site.cordon(NAMES[0], False)
        await site.until(lambda: site.slurm.controller.jobs[job_id].state != "PENDING", "its start")


async def test_what_the_site_does_not_want_to_count_drains_nothing() -> None:
    async with unhurried_site() as site, site.running(changed=NONE):
        await asyncio.sleep(5)
        site.cordon(NAMES[0])
        not_ready(site, True)
        site.delete_node(NAMES[1])
        await asyncio.sleep(120)
        assert not site.drained()


async def test_a_node_whose_slurmd_ends_or_is_not_ready_is_drained_until_another_is_ready() -> None:
    async with unhurried_site(naming=NodeNaming.SLURMD) as site, site.running():
        key = pod_key(SLURMD_NAMESPACE, NAMES[0])
        await asyncio.sleep(20)
        assert not site.drained()

        def ready(status: str) -> None:
            said = {"type": "Ready", "status": status}
            site.kube.change(key, lambda pod: set_condition(pod["status"], said, site.kube.wall()))

        ready("False")
        await site.until(lambda: drained(site) and "is not Ready" in reason(site), "the drain", within=1)
        ready("True")
        await site.until(lambda: not site.drained(), "its end")
        site.kube.storage.remove(key)
        await site.until(lambda: drained(site) and "is gone" in reason(site), "the drain", within=1)
        slurmd = site.names.slurmd(NAMES[0])
        assert slurmd is not None
        site.kube.create(slurmd)
        await site.until(lambda: not site.drained(), "its end when the new one is ready")


async def test_a_node_that_is_drained_already_gets_its_time_when_it_is_not_ready_for_a_moment() -> None:
    async with unhurried_site(naming=NodeNaming.LABEL) as site, site.running(changed=RULES):
        await asyncio.sleep(10)
        site.cordon(node_of(site))
        await site.until(lambda: drained(site), "the drain")
        await asyncio.sleep(10)
        not_ready(site, True)
        await asyncio.sleep(15)
        assert "not Ready" not in reason(site)
        site.cordon(node_of(site), False)
        await site.until(lambda: not drained(site), "the end of the drain", within=5)
        await site.until(lambda: drained(site) and "not Ready" in reason(site), "the other drain", within=30)


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_node_that_was_taken_out_of_slurm_by_its_label_and_then_deleted_gives_the_slurm_node_back(
    restarted: bool,
) -> None:
    async with unhurried_site(naming=NodeNaming.LABEL) as site:
        async with site.running(changed=RULES):
            await asyncio.sleep(10)
            site.cordon(node_of(site))
            await site.until(lambda: drained(site), "the drain")
            edit(site, lambda one: one["metadata"]["labels"].pop(SLURM_NODE))
            await asyncio.sleep(10)
            assert drained(site)
            if not restarted:
                delete(site, True)
                await site.until(lambda: not drained(site), "the end of the drain", within=5)
                await asyncio.sleep(30)
                assert not drained(site)
                delete(site, False)
                await asyncio.sleep(10)
        delete(site, True)
        async with site.running(changed=RULES):
            await site.until(lambda: not drained(site), "no drain", within=30)
            await asyncio.sleep(30)
            assert not drained(site)
