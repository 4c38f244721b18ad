"""Objects of Kubernetes with every field that is read, each with some value of its form."""

from copy import deepcopy
from typing import Any

Json = dict[str, Any]

METADATA: Json = {
    "uid": "1",
    "namespace": "1",
    "name": "1",
    "resourceVersion": "1",
    "annotations": {"example.com/key": "1"},
    "labels": {"example.com/key": "1"},
    "ownerReferences": [{"apiVersion": "1", "kind": "1", "name": "1", "uid": "1", "controller": True}],
    "creationTimestamp": "2026-01-01T00:00:00Z",
    "deletionTimestamp": "2026-01-01T00:00:00Z",
    "deletionGracePeriodSeconds": 1,
    "generation": 1,
}

_CONTAINER_STATUS: Json = {
    "name": "1",
    "state": {
        "running": {},
        "terminated": {"exitCode": 1, "reason": "1", "finishedAt": "2026-01-01T00:00:00Z"},
        "waiting": {"reason": "1"},
    },
    "resources": {"requests": {"example.com/key": "1"}, "limits": {"example.com/key": "1"}},
    "allocatedResources": {"example.com/key": "1"},
}

POD: Json = {
    "metadata": METADATA,
    "spec": {
        "nodeSelector": {"example.com/key": "1"},
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {
                            "matchExpressions": [{"key": "1", "operator": "1", "values": ["1"]}],
                            "matchFields": [{"key": "1", "operator": "1", "values": ["1"]}],
                        }
                    ]
                }
            },
            "podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "labelSelector": {"matchLabels": {"example.com/key": "1"}},
                        "namespaces": ["1"],
                        "namespaceSelector": {"example.com/key": "1"},
                    }
                ]
            },
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "labelSelector": {"matchLabels": {"example.com/key": "1"}},
                        "namespaces": ["1"],
                        "namespaceSelector": {"example.com/key": "1"},
                    }
                ]
            },
        },
        "tolerations": [{"key": "1", "operator": "1", "value": "1", "effect": "1"}],
        "topologySpreadConstraints": [{"whenUnsatisfiable": "1"}],
        "volumes": [{"example.com/key": "1"}],
        "resourceClaims": [{"name": "1", "resourceClaimName": "1", "resourceClaimTemplateName": "1"}],
        "schedulingGroup": {"podGroupName": "1"},
        "workloadRef": {"name": "1", "podGroup": "1", "podGroupReplicaKey": "1"},
        "schedulerName": "1",
        "nodeName": "1",
        "schedulingGates": [{"name": "1"}],
        "containers": [
            {
                "name": "1",
                "resources": {"requests": {"example.com/key": "1"}, "limits": {"example.com/key": "1"}},
                "ports": [{"hostPort": 1, "protocol": "1", "hostIP": "1"}],
                "restartPolicy": "1",
            }
        ],
        "initContainers": [
            {
                "name": "1",
                "resources": {"requests": {"example.com/key": "1"}, "limits": {"example.com/key": "1"}},
                "ports": [{"hostPort": 1, "protocol": "1", "hostIP": "1"}],
                "restartPolicy": "1",
            }
        ],
        "overhead": {"example.com/key": "1"},
        "resources": {"requests": {"example.com/key": "1"}, "limits": {"example.com/key": "1"}},
        "hostNetwork": True,
        "priorityClassName": "1",
        "serviceAccountName": "1",
        "activeDeadlineSeconds": 1,
        "terminationGracePeriodSeconds": 1,
    },
    "status": {
        "phase": "1",
        "reason": "1",
        "message": "1",
        "nominatedNodeName": "1",
        "containerStatuses": [deepcopy(_CONTAINER_STATUS)],
        "initContainerStatuses": [deepcopy(_CONTAINER_STATUS)],
        "conditions": [
            {"type": "1", "status": "1", "reason": "1", "message": "1", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        ],
        "resources": {"requests": {"example.com/key": "1"}, "limits": {"example.com/key": "1"}},
        "allocatedResources": {"example.com/key": "1"},
        "resourceClaimStatuses": [{"name": "1", "resourceClaimName": "1"}],
        "extendedResourceClaimStatus": {"resourceClaimName": "1"},
    },
}

NODE: Json = {
    "metadata": METADATA,
    "spec": {"unschedulable": True, "taints": [{"key": "1", "effect": "1", "value": "1"}]},
    "status": {
        "addresses": [{"type": "1", "address": "1"}],
        "allocatable": {"example.com/key": "1"},
        "capacity": {"cpu": "1"},
        "conditions": [{"type": "1", "status": "1", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}],
    },
}

NAMESPACE: Json = {"metadata": METADATA}

DEVICE_CLASS: Json = {"metadata": METADATA, "spec": {"extendedResourceName": "1", "config": [{"opaque": {}}]}}

