"""Pods of the default scheduler on nodes that Slurm gives away: Slurm holds what they use."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from lab.site import PodRef, QueuedJob, Site
from tests.builders.stage import Stage

EXTERNAL_FROM = (25, 5)
pytestmark = pytest.mark.modes("allocation", slow=("24.11",))


@pytest.fixture(scope="module")
def sharing(site: Site) -> Iterator[None]:
    """The site with `foreignPods` on, and a default scheduler beside ours, for all tests of this file."""
    if tuple(int(part) for part in site.release.split(".")) < EXTERNAL_FROM:
        pytest.skip("no external jobs before 25.05")
    scheduler = site.kube.start_scheduler()
    site.reconfigure({"foreignPods": {"mode": "jobs", "partition": "everywhere"}})
    try:
        yield
    finally:
        site.reconfigure()
        scheduler.stop()


@pytest.fixture
def shared(sharing: None, stage: Stage) -> Stage:
    """A stage on it, whose Pods are gone before the site is as it was."""
    return stage


def foreign(stage: Stage, name: str, node: str, cpus: int) -> PodRef:
    selector = {"kubernetes.io/hostname": node}
    return stage.site.pod(
        name, stage.namespace, scheduler="default-scheduler", cpus=cpus, memory="1Gi", nodeSelector=selector
    )


def held(stage: Stage, ref: PodRef) -> QueuedJob | None:
    return next((job for job in stage.jobs(ref) if job.state == "RUNNING"), None)


def test_a_pod_that_needs_more_than_another_scheduler_left_waits_until_that_one_leaves(shared: Stage) -> None:
    site, family = shared.site, shared.family
    other = foreign(shared, "other", family.tiny_node, 2)
    assert site.bound(other) == family.tiny_node
    job = site.wait_for(lambda: held(shared, other), "Slurm holds what it uses", timeout_s=10)
    assert job.node == family.tiny_node
    shown = site.scontrol_show_job(job.job_id)
    assert (shown["NumCPUs"], shown["TimeLimit"], shown["Requeue"]) == ("2", "UNLIMITED", "0")

    fits = shared.pod("fits", partition=family.tiny, cpus=2)
    assert site.bound(fits) == family.tiny_node
    site.delete(fits)
    site.gone(fits)
    waits = shared.pod("waits", partition=family.tiny, cpus=3)
    assert shared.job(waits).state == "PENDING"
    site.elapse(5)
    assert (shared.job(waits).state, site.node_of(waits)) == ("PENDING", "")

    site.delete(other)
    assert site.bound(waits, timeout_s=40) == family.tiny_node
    assert not shared.jobs(other)


def test_a_node_that_slurm_has_given_away_is_kept_from_more_until_it_holds_the_pod_too(shared: Stage) -> None:
    site, family = shared.site, shared.family
    native = shared.submit(family.tiny, cpus=3)
    assert shared.running(native) == family.tiny_node
    other = foreign(shared, "other", family.tiny_node, 2)
    site.bound(other)
    site.wait_for(shared.drained, "the node is drained", timeout_s=10)
    following = shared.submit(family.tiny, cpus=3)
    site.elapse(5)
    assert any(job.job_id == native and job.state == "RUNNING" for job in site.squeue())
    shared.cancel(native)
    site.wait_for(lambda: held(shared, other), "Slurm holds what it uses", timeout_s=90)
    site.wait_for(lambda: not shared.drained(), "the drain is lifted", timeout_s=30)
    assert any(job.job_id == following and job.state == "PENDING" for job in site.squeue())
    site.delete(other)
    assert shared.running(following) == family.tiny_node


def test_slurm_holds_what_a_pod_uses_within_a_second(shared: Stage, measured: Callable[[str], None]) -> None:
    site, node = shared.site, shared.family.nodes[0]
    waits = []
    for number in range(20):
        other = foreign(shared, f"other-{number}", node, 1)
        site.bound(other)
        _, waited = site.timed(lambda other=other: held(shared, other), "Slurm holds what it uses")  # type: ignore[misc]
        waits.append(waited)
    waits.sort()
    measured(f"{site.release}: Pod seen bound to job seen running: p50 {waits[10]:.3f} s, most {waits[-1]:.3f} s")


def test_a_slurm_that_cannot_hold_them_is_an_alarm_that_says_by_how_much(stage: Stage) -> None:
    site, node = stage.site, stage.family.nodes[0]
    if tuple(int(part) for part in site.release.split(".")) >= EXTERNAL_FROM:
        pytest.skip("this Slurm has external jobs")
    site.reconfigure({"foreignPods": {"mode": "jobs", "partition": "everywhere"}})
    try:
        other = site.pod("other", stage.namespace, scheduler="another", nodeName=node, cpus=3, memory="2Gi")
        told = site.wait_for(lambda: about(site, node, "ForeignPodsNotReserved"), "the alarm", timeout_s=20)
        assert "3 CPUs" in told[0]
        assert "25.05" in told[0]
        assert f"{stage.namespace}/other" in told[0]
        assert site.metric("foreign_pods_unreserved_cpus") >= 3
        assert not stage.drained()
        site.delete(other)
        site.gone(other)
        site.wait_for(lambda: site.metric("foreign_pods_unreserved_cpus") == 0, "nothing is owed any more")
    finally:
        site.reconfigure()


def about(site: Site, node: str, reason: str) -> list[str]:
    """Texts of the Events of this reason about a Node."""
    items = site.kube.api("GET", "/apis/events.k8s.io/v1/events?limit=500")[1]["items"]
    return [one["note"] for one in items if (one["regarding"].get("name"), one["reason"]) == (node, reason)]
