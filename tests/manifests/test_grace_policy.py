"""On a real API server the policies bound the grace of deletions, and let the parts of Kubernetes end Pods as ever."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from lab import manifests
from lab.clock import wait_until
from lab.credentials import ADMIN, EXTENDER, User, service_account
from lab.errors import LabError
from lab.kube import Kubernetes
from tests.builders.minors import EVERY_MINOR

pytestmark = pytest.mark.lab

NODE = "grace-node"
KUBELET = User(f"system:node:{NODE}", ("system:nodes", "system:masters"))
CONTROLLER = "system:serviceaccount:kube-system:pod-garbage-collector"
AUTHOR = "an-author"
OPERATOR = "an-operator"
USERS = [
    KUBELET,
    User(CONTROLLER, (*service_account("kube-system", "x").groups, "system:masters")),
    User(AUTHOR),
    User(OPERATOR),
]
"""Of the kubelet and the controller counts what the policies ask for: who may do what else is RBAC's."""

RBAC = "/apis/rbac.authorization.k8s.io/v1"
NAMESPACE = "graces"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
LONG = 99_999
ENDS = [
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["delete", "deletecollection"]},
    {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
]
FORCES = [{"apiGroups": ["slurm-extender.io"], "resources": ["pods"], "verbs": ["force-delete"]}]


@pytest.fixture(scope="module", params=EVERY_MINOR)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubernetes]:
    """The base with both policies about deletions."""
    workdir = tmp_path_factory.mktemp("kubernetes")
    with Kubernetes(version=request.param, users=USERS, workdir=workdir) as kube:
        documents = manifests.render(kube, manifests.BASE, ["no-gate"])
        manifests.apply_rights(kube, documents)
        made(kube, "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        may(kube, AUTHOR, "end-pods", ENDS)
        may(kube, OPERATOR, "end-pods", ENDS)
        kube.add_node(NODE)
        wait_until(lambda: create(kube, pod("long", grace_s=LONG)) == 422, "a long grace is refused", timeout_s=60)
        made(kube, PODS, pod("probe"))
        probe = ("DELETE", f"{PODS}/probe", {"gracePeriodSeconds": LONG, "dryRun": ["All"]})
        wait_until(lambda: kube.api(*probe)[0] == 403, "so is a long deletion", timeout_s=60)
        wait_until(lambda: evict(kube, "probe", LONG)[0] == 403, "so is a long eviction", timeout_s=60)
        yield kube


def may(kube: Kubernetes, user: str, role: str, rules: list[Any]) -> None:
    """Give a user these rights in the namespace."""
    name = f"{user}-{role}"
    made(kube, f"{RBAC}/namespaces/{NAMESPACE}/roles", {"metadata": {"name": name}, "rules": rules})
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    }
    made(kube, f"{RBAC}/namespaces/{NAMESPACE}/rolebindings", binding)


def made(kube: Kubernetes, path: str, body: Any) -> None:
    status, answer = kube.api("POST", path, body)
    assert status == 201, answer


def pod(name: str, scheduler: str = "slurm", *, grace_s: int = 30, node: str = NODE) -> Any:
    return {
        "metadata": {"name": name, "labels": {"set": name}},
        "spec": {
            "schedulerName": scheduler,
            "nodeName": node,
            "terminationGracePeriodSeconds": grace_s,
            "containers": [{"name": "c", "image": "none"}],
        },
    }


def create(kube: Kubernetes, body: Any) -> int:
    status, _ = kube.api("POST", f"{PODS}?dryRun=All", body)
    return status


def delete(
    kube: Kubernetes, name: str, grace_s: int | None = None, user: str = AUTHOR, *, by_query: bool = False
) -> tuple[int, Any]:
    """A dry run. The API server reads the options of the query where there is no body."""
    if by_query:
        grace = "" if grace_s is None else f"&gracePeriodSeconds={grace_s}"
        return kube.api("DELETE", f"{PODS}/{name}?dryRun=All{grace}", user=user)
    options: dict[str, Any] = {"dryRun": ["All"]} | ({} if grace_s is None else {"gracePeriodSeconds": grace_s})
    return kube.api("DELETE", f"{PODS}/{name}", options, user=user)


