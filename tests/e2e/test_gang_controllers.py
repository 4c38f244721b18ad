"""Gangs of the real controllers of JobSet and LeaderWorkerSet, with their webhooks and a real kube-controller-manager.

Each controller is the program of its project with the rights that it ships. kwok stands in for the kubelets.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from extender.domain.gangs import labels
from extender.domain.wellknown import GANG_RANK, JOB_ID
from lab.gang_controllers import JOB_SETS as JOB_SET_CONTROLLER
from lab.gang_controllers import LEADER_WORKER_SETS as LWS_CONTROLLER
from lab.gang_controllers import running
from lab.pods import FAIL_AFTER, RUN_FOR
from lab.site import Site
from tests.builders.gang_controllers import (
    JOB_SETS,
    JOBSET_ORDER,
    LEADER_WORKER_SETS,
    STEADY_S,
    Pod,
    bound_pods,
    in_order,
    job_set,
    label,
    leader_worker_set,
    one_by_one,
    one_gang,
    ref_of,
    remove,
    warned_once,
)
from tests.builders.stage import Stage

pytestmark = [pytest.mark.controllers, pytest.mark.slow, pytest.mark.modes("batch")]

ENTRIES = {"driver": (1, 1), "worker": (2, 2)}
"""A JobSet of five Pods in three Jobs."""

GANGS = {"job": (1, 2, 2), "replicated-job": (1, 4), "set": (5,)}
"""Sizes of the gangs of these Pods, in their order, by the annotation of the JobSet."""

IN_ORDER: dict[str, dict[str, Any]] = {
    "startupPolicy": {"startupPolicy": {"startupPolicyOrder": "InOrder"}},
    "dependsOn": {},
}


@pytest.fixture(scope="module")
def job_set_controller(site: Site) -> Iterator[None]:
    """JobSet's controller beside the site."""
    with running(site.kube, JOB_SET_CONTROLLER):
        yield


@pytest.fixture
def job_sets(stage: Stage, job_set_controller: None) -> Iterator[Stage]:
    """A stage whose JobSets are removed at the end."""
    yield stage
    remove(stage, JOB_SETS)


@pytest.fixture(scope="module")
def lws_controller(site: Site) -> Iterator[None]:
    """LeaderWorkerSet's controller beside the site."""
    with running(site.kube, LWS_CONTROLLER):
        yield


@pytest.fixture
def leader_worker_sets(stage: Stage, lws_controller: None) -> Iterator[Stage]:
    """A stage whose LeaderWorkerSets are removed at the end."""
    yield stage
    remove(stage, LEADER_WORKER_SETS)


def _parts(pods: list[Pod], sizes: tuple[int, ...]) -> list[list[Pod]]:
    """Return the Pods in groups of these sizes."""
    rest = iter(pods)
    return [[next(rest) for _ in range(size)] for size in sizes]


@pytest.mark.modes("batch", "allocation", "external")
@pytest.mark.parametrize("of", GANGS)
def test_the_annotation_of_a_job_set_says_which_of_its_pods_are_one_gang(job_sets: Stage, of: str) -> None:
    stage = job_sets
    job_set(stage, "train", ENTRIES, gang=of)
    pods = in_order(bound_pods(stage, 5), *JOBSET_ORDER)
    found = set()
    for part in _parts(pods, GANGS[of]):
        if len(part) > 1:
            found.add(one_gang(stage, part).job_id)
        else:
            assert GANG_RANK not in part[0]["metadata"]["annotations"]
    assert len(found) == sum(size > 1 for size in GANGS[of])
    assert len(stage.jobs()) == len(GANGS[of])


@pytest.mark.parametrize("by", IN_ORDER)
def test_a_job_set_that_starts_in_order_gets_the_nodes_of_all_its_pods_with_the_first(job_sets: Stage, by: str) -> None:
    stage = job_sets
    job_set(stage, "train", ENTRIES, gang="set", depends_on=by == "dependsOn", **IN_ORDER[by])
    pods = in_order(bound_pods(stage, 5), *JOBSET_ORDER)
    job = one_gang(stage, pods)
    assert stage.made() == [job.job_id]
    created = [pod["metadata"]["creationTimestamp"] for pod in pods]
    assert created[0] <= min(created[1:])


