"""A gang of a JobSet whose Pods have succeeded in part has as many members as its Jobs still run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from extender.domain.gangs import labels
from extender.domain.gangs.context import ControllerView, GangContext, JobSetAttempt
from extender.domain.gangs.membership import Membership
from extender.domain.gangs.recognition import GangRefused, recognise
from extender.domain.views import OwnerReference, PodView
from extender.domain.wellknown import GANG, GANG_RESTART
from extender.kube.store import PodStore
from extender.kube.wire.controllers import with_size
from tests.builders.pod_views import a_pod

SWEEP = OwnerReference("jobset.x-k8s.io/v1alpha2", "JobSet", "sweep", "set-1")
DRIVER = {"name": "driver", "template": {"spec": {}}}
WORKERS = {"name": "worker", "replicas": 2, "template": {"spec": {"parallelism": 2, "completions": 3}}}
QUEUE = {"name": "queue", "replicas": 1, "template": {"spec": {"parallelism": 2}}}


def job(name: str) -> OwnerReference:
    return OwnerReference("batch/v1", "Job", name, f"uid-{name}")


def pod_of(name: str, index: int | None = 0, attempt: str = "0", set_uid: str = SWEEP.uid, **fields: Any) -> PodView:
    """A Pod of the Job of this name."""
    said = {
        labels.JOBSET_NAME: SWEEP.name,
        labels.JOBSET_REPLICATED_JOB: name.split("-")[1],
        labels.JOBSET_ATTEMPT: attempt,
        labels.JOBSET_UID: set_uid,
        labels.JOB_INDEX: "" if index is None else str(index),
    }
    pod_name = f"{name}-{index}-{attempt}"
    marks = {key: text for key, text in said.items() if text}
    known: dict[str, Any] = {"uid": f"uid-{pod_name}", "name": pod_name, "owner": job(name), "labels": marks}
    return a_pod(**known | {"scheduler_name": "slurm", "resource_version": "1"} | fields)


def succeeded(name: str, index: int | None = 0, **fields: Any) -> PodView:
    return pod_of(name, index, **{"phase": "Succeeded"} | fields)


def recognised(
    pods: Sequence[PodView],
    entries: Sequence[object] = (DRIVER, WORKERS),
    attempt: str = "0",
    status: dict[str, Any] | None = None,
    gang: str = "set",
    keeps: bool = False,
    own_pods: int = 2,
    spec: dict[str, Any] | None = None,
) -> Membership:
    """Return the gang of a worker whose Job runs `own_pods`, with these Pods in the cache."""
    store = PodStore({"slurm"})
    store.replaced(pods, [])
    said = {GANG_RESTART: "keep-allocation"} if keeps else {}
    view = ControllerView(SWEEP, {GANG: gang} | said)
    body = {"spec": {"replicatedJobs": entries, **(spec or {})}, "status": status or {}}
    job_set = with_size(view, json.dumps(body).encode())
    controllers = (ControllerView(job("sweep-worker-0"), pods=own_pods), job_set)
    found = recognise(pod_of("sweep-worker-0", 1, attempt), GangContext(controllers, succeeded=store.succeeded))
    assert isinstance(found, Membership), found
    return found


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ([], 5),
        ([succeeded("sweep-driver-0")], 4),
        ([succeeded("sweep-worker-0")], 5),
        ([succeeded("sweep-worker-0", 0), succeeded("sweep-worker-0", 1)], 4),
        ([succeeded("sweep-worker-0", 0), succeeded("sweep-worker-0", 0, uid="again")], 5),
        ([succeeded("sweep-worker-0", None, uid="one"), succeeded("sweep-worker-0", None, uid="two")], 4),
        ([succeeded("sweep-worker-1", number) for number in range(4)], 3),
    ],
)
def test_each_job_of_a_job_set_counts_with_the_pods_that_it_still_runs(pods: list[PodView], expected: int) -> None:
    gang = recognised(pods)
    assert (gang.expected, gang.most, gang.unknown) == (expected, 5, "")


def test_an_entry_of_a_job_set_counts_its_own_successes_alone() -> None:
    both = [succeeded("sweep-driver-0"), *(succeeded("sweep-worker-1", number) for number in range(2))]
    assert recognised(both, gang="replicated-job").expected == 3


@pytest.mark.parametrize(
    "pod",
    [
        succeeded("sweep-driver-0", phase="Failed"),
        succeeded("sweep-driver-0", phase="Running"),
        succeeded("sweep-driver-0", attempt="1"),
        succeeded("sweep-driver-0", set_uid="set-0"),
        succeeded("sweep-driver-0", labels={labels.JOBSET_NAME: "sweep", labels.JOBSET_REPLICATED_JOB: "driver"}),
        succeeded("sweep-driver-0", namespace="other"),
        succeeded("sweep-driver-0", owner=None),
        succeeded("sweep-driver-0", owner=OwnerReference("v1", "Job", "sweep-driver-0", "other")),
        succeeded("sweep-driver-0", deleted_at=1.0),
        succeeded("sweep-driver-0", scheduler_name="default-scheduler"),
        succeeded("sweep-driver-1"),
        succeeded("sweep-other-0"),
        succeeded("other-driver-0"),
    ],
)
def test_no_other_pod_makes_a_gang_of_a_job_set_smaller(pod: PodView) -> None:
    assert recognised([pod]).expected == 5


def test_a_job_set_that_keeps_its_allocation_counts_the_successes_since_its_last_restart() -> None:
    before = [succeeded("sweep-driver-0"), succeeded("sweep-worker-0", 0), succeeded("sweep-worker-0", 1)]
    gang = recognised(before, attempt="1", keeps=True)
    assert gang.expected == 5
    since = succeeded("sweep-driver-0", attempt="1")
    assert recognised([*before, since], attempt="1", keeps=True).expected == 4


def test_a_job_that_does_not_say_how_many_pods_have_to_succeed_counts_in_full() -> None:
    assert recognised([succeeded("sweep-queue-0")], (WORKERS, QUEUE)).expected == 6


def status(restarts: int = 0, driver: int = 0, worker: int = 0, failed: int = 0) -> dict[str, Any]:
    """The status of a JobSet with so many Jobs of each entry that have succeeded."""
    entries = [
        {"name": "driver", "succeeded": driver, "failed": failed},
        {"name": "worker", "succeeded": worker, "failed": 0},
    ]
    return {"restarts": restarts, "replicatedJobsStatus": entries}


@pytest.mark.parametrize(
    ("pods", "said", "expected"),
    [
        ([], status(driver=1), 4),
        ([], status(worker=1), 3),
        ([], status(driver=1, worker=2), 2),
        ([], status(driver=7), 4),
        ([succeeded("sweep-driver-0")], status(driver=1), 4),
        ([succeeded("sweep-worker-1", number) for number in range(3)], status(worker=1), 3),
        ([succeeded("sweep-worker-1", number) for number in range(2)], status(worker=1), 3),
        ([], status(restarts=1, driver=1), 5),
        ([], status(driver=1, failed=1), 5),
        ([], status(driver=-1), 5),
    ],
)
def test_jobs_that_have_succeeded_need_no_pods_even_if_these_were_deleted(
    pods: list[PodView], said: dict[str, Any], expected: int
) -> None:
    assert recognised(pods, status=said).expected == expected


def test_the_job_of_a_pod_has_not_succeeded_itself_and_says_how_many_pods_it_still_runs() -> None:
    gone = status(driver=1, worker=1)  # the Pods of the other Job were deleted
    assert recognised([succeeded("sweep-worker-0", number) for number in range(2)], status=gone).expected == 1
    assert recognised([], status=gone, own_pods=1).expected == 1
    assert recognised([], own_pods=1).expected == 4


def test_a_job_that_is_created_again_has_the_successes_of_its_own_pods_alone() -> None:
    deleted = {"owner": OwnerReference("batch/v1", "Job", "sweep-worker-0", "deleted")}
    assert recognised([succeeded("sweep-worker-0", number, **deleted) for number in range(3)]).expected == 5
    twice = [succeeded("sweep-worker-1", number) for number in range(3)]
    other = OwnerReference("batch/v1", "Job", "sweep-worker-1", "again")
    assert recognised([*twice, succeeded("sweep-worker-1", 0, uid="later", owner=other)]).expected == 5


def test_a_job_set_that_starts_in_order_keeps_its_size() -> None:
    """Its later Pods get their ranks when the first ones have theirs: these must not depend on who has succeeded."""
    in_order = {"startupPolicy": {"startupPolicyOrder": "InOrder"}}
    gang = recognised([succeeded("sweep-driver-0")], status=status(driver=1), spec=in_order)
    assert (gang.expected, gang.by_leader) == (5, True)


def test_no_number_of_jobs_makes_recognition_slow() -> None:
    """Of more Jobs than any gang has, none counts."""
    many = [succeeded("sweep-worker-1", 0, uid=f"pod-{number}", owner=a_job(number)) for number in range(4097)]
    assert recognised([*many, succeeded("sweep-driver-0")]).expected == 5


def a_job(number: int) -> OwnerReference:
    return OwnerReference("batch/v1", "Job", f"sweep-worker-{number}", "uid")


def test_jobs_that_have_succeeded_since_a_restart_count_for_the_pods_since_then() -> None:
    assert recognised([], attempt="1", status=status(restarts=1, driver=1)).expected == 4
    assert recognised([], attempt="1", status=status(restarts=1, driver=1, failed=1)).expected == 5


def test_a_gang_of_a_job_set_stays_one_when_a_single_pod_is_left() -> None:
    pods = [succeeded("sweep-worker-0", number) for number in range(2)]
    gang = recognised(pods, (WORKERS | {"replicas": 1},))
    assert (gang.expected, gang.most) == (1, 2)


def test_the_size_that_a_site_allows_is_that_of_the_whole_job_set() -> None:
    store = PodStore({"slurm"})
    store.replaced([succeeded("sweep-driver-0")], [])
    job_set = with_size(
        ControllerView(SWEEP, {GANG: "set"}), json.dumps({"spec": {"replicatedJobs": [DRIVER, WORKERS]}}).encode()
    )
    refused = recognise(pod_of("sweep-worker-0"), GangContext((job_set,), succeeded=store.succeeded, largest=4))
    assert refused == GangRefused("JobSet sweep has 5 Pods; at most 4 are allowed in a gang.")


def test_numbers_below_zero_in_a_job_set_count_as_none() -> None:
    huge = WORKERS | {"name": "huge", "replicas": 10**15}
    less = WORKERS | {"name": "less", "replicas": -(10**15)}
    none = WORKERS | {"name": "none", "replicas": 10**15, "template": {"spec": {"parallelism": -1}}}
    assert recognised([succeeded("sweep-driver-0")], (DRIVER, WORKERS, less, none)).most == 5
    job_set = with_size(
        ControllerView(SWEEP, {GANG: "set"}), json.dumps({"spec": {"replicatedJobs": [huge, less]}}).encode()
    )
    assert isinstance(recognise(pod_of("sweep-worker-0"), GangContext((job_set,))), GangRefused)


def test_a_pod_counts_from_its_success_until_it_is_gone() -> None:
    store, attempt = PodStore({"slurm"}), JobSetAttempt("team", SWEEP.uid, "0")
    store.changed(pod_of("sweep-driver-0", phase="Running"))
    assert store.succeeded(attempt) == {}
    store.changed(succeeded("sweep-driver-0", resource_version="2"))
    store.changed(succeeded("sweep-driver-0", resource_version="3", annotations={"said": "later"}))
    store.changed(succeeded("sweep-worker-0", 1))
    assert {name: list(places) for name, places in store.succeeded(attempt).items()} == {
        ("sweep-driver-0", "uid-sweep-driver-0"): [0],
        ("sweep-worker-0", "uid-sweep-worker-0"): [1],
    }
    for name in ("sweep-driver-0-0-0", "sweep-worker-0-1-0"):
        store.removed(f"uid-{name}", None)
    assert store.succeeded(attempt) == {}
