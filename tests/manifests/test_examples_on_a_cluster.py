"""A real API server takes every example, and the Pods that its controllers would make of its templates."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from extender.kube.wire.manifest_templates import templates_of
from lab.clock import wait_until
from lab.kube import Kubernetes
from tests.builders.kustomize import ROOT, Document, documents

pytestmark = pytest.mark.lab

EXAMPLES = sorted(path for path in (ROOT / "examples").glob("*.yaml") if not path.name.startswith("policy-"))
CUSTOM = {
    ("kueue.x-k8s.io", "v1beta2", "LocalQueue", "localqueues"),
    ("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets"),
    ("leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet", "leaderworkersets"),
    ("ray.io", "v1", "RayCluster", "rayclusters"),
    ("kubeflow.org", "v2beta1", "MPIJob", "mpijobs"),
    ("kubeflow.org", "v1", "PyTorchJob", "pytorchjobs"),
}
"""Kinds of others. Their own schemas are not here; the Pods of their templates are checked in full all the same."""


def definition(group: str, version: str, kind: str, plural: str) -> Document:
    """A resource of this kind that takes any specification."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    names = {"kind": kind, "plural": plural, "singular": kind.lower()}
    versions = [{"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": versions},
    }


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubernetes]:
    """Without controllers: nothing makes Pods of a workload."""
    with Kubernetes(controllers=False, workdir=tmp_path_factory.mktemp("kubernetes")) as kube:
        kube.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all([definition(*one) for one in sorted(CUSTOM)]))
        wait_until(lambda: all(known(kube, *one) for one in CUSTOM), "kinds of others are served", timeout_s=60)
        kube.kubectl("create", "namespace", "training")  # of examples/namespace-opt-in.yaml: a dry run keeps none
        yield kube


def known(kube: Kubernetes, group: str, version: str, kind: str, _plural: str) -> bool:
    status, answer = kube.api("GET", f"/apis/{group}/{version}")
    return status == 200 and any(one["kind"] == kind for one in answer["resources"])


def taken(kube: Kubernetes, objects: list[Document]) -> int:
    """Send objects that are not kept; returns how many the API server takes, of whom no field is unknown."""
    text = yaml.safe_dump_all(objects)
    said = kube.kubectl("create", "--dry-run=server", "--validate=strict", "-f", "-", stdin=text)
    return said.count("created (server dry run)")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_is_taken_as_it_is(cluster: Kubernetes, path: Path) -> None:
    found = [one for one in documents(path) if one["kind"] != "Namespace"]
    assert taken(cluster, found) == len(found)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_the_pods_of_an_example_are_taken(cluster: Kubernetes, path: Path) -> None:
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            **placed.template,
            "metadata": {**placed.template.get("metadata", {}), "name": f"pod-{number}"},
        }
        for number, placed in enumerate(
            placed for one in documents(path) if one["kind"] != "Pod" for placed in templates_of(one, one["kind"])
        )
    ]
    for pod in pods:
        _add_volumes_of_templates(pod["spec"])
    assert not pods or taken(cluster, pods) == len(pods)


def _add_volumes_of_templates(spec: Document) -> None:
    """Add the volumes that the controller of a StatefulSet adds for its volumeClaimTemplates."""
    named = {one["name"] for one in spec.get("volumes", [])}
    mounted = {mount["name"] for one in spec["containers"] for mount in one.get("volumeMounts", [])}
    spec["volumes"] = [*spec.get("volumes", []), *({"name": one, "emptyDir": {}} for one in sorted(mounted - named))]
