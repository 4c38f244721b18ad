"""Slurm has room on a node and Kubernetes has none: the Pod is never sent where kubelet would refuse it."""

from __future__ import annotations

import asyncio

import pytest

from tests.builders.process_site import Site

pytestmark = pytest.mark.looptime


async def test_a_node_that_others_fill_is_released_and_the_pod_gets_another(site: Site) -> None:
    site.kube.add_pod("daemon", scheduler="other", node="n1", cpu="60")
    async with site.running():
        site.kube.add_pod("web", cpu="8")
        assert await site.bound("web") in {"n2", "n3"}
        assert "SlurmAllocationReleased" in site.events("web")
        assert any("n1" in text and "cpu" in text for text in site.notes("web"))
        assert len(site.live_jobs()) == 1


async def test_a_node_whose_pods_are_leaving_is_waited_for(site: Site) -> None:
    site.kubelets.stop_s = 20.0
    for node in ("n1", "n2", "n3"):
        site.kube.add_pod(f"daemon-{node}", scheduler="other", node=node, cpu="60", grace_s=20)
    async with site.running():
        for node in ("n1", "n2", "n3"):
            site.kube.delete_pod(f"daemon-{node}")
        site.kube.add_pod("web", cpu="8")
        await site.until(lambda: bool(site.live_jobs()), "a job")
        await asyncio.sleep(10)
        assert site.node_of("web") == ""
        (job,) = site.live_jobs()
        assert await site.bound("web") == job.nodes[0]
        assert site.live_jobs() == [job]


async def test_two_pods_are_not_sent_where_there_is_room_for_one_while_the_watch_is_late(site: Site) -> None:
    """Slurm counts no ephemeral storage, and the API server has not told yet that the first Pod is on the node."""
    for node in ("n1", "n2", "n3"):
        site.gives(node, {"ephemeral-storage": "10Gi" if node == "n1" else "1Gi"})
    async with site.running():
        site.kube.add_pod("first", more={"ephemeral-storage": "6Gi"})
        site.kube.add_pod("second", more={"ephemeral-storage": "6Gi"})
        await site.until(lambda: len(site.live_jobs()) == 2, "two jobs")
        site.kube.caches.stand_still(lambda: True)
        site.network.cut("kube", 6443)
        await site.until(lambda: bool(site.bound_pods()), "a node for one")
        await asyncio.sleep(60)
        assert len(site.bound_pods()) == 1
