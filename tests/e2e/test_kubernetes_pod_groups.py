"""PodGroups of Kubernetes itself, `spec.schedulingGroup` of Pods, on a real API server with its feature gates on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from extender.domain.gangs.group_status import SCHEDULED
from extender.domain.timestamp import timestamp
from extender.domain.wellknown import GROUP_STATUS_MANAGER, Reason
from lab import manifests
from lab.build_kubernetes import newest_minor, proved_minors
from lab.build_slurm import RELEASES
from lab.clock import now
from lab.process import Daemon
from lab.site import ApiOptions, PodRef, Site
from lab.topology import small
from tests.builders.stage import Stage
from tests.builders.staged_gangs import all_bound, assert_in_rank_order, assert_none_bound
from tests.e2e.conftest import CONFIG, PROVED

pytestmark = pytest.mark.lab
SIZE = 3
QUICK = "26.05"
ANOTHER = "another-controller"
LONG_AGO_S = 7200.0
"""Longer than the extender leaves the status to another controller without a try of its own."""

STEADY_S = 12.0
"""Longer than the extender lets a Pod wait before the condition says so."""


@dataclass(frozen=True, slots=True)
class PodGroupsOfMinor:
    """How one minor of Kubernetes serves PodGroups."""

    version: str
    gates: str
    condition: str

    @property
    def api(self) -> str:
        """The API group and its version."""
        return f"scheduling.k8s.io/{self.version}"


SERVED = {
    "1.36": PodGroupsOfMinor("v1alpha2", "GenericWorkload=true,GangScheduling=true", "PodGroupScheduled"),
    "1.37": PodGroupsOfMinor("v1beta1", "GenericWorkload=true", "PodGroupInitiallyScheduled"),
}
KINDS = [
    pytest.param((one, newest_minor()), id=one, marks=() if one == QUICK else pytest.mark.slow) for one in RELEASES
]
KINDS += [
    pytest.param((QUICK, minor), id=f"{QUICK}-{minor}", marks=PROVED) for minor in proved_minors() if minor in SERVED
]


@pytest.fixture(scope="module", params=KINDS)
def gated(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A site whose API server serves Kubernetes' PodGroups, with the component that lets the extender read them."""
    release, minor = request.param
    served = SERVED[minor]
    options = ApiOptions(feature_gates=served.gates, runtime_config=f"{served.api}=true")
    workdir = tmp_path_factory.mktemp("pod-groups")
    with Site(
        release, topology=small(release), config=CONFIG, kubernetes=minor, api_options=options, workdir=workdir
    ) as site:
        documents = manifests.render(site.kube, components=[f"kubernetes-{site.kube.minor}", "pod-groups"])
        manifests.apply_rights(site.kube, documents)
        site.reconfigure({"gangs": {"unfenced": "allow", "podGroups": ["scheduling.k8s.io"]}})
        yield site


@pytest.fixture
def grouped(gated: Site, request: pytest.FixtureRequest) -> Iterator[Stage]:
    """A namespace for one test, in mode `batch` where the test names no other. The site has no external nodes."""
    mode = getattr(request, "param", "batch")
    name = request.node.originalname.removeprefix("test_")[:40].replace("_", "-").strip("-")
    found = Stage(gated, mode, gated.namespace(f"{name}-{mode}"))
    yield found
    found.finish()


@pytest.fixture
def scheduler_with_gates(gated: Site) -> Iterator[Daemon]:
    """kube-scheduler with the same feature gates, in place of the site's own."""
    site = gated
    documents = manifests.shipped(site.kube)
    account, gates = manifests.scheduler_deployment(documents)
    profile = manifests.scheduler_profile(documents, f"http://127.0.0.1:{site.addresses.scheduling}/scheduler")
    site.scheduler.stop()
    other = site.kube.start_scheduler(
        profile,
        user=account,
        feature_gates=",".join(filter(None, (gates, SERVED[site.kube.minor].gates))),
        name="slurm-scheduler-with-gates",
    )
    try:
        yield other
    finally:
        other.stop()
        site.scheduler.start()


def api_of(stage: Stage) -> str:
    return SERVED[stage.site.kube.minor].api


def path_of(stage: Stage, name: str = "") -> str:
    return f"/apis/{api_of(stage)}/namespaces/{stage.namespace}/podgroups/{name}".rstrip("/")


def add_group(stage: Stage, least: int) -> None:
    spec = {"schedulingPolicy": {"gang": {"minCount": least}}}
    body: dict[str, Any] = {"apiVersion": api_of(stage), "kind": "PodGroup", "metadata": {"name": "ring"}, "spec": spec}
    stage.site.create(path_of(stage), body)


def members(stage: Stage, **options: Any) -> list[PodRef]:
    group: dict[str, Any] = {"schedulingGroup": {"podGroupName": "ring"}}
    pods = [stage.pod(f"ring-{number}", cpus=2, **group, **options) for number in range(SIZE)]
    said = (stage.site.read(pods[0]) or {})["spec"].get("schedulingGroup")
    assert said == group["schedulingGroup"], "the API server dropped the field"
    return pods


def condition(stage: Stage) -> dict[str, str]:
    _, group = stage.site.kube.api("GET", path_of(stage, "ring"))
    wanted = SERVED[stage.site.kube.minor].condition
    found = [one for one in group.get("status", {}).get("conditions", ()) if one["type"] == wanted]
    return found[0] if found else {}


