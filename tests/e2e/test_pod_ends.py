"""How a Pod is ended, and how its job ends: budgets, graces, deadlines, outcomes, and ends that nobody asked us for."""

from __future__ import annotations

from typing import Any

import pytest

from lab.clock import elapsed
from lab.pods import FAIL_AFTER, RUN_FOR, STOP_IN
from lab.site import PodRef
from lab.topology import slurm_name
from tests.builders.stage import Stage

KILL_WAIT_S = 10.0
"""Of the lab's Slurm, and of the configuration of these tests; budgets hold as long."""

TIME_LIMIT = "slurm-extender.io/time-limit"
COMMENT = "slurm-extender.io/comment"


def disruption(pod: dict[str, Any]) -> dict[str, Any]:
    """The condition that names the cause; empty where there is none."""
    conditions = pod["status"].get("conditions", [])
    found: dict[str, Any] = next((one for one in conditions if one["type"] == "DisruptionTarget"), {})
    return found


def read(stage: Stage, pod: PodRef) -> dict[str, Any]:
    found = stage.site.read(pod)
    assert found is not None, f"Pod {pod.name} is gone"
    return found


def ending(stage: Stage, pod: PodRef) -> bool:
    return "deletionTimestamp" in read(stage, pod)["metadata"]


def running(stage: Stage, name: str, **options: Any) -> PodRef:
    """A Pod that its kubelet runs."""
    pod = stage.pod(name, **options)
    stage.site.bound(pod)
    stage.site.wait_for(lambda: read(stage, pod)["status"]["phase"] == "Running", f"Pod {name} runs")
    return pod


def ended(stage: Stage, job_id: int) -> dict[str, str]:
    """The job when it is over, by `scontrol show job`."""
    return stage.site.wait_for(
        lambda: (
            found
            if (found := stage.site.scontrol_show_job(job_id))["JobState"] not in {"RUNNING", "COMPLETING", "PENDING"}
            else None
        ),
        f"job {job_id} is over",
    )


def with_a_budget(stage: Stage) -> str:
    """Let Pods of app `kept` be evicted only where another stays; the path of the budgets."""
    budget = {
        "metadata": {"name": "keep"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "kept"}}},
    }
    budgets = f"/apis/policy/v1/namespaces/{stage.namespace}/poddisruptionbudgets"
    assert stage.site.kube.api("POST", budgets, budget)[0] == 201
    return budgets


def granted(stage: Stage, pod: PodRef) -> int:
    """The job that was given a node for a Pod, also when it is over."""
    jobs = stage.site.wait_for(lambda: [job for job in stage.jobs(pod, "all") if job.node], f"Pod {pod.name} has a job")
    assert len(jobs) == 1, f"Pod {pod.name} was given nodes more than once: {jobs}"
    return jobs[0].job_id


@pytest.mark.modes("batch", "allocation", "external", slow=("24.11", "26.05-allocation", "external"))
def test_a_budget_holds_a_cancelled_jobs_pod_until_the_deadline(stage: Stage) -> None:
    site = stage.site
    budgets = with_a_budget(stage)
    pod = running(stage, "kept", labels={"app": "kept"}, grace_s=2)
    site.wait_for(
        lambda: site.kube.api("GET", f"{budgets}/keep")[1].get("status", {}).get("currentHealthy") == 1,
        "the budget counts the Pod",
    )
    stage.cancel(stage.job(pod).job_id)
    began = elapsed()
    site.event(pod, "EvictionBlockedByPDB")
    assert not ending(stage, pod)
    site.wait_for(lambda: stage.drained(), "the node is held")
    site.wait_for(lambda: ending(stage, pod), "the deadline is over", timeout_s=60)
    assert elapsed() - began >= KILL_WAIT_S - 1
    assert disruption(read(stage, pod))["reason"] == "SlurmJobCancelled"
    site.gone(pod)


@pytest.mark.slow
@pytest.mark.modes("batch", "external")
def test_a_budget_that_gives_way_ends_the_pod_by_eviction(stage: Stage) -> None:
    site = stage.site
    with_a_budget(stage)
    pod = running(stage, "kept", labels={"app": "kept"}, grace_s=2)
    site.reconfigure({"limits": {"evictionDeadline": "120s"}})
    try:
        stage.cancel(stage.job(pod).job_id)
        began = elapsed()
        site.event(pod, "EvictionBlockedByPDB")
        running(stage, "another", labels={"app": "kept"})
        site.gone(pod, timeout_s=60)
        assert elapsed() - began < 60
    finally:
        site.reconfigure()


