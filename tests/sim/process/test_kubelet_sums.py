"""Slurm has room on a node and Kubernetes has none: the Pod is never sent where kubelet would refuse it."""

from __future__ import annotations

import asyncio

import pytest

from tests.builders.process_site import Site

pytestmark = pytest.mark.looptime


async def test_a_node_that_others_fill_is_given_back_and_the_pod_goes_elsewhere(site: Site) -> None:
    site.kube.add_pod("daemon", scheduler="other", node="n1", cpu="60")
    async with site.running():
        site.kube.add_pod("web", cpu="8")
        assert await site.bound("web") in {"n2", "n3"}
        assert "SlurmNodeGivenBack" in site.events("web")
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
