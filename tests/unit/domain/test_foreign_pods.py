"""Which Pods are foreign Pods, how large, and which of their jobs are their own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.domain.amount import Amount
from extender.domain.cluster import SlurmFeatures, SlurmNode, SlurmPartition
from extender.domain.foreign_pods.foreign_pod import (
    ForeignPod,
    ForeignPodJob,
    ForeignPodPolicy,
    ForeignPodRule,
    foreign_pod_of,
    own_and_duplicates,
    why_none,
)
from extender.domain.foreign_pods.mark import (
    ForeignPodMark,
    decode_foreign_pod_mark,
    encode_foreign_pod_mark,
    foreign_pod_name,
)
from extender.domain.jobs.identity import decode_mark, encode_mark
from extender.domain.jobs.job import Mark
from extender.domain.nodes.external_nodes import part_of_the_system
from extender.domain.policy.site import TranslationPolicy
from extender.domain.views import OwnerReference, PodView
from tests.builders.pod_views import a_pod
from tests.builders.slurm_snapshots import a_slurm_snapshot

POLICY = ForeignPodPolicy(TranslationPolicy(), frozenset({"slurm"}))
FOREIGN = a_pod(scheduler_name="default-scheduler", node_name="k1")
DAEMON = replace(FOREIGN, owner=OwnerReference("apps/v1", "DaemonSet", "agent", "u"), of_its_node=True)
STATIC = replace(FOREIGN, owner=OwnerReference("v1", "Node", "k1", "u"), of_its_node=True)
OTHER_DAEMON = replace(FOREIGN, owner=OwnerReference("apps.kruise.io/v1alpha1", "DaemonSet", "agent", "u"))
SLURMD, WITHOUT = SlurmNode("s1"), SlurmNode("s1", flags=frozenset({"EXTERNAL"}))
FOREIGN_POD = ForeignPod("uid-web", "team/web", "s1", Amount(1, 1024))
MARK = ForeignPodMark("c", "slurm", "uid-web", "s1", "1/1024", "team/web")


def held(pod: PodView, slurm: SlurmNode | None = SLURMD, policy: ForeignPodPolicy = POLICY) -> Amount | None:
    foreign_pod = foreign_pod_of(pod, "s1", slurm, policy)
    return foreign_pod.amount if foreign_pod is not None else None


def test_a_pod_of_another_scheduler_holds_what_it_requests() -> None:
    assert foreign_pod_of(FOREIGN, "s1", SLURMD, POLICY) == FOREIGN_POD


@pytest.mark.parametrize(
    "pod",
    [
        replace(FOREIGN, scheduler_name="slurm"),
        replace(FOREIGN, node_name=""),
        replace(FOREIGN, phase="Succeeded"),
        a_pod(cpu="", memory="", node_name="k1"),
    ],
    ids=["ours", "on no node", "finished", "requests nothing"],
)
def test_nothing_is_held_for_others(pod: PodView) -> None:
    assert held(pod) is None


@pytest.mark.parametrize(
    ("cpu", "memory", "more", "amount"),
    [
        ("100m", "", {}, Amount(1, 1)),
        ("", "1500Ki", {}, Amount(1, 2)),
        ("1001m", "1Gi", {"nvidia.com/gpu": "2"}, Amount(2, 1024, {"gpu": 2})),
        ("1", "1Gi", {"vendor.com/thing": "1"}, Amount(1, 1024)),
    ],
)
def test_amounts_are_rounded_up_to_what_a_job_can_have(
    cpu: str, memory: str, more: dict[str, str], amount: Amount
) -> None:
    assert held(a_pod(cpu, memory, more, node_name="k1")) == amount


def test_no_more_is_held_than_slurm_reports_for_the_node() -> None:
    pod = a_pod("16", "64Gi", node_name="k1")
    assert held(pod, replace(SLURMD, size=Amount(8, 1000))) == Amount(8, 1000)


@pytest.mark.parametrize("slurm", [SLURMD, WITHOUT])
def test_pods_of_what_only_is_called_a_daemon_set_count_where_no_node_is_registered_without_them(
    slurm: SlurmNode,
) -> None:
    assert held(OTHER_DAEMON, slurm)
    assert not part_of_the_system(OTHER_DAEMON, POLICY.schedulers)


@pytest.mark.parametrize("pod", [DAEMON, STATIC], ids=["DaemonSet", "static"])
def test_pods_of_a_node_itself_count_where_it_has_a_slurmd_or_as_the_site_says(pod: PodView) -> None:
    assert held(pod, SLURMD)
    assert not held(pod, WITHOUT)
    assert held(pod, WITHOUT, replace(POLICY, daemons=True))
    assert not held(pod, SLURMD, replace(POLICY, daemons=False))


@pytest.mark.parametrize(
    ("rule", "speaks"),
    [
        (ForeignPodRule(namespace="team"), True),
        (ForeignPodRule(namespace="kube-system"), False),
        (ForeignPodRule(owner_kind="DaemonSet"), True),
        (ForeignPodRule(namespace="team", owner_kind="Node"), False),
        (ForeignPodRule(scheduler="default-scheduler"), True),
        (ForeignPodRule(scheduler="slurm-bridge"), False),
    ],
)
def test_the_site_names_pods_that_hold_nothing(rule: ForeignPodRule, speaks: bool) -> None:
    assert (held(DAEMON, SLURMD, replace(POLICY, ignored=(rule,))) is None) == speaks


def test_no_job_can_be_had_of_a_slurm_without_external_jobs_or_where_it_might_preempt() -> None:
    snapshot = a_slurm_snapshot({"batch": ["s1"], "urgent": ["s1"], "apart": ["s2"]}, default="batch")
    assert "25.05" in why_none(snapshot, "", "")
    snapshot = replace(snapshot, features=SlurmFeatures(external=True))
    assert why_none(snapshot, "", "") == ""
    assert "no partition nowhere" in why_none(snapshot, "nowhere", "")
    assert "no default partition" in why_none(replace(snapshot, partitions={}), "", "")
    urgent = SlurmPartition("urgent", frozenset({"s1"}), priority_tier=10)
    snapshot = replace(snapshot, partitions={**snapshot.partitions, "urgent": urgent})
    assert why_none(snapshot, "batch", "") == ""
    assert "may preempt" in why_none(snapshot, "urgent", "")
    assert why_none(snapshot, "apart", "") == ""
    snapshot = replace(snapshot, features=SlurmFeatures(external=True, preempting_qos=frozenset({"high"})))
    assert "QOS high" in why_none(snapshot, "batch", "high")


def test_of_several_jobs_the_one_that_runs_is_its_own_and_the_others_are_too_many() -> None:
    waits, runs, wrong = (
        ForeignPodJob(3, "s1", FOREIGN_POD.size),
        ForeignPodJob(4, "s1", FOREIGN_POD.size, True),
        ForeignPodJob(1, "s1", "9/9", True),
    )
    assert own_and_duplicates(FOREIGN_POD, [waits, runs, wrong]) == (runs, (waits, wrong))
    assert own_and_duplicates(FOREIGN_POD, [waits, wrong]) == (waits, (wrong,))
    assert own_and_duplicates(FOREIGN_POD, [ForeignPodJob(5, "s2", FOREIGN_POD.size, True)])[0] is None


def test_the_mark_of_a_foreign_pod_is_read_again_and_taken_for_no_placeholders() -> None:
    text = encode_foreign_pod_mark(MARK)
    assert decode_foreign_pod_mark(f"note {text} more") == MARK
    assert decode_mark(text) is None
    assert decode_foreign_pod_mark(encode_mark(Mark("c", "slurm", "uid-web", 1))) is None
    assert '"slurm-extender":1,' not in text, "the fence script would hold for it"


@pytest.mark.parametrize(
    "text", ["", "{", '{"slurm-extender-foreign-pod":1}', '{"slurm-extender-foreign-pod":2,"c":"c"}', "[]"]
)
def test_what_is_no_mark_of_the_extender_says_nothing(text: str) -> None:
    assert decode_foreign_pod_mark(text) is None


def test_a_mark_without_room_for_the_pods_name_goes_without() -> None:
    long = replace(MARK, pod="n" * 1000)
    assert decode_foreign_pod_mark(encode_foreign_pod_mark(long)) == replace(MARK, pod="")
    with pytest.raises(ValueError, match="1024"):
        encode_foreign_pod_mark(replace(MARK, node="n" * 1024))


def test_the_name_of_a_foreign_pod_is_its_own_and_not_that_of_a_workload_of_the_same_uid() -> None:
    one = foreign_pod_name("team/web", "c", "slurm", "uid-web")
    assert one.startswith("team/web-")
    assert one != foreign_pod_name("team/web", "c", "slurm", "uid-other")
