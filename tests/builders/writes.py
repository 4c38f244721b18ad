"""Every write of the extender as a request, with the function that sends it, and requests that its policies deny.

`docs/reference/rights.md` has a row for each of `WRITES`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from extender.domain import wellknown
from extender.domain.devices.views import REMINDER_CLASS, RESOURCE_CLAIM_FINALIZER

STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
JSON = "application/json"

APPLY = "application/apply-patch+yaml"

NODE = "n1"
PODS = "/api/v1/namespaces/work/pods"
OWN_POD, OTHER_POD = f"{PODS}/own", f"{PODS}/other"
NODES = f"/api/v1/nodes/{NODE}"
EVENTS = "/apis/events.k8s.io/v1/namespaces/work/events"
CHECKPOINT = f"{wellknown.CHECKPOINT_PREFIX}{'0' * 16}"
GROUPS = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/work/podgroups"
GROUP_STATUS = f"{GROUPS}/ring/status?fieldManager={wellknown.GROUP_STATUS_MANAGER}"
RESOURCE_CLAIMS = "/apis/resource.k8s.io/v1/namespaces/work/resourceclaims"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/slurm-extender/leases"


@dataclass(frozen=True, slots=True)
class Write:
    """Describe one request. `sender`: the function that sends it; `policy`: the policy that it has to pass.

    `others_may`: the API server allows it to an administrator. `first`: shows whether its policy is in force.
    """

    method: str
    path: str
    body: Any
    content_type: str = JSON
    sender: str = ""
    policy: str = ""
    others_may: bool = True
    first: bool = False


def annotated(*keys: str) -> dict[str, Any]:
    return {"metadata": {"annotations": dict.fromkeys(keys, "1")}}


def labelled(annotations: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata with the label of the job beside these annotations."""
    return {"metadata": annotations["metadata"] | {"labels": {wellknown.JOB_ID_LABEL: "1"}}}


def conditions(*types: str) -> dict[str, Any]:
    said = [{"type": one, "status": "True", "reason": "Because", "message": "Text."} for one in types]
    return {"status": {"conditions": said}}


def event(**changed: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "said"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": f"{wellknown.DOMAIN}/extender",
        "reportingInstance": "x",
        "action": "Scheduling",
        "reason": "SlurmJobPending",
        "regarding": {"apiVersion": "v1", "kind": "Pod", "name": "own", "namespace": "work"},
        "note": "n",
        "type": "Normal",
        **changed,
    }


def eviction(name: str, grace_s: int | None) -> dict[str, Any]:
    options = {} if grace_s is None else {"deleteOptions": {"gracePeriodSeconds": grace_s}}
    return {"metadata": {"name": name, "namespace": "work"}, **options}


def binding(**metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": "own", **metadata}, "target": {"apiVersion": "v1", "kind": "Node", "name": NODE}}


def group(**status: Any) -> dict[str, Any]:
    meta = {"name": "ring", "namespace": "work"}
    return {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "metadata": meta, "status": status}


UNGATED = {"spec": {"schedulingGates": [{"$patch": "delete", "name": wellknown.GATE}]}}
RECORD_ANNOTATIONS = (
    wellknown.JOB_ID,
    wellknown.NODE,
    wellknown.POD_SLURM_NODE,
    wellknown.POD_UID,
    wellknown.ALLOCATION_PROOF,
    wellknown.DEVICES,
    wellknown.GPUS,
    *wellknown.GANG_ANNOTATIONS,
)
SERIES = {"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:00.000000Z"}}
LEASE = {"metadata": {"name": "slurm-extender", "annotations": {wellknown.SCHEDULER_NAME: "slurm"}}, "spec": {}}
MARKED = [
    {"op": "add", "path": "/spec/taints/-", "value": {"key": key, "effect": effect, "value": "slurm"}}
    for key, effect in (
        (wellknown.UNAVAILABLE_TAINT, "NoSchedule"),
        (wellknown.MANAGED_TAINT, "NoExecute"),
        (wellknown.NATIVE_JOB_TAINT, "NoSchedule"),
    )
]
NOTED = [
    {"op": "add", "path": f"/metadata/annotations/{key.replace('/', '~1')}", "value": "slurm"}
    for key in (
        wellknown.CORDONED_BY,
        wellknown.UNCORDONED_MANUALLY,
        wellknown.NATIVE_JOBS,
        wellknown.RELEASED_AT,
    )
]
PROVEN = [
    {
        "op": "add",
        "path": f"/metadata/annotations/{wellknown.FENCE_EVIDENCE.replace('/', '~1')}",
        "value": "slurm",
    }
]
CORDONED = [{"op": "add", "path": "/spec/unschedulable", "value": True}]