def version(stage: Stage) -> str:
    return str(stage.site.kube.api("GET", path_of(stage, "ring"))[1]["metadata"]["resourceVersion"])


def conflicts(stage: Stage, pods: list[PodRef]) -> list[str]:
    """The Events that say that another controller writes the status."""
    return [
        text for pod in pods for reason, text in stage.site.events(pod) if reason == Reason.POD_GROUP_STATUS_CONFLICT
    ]


def write_as_another(stage: Stage, *, ago_s: float) -> dict[str, str]:
    """Write the condition by server-side apply in the name of another controller, so long ago; return it.

    The API server takes over the time of a write in `managedFields` from a request that changes something else, too.
    """
    kube, path = stage.site.kube, path_of(stage, "ring")
    at = timestamp(now() - ago_s)
    said = {"type": SERVED[kube.minor].condition, "status": "False", "reason": "Unschedulable", "message": "not yet"}
    said["lastTransitionTime"] = at
    body: dict[str, Any] = {"apiVersion": api_of(stage), "kind": "PodGroup", "metadata": {"name": "ring"}}
    body["status"] = {"conditions": [said]}
    apply = "application/apply-patch+yaml"
    status, answer = kube.api("PATCH", f"{path}/status?fieldManager={ANOTHER}", body, content_type=apply)
    assert status == 200, answer
    fields = answer["metadata"]["managedFields"]
    for entry in fields:
        entry["time"] = at
    found = stage.site.merge(path, {"metadata": {"managedFields": fields, "labels": {"backdated": "yes"}}})
    assert [one["time"] for one in found["metadata"]["managedFields"] if one["manager"] == ANOTHER] == [at]
    return said


def writers(stage: Stage) -> set[str]:
    _, group = stage.site.kube.api("GET", path_of(stage, "ring"))
    return {one["manager"] for one in group["metadata"]["managedFields"] if one.get("subresource") == "status"}


@pytest.mark.parametrize("grouped", ["batch", pytest.param("allocation", marks=pytest.mark.slow)], indirect=True)
def test_the_pods_of_a_scheduling_group_start_together_and_the_leader_writes_the_condition(grouped: Stage) -> None:
    site = grouped.site
    pods = members(grouped)
    assert_none_bound(grouped, pods, 3)
    assert grouped.jobs() == [], "there is no PodGroup yet"
    add_group(grouped, SIZE)
    all_bound(grouped, pods)
    assert_in_rank_order(grouped, pods)
    (job,) = grouped.jobs()
    assert job.name.startswith(f"{grouped.namespace}/PodGroup ring-")
    site.wait_for(lambda: condition(grouped).get("status") == "True", "the condition says that it is scheduled")
    assert condition(grouped)["reason"] == SCHEDULED
    assert writers(grouped) == {GROUP_STATUS_MANAGER}


@pytest.mark.slow
def test_a_scheduling_group_that_waits_says_so_in_its_condition(grouped: Stage) -> None:
    site = grouped.site
    blockers = [grouped.submit("batch", cpus=64, nodes=[node.name]) for node in site.topology.nodes]
    for blocker in blockers:
        grouped.running(blocker)
    add_group(grouped, SIZE)
    pods = members(grouped)
    site.wait_for(lambda: condition(grouped).get("status") == "False", "the condition says that it waits")
    assert condition(grouped)["message"]
    for blocker in blockers:
        grouped.cancel(blocker)
    all_bound(grouped, pods)
    site.wait_for(lambda: condition(grouped).get("status") == "True", "the condition says that it is scheduled")


@pytest.mark.slow
def test_a_kube_scheduler_with_gang_scheduling_of_its_own_binds_the_same_gang(
    grouped: Stage, scheduler_with_gates: Daemon
) -> None:
    site = grouped.site
    add_group(grouped, SIZE)
    pods = members(grouped)
    all_bound(grouped, pods, timeout_s=120)
    assert_in_rank_order(grouped, pods)
    assert scheduler_with_gates.running
    assert len(grouped.made()) == 1
    site.wait_for(lambda: condition(grouped).get("status") == "True", "the condition says that it is scheduled")
    written = version(grouped)
    site.elapse(STEADY_S)
    assert writers(grouped) == {"kube-scheduler"}
    assert version(grouped) == written, "two controllers write in turn"
    assert conflicts(grouped, pods) == []


@pytest.mark.slow
def test_a_condition_that_another_controller_wrote_is_not_overwritten_and_one_event_says_so(grouped: Stage) -> None:
    site = grouped.site
    add_group(grouped, SIZE)
    theirs = write_as_another(grouped, ago_s=LONG_AGO_S)
    pods = members(grouped)
    all_bound(grouped, pods)
    site.wait_for(lambda: conflicts(grouped, pods), "an Event says that another controller writes the status")
    site.elapse(STEADY_S)
    (text,) = conflicts(grouped, pods)
    assert ANOTHER in text
    assert writers(grouped) == {ANOTHER}
    assert condition(grouped)["reason"] == theirs["reason"]
    assert condition(grouped)["status"] == "False"


@pytest.mark.slow
def test_a_condition_just_written_by_another_controller_is_left_to_it_without_an_event(grouped: Stage) -> None:
    add_group(grouped, SIZE)
    write_as_another(grouped, ago_s=0)
    pods = members(grouped)
    all_bound(grouped, pods)
    grouped.site.elapse(STEADY_S)
    assert conflicts(grouped, pods) == []
    assert writers(grouped) == {ANOTHER}
