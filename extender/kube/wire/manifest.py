"""The Pods that a manifest would make: Pods themselves, and the templates of workloads.

Read as they stand in a file, before the API server has filled anything in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from extender.domain.gangs.context import ControllerView
from extender.domain.views import PodView
from extender.kube.wire.fields import Fields, OddObject
from extender.kube.wire.manifest_gangs import as_created
from extender.kube.wire.pod import read_pod

_TEMPLATE_PATHS = {
    "Deployment": (("spec", "template"),),
    "StatefulSet": (("spec", "template"),),
    "ReplicaSet": (("spec", "template"),),
    "ReplicationController": (("spec", "template"),),
    "DaemonSet": (("spec", "template"),),
    "Job": (("spec", "template"),),
    "CronJob": (("spec", "jobTemplate", "spec", "template"),),
    "PodTemplate": (("template",),),
    "LeaderWorkerSet": (
        ("spec", "leaderWorkerTemplate", "leaderTemplate"),
        ("spec", "leaderWorkerTemplate", "workerTemplate"),
    ),
    "JobSet": (("spec", "replicatedJobs", "*", "template", "spec", "template"),),
}
"""Where the templates stand in each kind; `*` is every item of a list."""

_KINDS_OF_JOBS = frozenset({"Job", "CronJob", "JobSet"})
"""Kinds in which the specification of a Job stands around the template of its Pods."""


@dataclass(frozen=True, slots=True)
class ManifestPod:
    """A Pod that the manifest would make. `origin` is its kind and name; `root_annotations` are the workload's."""

    origin: str
    pod: PodView
    root_annotations: Mapping[str, str]
    created: PodView
    """The Pod as its controller creates it, which may show its gang."""

    controllers: tuple[ControllerView, ...] = ()
    job_deadline_s: int | None = None
    """`activeDeadlineSeconds` of the Job that creates the Pod."""


def pods_of(document: object, namespace: str = "default") -> Iterator[ManifestPod]:
    """Every Pod of one document, or of each item of a List; none for other kinds.

    `namespace` stands in where the document names none. Raises OddObject.
    """
    if document is None:
        return
    if not isinstance(document, Mapping) or not isinstance(document.get("kind"), str):
        raise OddObject("a document must be a map with apiVersion and kind")
    kind: str = document["kind"]
    if kind == "List" or (kind.endswith("List") and isinstance(document.get("items"), list)):
        items = document.get("items") or ()
        if not isinstance(items, list | tuple):
            raise OddObject(f"{kind}: items must be a list")
        for item in items:
            yield from pods_of(item, namespace)
        return
    metadata = document.get("metadata") or {}
    if not isinstance(metadata, Mapping):
        raise OddObject(f"{kind}: metadata must be a map")
    name = str(metadata.get("name") or metadata.get("generateName") or "unnamed").rstrip("-")
    here = str(metadata.get("namespace") or namespace)
    if kind == "Pod":
        pod = _named(read_pod(document), here, name)
        yield ManifestPod(f"Pod {name}", pod, {}, pod)
        return
    annotations = metadata.get("annotations") or {}
    roots = {str(key): str(value) for key, value in annotations.items()} if isinstance(annotations, Mapping) else {}
    for *above, last in _TEMPLATE_PATHS.get(kind, ()):
        for spec in _at(document, tuple(above)):
            deadline_s = Fields(kind, spec).number("activeDeadlineSeconds") if kind in _KINDS_OF_JOBS else None
            for template in _at(spec, (last,)):
                pod = _named(read_pod(template), here, name)
                yield ManifestPod(f"{kind} {name}", pod, roots, *as_created(pod, document, name, roots), deadline_s)


def _named(pod: PodView, namespace: str, name: str) -> PodView:
    return replace(pod, namespace=pod.namespace or namespace, name=pod.name or name)


def _at(value: object, path: tuple[str, ...]) -> Iterator[Mapping[str, Any]]:
    if not path:
        if isinstance(value, Mapping):
            yield value
        return
    if path[0] == "*":
        for item in value if isinstance(value, list) else ():
            yield from _at(item, path[1:])
    elif isinstance(value, Mapping):
        yield from _at(value.get(path[0]), path[1:])
