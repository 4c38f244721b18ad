"""Hold the inputs of recognition beside the Pod: the controllers above it, groups, leaders, and the site's choice."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from extender.domain.gangs.membership import GangSource
from extender.domain.jobs.job import GangRestart
from extender.domain.views import OwnerReference, PodView
from extender.domain.wellknown import GANG_RESTART

LARGEST = 1024
"""Members of a gang, where the policy says nothing else."""


class JobGangs(StrEnum):
    """Name the parallel Jobs that are gangs although neither they nor their Pods say so."""

    ANNOTATED = "annotated"
    """None."""

    INDEXED = "indexed"
    """Those with completion mode Indexed."""

    ALL = "all"


@dataclass(frozen=True, slots=True)
class ReplicatedJob:
    """One entry of a JobSet's `replicatedJobs`: so many Jobs of so many Pods each."""

    name: str
    jobs: int
    pods: int
    completions: int | None = None
    """Pods of each Job that have to succeed; `None`: the specification does not say how many."""

    succeeded: int = 0
    """Jobs that have succeeded since the last restart of the JobSet; 0 where that is not certain."""


@dataclass(frozen=True, slots=True)
class ControllerView:
    """One controller above a Pod. `None`: its specification was not read, or has no such field."""

    owner: OwnerReference
    annotations: Mapping[str, str] = field(default_factory=dict)
    pods: int | None = None
    """Of a batch/v1 Job: how many Pods run beside each other, `min(parallelism, completions - succeeded)`."""

    most: int | None = None
    """Of a batch/v1 Job: the same before any Pod has succeeded."""

    further: bool = False
    """Of a batch/v1 Job: it creates further Pods when some have succeeded."""

    indexed: bool = False
    """A Job with completion mode Indexed."""

    deadline_s: int | None = None
    """Of a batch/v1 Job: its `activeDeadlineSeconds`."""

    replicated: tuple[ReplicatedJob, ...] | None = None
    """Of a JobSet, in its order."""

    restarts: int = 0
    """Of a JobSet: how often it has been restarted."""

    read: bool = True
    """False: it may not be read, or is gone; only the reference to it is known."""

    in_order: bool = False
    """Later members are created only after earlier ones are Ready: InOrder, `dependsOn`, LeaderReady."""


def root_annotations(controllers: Sequence[ControllerView]) -> Mapping[str, str]:
    """Return the annotations of the topmost controller that was read; empty where there is none."""
    return next((one.annotations for one in reversed(controllers) if one.read), {})


def job_deadline(controllers: Sequence[ControllerView]) -> int | None:
    """Return the `activeDeadlineSeconds` of the Job above the Pod; `None` where there is none."""
    return next((one.deadline_s for one in controllers if one.deadline_s is not None), None)


def keeps_allocation(pod: PodView, controllers: Sequence[ControllerView]) -> bool:
    """Return whether the next incarnation of the Pod's gang is to take over its job."""
    restart = pod.annotations.get(GANG_RESTART) or root_annotations(controllers).get(GANG_RESTART) or ""
    return restart.strip().lower() == GangRestart.KEEP_ALLOCATION


@dataclass(frozen=True, slots=True)
class GroupRef:
    """An object that a Pod names as its group."""

    source: GangSource
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class JobSetAttempt:
    """All Pods of a JobSet between two restarts of it. `attempt` is as their label has it."""

    namespace: str
    uid: str
    attempt: str


JobKey = tuple[str, str]
"""Name and UID of a JobSet's Job: one that was deleted, and is created again, has another UID."""

Successes = Mapping[JobKey, Collection[int | str]]
"""The completion indexes of the Pods of each Job that have succeeded; UIDs of Pods where a Job is not Indexed."""


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group object as read. `least`: members that must start together; 0 or 1: its Pods are no gang."""

    uid: str
    least: int


def _no_group(_ref: GroupRef) -> GroupView | None:
    return None


def _none_succeeded(_attempt: JobSetAttempt) -> Successes:
    return {}


@dataclass(frozen=True, slots=True)
class GangContext:
    """Everything beside the Pod. `controllers` go from the Pod's own controller up to the topmost that may be read."""

    controllers: tuple[ControllerView, ...] = ()
    group: Callable[[GroupRef], GroupView | None] = _no_group
    """Gives `None` for an object that does not exist. It is called for the sources in `groups_read` alone."""

    groups_read: frozenset[GangSource] = frozenset()
    """Sources whose PodGroups are read. Those of others make no gang."""

    succeeded: Callable[[JobSetAttempt], Successes] = _none_succeeded
    """Gives the Pods of a JobSet that have succeeded."""

    jobs: JobGangs = JobGangs.ANNOTATED
    largest: int = LARGEST

    def controller(self, group: str, kind: str) -> ControllerView | None:
        """Return the lowest controller of this API group and kind."""
        return next(
            (
                one
                for one in self.controllers
                if one.owner.kind == kind and one.owner.api_version.rpartition("/")[0] == group
            ),
            None,
        )

    @property
    def root_uid(self) -> str:
        """Return the UID of the topmost controller; "" for a Pod without one."""
        return self.controllers[-1].owner.uid if self.controllers else ""
