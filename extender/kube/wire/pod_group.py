"""Reads PodGroups of Kubernetes, scheduler-plugins and Volcano into a `PodGroupView`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from extender.domain.gangs.pod_groups import PodGroupApi, PodGroupView
from extender.kube.wire.fields import Fields


def pod_group_reader(api: PodGroupApi) -> Callable[[Mapping[str, Any]], PodGroupView]:
    """Return the reader of this kind of PodGroup, from its JSON. It raises OddObject."""
    least_of = _gang_policy if api is PodGroupApi.KUBERNETES else _min_member

    def read(obj: Mapping[str, Any]) -> PodGroupView:
        found = Fields("PodGroup", obj)
        meta, least = found.inner("metadata"), least_of(found.inner("spec"))
        version = meta.text("resourceVersion")
        return PodGroupView(
            meta.text("namespace"), meta.required_text("name"), meta.required_text("uid"), version, max(0, least)
        )

    return read


def _gang_policy(spec: Fields) -> int:
    """Return `minCount` of the policy `gang`; the policy `basic` has none."""
    return spec.inner("schedulingPolicy").inner("gang").number("minCount") or 0


def _min_member(spec: Fields) -> int:
    return spec.number("minMember") or 0
