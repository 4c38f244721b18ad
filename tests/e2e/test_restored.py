"""Slurm's state restored from an older save, etcd from an older snapshot: few end, many wait for a person."""

from __future__ import annotations

import os
import signal

import pytest

from lab.probe import request
from lab.site import PodRef
from tests.builders.stage import Stage

MANY = 6
"""More than `massDeletionGuard.minCount`."""

PATIENCE_S = 40.0
"""For which nothing may end; a job that was missed twice is believed to be gone after ten seconds."""


def run(stage: Stage, *names: str) -> dict[str, PodRef]:
    pods = {name: stage.pod(name, grace_s=2) for name in names}
    for pod in pods.values():
        stage.site.bound(pod)
    return pods


def many() -> list[str]:
    return [f"web-{number}" for number in range(MANY)]


def jobs(stage: Stage, pods: dict[str, PodRef]) -> dict[str, list[int]]:
    return {name: [job.job_id for job in stage.jobs(pod)] for name, pod in pods.items()}


@pytest.mark.slow
@pytest.mark.modes("batch", "external")
def test_an_older_state_of_slurm_ends_no_pod_before_an_administrator_confirms(stage: Stage) -> None:
    site, family = stage.site, stage.family
    stays = run(stage, "stays")
    before = jobs(stage, stays)
    saved = site.slurm.save_state()
    site.slurm.wait_nodes_ready()
    pods = run(stage, *many())
    forgotten = {job_id for ids in jobs(stage, pods).values() for job_id in ids}
    with site.extender.frozen():
        site.slurm.restore_state(saved)
        others = [stage.submit(family.main, cpus=1, nodes=[node]) for node in family.nodes[-2:]]
    assert set(others) <= forgotten, "their ids are given out again"
    site.slurm.wait_nodes_ready()

    site.wait_for(lambda: site.metric("mass_deletion_guard_active") == 1, "the mass-deletion guard holds", timeout_s=60)
    site.elapse(PATIENCE_S)
    for pod in pods.values():
        found = site.read(pod)
        assert found is not None
        assert "deletionTimestamp" not in found["metadata"]
    assert stage.drained(), "Slurm takes the nodes of the Pods for free"
    assert set(others) <= {job.job_id for job in site.squeue() if job.state == "RUNNING"}

    site.confirm_mass_deletion()
    for pod in pods.values():
        site.gone(pod, timeout_s=90)
    site.wait_for(lambda: not stage.drained(), "no drain is left", timeout_s=60)
    assert jobs(stage, stays) == before
    assert set(others) <= {job.job_id for job in site.squeue() if job.state == "RUNNING"}
    assert site.bound(stage.pod("later"))


@pytest.mark.slow
@pytest.mark.modes("batch")
def test_an_older_state_of_etcd_ends_no_job_before_an_administrator_confirms(stage: Stage) -> None:
    site = stage.site
    old = run(stage, "stays", "left")
    before = jobs(stage, old)
    snapshot = site.kube.etcd.save()
    site.delete(old["left"])
    site.gone(old["left"])
    stage.wait_job_ended(old["left"])
    pods = run(stage, *many())
    there = jobs(stage, pods)
    site.kube.restore(snapshot)

    site.wait_for(lambda: site.metric("missing_pods") == MANY, "they are missed", timeout_s=90)
    site.elapse(PATIENCE_S)
    assert jobs(stage, pods) == there
    # Its deletion was undone; it has no job, and is ended again.
    site.gone(old["left"], timeout_s=60)

    site.confirm_mass_deletion()
    for pod in pods.values():
        stage.wait_job_ended(pod, timeout_s=60)
    site.wait_for(lambda: not stage.drained(), "kubelet has shown that nothing runs there", timeout_s=240)
    assert jobs(stage, {"stays": old["stays"]}) == {"stays": before["stays"]}
    found = site.read(old["stays"])
    assert found is not None
    assert "deletionTimestamp" not in found["metadata"]
    assert site.bound(stage.pod("later"), timeout_s=90)


@pytest.mark.slow
@pytest.mark.modes("batch")
@pytest.mark.parametrize("bump", [True, False], ids=["", "versions-given-out-again"])
def test_jobs_of_few_pods_that_a_restored_etcd_does_not_have_are_kept_too(stage: Stage, bump: bool) -> None:
    site = stage.site
    stays = run(stage, "stays")
    before = jobs(stage, stays)
    snapshot = site.kube.etcd.save()
    pods = run(stage, "web-0", "web-1")
    site.kube.restore(snapshot, bump=bump)
    if not bump:
        site.scheduler.restart()
    there = jobs(stage, pods)

    url = f"http://127.0.0.1:{site.addresses.health}/readyz?verbose"
    site.wait_for(
        lambda: b"2 missing Pods" in request("GET", url)[1],
        "the extender has seen that Pods are missing",
        timeout_s=120,
    )
    site.elapse(20)
    assert jobs(stage, pods) == there
    os.kill(site.extender.pid, signal.SIGUSR1)
    for pod in pods.values():
        stage.wait_job_ended(pod, timeout_s=120)
    site.wait_for(lambda: not stage.drained(), "kubelet has shown that nothing runs there", timeout_s=240)
    assert jobs(stage, stays) == before
