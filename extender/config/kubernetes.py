"""The API server, the Pods that the extender serves, and Pods of other schedulers."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from extender.config.domain_groups import InDocument
from extender.config.values import Group, Text, of_form
from extender.domain.foreign_pods.foreign_pod import DAEMONS, ForeignPodOptions, ForeignPodRule
from extender.domain.translation import forms


class Kubernetes(Group):
    """The API server."""

    kubeconfig: Text | None = Field(
        None,
        description="kubeconfig file. Unset: the service account of the Pod that the extender runs in, or outside "
        "a cluster the file that kubectl uses.",
    )
    context: Text | None = Field(None, description="Context of the kubeconfig; unset: its current one.")
    connections: int = Field(100, ge=4, le=10_000, description="Maximum number of connections.")


class Scheduler(Group):
    """Identity of this extender."""

    name: Text = Field(
        "slurm",
        description="The extender serves Pods with this `spec.schedulerName`. Must be the schedulerName of the "
        "kube-scheduler profile that calls the extender. Written into each job's mark: when it changes, running jobs "
        "are no longer recognised.",
    )
    cluster_id: Text | None = Field(
        None,
        description="Distinguishes this cluster's jobs from those of other clusters on the same Slurm. Unset: the "
        "UID of the namespace kube-system. Set it only to take over jobs after a cluster was rebuilt.",
    )
    other_profiles: tuple[Text, ...] = Field(
        (),
        description="schedulerNames of the other profiles of the kube-scheduler that calls the extender, if any. "
        "It leaves their Bindings to the extender as well: Pods of these names are bound where it decides, outside of "
        "Slurm. Pods of other names are not.",
    )

    @model_validator(mode="after")
    def _others_are_others(self) -> Self:
        if self.name in self.other_profiles:
            raise ValueError(
                f"otherProfiles lists {self.name}, which is scheduler.name: its Pods are bound only where Slurm "
                f"allocates"
            )
        return self


class PodReadScope(StrEnum):
    """Pods that the extender reads."""

    ALL = "all"
    NAMESPACES = "namespaces"


class Scope(Group):
    """Namespaces whose Pods are served."""

    namespaces: Annotated[tuple[Text, ...], Field(min_length=1)] | None = Field(
        None,
        description="Namespaces that are served; Pods of others are refused with an Event. Unset: all of them.",
    )
    read_pods: PodReadScope = Field(
        PodReadScope.ALL,
        description="Pods that are read. `all`: those of every namespace. `namespaces`: only those of "
        "`scope.namespaces`, by Roles. Then the extender does not count the Pods of other namespaces on a Node "
        "(docs/reference/rights.md).",
    )

    @model_validator(mode="after")
    def _once(self) -> Self:
        names = list(self.namespaces or ())
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"namespaces lists {', '.join(twice)} more than once")
        if self.read_pods is PodReadScope.NAMESPACES and self.namespaces is None:
            raise ValueError("readPods is namespaces, and namespaces is not set: list the namespaces to read")
        return self

    @property
    def read_namespaces(self) -> tuple[str, ...] | None:
        """Return the namespaces whose Pods are read; `None`: all of them."""
        return self.namespaces if self.read_pods is PodReadScope.NAMESPACES else None


class ForeignPodsMode(StrEnum):
    """Handling of Pods that Slurm did not place."""

    OFF = "off"
    JOBS = "jobs"


class _Ignored:
    """Pods that Slurm holds nothing for: those of which all is true that is given."""

    namespace: Text | None = Field(description="Their namespace.")
    owner_kind: Text | None = Field(
        description="What controls them: `DaemonSet`, or `Node` for static Pods; other kinds are not known."
    )
    scheduler: Text | None = Field(description="Their `schedulerName`.")


def _selects_some(rule: ForeignPodRule) -> ForeignPodRule:
    if rule == ForeignPodRule():
        raise ValueError("is empty: set namespace, ownerKind or scheduler")
    if rule.owner_kind not in {None, *DAEMONS}:
        raise ValueError(f"ownerKind is {rule.owner_kind}: it must be DaemonSet or Node")
    return rule


Ignored = Annotated[ForeignPodRule, InDocument(_Ignored), AfterValidator(_selects_some)]


class ForeignPods(Group):
    """Pods that Slurm did not place, on Nodes that are nodes of Slurm: what it holds for them.

    See docs/nodes.md.
    """

    mode: ForeignPodsMode = Field(
        ForeignPodsMode.OFF,
        description="`jobs`: an external job (Slurm 25.05) holds what each of them asks for. `off`: Slurm knows "
        "nothing of them, and such jobs of another time are ended.",
    )
    partition: Annotated[str, of_form(forms.WORD)] | None = Field(
        None,
        description="Partition of these jobs, one with all nodes. Unset: the default one. Its jobs must preempt "
        "no other; if its own cannot be preempted either (`PreemptMode=OFF`), Slurm never gives away what such "
        "a Pod uses.",
    )
    qos: Annotated[str, of_form(forms.WORD)] | None = Field(None, description="Quality of service of these jobs.")
    account: Annotated[str, of_form(forms.WORD)] | None = Field(None, description="Account of these jobs.")
    reservation: Annotated[str, of_form(forms.WORD)] | None = Field(None, description="Reservation of these jobs.")
    priority: int | None = Field(
        forms.UINT32_LARGEST,
        ge=1,
        le=forms.UINT32_LARGEST,
        description="Priority of these jobs; null is the computed one. The largest there is passes whatever waits in "
        "partitions of no higher tier, since these Pods run already.",
    )
    ignore: tuple[Ignored, ...] = Field((), description="Pods without a reservation in Slurm.")
    include_daemon_sets: bool | None = Field(
        None,
        description="Reserve resources for Pods of DaemonSets and static Pods. Unset: on nodes with slurmd; nodes "
        "without one are registered for what their daemons leave.",
    )
    max_concurrent_requests: int = Field(
        4, ge=1, le=32, description="Requests for these jobs that may be under way to Slurm at once."
    )

    @property
    def options(self) -> ForeignPodOptions:
        """Return the request for each job, for the domain."""
        return ForeignPodOptions(
            self.partition or "", self.qos or "", self.account or "", self.reservation or "", self.priority
        )