_TOLERATION: Json = {"key": "1", "operator": "1", "value": "1", "effect": "1"}
_SELECTOR: Json = {
    "nodeSelectorTerms": [
        {"matchExpressions": [], "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["1"]}]}
    ]
}
RESOURCE_CLAIM: Json = {
    "metadata": METADATA
    | {
        "finalizers": ["1"],
        "annotations": {
            "status.slurm-extender.io/job-id": "1",
            "resource.kubernetes.io/extended-resource-claim": "true",
        },
    },
    "spec": {
        "devices": {
            "requests": [
                {"name": "2", "firstAvailable": [{"name": "1"}]},
                {
                    "name": "1",
                    "firstAvailable": [],
                    "exactly": {
                        "deviceClassName": "1",
                        "count": 1,
                        "allocationMode": "ExactCount",
                        "selectors": [{"cel": {"expression": "1"}}],
                        "capacity": {"requests": {}},
                        "adminAccess": True,
                        "tolerations": [_TOLERATION],
                    },
                },
            ],
            "constraints": [{"matchAttribute": "1"}],
            "config": [{"requests": ["1"], "opaque": {"driver": "1", "parameters": {}}}],
        }
    },
    "status": {
        "allocation": {
            "devices": {
                "results": [
                    {"request": "1", "driver": "1", "pool": "1", "device": "1", "adminAccess": True, "shareID": "1"}
                ],
                "config": [
                    {"requests": ["1"], "opaque": {"driver": "1", "parameters": {"cpuConfig": {"cpuset": "1"}}}}
                ],
            },
            "nodeSelector": _SELECTOR,
        },
        "reservedFor": [{"resource": "pods", "name": "1", "uid": "1"}],
    },
}

RESOURCE_SLICE: Json = {
    "metadata": METADATA,
    "spec": {
        "driver": "1",
        "nodeName": "1",
        "pool": {"name": "1", "generation": 1, "resourceSliceCount": 1},
        "devices": [
            {
                "name": "1",
                "attributes": {
                    "i": {"int": 1},
                    "b": {"int": None, "bool": True},
                    "s": {"int": None, "bool": None, "string": "1"},
                    "v": {"int": None, "bool": None, "string": None, "version": "1.0.0"},
                },
                "taints": [{"key": "1", "effect": "1", "value": "1"}],
                "consumesCounters": [{}],
                "allowMultipleAllocations": True,
                "bindingConditions": ["1"],
            }
        ],
    },
}

POD_GROUPS: dict[str, Json] = {
    "scheduling.k8s.io": {
        "metadata": METADATA
        | {
            "managedFields": [
                {
                    "manager": "1",
                    "time": "2026-01-01T00:00:00Z",
                    "fieldsV1": {"f:status": {"f:conditions": {'k:{"type":"PodGroupScheduled"}': {}}}},
                }
            ]
        },
        "spec": {"schedulingPolicy": {"gang": {"minCount": 1}}},
        "status": {
            "conditions": [
                {
                    "type": "PodGroupScheduled",
                    "status": "1",
                    "reason": "1",
                    "message": "1",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }
            ]
        },
    },
    "scheduling.x-k8s.io": {
        "metadata": METADATA
        | {
            "managedFields": [
                {"manager": "1", "time": "2026-01-01T00:00:00Z", "fieldsV1": {"f:status": {"f:phase": {}}}},
            ]
        },
        "spec": {"minMember": 1},
        "status": {"phase": "1", "running": 1, "succeeded": 1, "failed": 1},
    },
    "scheduling.volcano.sh": {"metadata": METADATA, "spec": {"minMember": 1}, "status": {"phase": "1"}},
}
"""PodGroups by API group."""

_JOB_SPEC: Json = {"parallelism": 1, "completions": 1, "completionMode": "1", "activeDeadlineSeconds": 1}
CONTROLLERS: dict[tuple[str, str], Json] = {
    ("batch/v1", "Job"): {"metadata": METADATA, "spec": _JOB_SPEC, "status": {"succeeded": 1}},
    ("jobset.x-k8s.io/v1alpha2", "JobSet"): {
        "metadata": METADATA,
        "spec": {
            "replicatedJobs": [{"name": "1", "replicas": 1, "template": {"spec": _JOB_SPEC}, "dependsOn": [{}]}],
            "startupPolicy": {"startupPolicyOrder": "1"},
        },
        "status": {"restarts": 1, "replicatedJobsStatus": [{"name": "1", "failed": 0, "succeeded": 1}]},
    },
    ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"): {"metadata": METADATA, "spec": {"startupPolicy": "1"}},
}
"""Controllers whose specification is read, by API version and kind."""

STATUS: Json = {"code": 1, "reason": "1", "message": "1", "details": {"retryAfterSeconds": 1}}
