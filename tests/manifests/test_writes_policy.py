"""On a real API server the admission policies allow each write of the extender, and deny its account all other writes.

Requests are dry runs: the API server admits or denies them, and keeps nothing.
"""

from __future__ import annotations

import itertools
import string
from collections.abc import Iterator
from typing import Any

import pytest

from extender.domain import wellknown
from lab import manifests
from lab.clock import wait_until
from lab.credentials import ADMIN, EXTENDER
from lab.kube import Kubernetes
from tests.builders.minors import EVERY_MINOR
from tests.builders.pod_group_kinds import COSCHEDULING, DEFINITIONS
from tests.builders.writes import (
    CHECKPOINT,
    DENIED,
    EVENTS,
    GROUPS,
    LEASES,
    MERGE,
    NODE,
    REMINDER_TO_DELETE,
    RESOURCE_CLAIM_TO_WRITE,
    RESOURCE_CLAIMS,
    STRATEGIC,
    UNGATED,
    WRITES,
    Write,
    annotated,
    conditions,
    event,
    group,
)

pytestmark = pytest.mark.lab

NAMESPACE = "work"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
ALLOWED_STATUS = {200, 201}
MOST = 256 * 1024
"""Bytes of all annotations of an object (`TotalAnnotationSizeLimitB`)."""


def notes(count: int, size: int = 1) -> dict[str, str]:
    """So many annotations with the shortest keys that there are, the values of `size` bytes."""
    signs = string.ascii_letters + string.digits
    keys = itertools.chain(signs, ("".join(each) for each in itertools.product(signs, repeat=3)))
    return dict.fromkeys(itertools.islice(keys, count), "x" * size)


MANY = notes(10_000, 20)
SHORTEST = notes(65_000, 1)
"""As many as 256 KiB hold where each has a key of three characters and a value of one."""


def pod(name: str, scheduler: str = "slurm", *, noted: dict[str, str] | None = None, **spec: Any) -> Any:
    return {
        "metadata": {
            "name": name,
            "labels": {"app": "a"},
            "annotations": {"a": "1", "slurm-extender.io/account": "x"} | (noted or {}),
        },
        "spec": {"schedulerName": scheduler, "containers": [{"name": "c", "image": "none"}], **spec},
    }


GATES = [{"name": wellknown.GATE}, {"name": "example.org/other"}]
MADE = [
    pod("own"),
    pod("other", "default-scheduler"),
    pod("placed", nodeName=NODE),
    pod("gated", schedulingGates=GATES),
    pod("gated-theirs", "default-scheduler", schedulingGates=GATES),
    pod("many", noted=MANY, schedulingGates=GATES),
    pod("shortest", noted=SHORTEST, schedulingGates=GATES),
]


