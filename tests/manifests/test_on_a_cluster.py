"""A real API server takes the manifests as they are, and the accounts may do what their programs do, no more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import yaml

from lab.kube import Kubernetes
from lab.manifests import render, shipped
from tests.builders.kustomize import COMPONENTS as COMPONENTS_FOLDER
from tests.builders.kustomize import ROOT, Document, documents
from tests.builders.minors import EVERY_MINOR
from tests.builders.rights import MAY, MAY_NOT, Question

pytestmark = pytest.mark.lab

MANIFESTS = ROOT / "manifests"
OVERLAYS = [MANIFESTS / "base", *sorted((MANIFESTS / "overlays").iterdir())]
NEEDED = {"cert-manager-webhook": ["gate-webhook"], "cert-manager": ["tls"], "runbook-links": ["alerts"]}
"""Components that change what another one brings."""

COMPONENTS = sorted(path for path in (MANIFESTS / "components").iterdir())
NOT_THERE = ("cert-manager.io/", "monitoring.coreos.com/")
"""Kinds of others, which this API server does not know: what they would be told stays untold."""


@pytest.fixture(scope="module", params=EVERY_MINOR)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubernetes]:
    """Without controllers: a Deployment stays an object."""
    workdir = tmp_path_factory.mktemp("kubernetes")
    with Kubernetes(version=request.param, controllers=False, workdir=workdir) as kube:
        documents = shipped(kube)
        apply(kube, [one for one in documents if one["kind"] == "Namespace"])
        apply(kube, documents)
        yield kube


@pytest.fixture(scope="module")
def core(cluster: Kubernetes) -> Sequence[Document]:
    """What every component is put on: the API server takes it as part of each overlay."""
    return render(cluster, MANIFESTS / "core")


def apply(kube: Kubernetes, documents: list[Document], *options: str) -> str:
    text = yaml.safe_dump_all(documents)
    return kube.kubectl("apply", "--server-side", "--validate=strict", *options, "-f", "-", stdin=text)


def taken(kube: Kubernetes, folder: Path, components: Sequence[str] = (), beside: Sequence[Document] = ()) -> None:
    """Send what a folder renders to the API server, all but to be kept; it takes everything. `beside`: is there."""
    rendered = [one for one in render(kube, folder, components) if not one["apiVersion"].startswith(NOT_THERE)]
    documents = [one for one in rendered if one not in beside]
    policies = [one for one in documents if one["kind"].startswith("MutatingAdmissionPolicy")]
    if policies and not known(kube, policies[0]):
        documents = [one for one in documents if one not in policies]
    said = apply(kube, documents, "--dry-run=server", "--force-conflicts") if documents else ""
    assert said.count("serverside-applied") == len(documents)


def known(kube: Kubernetes, document: Document) -> bool:
    """Whether the API server has such a kind."""
    status, answer = kube.api("GET", f"/apis/{document['apiVersion']}")
    return status == 200 and any(one["kind"] == document["kind"] for one in answer["resources"])


def test_the_policy_of_the_gate_is_there_from_1_36_on(cluster: Kubernetes) -> None:
    [policy, _] = documents(COMPONENTS_FOLDER / "gate-policy" / "policy.yaml")
    assert known(cluster, policy) == (tuple(map(int, cluster.minor.split("."))) >= (1, 36))


@pytest.mark.parametrize("folder", OVERLAYS, ids=lambda folder: folder.name)
def test_every_object_is_taken_with_no_unknown_field(cluster: Kubernetes, folder: Path) -> None:
    taken(cluster, folder)


@pytest.mark.parametrize("component", COMPONENTS, ids=lambda folder: folder.name)
def test_every_component_can_be_put_on_the_core(cluster: Kubernetes, core: Sequence[Document], component: Path) -> None:
    taken(cluster, MANIFESTS / "core", [*NEEDED.get(component.name, ()), component.name], beside=core)


def test_the_base_with_the_component_of_this_version_is_taken_as_it_is(cluster: Kubernetes) -> None:
    documents = shipped(cluster)
    said = apply(cluster, documents, "--dry-run=server", "--force-conflicts")
    assert said.count("serverside-applied") == len(documents)


def allowed(kube: Kubernetes, account: str, question: Question) -> bool:
    """Ask the API server, as `kubectl auth can-i` does; it answers for kinds that it does not serve, too."""
    named = {"group": question.group, "resource": question.resource, "subresource": question.subresource}
    wanted = {"verb": question.verb, "name": question.name, "namespace": question.namespace, **named}
    groups = ["system:serviceaccounts", "system:serviceaccounts:slurm-extender", "system:authenticated"]
    who = {"user": f"system:serviceaccount:slurm-extender:{account}", "groups": groups}
    body = {"spec": {**who, "resourceAttributes": wanted}}
    status, answer = kube.api("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body)
    assert status == 201, answer
    return bool(answer["status"]["allowed"])


@pytest.mark.parametrize("question", MAY, ids=str)
def test_the_extender_may_do_its_work(cluster: Kubernetes, question: Question) -> None:
    assert allowed(cluster, "slurm-extender", question)


@pytest.mark.parametrize("question", MAY_NOT, ids=str)
def test_the_extender_may_do_no_more(cluster: Kubernetes, question: Question) -> None:
    assert not allowed(cluster, "slurm-extender", question)


@pytest.mark.parametrize(
    "question",
    [
        Question("list", "persistentvolumes"),
        Question("patch", "pods", namespace="anywhere", subresource="status"),
        Question("update", "leases", "coordination.k8s.io", "slurm-extender", "slurm-scheduler"),
        Question("get", "configmaps", namespace="kube-system", name="extension-apiserver-authentication"),
    ],
    ids=str,
)
def test_the_scheduler_may_do_its_work(cluster: Kubernetes, question: Question) -> None:
    assert allowed(cluster, "slurm-scheduler", question)
