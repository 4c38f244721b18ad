"""A Pod's JSON becomes a PodView."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from extender.domain.views import Container, Failure, HostPort, NodeTerm, OwnerReference, PodView, Requirement
from extender.kube.wire.device_class import read_device_class
from extender.kube.wire.fields import MalformedObject
from extender.kube.wire.namespace import read_namespace
from extender.kube.wire.node import read_node
from extender.kube.wire.pod import read_pod
from extender.kube.wire.resource_claim import read_resource_claim
from extender.kube.wire.resource_slice import read_resource_slice
from tests.builders import kube_samples

FULL: dict[str, Any] = {
    "metadata": {
        "uid": "u1",
        "namespace": "team",
        "name": "train-0",
        "resourceVersion": "42",
        "annotations": {"slurm-extender.io/partition": "batch"},
        "labels": {"app": "train"},
        "creationTimestamp": "2026-01-01T00:00:10Z",
        "deletionTimestamp": "2026-01-01T00:01:00.500000Z",
        "deletionGracePeriodSeconds": 45,
        "managedFields": [{"manager": "kubectl"}],
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "ConfigMap", "name": "cm", "uid": "u2"},
            {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u3", "controller": True},
        ],
    },
    "spec": {
        "schedulerName": "slurm",
        "nodeName": "node-1",
        "schedulingGates": [{"name": "slurm-extender.io/allocation"}, {"name": "other"}],
        "overhead": {"cpu": "100m"},
        "resources": {"requests": {"cpu": "3"}, "limits": {"cpu": "4"}},
        "nodeSelector": {"disk": "ssd"},
        "hostNetwork": True,
        "priorityClassName": "high",
        "schedulingGroup": {"podGroupName": "ring"},
        "activeDeadlineSeconds": 60,
        "terminationGracePeriodSeconds": 0,
        "initContainers": [{"name": "proxy", "restartPolicy": "Always"}, {"name": "setup"}],
        "containers": [
            {
                "name": "main",
                "resources": {"requests": {"cpu": "1", "nvidia.com/gpu": "1"}, "limits": {"memory": "1Gi"}},
                "ports": [
                    {"containerPort": 80},
                    {"containerPort": 81, "hostPort": 8081, "protocol": "UDP", "hostIP": "10.0.0.1"},
                ],
            }
        ],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {
                            "matchExpressions": [{"key": "gpu", "operator": "In", "values": ["h100", "a100"]}],
                            "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}],
                        },
                        {"matchExpressions": [{"key": "big", "operator": "Exists"}]},
                    ]
                }
            }
        },
    },
    "status": {
        "phase": "Failed",
        "nominatedNodeName": "node-2",
        "conditions": [
            {"type": "Ready", "status": "False"},
            {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC"},
        ],
        "initContainerStatuses": [{"name": "setup", "state": {"terminated": {"exitCode": 0}}}],
        "containerStatuses": [
            {"name": "side", "state": {"running": {}}},
            {"name": "main", "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}},
        ],
    },
}


def a_pod(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"uid": "u", "namespace": "ns", "name": "p"}, "spec": spec}


def test_every_field_is_read() -> None:
    assert read_pod(FULL) == PodView(
        uid="u1",
        namespace="team",
        name="train-0",
        resource_version="42",
        scheduler_name="slurm",
        annotations={"slurm-extender.io/partition": "batch"},
        labels={"app": "train"},
        owner=OwnerReference("batch/v1", "Job", "train", "u3"),
        created_at=1767225610.0,
        deleted_at=1767225660.5,
        node_name="node-1",
        phase="Failed",
        nominated_node="node-2",
        gates=("slurm-extender.io/allocation", "other"),
        containers=(
            Container(
                "main",
                requests={"cpu": "1", "nvidia.com/gpu": "1"},
                limits={"memory": "1Gi"},
                host_ports=(HostPort(8081, "UDP", "10.0.0.1"),),
            ),
        ),
        init_containers=(Container("proxy", sidecar=True), Container("setup")),
        overhead={"cpu": "100m"},
        pod_requests={"cpu": "3"},
        pod_limits={"cpu": "4"},
        node_selector={"disk": "ssd"},
        required_terms=(
            NodeTerm(
                (Requirement("gpu", "In", ("h100", "a100")),),
                (Requirement("metadata.name", "In", ("node-1",)),),
            ),
            NodeTerm((Requirement("big", "Exists"),)),
        ),
        beyond=("scheduling group", "host ports"),
        host_network=True,
        priority_class="high",
        scheduling_group="ring",
        active_deadline_s=60,
        grace_s=0,
        failure=Failure("main", 137, "OOMKilled"),
        deletion_grace_s=45,
        disruption="DeletionByPodGC",
        container_runs=True,
    )


@pytest.mark.parametrize(
    ("owner", "belongs"),
    [
        ({"apiVersion": "apps/v1", "kind": "DaemonSet", "controller": True}, True),
        ({"apiVersion": "v1", "kind": "Node", "controller": True}, True),
        ({"apiVersion": "v1", "kind": "Node"}, False),
        ({"apiVersion": "apps/v1", "kind": "ReplicaSet", "controller": True}, False),
        ({"apiVersion": "example.com/v1", "kind": "DaemonSet", "controller": True}, False),
    ],
)
def test_pods_of_daemon_sets_and_mirrors_of_static_pods_belong_to_their_node(
    owner: dict[str, Any], belongs: bool
) -> None:
    pod = a_pod()
    pod["metadata"]["ownerReferences"] = [{"name": "o", "uid": "x", **owner}]
    assert read_pod(pod).of_its_node is belongs


def test_text_and_bytes_read_as_the_parsed_object_does() -> None:
    assert read_pod(json.dumps(FULL)) == read_pod(json.dumps(FULL).encode()) == read_pod(FULL)


def test_a_bare_pod_has_the_defaults_of_kubernetes() -> None:
    view = read_pod(a_pod())
    assert (view.phase, view.grace_s, view.required_terms, view.deleted_at) == ("Pending", 30, None, None)


@pytest.mark.parametrize(
    "field", ["containers", "initContainers", "schedulingGates", "nodeSelector", "affinity", "resources", "overhead"]
)
def test_null_is_absence(field: str) -> None:
    assert read_pod(a_pod(**{field: None})) == read_pod(a_pod())


def test_null_in_the_depths_is_absence() -> None:
    pod = a_pod(containers=[{"name": "c", "resources": {"requests": None, "limits": None}, "ports": None}])
    pod["metadata"] |= {"annotations": None, "labels": None, "ownerReferences": None, "creationTimestamp": None}
    pod["status"] = {"containerStatuses": None, "phase": None}
    assert read_pod(pod).containers == (Container("c"),)


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({"name": "train", "podGroup": "workers"}, "train/workers"),
        ({"name": "train", "podGroup": "workers", "podGroupReplicaKey": "2"}, "train/workers/2"),
        ({}, ""),
        (None, ""),
    ],
)
def test_the_workload_of_kubernetes_1_35_is_named_with_its_group(given: dict[str, str] | None, read: str) -> None:
    assert read_pod(a_pod(workloadRef=given)).workload_ref == read


def test_numbers_and_strings_stand_for_each_other() -> None:
    pod = a_pod(
        containers=[{"name": "c", "resources": {"requests": {"cpu": 2, "memory": 1.5}}, "ports": [{"hostPort": "80"}]}],
        activeDeadlineSeconds="60",
    )
    view = read_pod(pod)
    assert view.containers[0].requests == {"cpu": "2", "memory": "1.5"}
    assert view.containers[0].host_ports == (HostPort(80),)
    assert view.active_deadline_s == 60


def test_a_required_affinity_without_terms_differs_from_none() -> None:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": None}}
    assert read_pod(a_pod(affinity={"nodeAffinity": required})).required_terms == ()
    assert read_pod(a_pod(affinity={"nodeAffinity": {}})).required_terms is None


def test_an_exit_code_counts_only_once_the_pod_has_ended() -> None:
    pod = a_pod() | {
        "status": {"phase": "Running", "containerStatuses": [{"state": {"terminated": {"exitCode": 1}}}]},
    }
    assert read_pod(pod).failure is None
    pod["status"]["phase"] = "Failed"
    assert read_pod(pod).failure == Failure("", 1)


def test_an_odd_pod_names_the_field_and_the_value() -> None:
    with pytest.raises(MalformedObject, match=r"not a Pod: spec\.containers\.0\.name: .* got \['x'\]"):
        read_pod(a_pod(containers=[{"name": ["x"]}]))


def test_bytes_that_are_no_json_are_malformed() -> None:
    with pytest.raises(MalformedObject):
        read_pod(b'{"metadata":')


class RecordingDict(dict[str, Any]):
    """An object that notes which of its fields were asked for and are not there."""

    def __init__(self, given: dict[str, Any], missing: set[str]) -> None:
        super().__init__({key: noting(value, missing) for key, value in given.items()})
        self._missing = missing

    def get(self, key: str, default: Any = None) -> Any:
        if key not in self:
            self._missing.add(key)
        return super().get(key, default)


def noting(value: Any, missing: set[str]) -> Any:
    if isinstance(value, dict):
        return RecordingDict(value, missing)
    return [noting(one, missing) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    ("read", "sample"),
    [
        (read_pod, kube_samples.POD),
        (read_node, kube_samples.NODE),
        (read_namespace, kube_samples.NAMESPACE),
        (read_device_class, kube_samples.DEVICE_CLASS),
        (read_resource_claim, kube_samples.RESOURCE_CLAIM),
        (read_resource_slice, kube_samples.RESOURCE_SLICE),
    ],
)
def test_the_samples_of_the_hostile_tests_have_every_field_that_is_read(
    read: Callable[[Mapping[str, Any]], object], sample: dict[str, Any]
) -> None:
    missing: set[str] = set()
    read(RecordingDict(sample, missing))
    assert missing == set()


@pytest.mark.parametrize(
    ("node", "status", "at"), [("n1", "True", 1767225610.0), ("n1", "False", None), ("", "True", None)]
)
def test_a_pod_got_its_node_when_its_binding_wrote_the_condition(node: str, status: str, at: float | None) -> None:
    said = {"type": "PodScheduled", "status": status, "lastTransitionTime": "2026-01-01T00:00:10Z"}
    pod = {"metadata": {"uid": "u1"}, "spec": {"nodeName": node}, "status": {"conditions": [said]}}
    assert read_pod(pod).bound_at == at