def evict(kube: Kubernetes, name: str, grace_s: int | None, user: str = ADMIN) -> tuple[int, Any]:
    """A dry run."""
    options = {"dryRun": ["All"]} | ({} if grace_s is None else {"gracePeriodSeconds": grace_s})
    body = {"metadata": {"name": name, "namespace": NAMESPACE}, "deleteOptions": options}
    return kube.api("POST", f"{PODS}/{name}/eviction?dryRun=All", body, user=user)


@pytest.fixture(scope="module")
def pods(cluster: Kubernetes) -> Kubernetes:
    made(cluster, PODS, pod("ours"))
    made(cluster, PODS, pod("theirs", "default-scheduler", grace_s=LONG))
    return cluster


@pytest.mark.parametrize(("grace_s", "status"), [(LONG, 422), (3601, 422), (3600, 201), (30, 201), (0, 201)])
def test_a_pod_of_this_scheduler_is_created_with_no_longer_grace(
    cluster: Kubernetes, grace_s: int, status: int
) -> None:
    assert create(cluster, pod("another", grace_s=grace_s)) == status


def test_pods_of_other_schedulers_have_the_grace_that_they_like(pods: Kubernetes) -> None:
    assert create(pods, pod("another", "default-scheduler", grace_s=LONG)) == 201
    assert delete(pods, "theirs", LONG)[0] == 200


@pytest.mark.parametrize(
    ("grace_s", "status"), [(LONG, 403), (3601, 403), (3600, 200), (0, 200), (None, 200), (-5, 200)]
)
@pytest.mark.parametrize("by_query", [False, True])
def test_a_deletion_is_bounded(pods: Kubernetes, grace_s: int | None, status: int, by_query: bool) -> None:
    """A grace below zero is one second before a policy sees it (`rest.BeforeDelete` of the API server)."""
    found, answer = delete(pods, "ours", grace_s, by_query=by_query)
    assert found == status, answer
    if status == 403:
        assert "at most 3600 seconds" in answer["message"]


def test_a_deletion_of_many_is_bounded_for_each(pods: Kubernetes) -> None:
    options = {"gracePeriodSeconds": LONG, "dryRun": ["All"]}
    status, answer = pods.api("DELETE", f"{PODS}?labelSelector=set%3Dours", options, user=AUTHOR)
    assert (status, "at most 3600 seconds" in answer["message"]) == (403, True), answer
    status, answer = pods.api("DELETE", f"{PODS}?labelSelector=set%3Dtheirs", options, user=AUTHOR)
    assert status == 200, answer


@pytest.mark.parametrize(("grace_s", "status"), [(LONG, 403), (3601, 403), (3600, 201), (0, 201), (None, 201)])
@pytest.mark.parametrize("name", ["ours", "theirs"])
def test_an_eviction_is_bounded_for_pods_of_every_scheduler(
    pods: Kubernetes, name: str, grace_s: int | None, status: int
) -> None:
    found, answer = evict(pods, name, grace_s)
    assert found == status, answer


@pytest.mark.parametrize("user", [KUBELET.name, CONTROLLER, EXTENDER])
def test_kubelets_controllers_and_the_extender_are_not_bounded(pods: Kubernetes, user: str) -> None:
    assert delete(pods, "ours", LONG, user)[0] == 200


def test_a_drain_with_a_long_grace_evicts_nothing(pods: Kubernetes) -> None:
    made(pods, PODS, pod("drained"))
    drain = ("drain", NODE, "--force", "--pod-selector=set=drained", "--timeout=20s")
    with pytest.raises(LabError, match="at most 3600 seconds"):
        pods.kubectl(*drain, f"--grace-period={LONG}")
    assert "deletionTimestamp" not in pods.api("GET", f"{PODS}/drained")[1]["metadata"]
    pods.kubectl(*drain, "--grace-period=1")
    assert pods.api("GET", f"{PODS}/drained")[0] == 404
    pods.kubectl("uncordon", NODE)


