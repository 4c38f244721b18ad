"""Name the kinds of PodGroups that make gangs, and hold one as it was read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from extender.domain.gangs.context import GroupRef
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


SCHEDULED, INITIALLY_SCHEDULED = "PodGroupScheduled", "PodGroupInitiallyScheduled"
"""The condition of Kubernetes 1.36, and that of 1.37, which stays True once it is."""


class GroupPhase(StrEnum):
    """Name the phases of coscheduling's PodGroups (`scheduler-plugins/apis/scheduling/v1alpha1/types.go`)."""

    PENDING = "Pending"
    """Fewer Pods exist than the minimum."""

    SCHEDULING = "Scheduling"
    """As many exist, and not all of them run."""

    RUNNING = "Running"
    FINISHED = "Finished"
    """As many have succeeded. This phase and the next are final."""

    FAILED = "Failed"


@dataclass(frozen=True, slots=True)
class GroupProgress:
    """The status of coscheduling's PodGroup: its phase, and how many of its Pods are in each phase of theirs."""

    phase: str
    running: int = 0
    succeeded: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class GroupCondition:
    """Kubernetes' condition of a PodGroup. `type` depends on the version; `since` is as the API writes times."""

    type: str
    holds: bool
    reason: str
    message: str
    since: str = ""


GroupStatus = GroupProgress | GroupCondition


@dataclass(frozen=True, slots=True)
class PodGroupView:
    """A PodGroup as read. `least`: the members that must start together; 0 or 1: its Pods are no gang."""

    kind: PodGroupKind
    namespace: str
    name: str
    uid: str
    resource_version: str = ""
    least: int = 0
    status: GroupStatus | None = None
    """What its status says that the extender would write; `None`: nothing."""

    writer: str = ""
    """The field manager of another controller that wrote that last; "": none did."""

    written_at: float = 0.0
    """When, in seconds since the epoch; 0: it is not said."""

    @property
    def ref(self) -> GroupRef:
        """Return by which source, namespace and name Pods name it."""
        return GroupRef(self.kind.source, self.namespace, self.name)
