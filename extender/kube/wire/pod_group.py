"""Reads PodGroups of Kubernetes, scheduler-plugins and Volcano into a `PodGroupView`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from extender.domain.gangs.pod_groups import (
    INITIALLY_SCHEDULED,
    SCHEDULED,
    GroupCondition,
    GroupProgress,
    GroupStatus,
    PodGroupApi,
    PodGroupKind,
    PodGroupView,
)
from extender.domain.wellknown import GROUP_STATUS_MANAGER
from extender.kube.wire.fields import Fields

LONGEST_MANAGER = 128
"""Characters of a field manager's name that the API server accepts."""


def pod_group_reader(kind: PodGroupKind) -> Callable[[Mapping[str, Any]], PodGroupView]:
    """Return the reader of this kind of PodGroup, from its JSON. It raises MalformedObject."""
    least_of = _gang_policy if kind.api is PodGroupApi.KUBERNETES else _min_member
    status_of = _STATUS.get(kind.api, _no_status)

    def read(obj: Mapping[str, Any]) -> PodGroupView:
        found = Fields("PodGroup", obj)
        meta, status = found.inner("metadata"), found.inner("status")
        writer, written_at = _other_writer(kind.api, meta)
        return PodGroupView(
            kind,
            meta.text("namespace"),
            meta.required_text("name"),
            meta.required_text("uid"),
            meta.text("resourceVersion"),
            max(0, least_of(found.inner("spec"))),
            status_of(status),
            writer,
            written_at,
        )

    return read


def _gang_policy(spec: Fields) -> int:
    """Return `minCount` of the policy `gang`; the policy `basic` has none."""
    return spec.inner("schedulingPolicy").inner("gang").number("minCount") or 0


def _min_member(spec: Fields) -> int:
    return spec.number("minMember") or 0


def _progress(status: Fields) -> GroupStatus | None:
    if "phase" not in status:
        return None
    counts = (status.number(key) or 0 for key in ("running", "succeeded", "failed"))
    return GroupProgress(status.text("phase"), *counts)


def _condition(status: Fields) -> GroupStatus | None:
    for one in status.each("conditions"):
        if one.text("type") in {SCHEDULED, INITIALLY_SCHEDULED}:
            texts = (one.text(key) for key in ("reason", "message", "lastTransitionTime"))
            return GroupCondition(one.text("type"), one.text("status") == "True", *texts)
    return None


def _no_status(_status: Fields) -> GroupStatus | None:
    return None


def _other_writer(api: PodGroupApi, meta: Fields) -> tuple[str, float]:
    """Return the other controller that wrote this part of the status last, and when."""
    last, at = "", 0.0
    for entry in meta.each("managedFields"):
        manager, when = entry.text("manager"), entry.instant("time") or 0.0
        if manager != GROUP_STATUS_MANAGER and when >= at and _owns_status(api, entry.inner("fieldsV1")):
            last, at = manager[:LONGEST_MANAGER], when
    return last, at


def _owns_status(api: PodGroupApi, fields: Fields) -> bool:
    status = fields.inner("f:status")
    if api is PodGroupApi.KUBERNETES:
        conditions = status.inner("f:conditions")
        return any(f'k:{{"type":"{kind}"}}' in conditions for kind in (SCHEDULED, INITIALLY_SCHEDULED))
    return "f:phase" in status


_STATUS = {PodGroupApi.KUBERNETES: _condition, PodGroupApi.COSCHEDULING: _progress}
