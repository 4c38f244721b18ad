"""The author of a parallel Job, JobSet or LeaderWorkerSet is warned once that its Pods start one by one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from extender.controllers import one_by_one_warnings
from extender.controllers.one_by_one_warnings import OneByOneWarnings
from extender.domain.gangs import labels
from extender.domain.ports import Announcement
from extender.domain.views import OwnerReference, PodView
from extender.domain.wellknown import GANG, Reason
from tests.builders.pod_views import a_pod

JOB = OwnerReference("batch/v1", "Job", "train", "job-1")


class Told:
    def __init__(self) -> None:
        self.said: list[Announcement] = []

    def announce(self, announcement: Announcement) -> None:
        self.said.append(announcement)


def pod(uid: str, owner: OwnerReference | None = JOB, **fields: Any) -> PodView:
    return a_pod(uid=uid, name=uid, scheduler_name="slurm", owner=owner, **fields)


def announced(*changes: tuple[PodView | None, PodView | None]) -> list[Announcement]:
    announcer = Told()
    warnings = OneByOneWarnings(announcer, ["slurm"])
    for old, new in changes:
        warnings.pod_changed(old, new)
        if old is None and new is not None:
            warnings.placed_alone(new)
    return announcer.said


def new(*pods: PodView) -> list[tuple[PodView | None, PodView | None]]:
    return [(None, one) for one in pods]


def test_the_second_pod_of_a_job_beside_the_first_is_warned_and_later_ones_are_not() -> None:
    said = announced(*new(pod("a"), pod("b"), pod("c")))
    assert [(one.uid, one.reason, one.warning) for one in said] == [("b", Reason.PODS_PLACED_ONE_BY_ONE, True)]
    assert "Each Pod of Job train gets a Slurm job of its own" in said[0].text


@pytest.mark.parametrize(
    "owner",
    [
        None,
        OwnerReference("apps/v1", "ReplicaSet", "web", "rs-1"),
        OwnerReference("apps/v1", "StatefulSet", "db", "sts-1"),
        OwnerReference("example.com/v1", "Job", "train", "job-1"),
    ],
)
def test_pods_of_other_controllers_are_not_warned(owner: OwnerReference | None) -> None:
    assert announced(*new(pod("a", owner), pod("b", owner))) == []


def test_a_pod_that_replaces_one_that_ended_is_not_beside_it() -> None:
    ended = replace(pod("a"), phase="Failed")
    assert announced((None, pod("a")), (pod("a"), ended), (None, pod("b"))) == []
    assert announced((None, pod("a")), (pod("a"), None), (None, pod("b"))) == []
    assert announced(*new(ended, pod("b"))) == []


def test_bound_pods_are_not_warned() -> None:
    assert announced(*new(replace(pod("a"), node_name="n1"), replace(pod("b"), node_name="n2"))) == []


def test_two_jobs_are_two_owners() -> None:
    other = replace(JOB, uid="job-2", name="other")
    assert announced(*new(pod("a"), pod("x", other))) == []
    assert [one.uid for one in announced(*new(pod("a"), pod("x", other), pod("y", other), pod("b")))] == ["y", "b"]


def test_jobs_of_one_job_set_are_one_owner() -> None:
    name = {labels.JOBSET_NAME: "sweep"}
    other = replace(JOB, uid="job-2")
    said = announced(*new(pod("a", labels=name), pod("b", other, labels=name)))
    assert ["JobSet sweep" in one.text for one in said] == [True]


def test_the_first_pod_of_a_leader_worker_set_says_that_there_are_several() -> None:
    name = {labels.LWS_NAME: "vllm"}
    assert len(announced(*new(pod("a", labels=name, annotations={labels.LWS_SIZE: "4"})))) == 1
    assert announced(*new(pod("a", labels=name, annotations={labels.LWS_SIZE: "1"}))) == []


def test_a_kubeflow_job_is_named_by_its_kind() -> None:
    owner = OwnerReference("kubeflow.org/v1", "PyTorchJob", "bert", "pt-1")
    name = {labels.KUBEFLOW_JOB: "bert"}
    said = announced(*new(pod("a", owner, labels=name), pod("b", owner, labels=name)))
    assert ["PyTorchJob bert" in one.text for one in said] == [True]


@pytest.mark.parametrize(
    ("fields", "title"),
    [
        ({"scheduling_group": "ring"}, "PodGroup ring"),
        ({"labels": {labels.COSCHEDULING_GROUP: "ring"}}, "PodGroup ring"),
        ({"annotations": {labels.VOLCANO_GROUPS[0]: "ring"}}, "PodGroup ring"),
        ({"annotations": {labels.VOLCANO_GROUPS[1]: "ring"}}, "PodGroup ring"),
        ({"workload_ref": "train/ring"}, "Workload train/ring"),
    ],
)
@pytest.mark.parametrize("owner", [None, JOB])
def test_the_second_pod_of_a_group_that_is_not_read_is_warned_once_with_what_to_do_instead(
    fields: dict[str, Any], title: str, owner: OwnerReference | None
) -> None:
    said = announced(*new(*(pod(uid, owner, **fields) for uid in "abc")))
    assert [one.uid for one in said] == ["b"]
    assert f"Each Pod of {title} gets a Slurm job of its own" in said[0].text
    assert f"{GANG} instead of naming the {title.split(maxsplit=1)[0]}, which is not read" in said[0].text


def test_groups_of_one_name_and_different_kinds_are_different_groups() -> None:
    one, other = pod("a", None, scheduling_group="ring"), pod("b", None, labels={labels.COSCHEDULING_GROUP: "ring"})
    assert announced(*new(one, other)) == []


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_by_one_warnings, "REMEMBERED", 2)
    owners = [replace(JOB, uid=f"job-{number}") for number in range(3)]
    assert announced(*new(*(pod(owner.uid, owner) for owner in owners), pod("again", owners[0]))) == []
    assert len(announced(*new(*(pod(owner.uid, owner) for owner in owners), pod("again", owners[2])))) == 1
