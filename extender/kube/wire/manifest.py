"""The Pods that a manifest would make: Pods themselves, and the templates of workloads.

Read as they stand in a file, before the API server has filled anything in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from extender.domain.gangs.context import ControllerView
from extender.domain.gangs.pod_groups import POD_GROUP_KINDS, PodGroupView
from extender.domain.views import PodView
from extender.kube.wire.fields import MalformedObject
from extender.kube.wire.manifest_gangs import UID, as_created
from extender.kube.wire.manifest_templates import SearchStopped, templates_of
from extender.kube.wire.pod import read_pod
from extender.kube.wire.pod_group import pod_group_reader

_OTHER_SOURCES = {
    "TrainJob": "its Pods come from the training runtime that it names; set schedulerName in the runtime's template",
    "Workflow": "the steps of an Argo workflow are no Pod templates; set spec.schedulerName of the Workflow",
    "WorkflowTemplate": "the steps of an Argo workflow are no Pod templates; set spec.schedulerName of the Workflow",
    "CronWorkflow": "the steps of an Argo workflow are no Pod templates; set workflowSpec.schedulerName",
}
"""Kinds that make Pods from something other than a template, and what to do."""


@dataclass(frozen=True, slots=True)
class ManifestPod:
    """A Pod that the manifest would make. `origin` is its kind and name; `root_annotations` are the workload's."""

    origin: str
    pod: PodView
    root_annotations: Mapping[str, str]
    created: PodView
    """The Pod as its controller creates it, which may show its gang."""

    controllers: tuple[ControllerView, ...] = ()
    kind: str = "Pod"
    pods: int | None = 1
    """How many such Pods the workload makes; `None`: one for each matching Node."""

    beside: int | None = None
    """How many of them run beside each other at most; `None`: all."""

    @property
    def job_deadline_s(self) -> int | None:
        """Return `activeDeadlineSeconds` of the Job that creates the Pod."""
        return next((one.deadline_s for one in self.controllers if one.deadline_s is not None), None)


@dataclass(frozen=True, slots=True)
class SkippedObject:
    """An object, or a part of one, that makes no Pod that can be read. `why` is a clause."""

    origin: str
    why: str


ManifestObject = ManifestPod | PodGroupView | SkippedObject


def read_manifest(document: object, namespace: str = "default") -> Iterator[ManifestObject]:
    """Yield every Pod of one document, or of each item of a List, PodGroups, and the objects without a Pod.

    `namespace` stands in where the document names none. Raises MalformedObject.
    """
    if document is None:
        return
    if not isinstance(document, Mapping) or not isinstance(document.get("kind"), str):
        raise MalformedObject("a document must be a map with apiVersion and kind")
    kind: str = document["kind"]
    if kind == "List" or (kind.endswith("List") and isinstance(document.get("items"), list)):
        items = document.get("items") or ()
        if not isinstance(items, list | tuple):
            raise MalformedObject(f"{kind}: items must be a list")
        for item in items:
            yield from read_manifest(item, namespace)
        return
    metadata = document.get("metadata") or {}
    if not isinstance(metadata, Mapping):
        raise MalformedObject(f"{kind}: metadata must be a map")
    name = str(metadata.get("name") or metadata.get("generateName") or "unnamed").rstrip("-")
    here = str(metadata.get("namespace") or namespace)
    if kind == "PodGroup" and (group := _pod_group(document, metadata, here, name)) is not None:
        yield group
        return
    if kind == "Pod":
        pod = _named(read_pod(document), here, name)
        yield ManifestPod(f"Pod {name}", pod, {}, pod)
        return
    annotations = metadata.get("annotations") or {}
    roots = {str(key): str(value) for key, value in annotations.items()} if isinstance(annotations, Mapping) else {}
    yield from _of_templates(document, kind, name, here, roots)


def _pod_group(
    document: Mapping[str, Any], metadata: Mapping[str, Any], namespace: str, name: str
) -> PodGroupView | None:
    """Return a PodGroup that may make a gang; `None` for one of another API group."""
    group = str(document.get("apiVersion") or "").partition("/")[0]
    kind = next((one for one in POD_GROUP_KINDS if one.api == group), None)
    if kind is None:
        return None
    meta = {**metadata, "namespace": namespace, "name": name, "uid": f"{UID}: PodGroup {namespace}/{name}"}
    return pod_group_reader(kind)({**document, "metadata": meta})


def _of_templates(
    document: Mapping[str, Any], kind: str, name: str, namespace: str, roots: Mapping[str, str]
) -> Iterator[ManifestPod | SkippedObject]:
    origin = f"{kind} {name}"
    try:
        found = templates_of(document, kind)
    except SearchStopped as why:
        yield SkippedObject(origin, f"{why}; it is not searched for Pod templates")
        return
    if not found:
        yield SkippedObject(origin, _OTHER_SOURCES.get(kind, "it has no Pod template"))
    for placed in found:
        here = f"{origin}, {placed.where}" if placed.where and len(found) > 1 else origin
        try:
            pod = _named(read_pod(placed.template), namespace, name)
            created, controllers = as_created(pod, document, name, roots, placed)
        except MalformedObject as why:
            if not placed.searched:
                raise
            yield SkippedObject(here, f"it looks like a Pod template and is none: {why}")
            continue
        yield ManifestPod(here, pod, roots, created, controllers, kind, placed.pods, placed.beside)


def _named(pod: PodView, namespace: str, name: str) -> PodView:
    return replace(pod, namespace=pod.namespace or namespace, name=pod.name or name)