@pytest.mark.modes("batch", "allocation", "external", slow=("24.11-allocation", "26.05", "external"))
def test_the_cause_stands_on_the_pod_before_its_deletion(stage: Stage) -> None:
    """Of an end with an eviction, which writes a condition of its own, and of one without."""
    site, family = stage.site, stage.family
    evicted = running(stage, "evicted", grace_s=6, annotations={STOP_IN: "3s"})
    since = read(stage, evicted)["metadata"]["resourceVersion"]
    deleted = running(stage, "deleted", partition=family.preemptable, cpus=8, grace_s=6, annotations={STOP_IN: "3s"})
    stage.cancel(stage.job(evicted).job_id)
    stage.submit(family.urgent, cpus=8)
    for pod in (evicted, deleted):
        site.gone(pod, timeout_s=60)

    def at_the_first_sign(pod: PodRef) -> dict[str, Any]:
        versions = site.history(pod, since)
        return disruption(next(one for one in versions if "deletionTimestamp" in one["metadata"]))

    # The eviction itself is what writes a condition in the same moment as the deletion.
    assert at_the_first_sign(evicted)["reason"] == "EvictionByEvictionAPI"
    assert at_the_first_sign(deleted)["reason"] == "PreemptionBySlurm"
    last = {pod.name: disruption(site.history(pod, since)[-1]) for pod in (evicted, deleted)}
    assert {name: one["reason"] for name, one in last.items()} == {
        "evicted": "SlurmJobCancelled",
        "deleted": "PreemptionBySlurm",
    }


@pytest.mark.slow
@pytest.mark.modes("batch", "allocation", "external")
def test_a_grace_is_cut_to_the_time_that_slurm_gives_and_the_pod_gets_an_event(stage: Stage) -> None:
    site, family = stage.site, stage.family
    pod = running(stage, "victim", partition=family.preemptable, cpus=8, grace_s=120)
    stage.submit(family.urgent, cpus=8)
    note = site.event(pod, "GracePeriodShortened", timeout_s=60)
    found = read(stage, pod)
    assert 1 <= found["metadata"]["deletionGracePeriodSeconds"] <= KILL_WAIT_S
    assert "from 120 s to" in note
    assert "from 120 s to" in disruption(found)["message"]
    site.gone(pod, timeout_s=KILL_WAIT_S + 15)


@pytest.mark.slow
@pytest.mark.modes("batch", "allocation", "external")
def test_a_pod_that_ends_slowly_is_hurried_when_its_job_is_preempted(stage: Stage) -> None:
    site, family = stage.site, stage.family
    pod = running(stage, "victim", partition=family.preemptable, cpus=8, grace_s=120)
    site.delete(pod)
    site.elapse(2)
    assert read(stage, pod)["metadata"]["deletionGracePeriodSeconds"] == 120
    stage.submit(family.urgent, cpus=8)
    site.event(pod, "GracePeriodShortened", timeout_s=60)
    site.gone(pod, timeout_s=KILL_WAIT_S + 15)


@pytest.mark.modes("batch", "allocation", "external", slow=("24.11", "26.05-allocation", "external"))
def test_a_job_ends_as_its_pod_did_where_slurm_lets_it_and_keeps_the_outcome(stage: Stage) -> None:
    pods = {
        "succeeds": stage.pod("succeeds", annotations={RUN_FOR: "2s", COMMENT: "mine"}),
        "fails": stage.pod("fails", annotations={FAIL_AFTER: "2s"}),
        "leaves": running(stage, "leaves"),
    }
    stage.site.delete(pods["leaves"])
    jobs = {name: ended(stage, granted(stage, pod)) for name, pod in pods.items()}
    # A script ends as its Pod did; whatever has none can only be cancelled. An allocation that had to queue has one.
    expected = {"succeeds": "COMPLETED", "fails": "FAILED", "leaves": "CANCELLED"}
    scripts = {name for name, job in jobs.items() if job["BatchFlag"] == "1"}
    assert {name: job["JobState"] for name, job in jobs.items()} == {
        name: state if name in scripts else "CANCELLED" for name, state in expected.items()
    }
    assert stage.mode != "batch" or scripts == expected.keys()
    assert {name: job["Comment"].rpartition("; ")[2] for name, job in jobs.items()} == {
        "succeeds": f"Pod {stage.namespace}/succeeds Succeeded",
        "fails": f"Pod {stage.namespace}/fails Failed: exit 1",
        "leaves": f"Pod {stage.namespace}/leaves deleted: exit 143",
    }
    assert jobs["succeeds"]["Comment"].startswith("mine; ")


@pytest.mark.modes("batch", "allocation", "external", slow=("26.05", "24.11-allocation"))
def test_the_deadline_of_a_pod_becomes_the_limit_of_its_job_with_room_for_start_and_grace(stage: Stage) -> None:
    pod = running(stage, "short", activeDeadlineSeconds=600, grace_s=30)
    # 600 s, 30 s for its grace and 60 s for its start, in whole minutes.
    assert stage.site.scontrol_show_job(stage.job(pod).job_id)["TimeLimit"] == "00:12:00"


