"""Pods that run nothing, as the lab's kwok plays them, and containers for real kubelets."""

from collections.abc import Mapping, Sequence
from typing import Any

from lab.images import BUSYBOX_IMAGE

START_IN = "lab.slurm-extender.io/start-in"
"""Annotation: Running only so long after it was bound."""

RUN_FOR = "lab.slurm-extender.io/run-for"
"""Annotation: Running for so long (``3s``), then Succeeded."""

FAIL_AFTER = "lab.slurm-extender.io/fail-after"
"""Annotation: Running for so long, then Failed."""

STOP_IN = "lab.slurm-extender.io/stop-in"
"""Annotation: how long it takes to end once it is being deleted."""


def pod_template(
    *,
    cpus: int | str = 1,
    memory: str = "1Gi",
    gpus: int = 0,
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    scheduler: str = "slurm",
    grace_s: int = 1,
    **spec: Any,
) -> dict[str, Any]:
    """Metadata and spec of a Pod, for itself or for a workload's template. ``spec`` adds fields or replaces them."""
    requests: dict[str, Any] = {"cpu": str(cpus), "memory": memory}
    if gpus:
        requests["nvidia.com/gpu"] = str(gpus)
    container = {
        "name": "main",
        "image": "lab/nothing",
        "resources": {"requests": requests, "limits": requests},
    }
    return {
        "metadata": {"annotations": dict(annotations or {}), "labels": dict(labels or {})},
        "spec": {
            "schedulerName": scheduler,
            "terminationGracePeriodSeconds": grace_s,
            "automountServiceAccountToken": False,
            "restartPolicy": "Never",
            "containers": [container],
            **spec,
        },
    }


def pod(name: str, namespace: str, **options: Any) -> dict[str, Any]:
    """Return a whole Pod; ``options`` as for :func:`pod_template`."""
    template = pod_template(**options)
    template["metadata"] |= {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", **template}


def container(
    script: str, *, cpus: int | str = 1, memory: str = "1Gi", image: str = BUSYBOX_IMAGE, **fields: Any
) -> dict[str, Any]:
    """Return a container that a kubelet of the lab can run: ``script`` is for the shell of busybox."""
    requests = {"cpu": str(cpus), "memory": memory}
    return {
        "name": "main",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", script],
        "resources": {"requests": requests, "limits": requests},
        **fields,
    }


def required_affinity(key: str, values: Sequence[str]) -> dict[str, Any]:
    """Return the value of ``affinity`` that demands a node label."""
    terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
