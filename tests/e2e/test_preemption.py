"""Slurm's preemption in both directions: jobs preempt Pods, Pods preempt jobs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lab.pods import STOP_IN
from lab.topology import GRACE_TIME_S
from tests.builders.stage import Stage


@pytest.mark.every_kubernetes
@pytest.mark.modes(slow=("auto",))
def test_an_urgent_job_preempts_a_pod(stage: Stage) -> None:
    site, family = stage.site, stage.family
    pod = stage.pod("victim", partition=family.preemptable, cpus=8)
    assert site.bound(pod) == family.contested_node
    urgent = stage.submit(family.urgent, cpus=8)
    site.gone(pod, timeout_s=40)
    assert "preempt" in site.event(pod, "SlurmAllocationLost").lower()
    assert stage.running(urgent) == family.contested_node


@pytest.mark.modes(slow=("auto",))
def test_with_a_grace_time_the_pod_has_left_before_the_urgent_job_starts(
    stage: Stage, measured: Callable[[str], None]
) -> None:
    site, family = stage.site, stage.family
    pod = stage.pod("victim", partition=family.graceful, cpus=8, grace_s=6, annotations={STOP_IN: "4s"})
    assert site.bound(pod) == family.contested_node
    urgent = stage.submit(family.urgent, cpus=8)

    def runs() -> bool:
        return any(job.job_id == urgent and job.state == "RUNNING" for job in site.squeue())

    def started() -> bool:
        running = runs()
        # Asked after the job: a Pod that is still there now was there when the job ran.
        assert not (running and site.read(pod)), "the urgent job runs beside the Pod that it preempted"
        return running

    _, seconds = site.timed(started, "the urgent job runs", timeout_s=GRACE_TIME_S + 20)
    assert seconds < GRACE_TIME_S, "the Pod's node was released when the Pod had left, not at the end of GraceTime"
    measured(f"{site.release} {stage.mode}: the urgent job ran after {seconds:.2f} s; the Pod took 4 s to leave")
    assert "preempt" in site.event(pod, "SlurmAllocationLost").lower()


@pytest.mark.modes(slow=("auto",))
def test_an_urgent_pod_preempts_a_job(stage: Stage) -> None:
    site, family = stage.site, stage.family
    victim = stage.submit(family.preemptable, cpus=8)
    stage.running(victim)
    pod = stage.pod("urgent", partition=family.urgent, cpus=8)
    assert site.bound(pod, timeout_s=60) == family.contested_node
    assert all(job.job_id != victim or job.state != "RUNNING" for job in site.squeue())