@pytest.mark.slow
@pytest.mark.modes("batch", "allocation", "external")
def test_the_limit_of_a_running_job_is_followed_independent_of_who_changes_it(stage: Stage) -> None:
    """One minute ends a Pod in time; another one's is raised, which lets it live on, and lowered, which ends it."""
    site = stage.site
    pods = [running(stage, name, annotations={TIME_LIMIT: "1"}, grace_s=5) for name in ("ends", "lives")]
    first, other = (stage.job(pod).job_id for pod in pods)
    began = elapsed()
    site.slurm.run("scontrol", "update", f"JobId={other}", "TimeLimit=10")
    site.gone(pods[0], timeout_s=90)
    assert elapsed() - began < 62
    # Slurm's own end would be TIMEOUT; the Pod had left before.
    assert ended(stage, first)["JobState"] == "CANCELLED"
    assert "time limit" in site.event(pods[0], "SlurmAllocationLost")
    site.elapse(max(0.0, 75 - (elapsed() - began)))
    assert not ending(stage, pods[1])
    site.slurm.run("scontrol", "update", f"JobId={other}", "TimeLimit=2")
    site.gone(pods[1], timeout_s=90)
    assert elapsed() - began < 122
    assert ended(stage, other)["JobState"] == "CANCELLED"


@pytest.mark.modes("batch", "allocation", "external", slow=("26.05", "24.11-allocation"))
def test_a_cancelled_grant_is_an_answer_and_the_pod_is_not_bound(stage: Stage) -> None:
    site, tiny = stage.site, stage.family.tiny
    first = stage.pod("first", partition=tiny, cpus=4)
    site.bound(first)
    pod = stage.pod("web", partition=tiny, cpus=4)
    job_id = stage.job(pod).job_id
    with site.scheduler.frozen():
        site.delete(first)
        stage.running(job_id)
        stage.cancel(job_id)
        assert str(job_id) in site.event(pod, "SlurmJobCancelled")
    site.elapse(6)
    assert not site.node_of(pod)
    assert stage.made(pod) == [job_id], "nothing is submitted until the Pod asks for something else"
    site.annotate(pod, {TIME_LIMIT: "90"})
    site.bound(pod, timeout_s=60)


@pytest.mark.slow
@pytest.mark.modes("batch", "allocation", "external")
def test_a_pod_that_is_deleted_by_force_holds_its_node_before_its_job_ends(stage: Stage) -> None:
    site = stage.site
    pod = running(stage, "web", grace_s=3)
    node, job_id = slurm_name(site.node_of(pod)), stage.job(pod).job_id
    site.kube.api("DELETE", pod.path, {"gracePeriodSeconds": 0})
    began = elapsed()
    assert site.read(pod) is None
    stage.wait_job_ended(pod)
    (line,) = stage.drained()
    assert line.startswith(f"{node}|")
    assert f"{stage.namespace}/web" in line
    site.wait_for(lambda: not stage.drained(), "kubelet has heard of it, and the grace is over", timeout_s=180)
    assert elapsed() - began >= 13
    assert ended(stage, job_id)["Comment"].endswith(f"Pod {stage.namespace}/web deleted")


@pytest.mark.slow
@pytest.mark.modes("batch", "allocation", "external")
def test_a_pod_of_the_same_name_has_a_job_of_its_own(stage: Stage) -> None:
    site = stage.site
    old = running(stage, "web", grace_s=3)
    job_id = stage.job(old).job_id
    site.kube.api("DELETE", old.path, {"gracePeriodSeconds": 0})
    new = stage.pod("web")
    node = site.bound(new, timeout_s=60)
    site.wait_for(lambda: len(stage.jobs(new)) == 1, "the old job is over")
    assert stage.job(new).job_id != job_id
    assert stage.job(new).node == slurm_name(node)
    assert len(stage.made(new)) == 2
    site.wait_for(lambda: not stage.drained(), "the old one is known to be gone", timeout_s=180)


@pytest.mark.modes("batch", "allocation", "external", slow=("24.11-allocation", "26.05"))
def test_a_pod_that_kubelet_evicted_ends_its_job_and_says_why(stage: Stage) -> None:
    site = stage.site
    pod = running(stage, "hungry")
    job_id = stage.job(pod).job_id
    # As kubelet's eviction manager writes it (`pkg/kubelet/eviction/eviction_manager.go`).
    told = {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet", "message": "low on memory"}
    terminated = {"terminated": {"exitCode": 137, "reason": "Error"}}
    container = {"name": "main", "image": "lab/nothing", "imageID": "", "ready": False, "restartCount": 0}
    status = {
        "phase": "Failed",
        "reason": "Evicted",
        "message": "The node was low on resource: memory.",
        "conditions": [told],
        "containerStatuses": [container | {"state": terminated}],
    }
    code, answer = site.kube.api(
        "PATCH",
        f"{pod.path}/status",
        {"status": status},
        content_type="application/strategic-merge-patch+json",
    )
    assert code == 200, answer
    job = ended(stage, job_id)
    assert job["JobState"] == ("FAILED" if job["BatchFlag"] == "1" else "CANCELLED")
    assert job["Comment"].endswith(f"Pod {stage.namespace}/hungry evicted: The node was low on resource: memory.")
    assert not any("hungry" in line for line in stage.drained())
    assert read(stage, pod)["status"]["phase"] == "Failed"
