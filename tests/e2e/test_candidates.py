"""Kubernetes' constraints hold for Slurm's choice: what a Pod may not use, its job is told to avoid."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from lab.pods import required_affinity
from lab.topology import EVERYWHERE, GPU_NODES
from tests.builders.changed_nodes import changed
from tests.builders.stage import Stage

ZONE, RACK, SITE = "e2e/zone", "e2e/rack", "e2e/site"


@pytest.mark.modes(slow=("24.11", "auto"))
def test_pods_land_only_on_the_nodes_that_selector_affinity_taint_and_cordon_leave(stage: Stage) -> None:
    site, nodes = stage.site, stage.family.nodes
    patches: dict[str, dict[str, Any]] = {}
    for number, node in enumerate(nodes[:12]):
        labels = {ZONE: "a", **({RACK: "r1"} if number < 8 else {})}
        patches[node] = {"metadata": {"labels": labels}}
    for node in nodes[5:8]:
        patches[node]["spec"] = {"taints": [{"key": "e2e/kept", "value": "x", "effect": "NoSchedule"}]}
    for node in nodes[3:5]:
        patches[node]["spec"] = {"unschedulable": True}
    with changed(site, patches):
        pods = [
            stage.pod(f"p{n}", cpus=2, nodeSelector={ZONE: "a"}, affinity=required_affinity(RACK, ["r1"]))
            for n in range(30)
        ]
        used = {site.bound(pod, timeout_s=60) for pod in pods}
        shown = [site.scontrol_show_job(stage.job(pod).job_id) for pod in pods]
    assert used <= set(nodes[:3])
    assert {job["NodeList"] for job in shown} <= set(nodes[:3])
    gpus = set(GPU_NODES) if stage.mode != "external" else set()
    avoided = set(nodes[3:]) | {stage.family.unmapped} | gpus
    assert [site.expand(one) for one in {job["ExcNodeList"] for job in shown}] == [avoided]


@pytest.mark.modes(slow=("26.05-batch", "allocation", "auto"))
def test_the_exclusions_of_a_waiting_job_follow_the_nodes(stage: Stage) -> None:
    site, (first, second, third, *_) = stage.site, stage.family.nodes
    with changed(site, {first: {"metadata": {"labels": {SITE: "x"}}}, second: {"metadata": {"labels": {SITE: "x"}}}}):
        blockers = [stage.submit(stage.family.main, cpus=64, nodes=[node]) for node in (first, second)]
        for blocker in blockers:
            stage.running(blocker)
        pod = stage.pod("waits", nodeSelector={SITE: "x"})
        job = stage.job(pod)

        def excluded_now() -> set[str]:
            return site.expand(site.scontrol_show_job(job.job_id)["ExcNodeList"])

        assert {first, second}.isdisjoint(excluded_now())
        site.patch_node(first, {"metadata": {"labels": {SITE: None}}})
        site.wait_for(lambda: first in excluded_now(), "the job avoids the node that the Pod may no longer use")
        stage.cancel(blockers[0])
        with changed(site, {third: {"metadata": {"labels": {SITE: "x"}}}}):
            site.wait_for(lambda: third not in excluded_now(), "the job may use the node that the Pod may use now")
            assert site.bound(pod) == third
    assert stage.job(pod).job_id == job.job_id, "it was the same job all the time"


@pytest.mark.modes(slow=("allocation", "external", "auto"))
def test_a_job_outlives_the_deletion_of_a_node_that_it_avoids(stage: Stage) -> None:
    site, node = stage.site, stage.family.nodes[0]
    site.slurm.run("scontrol", "create", "NodeName=passing-1", "CPUs=4", "RealMemory=8000", "State=CLOUD")
    site.slurm.run("scontrol", "update", "NodeName=passing-1", "State=DRAIN", "Reason=it-only-passes")
    try:
        with changed(site, {node: {"metadata": {"labels": {SITE: "y"}}}}):
            blocker = stage.submit(stage.family.main, cpus=64, nodes=[node])
            stage.running(blocker)
            pod = stage.pod("waits", partition=EVERYWHERE, nodeSelector={SITE: "y"})

            def excluded_now() -> set[str]:
                return site.expand(site.scontrol_show_job(job.job_id)["ExcNodeList"])

            job = stage.job(pod)
            site.wait_for(
                lambda: "passing-1" in excluded_now(), "the job avoids the node that Kubernetes does not know"
            )
            site.slurm.run("scontrol", "delete", "NodeName=passing-1")
            site.slurm.restart_slurmctld()
            site.slurm.wait_nodes_ready()
            assert stage.job(pod).job_id == job.job_id
            stage.cancel(blocker)
            assert site.bound(pod, timeout_s=60) == node
        assert stage.made(pod) == [job.job_id]
    finally:
        with contextlib.suppress(Exception):
            site.slurm.run("scontrol", "delete", "NodeName=passing-1")
