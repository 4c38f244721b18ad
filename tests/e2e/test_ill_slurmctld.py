"""slurmctld stands still in the middle of a submission, or dies with jobs that it has acknowledged and not saved."""

from __future__ import annotations

from itertools import pairwise

import pytest

from lab.site import PodRef
from lab.topology import slurm_name
from tests.builders.stage import Stage

UNSAVED_S = 6.0
"""slurmctld saves its jobs at once, and then not again for five seconds (`state_save.c`, SAVE_MAX_WAIT)."""


@pytest.mark.slow
@pytest.mark.modes("batch", "allocation", "external")
@pytest.mark.parametrize("crash", [False, True], ids=["", "extender-killed"])
def test_a_submission_that_a_stopped_slurmctld_executes_late_makes_one_job(stage: Stage, crash: bool) -> None:
    site = stage.site
    with site.slurm.daemon("slurmctld").frozen():
        pod = stage.pod("web")
        site.wait_for(lambda: state(stage, pod) == "UNSURE", "the submission timed out", timeout_s=90)
        if crash:
            site.kill_extender()
            site.extender.launch()
        # In this time the job is looked up, which times out too.
        site.elapse(15)
        assert not site.node_of(pod)
    site.extender.wait_ready()
    node = site.bound(pod, timeout_s=120)
    site.elapse(5)
    (job,) = stage.jobs(pod)
    assert (job.state, job.node) == ("RUNNING", slurm_name(node))
    # slurmctld ends an allocation whose answer it cannot deliver (`proc_req.c`, _kill_job_on_msg_fail).
    granted = [site.scontrol_show_job(job.job_id) for job in stage.jobs(pod, "all") if job.node]
    spans = sorted((one["StartTime"], one["EndTime"]) for one in granted)
    assert len(spans) <= (1 if stage.mode == "batch" else 2), granted
    assert all(before[1] <= after[0] for before, after in pairwise(spans)), f"two at a time: {granted}"


@pytest.mark.slow
@pytest.mark.modes("batch", "allocation", "external")
def test_jobs_that_slurmctld_forgot_right_after_it_acknowledged_them_hurt_no_pod(stage: Stage) -> None:
    """Their ids are given to others, and a job that was cancelled may run again."""
    site, family, slurm = stage.site, stage.family, stage.site.slurm
    full = stage.pod("full", partition=family.tiny, cpus=4)
    site.bound(full)
    kept = stage.job(full).job_id
    site.elapse(UNSAVED_S)
    left = stage.pod("left")
    site.bound(left)
    site.elapse(1.2)
    site.delete(left)
    pods = [stage.pod(f"waits{n}", partition=family.tiny, cpus=4) for n in range(3)]
    pods += [stage.pod(f"runs{n}") for n in range(3)]
    acknowledged = {stage.job(pod).job_id for pod in pods}
    site.gone(left)
    stage.wait_job_ended(left)
    slurm.kill_slurmctld()
    with site.extender.frozen():
        slurm.start_slurmctld()
        again = [job.state for job in stage.jobs(left)]
        others = [stage.submit(family.main, cpus=1, nodes=[node]) for node in family.nodes[-9:]]
    print(f"acknowledged {sorted(acknowledged)}, given out again {sorted(acknowledged & set(others))}")
    print(f"the job that was cancelled: {again}")
    assert acknowledged & set(others), "slurmctld had saved its jobs: nothing was shown"
    slurm.wait_nodes_ready()

    site.wait_for(lambda: at_rest(stage, pods), "every Pod has its one job, and every job its Pod", timeout_s=180)
    site.elapse(20)
    assert at_rest(stage, pods), site.diagnostics()
    assert stage.job(full).job_id == kept
    assert not stage.jobs(left), "a job that was cancelled runs again"
    assert set(others) <= {job.job_id for job in site.squeue() if job.state == "RUNNING"}
    site.delete(full)
    site.wait_for(lambda: any(site.node_of(pod) for pod in pods[:3]), "one that waits gets its turn", timeout_s=90)


def at_rest(stage: Stage, pods: list[PodRef]) -> bool:
    """Those that wait have one job that waits; the others run on one job, or were ended since theirs was forgotten."""
    site, own = stage.site, {job.job_id for job in stage.jobs()}
    expected = 1  # that of the Pod that was there before
    for pod in pods:
        jobs, there = stage.jobs(pod), site.read(pod)
        if there is None and pod.name.startswith("runs"):
            if jobs:
                return False
            continue
        wanted = "PENDING" if pod.name.startswith("waits") else "RUNNING"
        if there is None or [job.state for job in jobs] != [wanted]:
            return False
        expected += 1
    return len(own) == expected and not stage.drained()


def state(stage: Stage, pod: PodRef) -> str:
    return str((stage.site.debug(pod.uid) or {}).get("state", "")).upper()
