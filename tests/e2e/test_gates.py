"""Pods behind our scheduling gate: kube-scheduler sees them once, when Slurm has their node."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from extender.domain.wellknown import GATE
from lab.site import PodRef
from lab.topology import slurm_name
from tests.builders.changed_nodes import changed
from tests.builders.stage import Stage

GATED = [{"name": GATE}]
TEAM, OTHERS = "e2e/team", "e2e/others"
TAINT = {"spec": {"taints": [{"key": "e2e/kept", "value": "x", "effect": "NoSchedule"}]}}


def gates(stage: Stage, pod: PodRef) -> list[str]:
    return [gate["name"] for gate in (stage.site.read(pod) or {"spec": {}})["spec"].get("schedulingGates", ())]


@pytest.mark.modes(slow=("auto", "24.11", "26.05-batch"))
def test_a_gated_pod_is_bound_where_slurm_runs_its_job(stage: Stage, measured: Callable[[str], None]) -> None:
    site = stage.site
    pod = stage.pod("gated", cpus=2, schedulingGates=GATED)
    _, to_bound = site.timed(lambda: site.node_of(pod), "the Pod is bound")
    assert gates(stage, pod) == []
    stage.job(pod)
    measured(f"{site.release} {stage.mode}: gated, bound after {to_bound:.2f} s")


@pytest.mark.every_kubernetes
@pytest.mark.modes("batch", slow=("24.11",))
def test_a_gated_pod_waits_for_other_gates_and_then_for_slurm_and_its_job_follows_the_nodes(stage: Stage) -> None:
    site, (first, second, *_) = stage.site, stage.family.nodes
    label = {"metadata": {"labels": {TEAM: "x"}}}
    with changed(site, {first: label, second: label | TAINT}):
        blocker = stage.submit(stage.family.main, cpus=64, nodes=[first])
        stage.running(blocker)
        pod = stage.pod("waits", nodeSelector={TEAM: "x"}, schedulingGates=[*GATED, {"name": OTHERS}])
        site.wait_for(lambda: (site.read(pod) or {}).get("status", {}).get("conditions"), "the Pod is known")
        assert stage.jobs(pod) == []
        patch = {"spec": {"schedulingGates": [{"$patch": "delete", "name": OTHERS}]}}
        site.kube.api("PATCH", pod.path, patch, content_type="application/strategic-merge-patch+json")
        job = stage.job(pod)

        def excluded_now() -> set[str]:
            return site.expand(site.scontrol_show_job(job.job_id)["ExcNodeList"])

        assert second in excluded_now()
        site.patch_node(second, {"spec": {"taints": None}})
        assert site.bound(pod) == second
        assert stage.made(pod) == [job.job_id]


@pytest.mark.every_kubernetes
@pytest.mark.modes("batch", slow=("24.11",))
def test_a_node_that_kube_scheduler_refuses_after_the_grant_is_released(stage: Stage) -> None:
    site, (first, second, *_) = stage.site, stage.family.nodes
    label = {"metadata": {"labels": {TEAM: "y"}}}
    with changed(site, {first: label, second: label}):
        blockers = {node: stage.submit(stage.family.main, cpus=64, nodes=[node]) for node in (first, second)}
        for blocker in blockers.values():
            stage.running(blocker)
        pod = stage.pod("waits", nodeSelector={TEAM: "y"}, schedulingGates=GATED)
        stage.job(pod)
        with site.extender.frozen():
            stage.cancel(blockers[first])
            site.wait_for(lambda: stage.job(pod).state == "RUNNING", "Slurm grants the first node")
            site.patch_node(first, TAINT)
        assert "kube-scheduler" in site.event(pod, "SlurmAllocationReleased")
        stage.cancel(blockers[second])
        assert site.bound(pod, timeout_s=60) == second
        assert len(stage.jobs(pod)) == 1


@pytest.mark.modes("batch", slow=("24.11",))
def test_a_pod_with_a_host_port_is_judged_by_kube_scheduler(stage: Stage) -> None:
    site = stage.site
    resources = {"requests": {"cpu": "1", "memory": "1Gi"}}
    port = {"containerPort": 8080, "hostPort": 18080}
    container = {"name": "main", "image": "none", "resources": resources, "ports": [port]}
    pod = stage.pod("port", schedulingGates=GATED, containers=[container])
    node = site.bound(pod)
    assert gates(stage, pod) == []
    job = stage.job(pod)
    assert (job.state, job.node) == ("RUNNING", slurm_name(node))
