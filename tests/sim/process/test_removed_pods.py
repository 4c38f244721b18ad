"""A Pod that is removed without a kubelet report may still run: its node takes no job until that is over."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from extender.domain.nodes.removals import HEARS_S
from extender.domain.wellknown import RELEASED_AT, SLURM_NODE
from simulator.kube.faults import KubeFault
from simulator.kube.objects import owner_reference
from simulator.node_names import NodeNaming
from tests.builders.process_site import FOREIGN_PODS, Site, a_site
from tests.builders.replicas import replicas

pytestmark = pytest.mark.looptime


@pytest.fixture
def site_key(site: Site, tmp_path: Path) -> str:
    """The site key that the extender is given."""
    path = tmp_path / "site-key"
    path.write_text("the-key-of-the-site")
    site.config = site.config.replace("key: secret", f"key: secret, siteKeyFile: {path}")
    return "the-key-of-the-site"


async def run_a_pod(site: Site, **fields: Any) -> str:
    """Pod `web` runs, and takes its whole grace to end; its node."""
    site.kubelets.stop_s, site.kubelets.heartbeat_s = 3600.0, 30.0
    site.kube.add_pod("web", **fields)
    node = await site.bound("web")
    await site.until(lambda: site.pod("web")["status"]["phase"] == "Running", "a running Pod")
    return node


async def test_a_pod_deleted_by_force_holds_its_node_before_its_job_ends(site: Site) -> None:
    async with site.running():
        node = await run_a_pod(site, grace_s=30)
        site.kube.delete_pod("web", grace_s=0)
        await site.until(lambda: site.drained() == [node] or not site.live_jobs(), "a drain", within=10)
        assert site.live_jobs()
        await site.until(lambda: not site.live_jobs(), "the end of its job", within=10)
        assert "PodEndUnknown" in site.events(node)
        await asyncio.sleep(HEARS_S + 30)
        assert site.drained() == [node]
        await site.until(lambda: not site.drained(), "two words of its kubelet", within=50)


async def test_a_kubelet_whose_lease_may_not_be_read_is_known_to_live_by_its_reports(site: Site) -> None:
    site.kube.allowed = lambda permission: permission.resource != "leases"
    async with site.running():
        node = await run_a_pod(site, grace_s=30)
        site.kube.delete_pod("web", grace_s=0)
        await site.until(lambda: not site.live_jobs(), "the end of its job", within=10)
        await asyncio.sleep(HEARS_S + 30)
        assert site.drained() == [node]
        await site.until(lambda: not site.drained(), "two reports of its kubelet", within=80)


async def test_a_kubelet_that_died_before_it_can_have_ended_the_pod_holds_its_node(site: Site) -> None:
    async with site.running():
        node = await run_a_pod(site, grace_s=30)
        site.kube.delete_pod("web", grace_s=0)
        await asyncio.sleep(HEARS_S)
        site.kubelets.take_down(node)  # the Node's Ready condition tells that after 40 s only
        await asyncio.sleep(200)
        assert site.drained() == [node]
        site.kubelets.bring_back(node)
        await site.until(lambda: not site.drained(), "kubelet's word and a while", within=50)


async def test_the_leases_of_nodes_are_read_where_a_node_is_held_and_rarely(site: Site) -> None:
    async with site.running():
        await run_a_pod(site, grace_s=30)
        await asyncio.sleep(60)
        assert not lease_reads(site)
        site.kube.delete_pod("web", grace_s=0)
        await site.until(lambda: bool(site.drained()), "a drain", within=10)
        await site.until(lambda: not site.drained(), "its end", within=150)
        assert 2 < lease_reads(site) < 12
        await asyncio.sleep(60)
        assert lease_reads(site) < 12


def lease_reads(site: Site) -> int:
    return sum("/kube-node-lease/" in request.path for request in site.kube.requests)


async def test_a_pod_that_its_kubelet_ended_holds_nothing(site: Site) -> None:
    async with site.running():
        await run_a_pod(site, grace_s=5)
        site.kube.delete_pod("web")
        await site.gone("web")
        await site.until(lambda: not site.live_jobs(), "the end of its job", within=5)
        await asyncio.sleep(10)
        assert not site.drained()


async def test_a_pod_that_its_kubelet_ends_while_others_are_adopted_holds_nothing(site: Site) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "other", "namespace": "default"}}
    async with site.running():
        site.kube.add_pod("other", owner=owner_reference(site.kube.create(owner)))
        await site.bound("other")
        node = await run_a_pod(site, grace_s=5, annotations={"slurm-extender.io/mode": "batch"})
        (job,) = site.jobs_of("web")
    unread = site.kube.faults.add(KubeFault("GET", "/replicasets", code=503, times=None))
    async with site.running(ready=False) as extender:
        await asyncio.sleep(5)
        site.kube.delete_pod("web")
        await site.gone("web")
        assert not extender.ready
        site.kube.faults.remove(unread)
        await site.until(lambda: job not in site.live_jobs(), "the end of its job", within=60)
        await asyncio.sleep(10)
        assert not site.drained()
        assert "PodEndUnknown" not in site.events(node)
        assert "deleted: exit" in job.comment


async def test_a_pod_removed_while_its_node_is_away_holds_it_until_kubelet_is_back_for_a_grace(site: Site) -> None:
    async with site.running():
        node = await run_a_pod(site, grace_s=20)
        site.kubelets.take_down(node)
        site.report_ready(node, ready=False)
        site.kube.delete_pod("web", grace_s=0)
        await asyncio.sleep(100)
        assert site.drained() == [node]
        assert not site.live_jobs()
        site.kubelets.bring_back(node)
        await asyncio.sleep(HEARS_S + 20)
        assert site.drained() == [node]
        await site.until(lambda: not site.drained(), "the end of the hold", within=50)


async def test_a_node_that_is_deleted_with_its_pods_is_held_until_it_is_there_again(site: Site) -> None:
    async with site.running():
        node = await run_a_pod(site, grace_s=20)
        site.kubelets.take_down(node)
        site.delete_node(node)

        def collect(pod: Any) -> None:  # as the garbage collector of Pods
            pod["status"]["phase"] = "Failed"
            pod["status"]["conditions"] = [
                {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC", "message": "no Node"}
            ]

        site.edit_pod("web", collect)
        await asyncio.sleep(5)
        assert site.live_jobs()
        site.kube.delete_pod("web", grace_s=0)
        await site.until(lambda: not site.live_jobs(), "the end of its job", within=10)
        await asyncio.sleep(60)
        assert site.drained() == [node]
        site.kube.add_node(node)
        site.kubelets.bring_back(node)
        await site.until(lambda: not site.drained(), "the end of the hold", within=HEARS_S + 70)


async def test_a_restart_still_holds_the_node(site: Site) -> None:
    async with site.dying():
        node = await run_a_pod(site, grace_s=20)
        site.kubelets.take_down(node)
        site.kube.delete_pod("web", grace_s=0)
        await site.until(lambda: not site.live_jobs(), "the end of its job", within=10)
    async with site.running():
        await asyncio.sleep(60)
        assert site.drained() == [node]
        site.kubelets.bring_back(node)
        await site.until(lambda: not site.drained(), "the end of the hold", within=HEARS_S + 70)


async def test_a_restart_holds_a_cordoned_node_for_the_pod_that_was_removed_from_it(site: Site) -> None:
    async with site.dying():
        node = await run_a_pod(site, grace_s=60)
        site.cordon(node)
        site.kube.delete_pod("web", grace_s=0)
        await site.until(lambda: not site.live_jobs(), "the end of its job", within=10)
    async with site.running(changed=FOREIGN_PODS):
        await asyncio.sleep(10)
        assert f"Node {node} is cordoned" in site.slurm.controller.nodes[node].reason
        site.cordon(node, False)
        await asyncio.sleep(HEARS_S + 40)
        assert site.drained() == [node]
        await site.until(lambda: not site.drained(), "the end of the hold", within=60)


async def test_another_leader_holds_a_cordoned_node_that_was_not_drained_when_it_read_slurms_nodes(site: Site) -> None:
    async with replicas(site, number=1) as both:
        first, _ = await both.led()
        both.start(edit=lambda config: config.replace("refreshRate: 1", "refreshRate: 30"))
        node = await run_a_pod(site, grace_s=60)
        site.cordon(node)
        site.kube.delete_pod("web", grace_s=0)
        await site.until(lambda: not site.live_jobs(), "the end of its job", within=10)
        first.terminate()
        await both.led(other_than=first)
        await asyncio.sleep(3)
        assert f"Node {node} is cordoned" in site.slurm.controller.nodes[node].reason
        site.cordon(node, False)
        await asyncio.sleep(HEARS_S + 40)
        assert site.drained() == [node]


@pytest.mark.parametrize("lost", ["", "Node", "Node of another name"])
async def test_a_pod_removed_before_its_job_could_be_read_holds_its_node_before_its_job_ends(
    site: Site, lost: str
) -> None:
    where = {}
    if lost == "Node of another name":
        site.delete_node("n1")
        site.kube.add_node("k1", labels={SLURM_NODE: "n1", "kubernetes.io/hostname": "k1"})
        where = {"kubernetes.io/hostname": "k1"}
    async with site.dying():
        node = await run_a_pod(site, grace_s=20, node_selector=where)
        ((slurm_node,),) = (job.nodes for job in site.live_jobs())
    site.network.refuse("slurm", 6820)
    site.network.cut("slurm", 6820)
    async with site.running():
        site.kubelets.take_down(node)
        if lost:
            site.delete_node(node)
        site.kube.delete_pod("web", grace_s=0)
        await asyncio.sleep(20)
        site.network.refuse("slurm", 6820, refused=False)
        await site.until(lambda: site.drained() == [slurm_node] or not site.live_jobs(), "a drain", within=100)
        assert site.live_jobs()
        await site.until(lambda: not site.live_jobs(), "the end of its job", within=100)
        await asyncio.sleep(100)
        assert site.drained() == [slurm_node]


@pytest.mark.parametrize(("names", "graces"), [(["a" * 150], [20]), (["web-0", "web-1", "web-2"], [20, 20, 600])])
async def test_a_restart_holds_the_node_for_the_pod_that_takes_longest(
    site: Site, names: list[str], graces: list[int]
) -> None:
    async with site.dying():
        site.kubelets.stop_s = 3600.0
        for name, grace_s in zip(names, graces, strict=True):
            site.kube.add_pod(name, grace_s=grace_s, node_selector={"kubernetes.io/hostname": "n1"})
        for name in names:
            await site.bound(name)
        for name in names:
            site.kube.delete_pod(name, grace_s=0)
        await site.until(lambda: not site.live_jobs(), "the end of their jobs", within=10)
    async with site.running():
        await asyncio.sleep(HEARS_S + max(graces))
        assert site.drained() == ["n1"]
        await site.until(lambda: not site.drained(), "the end of the hold", within=100)


async def test_a_restart_waits_no_longer_than_a_pod_is_accepted_with(site: Site) -> None:
    site.config = site.config.replace("limits: {", "limits: {maxPodGrace: 60s, ")
    text = "Pod a/b (c0ffee) was removed from n1 without a kubelet report, grace 999999999 s"
    site.slurm.controller.drain("n1", f"slurm-extender: {text}")
    async with site.running():
        await asyncio.sleep(HEARS_S + 60)
        assert site.drained() == ["n1"]
        await site.until(lambda: not site.drained(), "the end of the hold", within=60)


async def test_an_administrator_with_the_site_key_may_say_that_nothing_runs_there(site: Site, site_key: str) -> None:
    async with site.running():
        node = await run_a_pod(site, grace_s=20)
        site.kubelets.take_down(node)
        site.kube.delete_pod("web", grace_s=0)
        await site.until(lambda: not site.live_jobs(), "the end of its job", within=10)
        assert (await site.post(f"/hooks/nodes/{node}/empty", "wrong")).status_code == 403
        await asyncio.sleep(5)
        assert site.drained() == [node]
        said = await site.post(f"/hooks/nodes/{node}/empty", site_key)
        assert (said.status_code, said.json()["pods"]) == (200, ["default/web"])
        await site.until(lambda: not site.drained(), "the end of the hold", within=5)


async def test_a_pod_of_the_same_name_is_another(site: Site) -> None:
    async with site.running():
        node = await run_a_pod(site, grace_s=20, cpu="8")
        site.kube.delete_pod("web", grace_s=0)
        site.kube.add_pod("web", cpu="8")
        other = await site.bound("web", within=30)
        assert other != node
        assert site.drained() == [node]


async def test_a_pod_that_leaves_in_the_instant_of_its_binding_holds_nothing(site: Site) -> None:
    async with site.running():
        site.kube.add_pod("web")
        await site.until(lambda: bool(site.jobs_of("web")), "its job")
        await site.until(lambda: site.placeholder("web").cleared, "the grant")
        site.kube.delete_pod("web")
        await site.until(lambda: not site.live_jobs(), "the end of its job", within=30)
        await asyncio.sleep(5)
        assert not site.drained()


async def removed_while_unwatched(site: Site, **fields: Any) -> str:
    async with site.dying():
        node = await run_a_pod(site, **fields)
    site.kube.delete_pod("web", grace_s=0)
    return node


async def test_a_pod_that_was_removed_while_unwatched_holds_its_node_before_its_job_ends(site: Site) -> None:
    node = await removed_while_unwatched(site, grace_s=70)
    (job,) = site.live_jobs()
    async with site.running():
        drained_with_job = False

        def ended() -> bool:
            nonlocal drained_with_job
            drained_with_job |= site.drained() == [node] and job in site.live_jobs()
            assert site.live_jobs() or drained_with_job
            return not site.live_jobs()

        await site.until(ended, "the end of its job", within=30)
        ended_at = asyncio.get_running_loop().time()
        assert site.drained() == [node]
        assert "default/web" in site.slurm.controller.nodes[node].reason
        await site.until(lambda: not site.drained(), "two words of its kubelet", within=HEARS_S + 120)
        assert asyncio.get_running_loop().time() - ended_at >= 70


async def test_a_restart_continues_to_hold_for_a_pod_that_was_removed_before(site: Site) -> None:
    node = await removed_while_unwatched(site, grace_s=70)
    async with site.dying():
        await site.until(lambda: not site.live_jobs(), "the end of its job", within=30)
    async with site.running():
        await asyncio.sleep(40)
        assert site.drained() == [node]
        await site.until(lambda: not site.drained(), "the end of the hold", within=130)


async def test_a_node_of_another_name_that_was_deleted_meanwhile_ends_the_hold_when_it_is_back(site: Site) -> None:
    labels = {SLURM_NODE: "n1", "kubernetes.io/hostname": "k1"}
    site.delete_node("n1")
    site.kube.add_node("k1", labels=labels)
    await removed_while_unwatched(site, grace_s=30, node_selector={"kubernetes.io/hostname": "k1"})
    site.kubelets.take_down("k1")
    site.delete_node("k1")
    async with site.running():
        await site.until(lambda: not site.live_jobs(), "the end of its job", within=30)
        await asyncio.sleep(100)
        assert site.drained() == ["n1"]
        site.kube.add_node("k1", labels=labels)
        site.kubelets.bring_back("k1")
        await asyncio.sleep(HEARS_S + 20)
        assert site.drained() == ["n1"]
        await site.until(lambda: not site.drained(), "two reports of its kubelet", within=60)


async def test_an_administrator_releases_a_node_that_is_held_for_a_pod_removed_before(
    site: Site, site_key: str
) -> None:
    node = await removed_while_unwatched(site, grace_s=3000)
    async with site.running():
        await site.until(lambda: not site.live_jobs(), "the end of its job", within=30)
        said = await site.post(f"/hooks/nodes/{node}/empty", site_key)
        assert (said.status_code, said.json()["pods"]) == (200, ["default/web"])
        await site.until(lambda: not site.drained(), "the end of the hold", within=10)


async def test_a_job_that_waits_still_has_left_no_pod_behind(site: Site) -> None:
    async with site.dying():
        await site.fill()
        site.kube.add_pod("web", cpu="8")
        await site.until(lambda: len(site.live_jobs()) == 4, "its job")
        (job,) = site.jobs_of("web")
    site.kube.delete_pod("web", grace_s=0)
    async with site.running():
        await site.until(lambda: job not in site.live_jobs(), "the end of its job", within=30)
        await asyncio.sleep(5)
        assert not site.drained()


def release(site: Site, node: str, at: str = "2026-01-01T00:00:00Z") -> None:
    """What `kubectl slurm release` does."""

    def say(one: dict[str, Any]) -> None:
        one["metadata"].setdefault("annotations", {})[RELEASED_AT] = at

    site.edit_node(node, say)


def released(site: Site, node: str) -> bool:
    found = site.kube.node(node)
    assert found is not None
    return RELEASED_AT in (found["metadata"].get("annotations") or {})


@pytest.mark.parametrize("restart", [False, True])
async def test_an_administrator_lifts_the_hold_of_a_node_by_one_command(site: Site, restart: bool) -> None:
    async with site.dying() as die:
        node = await run_a_pod(site, grace_s=3000)
        site.kube.delete_pod("web", grace_s=0)
        await site.until(lambda: site.drained() == [node] and not site.live_jobs(), "a hold", within=20)
        [said] = [text for text in site.notes(node) if "grace 3000 s" in text]
        assert "Pod default/web" in said
        assert said.endswith(
            ". Slurm starts nothing there until its kubelet has reported after that grace. A restart of the kubelet "
            f"ends what is left at once; then `kubectl slurm release {node}` ends the wait."
        )
        if restart:
            die()
            release(site, node)
        else:
            release(site, node)
            await site.until(lambda: not site.drained(), "the end of the hold", within=10)
    async with site.running():
        await site.until(lambda: not site.drained(), "the end of the hold", within=30)
        await site.until(lambda: not released(site, node), "the end of the word about it", within=30)
        site.kube.add_pod("next", cpu="8", grace_s=3000)
        await site.bound("next")


async def test_a_release_says_nothing_about_pods_that_are_removed_later(site: Site) -> None:
    async with site.running():
        node = await run_a_pod(site, grace_s=3000)
        release(site, node)
        await site.until(lambda: not released(site, node), "the end of the word about it", within=30)
        site.kube.delete_pod("web", grace_s=0)
        await asyncio.sleep(60)
        assert site.drained() == [node]


async def test_a_release_of_a_node_does_not_end_the_hold_of_another_one_that_has_its_name_in_slurm() -> None:
    async with a_site(naming=NodeNaming.LABEL) as site, site.running():
        node = await run_a_pod(site, grace_s=3000)
        [slurm_node] = site.live_jobs()[0].nodes
        assert slurm_node != node
        site.kube.delete_pod("web", grace_s=0)
        await site.until(lambda: site.drained() == [slurm_node] and not site.live_jobs(), "a hold", within=20)
        site.edit_node(slurm_node, lambda one: one["metadata"]["labels"].pop(SLURM_NODE))
        await asyncio.sleep(5)
        release(site, slurm_node)
        await site.until(lambda: not released(site, slurm_node), "the end of the word about it", within=30)
        assert slurm_node in site.drained()
