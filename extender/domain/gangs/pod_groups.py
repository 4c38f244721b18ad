"""Name the kinds of PodGroups that make gangs, and hold one as it was read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from extender.domain.gangs.membership import GangSource


class PodGroupApi(StrEnum):
    """Name an API group whose PodGroups may make gangs."""

    KUBERNETES = "scheduling.k8s.io"
    """Kubernetes 1.36 and later; Pods name it in `spec.schedulingGroup`."""

    COSCHEDULING = "scheduling.x-k8s.io"
    """scheduler-plugins; Pods name it by a label."""

    VOLCANO = "scheduling.volcano.sh"
    """Pods name it by an annotation."""


@dataclass(frozen=True, slots=True)
class PodGroupKind:
    """One kind of PodGroup: its API group, the versions that can be read, and the gangs that it makes."""

    api: PodGroupApi
    versions: tuple[str, ...]
    """The newest first; the first one that the API server serves is read."""

    source: GangSource


POD_GROUP_KINDS = (
    PodGroupKind(PodGroupApi.KUBERNETES, ("v1beta1", "v1alpha3", "v1alpha2"), GangSource.POD_GROUP),
    PodGroupKind(PodGroupApi.COSCHEDULING, ("v1alpha1",), GangSource.COSCHEDULING),
    PodGroupKind(PodGroupApi.VOLCANO, ("v1beta1",), GangSource.VOLCANO),
)


@dataclass(frozen=True, slots=True)
class PodGroupView:
    """A PodGroup as read. `least`: the members that must start together; 0 or 1: its Pods are no gang."""

    namespace: str
    name: str
    uid: str
    resource_version: str = ""
    least: int = 0
