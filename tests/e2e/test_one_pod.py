"""One Pod and its job: they come together and they go together, whichever of them ends first."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lab.pods import FAIL_AFTER, RUN_FOR, STOP_IN
from lab.topology import slurm_name
from tests.builders.stage import Stage


@pytest.mark.every_kubernetes
def test_a_pod_is_bound_where_slurm_runs_its_job_and_the_job_ends_with_it(
    stage: Stage, measured: Callable[[str], None]
) -> None:
    site = stage.site
    pod = stage.pod("one", cpus=2)
    node, to_bound = site.timed(lambda: site.node_of(pod), "the Pod is bound")
    job = stage.job(pod)
    assert (job.state, job.node) == ("RUNNING", slurm_name(node))
    assert job.name.startswith(f"{stage.namespace}/one-")

    site.delete(pod)
    site.gone(pod)
    _, to_end = site.timed(lambda: not stage.jobs(pod), "its job is over", timeout_s=10)
    measured(f"{site.release} {stage.mode}: bound after {to_bound:.2f} s, job over {to_end:.2f} s after the Pod")


@pytest.mark.modes(slow=("24.11-auto", "26.05-auto", "26.05-batch", "26.05-allocation"))
@pytest.mark.parametrize(("annotation", "phase"), [(RUN_FOR, "Succeeded"), (FAIL_AFTER, "Failed")])
def test_the_job_of_a_pod_that_ends_by_itself_ends(stage: Stage, annotation: str, phase: str) -> None:
    site = stage.site
    pod = stage.pod("short", annotations={annotation: "2s"})
    site.bound(pod)
    stage.job(pod)
    site.wait_for(lambda: (site.read(pod) or {})["status"]["phase"] == phase, f"the Pod is {phase}")
    stage.wait_job_ended(pod, timeout_s=10)
    assert site.read(pod) is not None, "a Pod that is over stays for its owner to look at"


@pytest.mark.every_kubernetes
@pytest.mark.modes(slow=("auto",))
def test_a_cancelled_job_ends_its_pod_with_the_cause_named(stage: Stage) -> None:
    site = stage.site
    pod = stage.pod("cancelled", grace_s=5, annotations={STOP_IN: "3s"})
    site.bound(pod)
    job = stage.job(pod)
    stage.cancel(job.job_id)

    site.wait_for(lambda: "deletionTimestamp" in (site.read(pod) or {"metadata": {}})["metadata"], "the Pod is ended")
    ending = site.read(pod)
    assert ending is not None
    disrupted = [c for c in ending["status"]["conditions"] if c["type"] == "DisruptionTarget"]
    assert [c["status"] for c in disrupted] == ["True"]
    assert str(job.job_id) in site.event(pod, "SlurmAllocationLost")
    site.gone(pod)
    stage.wait_job_ended(pod)
    assert len(stage.made(pod)) == 1, "a Pod that was ended gets no second job"