def test_a_pod_from_before_the_policy_is_deleted_with_its_own_grace(pods: Kubernetes) -> None:
    path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/slurm-extender-grace"
    _, binding = pods.api("GET", path)
    pods.api("DELETE", path)
    try:
        old = pod("old", grace_s=LONG)
        wait_until(lambda: pods.api("POST", PODS, old)[0] == 201, "one with a long grace is there", timeout_s=60)
    finally:
        kept = {key: binding["metadata"][key] for key in ("name", "labels")}
        made(pods, path.rpartition("/")[0], {"metadata": kept, "spec": binding["spec"]})
    assert delete(pods, "old")[0] == 200
    assert delete(pods, "old", LONG + 1)[0] == 403
    wait_until(lambda: create(pods, pod("long", grace_s=LONG)) == 422, "new ones are refused again", timeout_s=60)


@pytest.fixture(scope="module")
def forbidden(pods: Kubernetes) -> Iterator[Kubernetes]:
    """Nobody deletes placed Pods by force without the right to it."""
    documents = [
        one
        for one in manifests.render(pods, manifests.BASE, ["no-force-deletion"])
        if one["metadata"]["name"].startswith("slurm-extender-force")
    ]
    may(pods, OPERATOR, "force-delete", FORCES)
    made(pods, PODS, pod("waits", node=""))
    pods.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(documents))
    wait_until(lambda: delete(pods, "ours", 0)[0] == 403, "a deletion by force is refused", timeout_s=60)
    wait_until(lambda: create(pods, pod("long", grace_s=0)) == 422, "so is a Pod without a grace", timeout_s=60)
    wait_until(lambda: evict(pods, "ours", 0, AUTHOR)[0] == 403, "so is an eviction by force", timeout_s=60)
    yield pods
    pods.kubectl("delete", "-f", "-", stdin=yaml.safe_dump_all(documents))


@pytest.mark.parametrize(
    ("user", "name", "grace_s", "status"),
    [
        (AUTHOR, "ours", 0, 403),
        (AUTHOR, "ours", 1, 200),
        (AUTHOR, "ours", -5, 200),
        (AUTHOR, "ours", None, 200),
        (AUTHOR, "waits", 0, 200),
        (AUTHOR, "waits", None, 200),
        (AUTHOR, "theirs", 0, 200),
        (OPERATOR, "ours", 0, 200),
        (ADMIN, "ours", 0, 200),
        (KUBELET.name, "ours", 0, 200),
        (CONTROLLER, "ours", 0, 200),
    ],
)
@pytest.mark.parametrize("by_query", [False, True])
def test_a_placed_pod_is_deleted_by_force_by_those_who_may(
    forbidden: Kubernetes, user: str, name: str, grace_s: int | None, status: int, by_query: bool
) -> None:
    found, answer = delete(forbidden, name, grace_s, user, by_query=by_query)
    assert found == status, answer
    if status == 403:
        assert "force-delete on pods of slurm-extender.io" in answer["message"]


def test_an_eviction_by_force_is_allowed_to_those_who_may(forbidden: Kubernetes) -> None:
    assert evict(forbidden, "ours", 0, AUTHOR)[0] == 403
    assert evict(forbidden, "ours", 1, AUTHOR)[0] == 201
    assert evict(forbidden, "ours", 0, ADMIN)[0] == 201


def test_a_namespace_and_what_is_in_it_is_deleted(forbidden: Kubernetes) -> None:
    """By the controllers of Kubernetes, where the lab has them, and a kubelet's deletion with a grace of 0."""
    place = "/api/v1/namespaces/leaves"
    made(forbidden, "/api/v1/namespaces", {"metadata": {"name": "leaves"}})
    made(forbidden, f"{place}/pods", pod("inside"))
    if forbidden.controller_manager is None:
        status, _ = forbidden.api("DELETE", f"{place}/pods/inside", {"gracePeriodSeconds": 0}, user=KUBELET.name)
        assert status == 200
    else:
        forbidden.kubectl("delete", "namespace", "leaves", "--timeout=60s")
        assert forbidden.api("GET", place)[0] == 404
    assert forbidden.api("GET", f"{place}/pods/inside")[0] == 404
