"""Every daemon of both sides dies in one instant, and starts again from what is on disk."""

from __future__ import annotations

import os
import signal

import pytest

from extender.domain.wellknown import GATE
from lab.process import Daemon
from lab.site import PodRef, Site
from tests.builders.stage import Stage

SAVED_S = 7.0
"""slurmctld has saved its jobs by then (`state_save.c`, SAVE_MAX_WAIT is five seconds)."""


def kubernetes(site: Site) -> list[Daemon]:
    """Its daemons, in the order in which they can start."""
    kube = site.kube
    assert kube.controller_manager is not None
    return [kube.etcd, kube.apiserver, kube.kwok, kube.controller_manager, site.scheduler]


def slurm(site: Site) -> list[Daemon]:
    """Its daemons, in the order in which they can start."""
    names = ("slurmctld", *(node.name for node in site.slurm.nodes), "slurmrestd")
    return [site.slurm.daemon(name) for name in names]


def lose_power(site: Site) -> None:
    """SIGKILL to all of them before the first is waited for."""
    daemons = [site.extender, *kubernetes(site), *slurm(site)]
    for daemon in daemons:
        os.kill(daemon.pid, signal.SIGKILL)
    for daemon in daemons:
        daemon.stop()


def power_on(site: Site) -> None:
    """The extender is up first, and finds nobody."""
    site.extender.launch()
    for daemon in slurm(site):
        daemon.launch()
    for daemon in kubernetes(site):
        daemon.start()
    site.slurm.wait_nodes_ready()
    site.extender.wait_ready()


@pytest.mark.slow
@pytest.mark.modes("batch", "allocation", "external")
def test_after_a_power_loss_every_pod_has_its_one_job_and_every_job_its_pod(stage: Stage) -> None:
    site, tiny = stage.site, stage.family.tiny
    runs = [stage.pod(f"runs-{number}") for number in range(4)]
    full = stage.pod("full", partition=tiny, cpus=4)
    for pod in (*runs, full):
        site.bound(pod)
    waits = [
        stage.pod("waits", partition=tiny, cpus=4),
        stage.pod("gated", partition=tiny, cpus=4, schedulingGates=[{"name": GATE}]),
    ]
    before = {pod.name: stage.job(pod).job_id for pod in (*runs, full, *waits)}
    nodes = {pod.name: site.node_of(pod) for pod in (*runs, full)}
    site.elapse(SAVED_S)
    flying = [stage.pod(f"flies-{number}") for number in range(6)]
    site.delete(runs[0])
    site.wait_for(lambda: any(stage.jobs(pod) for pod in flying), "one that is under way has its job", every_s=0.01)

    lose_power(site)
    power_on(site)
    site.wait_for(lambda: at_rest(stage, flying, len(before) - 1), "every Pod has its one job", timeout_s=300)
    site.elapse(10)
    assert at_rest(stage, flying, len(before) - 1), site.diagnostics()

    assert site.read(runs[0]) is None
    assert stage.jobs(runs[0]) == []
    for pod in (*runs[1:], full, *waits):
        assert stage.job(pod).job_id == before[pod.name]
        assert not ending(site, pod)
        assert site.node_of(pod) == nodes.get(pod.name, "")
    site.delete(full)
    first = site.wait_for(
        lambda: next((pod for pod in waits if site.node_of(pod)), None), "one that waits gets its turn", timeout_s=90
    )
    assert stage.job(first).job_id == before[first.name]
    assert site.bound(stage.pod("later"), timeout_s=60)


def at_rest(stage: Stage, flying: list[PodRef], others: int) -> bool:
    """Of those under way each runs on one job, or was ended since Slurm had not saved its job; no job is left over."""
    site = stage.site
    there = [pod for pod in flying if site.read(pod) is not None]
    if not all([job.state for job in stage.jobs(pod)] == ["RUNNING"] and site.node_of(pod) for pod in there):
        return False
    return len(stage.jobs()) == len(there) + others and not stage.drained()


def ending(site: Site, pod: PodRef) -> bool:
    found = site.read(pod)
    return found is None or "deletionTimestamp" in found["metadata"]
