"""The doctor says whether gangs find nodes with a fence, and whether their PodGroups can be read."""

from __future__ import annotations

import pytest

from extender.config.jobs import UnfencedGangs
from extender.doctor.checks.gangs import fenced_nodes, pod_groups
from extender.doctor.facts import ServedPodGroups
from extender.doctor.finding import Finding, Verdict
from extender.domain.gangs.membership import GangSource
from extender.domain.gangs.pod_groups import PodGroupApi

OK, WARNING, ERROR, SKIPPED = Verdict
REFUSE, ALLOW = UnfencedGangs.REFUSE, UnfencedGangs.ALLOW
ACCOUNT = "system:serviceaccount:slurm-extender:slurm-extender"


@pytest.mark.parametrize(
    ("nodes", "proven", "unfenced", "verdict", "text"),
    [
        (4, 4, REFUSE, OK, "gangs of up to 4 members"),
        (4, 2, REFUSE, OK, "gangs of up to 2 members"),
        (4, 1, REFUSE, WARNING, "1 of 4 Slurm nodes have a working fence"),
        (4, 0, REFUSE, WARNING, "every gang waits"),
        (4, 3, ALLOW, WARNING, "1 of 4 Slurm nodes have no working fence"),
        (4, 4, ALLOW, OK, "each of 4 Slurm nodes"),
    ],
)
def test_a_gang_needs_as_many_fences_as_members(
    nodes: int, proven: int, unfenced: UnfencedGangs, verdict: Verdict, text: str
) -> None:
    names = [f"n{number}" for number in range(nodes)]
    (found,) = fenced_nodes(names, frozenset(names[:proven]), "", unfenced)
    assert (found.verdict, text in found.seen) == (verdict, True)


def test_a_cluster_of_one_node_has_no_gangs_to_judge() -> None:
    assert list(fenced_nodes(["n1"], frozenset(), "", REFUSE)) == []


@pytest.mark.parametrize("unfenced", [REFUSE, ALLOW])
def test_without_the_key_of_the_hooks_a_fence_is_an_annotation(unfenced: UnfencedGangs) -> None:
    (found,) = fenced_nodes(["n1", "n2"], frozenset({"n1", "n2"}), "hooks.keyFile is not set", unfenced)
    assert (found.verdict, "an annotation of a working fence" in found.seen) == (OK, True)


def judged(one: ServedPodGroups, *, read: bool, pods: int = 0) -> list[Finding]:
    named = {GangSource.COSCHEDULING: pods} if pods else {}
    return list(pod_groups([one], {one.api} if read else set(), named, ACCOUNT))


@pytest.mark.parametrize(
    ("served", "may", "read", "pods", "verdict", "text"),
    [
        (True, True, True, 0, OK, "are served and read"),
        (True, False, True, 0, ERROR, "may not list and watch podgroups.scheduling.x-k8s.io"),
        (True, None, True, 0, OK, "are served and read"),
        (False, None, True, 3, WARNING, "3 Pods name a PodGroup of scheduling.x-k8s.io, which the API server does not"),
        (True, False, False, 3, WARNING, "3 Pods name a PodGroup of scheduling.x-k8s.io, which is not read"),
        (False, None, False, 3, WARNING, "which is not read"),
    ],
)
def test_pod_groups_that_gangs_need_are_served_read_and_allowed(
    served: bool, may: bool | None, read: bool, pods: int, verdict: Verdict, text: str
) -> None:
    (found,) = judged(ServedPodGroups(PodGroupApi.COSCHEDULING, served, may), read=read, pods=pods)
    assert (found.verdict, text in found.seen) == (verdict, True)


@pytest.mark.parametrize(("read", "verdict"), [(True, WARNING), (False, OK)])
def test_an_api_server_without_the_pod_groups_of_kubernetes_is_said_to_drop_the_field_that_names_them(
    read: bool, verdict: Verdict
) -> None:
    (found,) = judged(ServedPodGroups(PodGroupApi.KUBERNETES, served=False), read=read)
    assert found.verdict is verdict
    assert "drops spec.schedulingGroup of Pods, unless its feature gate GenericWorkload is on" in found.seen
    assert ("GenericWorkload=true" in found.advice) == read


def test_an_api_server_that_serves_the_pod_groups_of_kubernetes_keeps_the_field_that_names_them() -> None:
    assert judged(ServedPodGroups(PodGroupApi.KUBERNETES, served=True), read=False) == []


def test_pods_that_kept_the_name_of_a_pod_group_that_is_not_served_are_counted() -> None:
    one = ServedPodGroups(PodGroupApi.KUBERNETES, served=False)
    (found,) = pod_groups([one], {one.api}, {GangSource.POD_GROUP: 2}, ACCOUNT)
    assert found.seen == "2 Pods name a PodGroup of scheduling.k8s.io, which the API server does not serve: they wait"


def test_pod_groups_that_no_pod_names_need_no_line() -> None:
    api = PodGroupApi.COSCHEDULING
    assert judged(ServedPodGroups(api, served=True, may=False), read=False) == []
    assert judged(ServedPodGroups(api, served=False), read=True) == []
