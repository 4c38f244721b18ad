"""All extenders die and Pods go meanwhile: deleted ones take their jobs along, restored ones keep theirs."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from extender.domain.election import ElectionTiming
from lab.clock import now
from lab.process import Daemon
from lab.site import PodRef, Site
from tests.builders.stage import Stage
from tests.e2e.test_two_replicas import instead_of_its_own, two

MANY = 8
"""More than `massDeletionGuard.minCount`."""

PATIENCE_S = 25.0
"""For which nothing may end; jobs of deleted Pods end within 15 s."""

SOON_S = 15.0
"""Within which the jobs of deleted Pods end after a start, also where the leader of two replicas was killed."""

LEASE_S = ElectionTiming().lease


def run(stage: Stage, *names: str) -> dict[str, PodRef]:
    pods = {name: stage.pod(name, cpus=1, grace_s=2) for name in names}
    for pod in pods.values():
        stage.site.bound(pod)
    return pods


def many() -> list[str]:
    return [f"web-{number}" for number in range(MANY)]


def jobs(stage: Stage, pods: dict[str, PodRef]) -> dict[str, list[int]]:
    return {name: [job.job_id for job in stage.jobs(pod)] for name, pod in pods.items()}


def write_beyond(site: Site, version: int) -> None:
    """Change something until the API server gives out resource versions above this one."""
    path, number = "/api/v1/namespaces/default", 0
    while True:
        number += 1
        body = {"metadata": {"annotations": {"e2e/beat": f"{now()}-{number}"}}}
        answer = site.merge(path, body)
        if int(answer["metadata"]["resourceVersion"]) > version:
            return


def version(site: Site) -> int:
    status, answer = site.kube.api("GET", "/api/v1/pods?limit=1")
    assert status == 200
    return int(answer["metadata"]["resourceVersion"])


@contextmanager
def extenders(site: Site, replicas: int) -> Iterator[list[Daemon]]:
    """One without leader election, or two with it."""
    if replicas == 1:
        yield [site.extender]
        return
    with instead_of_its_own(site), two(site) as daemons:
        yield list(daemons.values())


def away(daemons: list[Daemon]) -> None:
    for daemon in daemons:
        daemon.kill()


def back(daemons: list[Daemon]) -> None:
    for daemon in daemons:
        daemon.start()


@pytest.mark.slow
@pytest.mark.modes("batch")
@pytest.mark.parametrize("replicas", [1, 2])
def test_jobs_of_pods_that_were_deleted_while_no_extender_lived_end_at_once(stage: Stage, replicas: int) -> None:
    site = stage.site
    with extenders(site, replicas) as daemons:
        stays = run(stage, "stays")
        before = jobs(stage, stays)
        pods = run(stage, *many())
        away(daemons)
        for pod in pods.values():
            site.delete(pod)
        for pod in pods.values():
            site.gone(pod)
        since = now()
        back(daemons)
        for pod in pods.values():
            stage.wait_job_ended(pod, timeout_s=60)
        took = now() - since
        print(f"{MANY} jobs of deleted Pods were over {took:.1f} s after the start, with {replicas} replicas")
        assert took <= SOON_S
        assert jobs(stage, stays) == before

        one = run(stage, "one")["one"]
        away(daemons)
        site.delete(one)
        site.gone(one)
        since = now()
        back(daemons)
        stage.wait_job_ended(one, timeout_s=60)
        took = now() - since
        print(f"the job of one deleted Pod was over {took:.1f} s after the start, with {replicas} replicas")
        assert took <= SOON_S


@pytest.mark.slow
@pytest.mark.modes("batch")
@pytest.mark.parametrize("how", ["bump", "versions-again", "written-beyond"])
@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("count", [1, MANY])
def test_jobs_of_pods_that_a_restore_took_back_while_no_extender_lived_are_kept(
    stage: Stage, how: str, replicas: int, count: int
) -> None:
    site = stage.site
    with extenders(site, replicas) as daemons:
        stays = run(stage, "stays")
        before = jobs(stage, stays)
        snapshot = site.kube.etcd.save()
        pods = run(stage, *many()[:count])
        there, last = jobs(stage, pods), version(site)
        away(daemons)
        site.kube.restore(snapshot, bump=how == "bump")
        if how == "written-beyond":
            write_beyond(site, last)
        if how != "bump":
            site.scheduler.restart()
        back(daemons)
        site.elapse(PATIENCE_S + (LEASE_S if replicas > 1 else 0))
        assert jobs(stage, pods) == there
        for daemon in daemons:
            os.kill(daemon.pid, signal.SIGUSR1)
        for pod in pods.values():
            stage.wait_job_ended(pod, timeout_s=60)
        assert jobs(stage, stays) == before
        site.wait_for(lambda: not stage.drained(), "kubelet has shown that nothing runs there", timeout_s=240)


ALIVE, TOTAL, KILLS = 20, 100, 6
"""Pods that are there at a time, that come in all, and how often the extender is killed meanwhile."""

SETTLES_S = 20.0


@pytest.mark.slow
@pytest.mark.modes("batch")
def test_an_extender_that_is_killed_again_and_again_under_load_leaves_no_job_without_a_pod(stage: Stage) -> None:
    site, alive, kills = stage.site, dict[str, PodRef](), set(range(TOTAL // KILLS, TOTAL, TOTAL // KILLS))
    gone: list[PodRef] = []
    for number in range(TOTAL):
        alive[f"load-{number}"] = stage.pod(f"load-{number}", cpus=1, grace_s=2)
        if len(alive) > ALIVE:
            gone.append(alive.pop(next(iter(alive))))
            site.delete(gone[-1])
        if number in kills:
            site.extender.kill()
            site.elapse(1 + number % 3)
            site.extender.start()
        site.elapse(0.2)
    site.extender.kill()
    for name in list(alive)[: ALIVE // 2]:
        gone.append(alive.pop(name))
        site.delete(gone[-1])
    for pod in gone:
        site.gone(pod, timeout_s=60)
    since = now()
    site.extender.start()

    def in_order() -> bool:
        names = [job.name.rpartition("-")[0] for job in stage.jobs()]
        return sorted(names) == sorted(f"{pod.namespace}/{pod.name}" for pod in alive.values())

    site.wait_for(in_order, "a job for each Pod, and no other", timeout_s=120)
    took = now() - since
    print(
        f"{TOTAL} Pods came, the extender was killed {len(kills) + 1} times: in order {took:.1f} s after its last start"
    )
    assert took <= SETTLES_S
