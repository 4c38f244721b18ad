"""Define the PodGroups of scheduler-plugins 0.33 and of Volcano, as a real API server needs it."""

from __future__ import annotations

from typing import Any

_INT = {"type": "integer", "format": "int32"}
_TEXT = {"type": "string"}
_FREE = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}

_COSCHEDULING = {
    "type": "object",
    "properties": {
        "apiVersion": _TEXT,
        "kind": _TEXT,
        "metadata": {"type": "object"},
        "spec": {
            "type": "object",
            "properties": {"minMember": {**_INT, "minimum": 1}, "minResources": _FREE, "scheduleTimeoutSeconds": _INT},
        },
        "status": {
            "type": "object",
            "properties": {
                "phase": _TEXT,
                "occupiedBy": _TEXT,
                "running": _INT,
                "succeeded": _INT,
                "failed": _INT,
                "scheduleStartTime": {"type": "string", "format": "date-time"},
            },
        },
    },
}
_VOLCANO = {
    "type": "object",
    "properties": {
        "spec": {"type": "object", "properties": {"minMember": _INT, "minTaskMember": _FREE, "queue": _TEXT}},
        "status": _FREE,
    },
}


def _definition(group: str, version: str, schema: dict[str, Any], **annotations: str) -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"podgroups.{group}", "annotations": annotations},
        "spec": {
            "group": group,
            "names": {"kind": "PodGroup", "listKind": "PodGroupList", "plural": "podgroups", "singular": "podgroup"},
            "scope": "Namespaced",
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}},
                }
            ],
        },
    }


COSCHEDULING = _definition(
    "scheduling.x-k8s.io",
    "v1alpha1",
    _COSCHEDULING,
    **{"api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/scheduler-plugins/pull/50"},
)
VOLCANO = _definition("scheduling.volcano.sh", "v1beta1", _VOLCANO)
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
