"""The extender dies at any moment; nothing is submitted twice and nothing is lost."""

from __future__ import annotations

import pytest

from lab.site import PodRef
from tests.builders.stage import Stage


@pytest.mark.slow
def test_a_crash_among_waiting_and_running_pods_loses_and_doubles_nothing(stage: Stage) -> None:
    site, tiny = stage.site, stage.family.tiny
    running = [stage.pod(f"runs{n}") for n in range(4)]
    full = stage.pod("full", partition=tiny, cpus=4)
    for pod in (*running, full):
        site.bound(pod)
    waiting = [stage.pod(f"waits{n}", partition=tiny, cpus=4) for n in range(3)]
    before = {pod.name: stage.job(pod).job_id for pod in (*running, full, *waiting)}

    site.kill_extender()
    site.delete(running[0])
    site.gone(running[0])
    late = stage.pod("late")
    site.start_extender()

    assert site.bound(late)
    stage.wait_job_ended(running[0])
    for pod in running[1:]:
        assert stage.job(pod).job_id == before[pod.name]
        assert site.node_of(pod)
    site.delete(full)
    first = site.wait_for(
        lambda: next((pod for pod in waiting if site.node_of(pod)), None), "a waiting Pod is bound", timeout_s=40
    )
    assert stage.job(first).job_id == before[first.name]
    made = {pod.name: stage.made(pod) for pod in (*running, full, *waiting)}
    assert made == {name: [job_id] for name, job_id in before.items()}


@pytest.mark.modes(slow=("24.11", "26.05-batch", "26.05-allocation", "auto"))
def test_crashes_in_the_middle_of_submitting_make_one_job_for_each_pod(stage: Stage) -> None:
    site = stage.site
    pods: list[PodRef] = []
    for round_number in range(2):
        before = len(stage.jobs())
        pods += [stage.pod(f"p{round_number}-{n}") for n in range(8)]
        # Whatever point the eight have reached by the time one of them has its job.
        site.wait_for(lambda known=before: len(stage.jobs()) > known, "one has its job", every_s=0.01)  # type: ignore[misc]
        site.kill_extender()
        site.start_extender()
    for pod in pods:
        site.bound(pod, timeout_s=90)
    live = {pod.name: len(stage.jobs(pod)) for pod in pods}
    assert live == {pod.name: 1 for pod in pods}
    assert len(stage.made()) == len(pods)


@pytest.mark.modes(slow=("allocation", "external", "auto"))
def test_a_pod_whose_job_was_cancelled_while_unwatched_is_ended(stage: Stage) -> None:
    site = stage.site
    pod = stage.pod("orphan")
    site.bound(pod)
    job = stage.job(pod)
    site.kill_extender()
    stage.cancel(job.job_id)
    site.wait_for(lambda: not stage.jobs(pod), "its job is over", timeout_s=30)
    site.start_extender()
    site.gone(pod)
    assert str(job.job_id) in site.event(pod, "SlurmAllocationLost")