@pytest.fixture(scope="module", params=EVERY_MINOR)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubernetes]:
    """The rights and policies of the base, and Pods and Nodes of all kinds."""
    workdir = tmp_path_factory.mktemp("kubernetes")
    with Kubernetes(version=request.param, controllers=False, workdir=workdir) as kube:
        manifests.apply_rights(
            kube, manifests.render(kube, components=[f"kubernetes-{kube.minor}", "pod-groups", "devices"])
        )
        made(kube, "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        made(kube, DEFINITIONS, COSCHEDULING)
        wait_until(lambda: kube.api("GET", GROUPS)[0] == 200, "PodGroups are served", timeout_s=60)
        made(
            kube, GROUPS, {key: value for key, value in group().items() if key != "status"} | {"spec": {"minMember": 2}}
        )
        for one in MADE:
            made(kube, PODS, one)
        for name, noted in ((NODE, {"a": "1"}), ("many", MANY), ("shortest", SHORTEST)):
            spec = {"taints": [{"key": "e2e/kept", "effect": "NoSchedule"}]}
            made(kube, "/api/v1/nodes", {"metadata": {"name": name, "annotations": noted}, "spec": spec})
        if serves_resource_claims(kube):
            made(kube, RESOURCE_CLAIMS, RESOURCE_CLAIM_TO_WRITE)
            made(kube, RESOURCE_CLAIMS, REMINDER_TO_DELETE)
        made(kube, EVENTS, event())
        checkpoints: dict[str, Any] = {"name": "slurm-extender-checkpoints", "annotations": {CHECKPOINT: "1"}}
        made(kube, LEASES, {"metadata": checkpoints, "spec": {}})
        made(kube, EVENTS, event(metadata={"name": "theirs"}, reportingController="example.org/other"))
        in_force = [one for one in DENIED.values() if one.first and is_served(kube, one)]
        wait_until(
            lambda: all(sent(kube, one)[0] == 403 for one in in_force), "the policies are in force", timeout_s=60
        )
        yield kube


def serves_resource_claims(kube: Kubernetes) -> bool:
    """Return whether the API server serves ResourceClaims: Kubernetes 1.34 and later."""
    return kube.api("GET", RESOURCE_CLAIMS)[0] == 200


def is_served(kube: Kubernetes, write: Write) -> bool:
    return not write.path.startswith(RESOURCE_CLAIMS) or serves_resource_claims(kube)


def made(kube: Kubernetes, path: str, body: Any) -> None:
    status, answer = kube.api("POST", path, body)
    assert status == 201, answer


def sent(kube: Kubernetes, write: Write, *, user: str = EXTENDER) -> tuple[int, Any]:
    path, body = write.path, write.body
    if write.method == "DELETE" and body is not None:
        body = {**body, "dryRun": ["All"]}  # the API server reads no query beside a body
    else:
        path += ("&" if "?" in path else "?") + "dryRun=All"
    return kube.api(write.method, path, body, user=user, content_type=write.content_type)


@pytest.mark.parametrize("name", WRITES)
def test_a_write_of_the_extender_is_allowed(cluster: Kubernetes, name: str) -> None:
    status, answer = sent(cluster, WRITES[name])
    assert status in (ALLOWED_STATUS if is_served(cluster, WRITES[name]) else {404}), answer


@pytest.mark.parametrize("name", DENIED)
def test_what_the_extender_does_not_write_is_denied_to_its_account(cluster: Kubernetes, name: str) -> None:
    status, answer = sent(cluster, DENIED[name])
    if not is_served(cluster, DENIED[name]):
        assert status == 404
        return
    assert (status, "slurm-extender-" in answer["message"]) == (403, True), answer
    assert "ValidatingAdmissionPolicy" in answer["message"]


@pytest.mark.parametrize("name", [name for name, one in DENIED.items() if one.others_may])
def test_the_same_is_allowed_to_an_administrator(cluster: Kubernetes, name: str) -> None:
    status, answer = sent(cluster, DENIED[name], user=ADMIN)
    assert status in (ALLOWED_STATUS if is_served(cluster, DENIED[name]) else {404}), answer


KINDS = {
    PODS: (wellknown.JOB_ID, wellknown.ALLOCATED_CONDITION),
    "/api/v1/nodes": (wellknown.CORDONED_BY, wellknown.SLURM_AVAILABLE_CONDITION),
}
"""Of Pods and of Nodes: an annotation and a condition that the extender writes."""


@pytest.mark.parametrize("path", KINDS)
def test_writes_about_an_object_with_ten_thousand_annotations_are_allowed_and_denied(
    cluster: Kubernetes, path: str
) -> None:
    key, _ = KINDS[path]
    own = {"metadata": {"annotations": {key: "7"}}} | (UNGATED if path == PODS else {})
    status, answer = sent(cluster, Write("PATCH", f"{path}/many", own, STRATEGIC))
    assert status == 200, answer
    changes: list[dict[str, str | None]] = [{"a": "2"}, {"a": None}, {"a": None, "new": "1"}]
    for change in changes:
        body = {"metadata": {"annotations": {key: "7", **change}}}
        status, answer = sent(cluster, Write("PATCH", f"{path}/many", body, MERGE))
        assert (status, "own annotations" in answer["message"]) == (403, True), answer


@pytest.mark.parametrize("path", [PODS, pytest.param("/api/v1/nodes", marks=pytest.mark.slow)])
def test_with_more_annotations_an_object_is_reported_by_its_condition_alone(cluster: Kubernetes, path: str) -> None:
    """To walk over as many as there can be would keep the API server busy for 20 s."""
    key, kind = KINDS[path]
    status, answer = sent(cluster, Write("PATCH", f"{path}/shortest", annotated(key), MERGE))
    assert (status, "10,000" in answer["message"]) == (403, True), answer
    status, answer = sent(cluster, Write("PATCH", f"{path}/shortest/status", conditions(kind), STRATEGIC))
    assert status == 200, answer
    if path == PODS:
        status, answer = sent(cluster, Write("PATCH", f"{path}/shortest", UNGATED, STRATEGIC))
        assert status == 200, answer


def test_the_api_server_finds_no_fault_with_the_expressions(cluster: Kubernetes) -> None:
    path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
    status, answer = cluster.api("GET", path)
    assert status == 200
    found = {one["metadata"]["name"]: one.get("status", {}).get("typeChecking", {}) for one in answer["items"]}
    assert len(found) == 13
    assert not any(one.get("expressionWarnings") for one in found.values()), found
