"""Slurm's names and Kubernetes' are mapped in every question and answer, also while the mapping changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from extender.domain.nodes.mapping import NodeMap
from extender.domain.wellknown import POD_SLURM_NODE, SLURM_NODE
from simulator.kube.objects import Json
from simulator.kube.pods import pod_key
from simulator.kube.resources import NODES
from simulator.kube.storage import ObjectKey
from simulator.node_names import SLURMD_NAMESPACE, NodeNaming
from tests.builders.process_site import NAMES, Site, a_site

pytestmark = pytest.mark.looptime
BATCH = {"slurm-extender.io/mode": "batch"}
NAMINGS = pytest.mark.parametrize("naming", list(NodeNaming))


@asynccontextmanager
async def labelled() -> AsyncIterator[Site]:
    async with a_site(naming=NodeNaming.LABEL) as site:
        yield site


def say(site: Site, node: str, slurm_node: str | None) -> None:
    """Write another label on a Node, or remove it."""

    def edit(one: Json) -> None:
        one["metadata"]["labels"].pop(SLURM_NODE, None)
        if slurm_node is not None:
            one["metadata"]["labels"][SLURM_NODE] = slurm_node

    site.kube.change(ObjectKey(NODES, "", node), edit)


def swap(site: Site) -> None:
    """Every Node is said to be the next node of Slurm."""
    before = {name: site.names.kube(name) for name in NAMES}
    for name, other in zip(NAMES, [*NAMES[1:], NAMES[0]], strict=True):
        say(site, before[name], other)


def state(site: Site) -> str:
    p = site.extender.engine.placeholders.by_pod(site.uid("web"))
    return "" if p is None else str(p.state)


def shown(site: Site) -> NodeMap:
    return site.extender.engine.snapshot.node_map


@NAMINGS
async def test_pods_go_to_the_nodes_that_slurm_gave_and_only_to_those_that_kubernetes_offers(
    naming: NodeNaming,
) -> None:
    async with a_site(naming=naming) as site, site.running():
        for number, wanted in enumerate(NAMES):
            site.kube.add_pod(f"web-{number}", cpu="8", node_selector={"kubernetes.io/hostname": wanted})
        for number, wanted in enumerate(NAMES):
            assert await site.bound(f"web-{number}") == wanted
            (job,) = site.jobs_of(f"web-{number}")
            assert list(job.nodes) == [site.names.slurm(wanted)]
            written = site.pod(f"web-{number}")["metadata"]["annotations"]
            assert written["status.slurm-extender.io/node"] == wanted
            assert written[POD_SLURM_NODE] == site.names.slurm(wanted)


@NAMINGS
async def test_the_node_of_a_pod_that_outlives_its_job_is_drained_by_its_own_name(naming: NodeNaming) -> None:
    async with a_site(naming=naming) as site, site.running():
        site.kube.add_pod("web", grace_s=60)
        node = await site.bound("web")
        site.kubelets.stop_s = 60.0
        site.slurm.controller.end(site.live_jobs()[0].job_id, "TIMEOUT")
        await site.until(lambda: site.drained() == [site.names.slurm(node)], "the drain")
        await site.gone("web")
        await site.until(lambda: not site.drained(), "the end of the drain")


async def test_a_pod_keeps_its_node_and_its_job_while_the_mapping_changes_and_across_a_restart() -> None:
    async with labelled() as site:
        async with site.running():
            site.kube.add_pod("web", grace_s=60)
            node = await site.bound("web")
            (job,) = site.live_jobs()
            swap(site)
            await asyncio.sleep(60)
            assert site.placeholder("web").state == "BOUND"
        async with site.running():
            await asyncio.sleep(120)
            assert (site.placeholder("web").state, site.node_of("web")) == ("BOUND", node)
            assert [one.job_id for one in site.live_jobs()] == [job.job_id]
            site.kubelets.stop_s = 60.0
            site.slurm.controller.end(job.job_id, "TIMEOUT")
            await site.until(lambda: site.drained() == list(job.nodes), "the drain of the node that Slurm gave")
            await site.gone("web")
            await site.until(lambda: not site.drained(), "the end of the drain")


async def test_a_pod_removed_with_its_node_is_fenced_on_the_slurm_node_that_it_had() -> None:
    async with labelled() as site, site.running():
        site.kube.add_pod("web", grace_s=5)
        node = await site.bound("web")
        site.kubelets.take_down(node)
        site.delete_node(node)
        site.kube.delete_pod("web", grace_s=0)
        await site.until(lambda: site.drained() == [site.names.slurm(node)], "the drain")
        await asyncio.sleep(60)
        assert site.drained() == [site.names.slurm(node)]


@pytest.mark.parametrize("told", [False, True])
async def test_a_job_granted_on_a_node_that_has_no_name_is_released_and_another_is_submitted(told: bool) -> None:
    async with labelled() as site, site.running():
        site.network.refuse("extender", 8080)
        site.network.cut("extender", 8080)
        site.kube.add_pod("web", annotations=BATCH, gates=["slurm-extender.io/allocation"])
        if told:  # the grant is known, and kube-scheduler is to ask
            await site.until(lambda: state(site) == "GRANTED", "a grant")
        else:
            await site.until(lambda: bool(site.live_jobs()), "a job")
        (first,) = site.live_jobs()
        for name in first.nodes or NAMES[:1]:
            say(site, site.names.kube(name), "nobody")
        await site.until(lambda: bool(first.nodes), "its nodes")
        site.network.refuse("extender", 8080, refused=False)
        node = await site.bound("web")
        (now,) = site.live_jobs()
        assert list(now.nodes) == [site.names.slurm(node)]
        if first.nodes[0] not in shown(site).kubernetes:
            assert now.job_id != first.job_id
            assert "SlurmAllocationReleased" in site.events("web")
            assert any(first.nodes[0] in note for note in site.notes("web"))
            assert first.nodes[0] in now.excluded


async def test_the_node_of_a_slurmd_is_where_its_pod_runs_also_after_it_moved() -> None:
    async with a_site(naming=NodeNaming.SLURMD) as site, site.running():
        moved, away = NAMES[0], site.names.kube(NAMES[1])
        for name in NAMES[:2]:
            site.kube.storage.remove(pod_key(SLURMD_NAMESPACE, name))
        await site.until(lambda: len(shown(site).kubernetes) == 1, "two nodes without a slurmd")
        pod = site.names.slurmd(moved)
        assert pod is not None
        pod["spec"]["nodeName"] = away
        site.kube.create(pod)
        await site.until(lambda: shown(site).kubernetes.get(moved) == away, "the new pair")
        site.kube.add_pod("web", cpu="8", node_selector={"kubernetes.io/hostname": away})
        assert await site.bound("web") == away
        assert list(site.live_jobs()[0].nodes) == [moved]


async def test_nodes_without_a_partner_are_named_in_the_log_in_an_event_and_a_metric() -> None:
    async with labelled() as site, site.running():
        site.kube.storage.remove(ObjectKey(NODES, "", site.names.kube(NAMES[2])))
        site.kube.add_node("login")
        await site.until(lambda: "NoSlurmNode" in site.events("login"), "an Event")
        nodes = (await site.get(8083, "/debug/nodes")).json()
        assert "login" in nodes["kubernetesOnly"]
        assert await site.metric('unmapped_nodes{side="kubernetes"}') == len(nodes["kubernetesOnly"])
        assert await site.metric('unmapped_nodes{side="slurm"}') == len(nodes["slurmOnly"])
        assert nodes["slurmOnly"] == [NAMES[2]]
