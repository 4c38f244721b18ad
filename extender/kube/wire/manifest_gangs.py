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

UID = "of a manifest"
"""The UID of the Pod and of its owner, which do not exist yet."""


def as_created(
    pod: PodView, document: Mapping[str, Any], name: str, annotations: Mapping[str, str]
) -> tuple[PodView, tuple[ControllerView, ...]]:
    """Return the first Pod that the controller of this workload creates, and the controllers above it.

    Raises OddObject.
    """
    owner = OwnerReference(str(document.get("apiVersion") or ""), str(document.get("kind") or ""), name, UID)
    view = ControllerView(owner, annotations)
    if has_size(owner):
        view = with_size(view, json.dumps(document, default=str).encode())
    said, marks = dict(pod.labels), dict(pod.annotations)
    if owner.kind == "LeaderWorkerSet":
        spec = document.get("spec")
        template = spec.get("leaderWorkerTemplate") if isinstance(spec, Mapping) else None
        size = template.get("size", 1) if isinstance(template, Mapping) else 1
        said |= {labels.LWS_NAME: name, labels.LWS_GROUP_INDEX: "0", labels.LWS_WORKER_INDEX: "0"}
        marks[labels.LWS_SIZE] = str(size)
    elif owner.kind == "JobSet":
        said[labels.JOBSET_NAME] = name
    return replace(pod, uid=UID, owner=owner, labels=said, annotations=marks), (view,)
