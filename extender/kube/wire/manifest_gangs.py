"""Make the Pod of a template look as its controller would create it, so that its gang can be recognised."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from extender.domain.gangs import labels
from extender.domain.gangs.context import ControllerView
from extender.domain.views import OwnerReference, PodView
from extender.kube.wire.controllers import has_size, with_size
from extender.kube.wire.manifest_templates import PlacedTemplate

UID = "of a manifest"
"""Begins the UID of each Pod and controller, which do not exist yet."""

BATCH = "batch/v1"


def as_created(
    pod: PodView, document: Mapping[str, Any], name: str, annotations: Mapping[str, str], placed: PlacedTemplate
) -> tuple[PodView, tuple[ControllerView, ...]]:
    """Return the first Pod that the controller of this template creates, and the controllers above it.

    Raises MalformedObject.
    """
    kind = str(document.get("kind") or "")
    uid = f"{UID}: {kind} {pod.namespace}/{name}"
    owner = OwnerReference(str(document.get("apiVersion") or ""), kind, name, uid)
    view = _sized(ControllerView(owner, annotations), document)
    above: tuple[ControllerView, ...] = (view,)
    if placed.job is not None:
        job_name = f"{name}-{placed.part}" if placed.part else name
        made = OwnerReference(BATCH, "Job", job_name, f"{uid} {placed.part}")
        above = (_sized(ControllerView(made, _annotations(placed.job)), placed.job), view)
    pod_labels, marks = dict(pod.labels), dict(pod.annotations)
    if kind == "LeaderWorkerSet":
        spec = document.get("spec")
        template = spec.get("leaderWorkerTemplate") if isinstance(spec, Mapping) else None
        size = template.get("size", 1) if isinstance(template, Mapping) else 1
        worker = "1" if placed.worker else "0"
        pod_labels |= {labels.LWS_NAME: name, labels.LWS_GROUP_INDEX: "0", labels.LWS_WORKER_INDEX: worker}
        marks[labels.LWS_SIZE] = str(size)
        if placed.worker:
            above = (ControllerView(OwnerReference("v1", "Pod", f"{name}-0", uid)), view)
    elif kind == "JobSet":
        pod_labels |= {labels.JOBSET_NAME: name, labels.JOBSET_REPLICATED_JOB: placed.part}
    return replace(pod, uid=uid, owner=above[0].owner, labels=pod_labels, annotations=marks), above


def _sized(view: ControllerView, document: Mapping[str, Any]) -> ControllerView:
    if not has_size(view.owner):
        return view
    return with_size(view, json.dumps(document, default=str).encode())


def _annotations(job: Mapping[str, Any]) -> dict[str, str]:
    metadata = job.get("metadata")
    found = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    return {str(key): str(value) for key, value in found.items()} if isinstance(found, Mapping) else {}
