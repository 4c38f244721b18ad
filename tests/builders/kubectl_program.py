"""`kubectl slurm` within the test's process, and the objects that it is shown."""

from __future__ import annotations

from typing import Any

from click.testing import CliRunner, Result

from kubectl_slurm.program import main

Json = dict[str, Any]

CREATED = "2026-01-01T00:00:00Z"


def a_pod(name: str, *, namespace: str = "default", scheduler: str = "slurm", **more: Any) -> Json:
    spec: Json = {"schedulerName": scheduler}
    if "node" in more:
        spec["nodeName"] = more["node"]
    if "gates" in more:
        spec["schedulingGates"] = [{"name": gate} for gate in more["gates"]]
    conditions = []
    if "why" in more:
        one = {
            "type": "slurm-extender.io/Allocated",
            "status": "False",
            "reason": "SlurmJobQueued",
            "message": more["why"],
        }
        conditions.append(one)
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{name}",
            "annotations": more.get("annotations", {}),
            "labels": more.get("labels", {}),
            "creationTimestamp": CREATED,
        },
        "spec": spec,
        "status": {"phase": "Pending", "conditions": conditions},
    }


def a_node(name: str, *, cordoned: bool = False, annotations: dict[str, str] | None = None, why: str = "") -> Json:
    conditions = [{"type": "Ready", "status": "True"}]
    said = {"type": "slurm-extender.io/SlurmAvailable", "status": "False" if why else "True", "message": why}
    return {
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "annotations": annotations or {},
            "labels": {},
            "creationTimestamp": CREATED,
        },
        "spec": {"unschedulable": True} if cordoned else {},
        "status": {"conditions": [*conditions, said]},
    }


def run_plugin(*words: str) -> Result:
    return CliRunner().invoke(main, words)
