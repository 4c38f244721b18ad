"""Jobs of Kubernetes as gangs on the real parts: the kube-controller-manager creates and replaces their Pods."""

from __future__ import annotations

import pytest

from extender.domain.gangs import labels
from extender.domain.wellknown import GANG, GANG_RANK
from lab.pods import FAIL_AFTER
from tests.builders.gang_controllers import (
    JOBS,
    STEADY_S,
    bound_pods,
    by_index,
    collection,
    label,
    one_by_one,
    one_gang,
    parallel_job,
    ref_of,
    template,
    warned_once,
)
from tests.builders.stage import Stage

pytestmark = pytest.mark.modes("batch", slow=("24.11",))


def add_job(stage: Stage, size: int, *, annotated: str = "", indexed: bool = True) -> None:
    """Create a Job. `annotated`: what says that its Pods are a gang, "Job" or "Pods"."""
    said = {GANG: "true"}
    pod = template(stage, annotations=said if annotated == "Pods" else {})
    parallel_job(stage, "train", size, pod, indexed=indexed, annotations=said if annotated == "Job" else {})


def suspend(stage: Stage, suspended: bool) -> None:
    stage.site.merge(f"{collection(stage, JOBS)}/train", {"spec": {"suspend": suspended}})


@pytest.mark.parametrize("annotated", ["Job", pytest.param("Pods", marks=pytest.mark.slow)])
@pytest.mark.modes("batch", "allocation", "external", slow=("24.11", "allocation", "external"))
def test_an_indexed_job_with_the_annotation_is_one_gang_in_the_order_of_its_indexes(
    stage: Stage, annotated: str
) -> None:
    add_job(stage, 3, annotated=annotated)
    one_gang(stage, by_index(stage, 3))
    stage.finish()


@pytest.mark.slow
def test_jobs_are_gangs_without_the_annotation_where_the_site_says_so(stage: Stage) -> None:
    stage.site.reconfigure({"gangs": {"unfenced": "allow", "jobs": "indexed"}})
    try:
        add_job(stage, 3)
        one_gang(stage, by_index(stage, 3))
        stage.finish()
        add_job(stage, 2, indexed=False)
        bound_pods(stage, 2)
        assert len(stage.jobs()) == 2
        warned_once(stage)
        stage.finish()
    finally:
        stage.site.reconfigure()


@pytest.mark.slow
def test_every_parallel_job_is_a_gang_where_the_site_says_so(stage: Stage) -> None:
    stage.site.reconfigure({"gangs": {"unfenced": "allow", "jobs": "all"}})
    try:
        add_job(stage, 3)
        one_gang(stage, by_index(stage, 3))
        stage.finish()
        add_job(stage, 2, indexed=False)
        pods = bound_pods(stage, 2)
        job = one_gang(stage, sorted(pods, key=lambda pod: int(pod["metadata"]["annotations"][GANG_RANK])))
        assert [one.job_id for one in stage.jobs()] == [job.job_id]
        stage.site.elapse(STEADY_S)
        assert one_by_one(stage) == []
        stage.finish()
        add_job(stage, 1)
        (alone,) = bound_pods(stage, 1)
        assert GANG_RANK not in alone["metadata"]["annotations"], "one Pod is no gang"
        stage.finish()
    finally:
        stage.site.reconfigure()


def test_the_author_of_a_parallel_job_without_the_annotation_is_warned_once(stage: Stage) -> None:
    add_job(stage, 3)
    bound_pods(stage, 3)
    assert len(stage.jobs()) == 3
    assert "Job train" in warned_once(stage)
    stage.finish()


@pytest.mark.slow
def test_the_author_of_kubeflow_pods_without_a_gang_is_warned_once(stage: Stage) -> None:
    """The labels of its Pods alone: the controller of Kubeflow does not run here."""
    for number in range(2):
        said = {labels.KUBEFLOW_JOB: "bert", labels.KUBEFLOW_TYPE: "worker", labels.KUBEFLOW_INDEX: str(number)}
        stage.pod(f"bert-worker-{number}", cpus=2, labels=said)
    bound_pods(stage, 2)
    assert len(stage.jobs()) == 2
    assert "bert" in warned_once(stage)
    stage.finish()


def test_the_pod_that_replaces_a_failed_one_of_a_job_gets_its_slot_of_the_same_slurm_job(stage: Stage) -> None:
    add_job(stage, 3, annotated="Job")
    pods = by_index(stage, 3)
    job = one_gang(stage, pods)
    failed, node = pods[1], pods[1]["spec"]["nodeName"]
    stage.site.annotate(ref_of(failed), {FAIL_AFTER: "1s"})

    others = bound_pods(stage, 3, where=lambda pod: pod["metadata"]["uid"] != failed["metadata"]["uid"])
    (successor,) = [pod for pod in others if label(pod, labels.JOB_INDEX) == "1"]
    assert successor["spec"]["nodeName"] == node
    assert successor["metadata"]["annotations"][GANG_RANK] == "1"
    assert stage.made() == [job.job_id], "another Slurm job was submitted"
    stage.finish()


@pytest.mark.slow
def test_a_suspended_job_ends_its_slurm_job_and_gets_another_one_once_it_is_resumed(stage: Stage) -> None:
    add_job(stage, 3, annotated="Job")
    first = one_gang(stage, by_index(stage, 3))
    suspend(stage, True)
    stage.site.wait_for(lambda: not stage.jobs(), "the Slurm job of a suspended Job ends", timeout_s=60)
    stage.site.wait_for(lambda: not stage.site.pods(stage.namespace), "its Pods are gone", timeout_s=60)
    suspend(stage, False)
    second = one_gang(stage, by_index(stage, 3))
    assert second.job_id != first.job_id
    assert sorted(stage.made()) == [first.job_id, second.job_id]
    stage.finish()