def test_a_restarted_job_set_is_another_gang_with_another_job(job_sets: Stage) -> None:
    stage = job_sets
    site = stage.site
    job_set(stage, "train", ENTRIES, gang="set", failurePolicy={"maxRestarts": 2})
    before = in_order(bound_pods(stage, 5), *JOBSET_ORDER)
    first = one_gang(stage, before)
    site.annotate(ref_of(before[-1]), {FAIL_AFTER: "1s"})
    again = bound_pods(stage, 5, where=lambda pod: label(pod, labels.JOBSET_ATTEMPT) == "1")
    second = one_gang(stage, in_order(again, *JOBSET_ORDER))
    assert second.job_id != first.job_id
    assert not {pod["metadata"]["uid"] for pod in before} & {pod["metadata"]["uid"] for pod in again}
    site.wait_for(lambda: [job.job_id for job in stage.jobs()] == [second.job_id], "the first job has ended")


@pytest.mark.parametrize("finished", [1, 3], ids=["one Job has succeeded", "so has a Pod of the next"])
def test_a_job_set_some_of_whose_pods_have_succeeded_gets_nodes_for_those_that_its_jobs_replace(
    job_sets: Stage, finished: int
) -> None:
    stage = job_sets
    site = stage.site
    job_set(stage, "train", ENTRIES, gang="set", backoff_limit=9)
    before = in_order(bound_pods(stage, 5), *JOBSET_ORDER)
    first, old = one_gang(stage, before), {pod["metadata"]["uid"] for pod in before}
    done = [before[0], before[2], before[3]][:finished]
    for pod in done:
        site.annotate(ref_of(pod), {RUN_FOR: "1s"})
    site.wait_for(lambda: all(stage.phase(ref_of(pod)) == "Succeeded" for pod in done), "these Pods have succeeded")
    stage.cancel(first.job_id)
    again = bound_pods(stage, 5 - finished, where=lambda pod: pod["metadata"]["uid"] not in old)
    (job_id,) = {pod["metadata"]["annotations"][JOB_ID] for pod in again}
    assert stage.made() == [first.job_id, int(job_id)]


def test_the_author_of_a_job_set_without_a_gang_is_warned_once(job_sets: Stage) -> None:
    stage = job_sets
    job_set(stage, "train", ENTRIES)
    bound_pods(stage, 5)
    assert len(stage.jobs()) == 5
    text = warned_once(stage)
    assert "JobSet train" in text
    assert "slurm-extender.io/gang" in text


@pytest.mark.modes("batch", "allocation", "external")
@pytest.mark.parametrize("startup", ["LeaderCreated", "LeaderReady"])
def test_each_group_of_a_leader_worker_set_is_a_gang(leader_worker_sets: Stage, startup: str) -> None:
    stage = leader_worker_sets
    leader_worker_set(stage, "vllm", replicas=2, size=3, startupPolicy=startup)
    pods = bound_pods(stage, 6)
    groups = [in_order(_of_group(pods, number), labels.LWS_WORKER_INDEX) for number in range(2)]
    assert [len(group) for group in groups] == [3, 3]
    jobs = {one_gang(stage, group).job_id for group in groups}
    assert len(jobs) == 2
    assert sorted(stage.made()) == sorted(jobs)


def test_a_group_of_a_leader_worker_set_that_is_recreated_is_another_gang(leader_worker_sets: Stage) -> None:
    stage = leader_worker_sets
    site = stage.site
    leader_worker_set(stage, "vllm", replicas=1, size=3)
    before = in_order(bound_pods(stage, 3), labels.LWS_WORKER_INDEX)
    first, old = one_gang(stage, before), {pod["metadata"]["uid"] for pod in before}
    site.delete(ref_of(before[-1]))
    again = bound_pods(stage, 3, where=lambda pod: pod["metadata"]["uid"] not in old)
    second = one_gang(stage, in_order(again, labels.LWS_WORKER_INDEX))
    assert second.job_id != first.job_id
    site.wait_for(lambda: [job.job_id for job in stage.jobs()] == [second.job_id], "the first job has ended")


def test_groups_of_one_pod_are_placed_one_by_one_without_a_warning(leader_worker_sets: Stage) -> None:
    """Groups of several Pods are always gangs, so that no Pod of a LeaderWorkerSet is warned."""
    stage = leader_worker_sets
    leader_worker_set(stage, "vllm", replicas=2, size=1)
    bound_pods(stage, 2)
    stage.site.elapse(STEADY_S)
    assert one_by_one(stage) == []
    assert len(stage.jobs()) == 2


def _of_group(pods: list[Pod], number: int) -> list[Pod]:
    return [pod for pod in pods if label(pod, labels.LWS_GROUP_INDEX) == str(number)]