_POD = "slurm-extender-pods"
_NODE = "slurm-extender-nodes"
_DEVICES = "slurm-extender-devices"
_REMINDERS = "slurm-extender-device-reminders"
DELETION = {"kind": "DeleteOptions", "apiVersion": "v1"}
PROTECTED = {"finalizers": [RESOURCE_CLAIM_FINALIZER]}
_GIVEN = {"request": "gpu", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"}
_HERE = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
ALLOCATION = {
    "status": {
        "allocation": {
            "devices": {"results": [_GIVEN]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [_HERE]}]},
            "allocationTimestamp": "2026-01-01T00:00:00Z",
        },
        "reservedFor": [{"resource": "pods", "name": "own", "uid": "u"}],
    }
}
REMINDER_TO_DELETE: dict[str, Any] = {
    "metadata": {"name": "reminder", "labels": {wellknown.DEVICE_REMINDER: "true"}},
    "spec": {"devices": {"requests": [{"name": "device", "exactly": {"deviceClassName": REMINDER_CLASS, "count": 1}}]}},
}
RESOURCE_CLAIM_TO_WRITE: dict[str, Any] = {
    "metadata": {"name": "free"},
    "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com", "count": 1}}]}},
}
WRITES = {
    "a grant": Write(
        "PATCH",
        f"{PODS}/gated",
        labelled(annotated(*RECORD_ANNOTATIONS[:5])) | UNGATED,
        STRATEGIC,
        "PodWriter.wake",
        _POD,
    ),
    "a record on a Pod": Write(
        "PATCH",
        OWN_POD,
        labelled(annotated(*RECORD_ANNOTATIONS, wellknown.CANCELLED, wellknown.REQUEUED_AT)),
        STRATEGIC,
        "PodWriter.annotate",
        _POD,
    ),
    "a gate removed": Write("PATCH", f"{PODS}/gated", UNGATED, STRATEGIC, "PodWriter.ungate", _POD),
    "a gate removed from a Pod of another scheduler": Write(
        "PATCH", f"{PODS}/gated-theirs", UNGATED, STRATEGIC, "PodWriter.ungate", _POD
    ),
    "why a Pod waits": Write(
        "PATCH",
        f"{OWN_POD}/status",
        conditions(wellknown.ALLOCATED_CONDITION),
        STRATEGIC,
        "PodWriter.explain",
        _POD,
    ),
    "that a Pod does not start": Write(
        "PATCH",
        f"{OWN_POD}/status",
        conditions(wellknown.CONTAINERS_STARTED_CONDITION),
        STRATEGIC,
        "PodWriter.report",
        _POD,
    ),
    "why a Pod is ended": Write(
        "PATCH", f"{OWN_POD}/status", conditions("DisruptionTarget"), STRATEGIC, "PodWriter.end", _POD
    ),
    "a Binding": Write(
        "POST",
        f"{OWN_POD}/binding",
        binding(annotations=dict.fromkeys(RECORD_ANNOTATIONS, "1")),
        JSON,
        "PodWriter.bind",
        "slurm-extender-bindings",
    ),
    "an Eviction": Write(
        "POST", f"{OWN_POD}/eviction", eviction("own", 30), JSON, "PodWriter.end", "slurm-extender-evictions"
    ),
    "a deletion": Write(
        "DELETE", f"{PODS}/placed", {"gracePeriodSeconds": 1}, JSON, "PodWriter.end", "slurm-extender-pod-ends"
    ),
    "a deletion of a Pod that waits": Write("DELETE", OWN_POD, {}, JSON, "PodWriter.end", "slurm-extender-pod-ends"),
    "a deletion with the Pod's own grace": Write(
        "DELETE", f"{PODS}/placed", {}, JSON, "PodWriter.end", "slurm-extender-pod-ends"
    ),
    "the condition of a Node": Write(
        "PATCH",
        f"{NODES}/status",
        annotated(wellknown.UNAVAILABLE_REASON) | conditions(wellknown.SLURM_AVAILABLE_CONDITION),
        STRATEGIC,
        "NodeWriter.report",
        _NODE,
    ),
    "evidence of a fence": Write("PATCH", NODES, PROVEN, JSON_PATCH, "NodeWriter.mark", _NODE),
    "marks on a Node": Write("PATCH", NODES, [*MARKED, *NOTED, *CORDONED], JSON_PATCH, "NodeWriter.mark", _NODE),
    "the status of a PodGroup": Write(
        "PATCH",
        GROUP_STATUS,
        group(phase="Running", running=2, succeeded=0, failed=0),
        APPLY,
        "PodGroupStatusWriter.write",
        "slurm-extender-pod-groups",
    ),
    "the finalizer of a ResourceClaim": Write(
        "PATCH",
        f"{RESOURCE_CLAIMS}/free",
        annotated(wellknown.JOB_ID) | {"metadata": annotated(wellknown.JOB_ID)["metadata"] | PROTECTED},
        MERGE,
        "ResourceClaimWriter.allocate",
        _DEVICES,
    ),
    "the devices of a ResourceClaim": Write(
        "PATCH", f"{RESOURCE_CLAIMS}/free/status", ALLOCATION, MERGE, "ResourceClaimWriter.allocate", _DEVICES
    ),
    "devices released": Write(
        "PATCH",
        f"{RESOURCE_CLAIMS}/free/status",
        {"status": {"allocation": None, "reservedFor": None}},
        MERGE,
        "ResourceClaimWriter.release",
        _DEVICES,
    ),
    "a reminder of a device": Write(
        "POST",
        RESOURCE_CLAIMS,
        REMINDER_TO_DELETE | {"metadata": REMINDER_TO_DELETE["metadata"] | {"name": "another"}},
        JSON,
        "ResourceClaimWriter.remind",
        _REMINDERS,
    ),
    "a reminder deleted": Write(
        "DELETE", f"{RESOURCE_CLAIMS}/reminder", DELETION, JSON, "ResourceClaimWriter.remove", _REMINDERS
    ),
    "an Event about a Pod": Write(
        "POST", EVENTS, event(metadata={"name": "another"}), JSON, "EventWriter.run", "slurm-extender-events"
    ),
    "an Event about a Node": Write(
        "POST",
        EVENTS.replace("work", "default"),
        event(metadata={"name": "of-node"}, regarding={"apiVersion": "v1", "kind": "Node", "name": NODE}),
        JSON,
        "EventWriter.flush",
        "slurm-extender-events",
    ),
    "an Event counted up": Write("PATCH", f"{EVENTS}/said", SERIES, MERGE, "EventWriter.run", "slurm-extender-events"),
    "the Lease": Write("POST", LEASES, LEASE, JSON, "LeaseLock.write", "slurm-extender-leases"),
    "the first checkpoint of a process": Write(
        "PATCH",
        f"{LEASES}/slurm-extender-checkpoints",
        annotated(CHECKPOINT),
        MERGE,
        "CheckpointLease.begin",
        "slurm-extender-leases",
    ),
    "a checkpoint": Write(
        "PATCH",
        f"{LEASES}/slurm-extender-checkpoints",
        [
            {"op": "test", "path": f"/metadata/annotations/{CHECKPOINT.replace('/', '~1')}", "value": "1"},
            {"op": "replace", "path": f"/metadata/annotations/{CHECKPOINT.replace('/', '~1')}", "value": "2"},
        ],
        JSON_PATCH,
        "CheckpointLease.advance",
        "slurm-extender-leases",
    ),
}
"""What the extender writes."""

