"""To which gang a Pod belongs: each source, its identity, its size, its place, and two sources on one Pod."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from extender.domain.gangs import labels
from extender.domain.gangs.context import (
    ControllerView,
    GangContext,
    GroupRef,
    GroupView,
    JobGangs,
    ReplicatedJob,
)
from extender.domain.gangs.layout import ranks
from extender.domain.gangs.membership import POD_GROUPS, GangSource, Membership
from extender.domain.gangs.recognition import GangRefused, recognise
from extender.domain.views import OwnerReference, PodView
from extender.domain.wellknown import GANG, GANG_SIZE
from tests.builders.pod_views import a_pod

ALONE = GangContext()
JOB = OwnerReference("batch/v1", "Job", "train", "job-1")
JOB_SET = OwnerReference("jobset.x-k8s.io/v1alpha2", "JobSet", "sweep", "set-1")
LWS = {labels.LWS_NAME: "vllm", labels.LWS_GROUP_INDEX: "2"}
GROUPS = GangContext(
    group=lambda ref: GroupView(f"{ref.source}-uid", 4) if ref.name == "four" else None, groups_read=POD_GROUPS
)


def of_job(pods: int | None = 4, indexed: bool = True, **annotations: str) -> GangContext:
    said = {f"slurm-extender.io/{key}": value for key, value in annotations.items()}
    return GangContext((ControllerView(JOB, said, pods=pods, indexed=indexed),))


def job_pod(index: int = 0, **fields: Any) -> PodView:
    return a_pod(owner=JOB, labels={labels.JOB_INDEX: str(index)} | fields.pop("labels", {}), **fields)


def found(pod: PodView, context: GangContext = ALONE) -> Membership:
    said = recognise(pod, context)
    assert isinstance(said, Membership), said
    return said


def refused(pod: PodView, context: GangContext = ALONE) -> str:
    said = recognise(pod, context)
    assert isinstance(said, GangRefused), said
    return said.text


def test_a_pod_that_says_nothing_is_a_workload_of_its_own() -> None:
    assert recognise(a_pod(), ALONE) is None
    assert recognise(job_pod(), of_job()) is None


def test_an_annotated_gang_has_its_name_and_size_from_the_pod() -> None:
    said = found(a_pod(annotations={GANG: "ring", GANG_SIZE: "8"}))
    assert (said.source, said.name, said.expected, said.unknown) == (GangSource.ANNOTATION, "gang ring", 8, "")


def test_annotated_members_have_one_topmost_controller() -> None:
    pod = a_pod(annotations={GANG: "ring", GANG_SIZE: "8"})
    assert found(pod).key() == found(replace(pod, uid="other", name="other")).key()
    assert found(pod).key() != found(pod, of_job()).key()
    assert found(pod).key() != found(replace(pod, namespace="other")).key()
    assert found(pod).key(("", "", "physics", "")) != found(pod).key(("", "", "biology", ""))


@pytest.mark.parametrize(
    ("annotations", "text"),
    [
        ({GANG: "ring"}, f"{GANG} is set and {GANG_SIZE} is not"),
        ({GANG_SIZE: "4"}, f"{GANG_SIZE} is set and {GANG} is not"),
        ({GANG: "ring", GANG_SIZE: "0"}, "a whole number from 1 to 1024"),
        ({GANG: "ring", GANG_SIZE: "1025"}, "a whole number from 1 to 1024"),
        ({GANG: "ring", GANG_SIZE: "four"}, '"four" is not allowed'),
        ({GANG: "a b", GANG_SIZE: "4"}, "letters, digits and - _ . /"),
        ({GANG: "r" * 300, GANG_SIZE: "4"}, "..."),
    ],
)
def test_an_annotation_that_cannot_be_used_is_refused_with_what_to_do(annotations: dict[str, str], text: str) -> None:
    said = refused(a_pod(annotations=annotations))
    assert text in said
    assert len(said) < 300


def test_the_policy_bounds_a_gang() -> None:
    pod = a_pod(annotations={GANG: "ring", GANG_SIZE: "5"})
    assert "from 1 to 4" in refused(pod, GangContext(largest=4))
    assert "at most 2" in refused(a_pod(scheduling_group="four"), replace(GROUPS, largest=2))
    assert "at most 2" in refused(job_pod(), replace(of_job(gang="true"), largest=2))


def test_two_sources_on_one_pod_are_refused_and_both_are_named() -> None:
    pod = a_pod(annotations={GANG: "ring", GANG_SIZE: "8"}, labels={labels.COSCHEDULING_GROUP: "four"})
    said = refused(pod)
    assert f'{GANG}: "ring"' in said
    assert f'{labels.COSCHEDULING_GROUP}: "four"' in said


@pytest.mark.parametrize(
    ("pod", "source"),
    [
        (a_pod(scheduling_group="four"), GangSource.POD_GROUP),
        (a_pod(labels={labels.COSCHEDULING_GROUP: "four"}), GangSource.COSCHEDULING),
        (a_pod(annotations={labels.VOLCANO_GROUPS[0]: "four"}), GangSource.VOLCANO),
        (a_pod(annotations=dict.fromkeys(labels.VOLCANO_GROUPS, "four")), GangSource.VOLCANO),
    ],
)
def test_a_pod_group_gives_size_and_identity(pod: PodView, source: GangSource) -> None:
    said = found(pod, GROUPS)
    assert (said.source, said.expected, said.unknown) == (source, 4, "")
    again = replace(GROUPS, group=lambda _ref: GroupView("another-uid", 4))
    assert found(pod, again).key() != said.key()
    assert recognise(pod, replace(GROUPS, groups_read=frozenset(GangSource) - {source})) is None


def test_a_pod_group_that_does_not_exist_is_named_until_it_does() -> None:
    said = found(a_pod(scheduling_group="five"), GROUPS)
    assert "PodGroup five does not exist in namespace team" in said.unknown
    assert said.expected is None
    assert said.key() != found(a_pod(scheduling_group="six"), GROUPS).key()


def test_a_pod_that_repeats_the_name_of_a_pod_group_joins_neither_another_owner_nor_another_tenant() -> None:
    pod = a_pod(labels={labels.COSCHEDULING_GROUP: "four"})
    owned = replace(of_job(), group=GROUPS.group, groups_read=POD_GROUPS)
    assert found(pod, GROUPS).key() != found(pod, owned).key()
    said = found(pod, GROUPS)
    assert said.key(("", "", "physics", "")) != said.key(("", "", "biology", ""))


@pytest.mark.parametrize("least", [0, 1])
def test_a_pod_group_that_requests_no_second_member_makes_no_gang(least: int) -> None:
    basic = GangContext(group=lambda _ref: GroupView("uid", least), groups_read=POD_GROUPS)
    assert recognise(a_pod(scheduling_group="four"), basic) is None


def test_a_leader_worker_set_whose_pod_group_requests_the_leader_alone_is_a_gang_of_its_size() -> None:
    """With LeaderReady its controller writes minMember 1 (KEP-407)."""
    pod = a_pod(
        labels=LWS | {labels.LWS_WORKER_INDEX: "0"},
        annotations={labels.LWS_SIZE: "4", labels.VOLCANO_GROUPS[0]: "vllm-2"},
    )
    leader_alone = GangContext(group=lambda _ref: GroupView("uid", 1), groups_read=POD_GROUPS)
    said = found(pod, leader_alone)
    assert (said.source, said.expected) == (GangSource.LEADER_WORKER_SET, 4)


def test_a_group_is_found_by_source_and_namespace() -> None:
    queried: list[GroupRef] = []

    def group(ref: GroupRef) -> GroupView | None:
        queried.append(ref)
        return None

    recognise(a_pod(labels={labels.COSCHEDULING_GROUP: "four"}), GangContext(group=group, groups_read=POD_GROUPS))
    assert queried == [GroupRef(GangSource.COSCHEDULING, "team", "four")]


def test_a_kueue_group_has_its_size_and_index_from_the_pod() -> None:
    said = found(
        a_pod(
            labels={labels.KUEUE_GROUP: "batch-7", "step": "3"},
            annotations={labels.KUEUE_SIZE: "4", labels.KUEUE_INDEX_LABEL: "step"},
        )
    )
    assert (said.expected, said.order.index) == (4, (3,))
    assert labels.KUEUE_SIZE in refused(a_pod(labels={labels.KUEUE_GROUP: "batch-7"}))


KUEUE_SERVES = {labels.KUEUE_SIZE: "3", labels.KUEUE_SERVING: "true"}


def test_a_pod_of_a_stateful_set_that_kueue_admits_is_placed_by_itself() -> None:
    in_group = {labels.KUEUE_GROUP: "web", labels.STATEFUL_SET_INDEX: "0"}
    assert recognise(a_pod(labels=in_group, annotations=KUEUE_SERVES), ALONE) is None
    assert found(a_pod(labels=in_group, annotations=KUEUE_SERVES | {labels.KUEUE_SERVING: "false"})).expected == 3


def test_kueue_makes_no_second_gang_of_a_group_of_a_leader_worker_set() -> None:
    of_set = LWS | {labels.LWS_WORKER_INDEX: "0", labels.KUEUE_GROUP: "vllm"}
    for said in (KUEUE_SERVES, {}):
        pod = a_pod(labels=of_set, annotations=said | {labels.LWS_SIZE: "4"})
        assert (found(pod).source, found(pod).expected) == (GangSource.LEADER_WORKER_SET, 4)


def test_an_annotated_gang_goes_before_a_kueue_group_that_is_none() -> None:
    own = {GANG: "ring", GANG_SIZE: "2"}
    serves = a_pod(labels={labels.KUEUE_GROUP: "web"}, annotations=KUEUE_SERVES | own)
    assert found(serves).source is GangSource.ANNOTATION
    plain = a_pod(labels={labels.KUEUE_GROUP: "web"}, annotations={labels.KUEUE_SIZE: "3"} | own)
    assert "names two gangs" in refused(plain)


def under(leader: str) -> GangContext:
    workers = OwnerReference("apps/v1", "StatefulSet", "vllm-2", "sts-2")
    return GangContext(
        (ControllerView(workers), ControllerView(OwnerReference("v1", "Pod", "vllm-2", leader), read=bool(leader)))
        if leader
        else (ControllerView(workers),)
    )


def test_a_group_of_a_leader_worker_set_is_known_by_its_leader() -> None:
    size = {labels.LWS_SIZE: "4"}
    leader = a_pod(uid="leader-uid", labels=LWS | {labels.LWS_WORKER_INDEX: "0"}, annotations=size)
    worker = a_pod(uid="worker-uid", labels=LWS | {labels.LWS_WORKER_INDEX: "3"}, annotations=size)
    assert found(leader).key() == found(worker, under("leader-uid")).key()
    assert found(worker, under("leader-uid")).order.index == (3,)
    assert found(worker, under("new-uid")).key() != found(leader).key()
    assert "cannot be read" in found(worker, under("")).unknown


def test_a_leader_worker_set_that_waits_for_its_leader_is_completed_by_it() -> None:
    owner = OwnerReference("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "vllm", "lws-1")
    leader = a_pod(labels=LWS | {labels.LWS_WORKER_INDEX: "0"}, annotations={labels.LWS_SIZE: "4"})
    assert found(leader, GangContext((ControllerView(owner, in_order=True),))).by_leader
    assert not found(leader, GangContext((ControllerView(owner),))).by_leader


@pytest.mark.parametrize(
    ("jobs", "indexed", "is_gang"),
    [
        (JobGangs.ANNOTATED, True, False),
        (JobGangs.INDEXED, True, True),
        (JobGangs.INDEXED, False, False),
        (JobGangs.ALL, False, True),
    ],
)
def test_the_site_says_which_jobs_are_gangs_without_saying_so(jobs: JobGangs, indexed: bool, is_gang: bool) -> None:
    context = replace(of_job(indexed=indexed), jobs=jobs)
    assert (recognise(job_pod(), context) is not None) is is_gang


def test_a_job_or_its_pods_may_request_a_gang_or_refuse_to_be_one() -> None:
    wishes = {GANG: "true"}
    assert found(job_pod(), of_job(gang="true")).expected == 4
    assert found(job_pod(2, annotations=wishes), of_job()).order.index == (2,)
    assert recognise(job_pod(annotations={GANG: "false"}), replace(of_job(), jobs=JobGangs.ALL)) is None
    assert "must be true or false" in refused(job_pod(), of_job(gang="perhaps"))


def test_a_job_of_one_pod_is_no_gang_and_one_that_cannot_be_read_is_named() -> None:
    assert recognise(job_pod(), of_job(pods=1, gang="true")) is None
    assert "specification of Job train cannot be read" in found(job_pod(), of_job(pods=None, gang="true")).unknown


def job_set(gang: str, replicated: tuple[ReplicatedJob, ...] | None = None, in_order: bool = False) -> GangContext:
    entries = (ReplicatedJob("driver", 1, 1), ReplicatedJob("worker", 2, 3)) if replicated is None else replicated
    said = {GANG: gang} if gang else {}
    return GangContext(
        (ControllerView(JOB, pods=3), ControllerView(JOB_SET, said, replicated=entries, in_order=in_order))
    )


def set_pod(attempt: str = "0") -> PodView:
    return job_pod(
        1,
        labels={
            labels.JOBSET_NAME: "sweep",
            labels.JOBSET_REPLICATED_JOB: "worker",
            labels.JOBSET_GLOBAL_INDEX: "2",
            labels.JOBSET_ATTEMPT: attempt,
        },
    )


@pytest.mark.parametrize(("gang", "expected"), [("job", 3), ("replicated-job", 6), ("set", 7)])
def test_a_job_set_says_which_of_its_pods_are_one_gang(gang: str, expected: int) -> None:
    assert found(set_pod(), job_set(gang)).expected == expected


def test_a_job_set_without_the_annotation_is_placed_pod_by_pod() -> None:
    assert recognise(set_pod(), job_set("")) is None
    assert "must be one of job, replicated-job, set" in refused(set_pod(), job_set("all"))


def test_a_restarted_job_set_is_a_new_gang_in_the_order_of_its_jobs() -> None:
    first, second = found(set_pod("0"), job_set("set")), found(set_pod("1"), job_set("set"))
    assert first.key() != second.key()
    assert first.order.index == (5,)
    assert not first.by_leader
    assert found(set_pod(), job_set("set", in_order=True)).by_leader


@pytest.mark.parametrize(
    ("gang", "entry", "job", "completion", "rank"),
    [
        ("set", "driver", "0", 0, 0),
        ("set", "worker", "1", 0, 1),
        ("set", "worker", "2", 2, 6),
        ("replicated-job", "worker", "1", 1, 1),
        ("replicated-job", "worker", "2", 0, 3),
    ],
)
def test_the_specification_of_a_job_set_gives_each_pod_its_rank_whichever_pods_exist(
    gang: str, entry: str, job: str, completion: int, rank: int
) -> None:
    of_set = {
        labels.JOBSET_NAME: "sweep",
        labels.JOBSET_REPLICATED_JOB: entry,
        labels.JOBSET_GLOBAL_INDEX: job,
    }
    last = found(job_pod(completion, labels=of_set), job_set(gang, in_order=True))
    assert last.order.index == (rank,)
    assert ranks({"only": last.order}, 7) == {"only": rank}


@pytest.mark.parametrize(
    ("entry", "job", "completion"), [("other", "1", 0), ("worker", "7", 0), ("worker", "0", 0), ("worker", "1", 3)]
)
def test_a_pod_that_its_job_set_does_not_foresee_is_ordered_by_job_and_completion_index(
    entry: str, job: str, completion: int
) -> None:
    of_set = {
        labels.JOBSET_NAME: "sweep",
        labels.JOBSET_REPLICATED_JOB: entry,
        labels.JOBSET_GLOBAL_INDEX: job,
    }
    assert found(job_pod(completion, labels=of_set), job_set("set")).order.index == (int(job), completion)


def test_a_job_set_that_cannot_be_read_is_named() -> None:
    assert "JobSet sweep cannot be read" in found(set_pod(), job_set("set", replicated=())).unknown


def test_a_group_that_an_author_names_goes_before_what_a_controller_writes() -> None:
    pod = replace(set_pod(), scheduling_group="four")
    assert found(pod, replace(GROUPS, controllers=job_set("set").controllers)).source is GangSource.POD_GROUP


def test_a_pod_group_that_is_not_read_leaves_the_gang_that_the_controller_says() -> None:
    """A LeaderWorkerSet with Volcano as its provider names a PodGroup on every Pod."""
    pod = replace(set_pod(), annotations={labels.VOLCANO_GROUPS[0]: "four"})
    assert found(pod, job_set("set")).source is GangSource.JOB_SET


@pytest.mark.parametrize(
    ("pod", "index"),
    [
        (a_pod(labels={labels.STATEFUL_SET_INDEX: "5"}), (5,)),
        (a_pod(labels={labels.KUBEFLOW_TYPE: "Master", labels.KUBEFLOW_INDEX: "0"}), (0, 0)),
        (a_pod(labels={labels.KUBEFLOW_TYPE: "Worker", labels.KUBEFLOW_INDEX: "4"}), (1, 4)),
        (a_pod(labels={labels.RAY_TYPE: "head"}), (0,)),
        (a_pod(labels={labels.RAY_TYPE: "worker"}), (1,)),
        (a_pod(labels={labels.STATEFUL_SET_INDEX: "9" * 99}), ()),
    ],
)
def test_the_place_of_a_member_is_what_its_controller_says(pod: PodView, index: tuple[int, ...]) -> None:
    pod = replace(pod, annotations={GANG: "ring", GANG_SIZE: "8"})
    assert found(pod).order.index == index