IMAGE = {"spec": {"containers": [{"name": "c", "image": "evil"}]}}
TAINT = {"key": "e2e/evil", "effect": "NoExecute"}
DENIED = {
    "a label of a ResourceClaim": Write(
        "PATCH", f"{RESOURCE_CLAIMS}/free", {"metadata": {"labels": {"a": "b"}}}, MERGE, first=True
    ),
    "a ResourceClaim": Write(
        "POST", RESOURCE_CLAIMS, RESOURCE_CLAIM_TO_WRITE | {"metadata": {"name": "new"}}, JSON, first=True
    ),
    "a ResourceClaim that is called a reminder": Write(
        "POST",
        RESOURCE_CLAIMS,
        RESOURCE_CLAIM_TO_WRITE | {"metadata": {"name": "new", "labels": {wellknown.DEVICE_REMINDER: "true"}}},
        JSON,
    ),
    "the end of a ResourceClaim": Write("DELETE", f"{RESOURCE_CLAIMS}/free", DELETION, JSON),
    "an annotation of a ResourceClaim": Write(
        "PATCH", f"{RESOURCE_CLAIMS}/free", {"metadata": {"annotations": {"a": "b"}}}, MERGE
    ),
    "a finalizer of a ResourceClaim": Write(
        "PATCH", f"{RESOURCE_CLAIMS}/free", {"metadata": {"finalizers": ["a.b/c"]}}, MERGE
    ),
    "the image of a Pod of another scheduler": Write("PATCH", OTHER_POD, IMAGE, STRATEGIC, first=True),
    "the image of a Pod": Write("PATCH", OWN_POD, IMAGE, STRATEGIC),
    "the image of a gated Pod, with its gate": Write(
        "PATCH", f"{PODS}/gated", {"spec": UNGATED["spec"] | IMAGE["spec"]}, STRATEGIC
    ),
    "a deadline of a Pod": Write("PATCH", OWN_POD, {"spec": {"activeDeadlineSeconds": 1}}, MERGE),
    "a toleration of a Pod": Write(
        "PATCH", OWN_POD, [{"op": "add", "path": "/spec/tolerations/-", "value": {"operator": "Exists"}}], JSON_PATCH
    ),
    "a selector of a gated Pod": Write("PATCH", f"{PODS}/gated", {"spec": {"nodeSelector": {"a": "b"}}}, MERGE),
    "a gate of others": Write(
        "PATCH",
        f"{PODS}/gated",
        {"spec": {"schedulingGates": [{"$patch": "delete", "name": "example.org/other"}]}},
        STRATEGIC,
    ),
    "a label of a Pod": Write("PATCH", OWN_POD, {"metadata": {"labels": {"app": "b"}}}, MERGE),
    "a label of a Pod, by its status": Write(
        "PATCH", f"{OWN_POD}/status", {"metadata": {"labels": {"app": "b"}}}, MERGE
    ),
    "labels of a Pod removed": Write("PATCH", OWN_POD, {"metadata": {"labels": None}}, MERGE),
    "a label of others renamed to the own one": Write(
        "PATCH", OWN_POD, {"metadata": {"labels": {"app": None, wellknown.JOB_ID_LABEL: "1"}}}, MERGE
    ),
    "the own label by the status": Write(
        "PATCH", f"{OWN_POD}/status", {"metadata": {"labels": {wellknown.JOB_ID_LABEL: "1"}}}, MERGE
    ),
    "the own label on a Pod of another scheduler": Write(
        "PATCH", OTHER_POD, {"metadata": {"labels": {wellknown.JOB_ID_LABEL: "1"}}}, MERGE
    ),
    "a finalizer of a Pod": Write("PATCH", OWN_POD, {"metadata": {"finalizers": ["e2e/kept"]}}, MERGE),
    "an owner of a Pod": Write(
        "PATCH",
        OWN_POD,
        {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "x"}]}},
        MERGE,
    ),
    "an annotation of others on a Pod": Write("PATCH", OWN_POD, annotated("example.org/a"), MERGE),
    "a setting on a Pod": Write("PATCH", OWN_POD, annotated("slurm-extender.io/account"), MERGE),
    "an annotation of others removed": Write("PATCH", OWN_POD, {"metadata": {"annotations": {"a": None}}}, MERGE),
    "an annotation of others renamed to an own one": Write(
        "PATCH", OWN_POD, {"metadata": {"annotations": {"a": None, wellknown.JOB_ID: "1"}}}, MERGE
    ),
    "all annotations removed": Write("PATCH", OWN_POD, {"metadata": {"annotations": None}}, MERGE),
    "an own annotation by the status": Write("PATCH", f"{OWN_POD}/status", annotated(wellknown.JOB_ID), MERGE),
    "an own annotation on a Pod of another scheduler": Write("PATCH", OTHER_POD, annotated(wellknown.JOB_ID), MERGE),
    "Ready of a Pod": Write("PATCH", f"{OWN_POD}/status", conditions("Ready"), STRATEGIC),
    "the address of a Pod": Write(
        "PATCH", f"{OWN_POD}/status", {"status": {"podIP": "10.0.0.1"}}, MERGE, others_may=False
    ),
    "the phase of a Pod": Write("PATCH", f"{OWN_POD}/status", {"status": {"phase": "Succeeded"}}, MERGE),
    "a condition of a Pod of another scheduler": Write(
        "PATCH", f"{OTHER_POD}/status", conditions(wellknown.ALLOCATED_CONDITION), STRATEGIC
    ),
    "the end of a Pod of another scheduler": Write("DELETE", OTHER_POD, {}, first=True),
    "the end of a Pod by force": Write("DELETE", f"{PODS}/placed?gracePeriodSeconds=0", None),
    "an Eviction by force": Write("POST", f"{OWN_POD}/eviction", eviction("own", 0), first=True),
    "an annotation of others with a Binding": Write(
        "POST", f"{OWN_POD}/binding", binding(annotations={"example.org/a": "1"}), first=True
    ),
    "labels with a Binding": Write("POST", f"{OWN_POD}/binding", binding(labels={"a": "b"})),
    "a label of a Node": Write("PATCH", NODES, {"metadata": {"labels": {"a": "b"}}}, MERGE, first=True),
    "a restricted label of a Node": Write(
        "PATCH", NODES, {"metadata": {"labels": {"node-restriction.kubernetes.io/a": "b"}}}, MERGE
    ),
    "a label of a Node, by its status": Write("PATCH", f"{NODES}/status", {"metadata": {"labels": {"a": "b"}}}, MERGE),
    "an annotation of others on a Node": Write("PATCH", NODES, annotated("example.org/a"), MERGE),
    "what a Node says of its Slurm node": Write("PATCH", NODES, annotated(wellknown.SLURM_NODE), MERGE),
    "an annotation of others on a Node, by its status": Write(
        "PATCH", f"{NODES}/status", annotated("example.org/a"), MERGE
    ),
    "a taint of others": Write("PATCH", NODES, [{"op": "add", "path": "/spec/taints/-", "value": TAINT}], JSON_PATCH),
    "a taint of others removed": Write("PATCH", NODES, [{"op": "remove", "path": "/spec/taints"}], JSON_PATCH),
    "the provider of a Node": Write("PATCH", NODES, {"spec": {"providerID": "evil://x"}}, MERGE),
    "what a Node can hold": Write("PATCH", f"{NODES}/status", {"status": {"allocatable": {"cpu": "1"}}}, MERGE),
    "Ready of a Node": Write("PATCH", f"{NODES}/status", conditions("Ready"), STRATEGIC),
    "the address of a Node": Write(
        "PATCH", f"{NODES}/status", {"status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]}}, MERGE
    ),
    "the occupant of a PodGroup": Write("PATCH", GROUP_STATUS, group(occupiedBy="x"), APPLY, first=True),
    "a Lease of others": Write("POST", LEASES, {"metadata": {"name": "slurm-scheduler"}, "spec": {}}, first=True),
    "an Event in the name of others": Write(
        "POST", EVENTS, event(metadata={"name": "x"}, reportingController="example.org/other"), first=True
    ),
    "an Event about a Secret": Write(
        "POST",
        EVENTS,
        event(
            metadata={"name": "y"}, regarding={"apiVersion": "v1", "kind": "Secret", "name": "s", "namespace": "work"}
        ),
    ),
    "a count of an Event of others": Write("PATCH", f"{EVENTS}/theirs", SERIES, MERGE),
}
"""What the rights of the extender's account would allow besides."""
