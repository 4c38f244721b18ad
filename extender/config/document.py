"""The whole document, and what rules span its groups."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from extender.config.devices import CpuMapping, DeviceMapping, checked, device_map
from extender.config.jobs import Gangs, JobSettings
from extender.config.kubernetes import ForeignPods, ForeignPodsMode, Kubernetes, Scheduler, Scope
from extender.config.limits import (
    Fences,
    LimitSettings,
    MassDeletionGuardSettings,
    Orphans,
    Polling,
    Retry,
    StartupDeadlineSettings,
)
from extender.config.listeners import Listener, conflicts, listeners_of
from extender.config.nodes import NodeSettings
from extender.config.serving import AdmissionWebhook, Hooks, Http, LeaderElection, Observability
from extender.config.slurm import Slurm
from extender.config.values import Group
from extender.domain.translation.annotation_table import GROUP_ID, USER_ID


class ExtenderConfiguration(Group):
    """Configuration of the extender."""

    api_version: Literal["slurm-extender.io/v1alpha1"] = Field(description="Version of this format.")
    kind: Literal["ExtenderConfiguration"] = Field(description="Kind of the document.")
    slurm: Slurm = Field(description="Slurm.")
    kubernetes: Kubernetes = Field(Kubernetes(), description="Kubernetes.")
    scheduler: Scheduler = Field(Scheduler(), description="Identity of this extender.")
    scope: Scope = Field(Scope(), description="Namespaces whose Pods are served.")
    jobs: JobSettings = Field(JobSettings(), description="Conversion of Pods to jobs.")
    gangs: Gangs = Field(Gangs(), description="Pods that start together.")
    devices: Annotated[tuple[DeviceMapping, ...], AfterValidator(checked)] = Field(
        (),
        description="Devices that Slurm chooses for ResourceClaims and extended resources (docs/devices.md), one entry "
        "for each resource. The extender needs the rights of components/devices. Without an entry no ResourceClaim and "
        "no ResourceSlice is requested.",
    )
    cpus: CpuMapping | None = Field(
        None,
        description="Transfer of the CPUs that Slurm allocated to ResourceClaims of Guaranteed Pods "
        "(docs/devices.md). The extender needs the rights of components/devices. Without it Slurm chooses no CPUs of "
        "containers.",
    )
    nodes: NodeSettings = Field(NodeSettings(), description="Nodes of both sides.")
    fences: Fences = Field(Fences(), description="Protection of a Slurm node from its next job while a Pod ends there.")
    foreign_pods: ForeignPods = Field(ForeignPods(), description="Pods that Slurm did not place.")
    http: Http = Field(Http(), description="The scheduling routes.")
    admission: AdmissionWebhook = Field(AdmissionWebhook(), description="The webhook for new Pods.")
    hooks: Hooks = Field(Hooks(), description="Hooks for scripts.")
    observability: Observability = Field(Observability(), description="Health, metrics, debugging, logs.")
    leader_election: LeaderElection = Field(LeaderElection(), description="Several replicas.")
    limits: LimitSettings = Field(LimitSettings(), description="Rates and bounds.")
    polling: Polling = Field(Polling(), description="Polls of Slurm's job states.")
    retry: Retry = Field(Retry(), description="Retries.")
    mass_deletion_guard: MassDeletionGuardSettings = Field(
        MassDeletionGuardSettings(), description="The mass-deletion guard."
    )
    startup_deadline: StartupDeadlineSettings = Field(
        StartupDeadlineSettings(), description="Bound Pods that do not start."
    )
    orphans: Orphans = Field(Orphans(), description="Jobs without a Pod, and Pods without a job.")

    @model_validator(mode="after")
    def _hooks_within_kill_wait(self) -> Self:
        if self.hooks.wait >= self.slurm.kill_wait:
            raise ValueError(
                f"hooks.wait is {self.hooks.wait:g} s and slurm.killWait {self.slurm.kill_wait:g} s: hooks.wait must "
                "be shorter, or Slurm kills the script before it has its answer"
            )
        if self.hooks.key is not None and self.hooks.key_file is not None:
            raise ValueError("hooks.key and hooks.keyFile are set: set at most one of them")
        if self.hooks.url is not None and self.hooks.bind is None:
            raise ValueError("hooks.url is set without hooks.bind: no listener would answer there")
        return self

    @model_validator(mode="after")
    def _every_member_can_be_bound(self) -> Self:
        least = 2 * self.gangs.largest
        if self.http.connections < least:
            raise ValueError(
                f"http.connections is {self.http.connections} and gangs.largest {self.gangs.largest}: http.connections "
                f"must be at least {least}, since each member of a gang may hold one connection and open another"
            )
        return self

    @model_validator(mode="after")
    def _one_use_of_a_device_class(self) -> Self:
        device_map(self.devices, self.cpus)
        return self

    @model_validator(mode="after")
    def _replicas_know_each_other(self) -> Self:
        election, hooks = self.leader_election, self.hooks
        if not election.enabled:
            return self
        if election.advertise is None and not self.http.bind.host:
            raise ValueError(
                f"leaderElection.enabled is true, and http.bind is {self.http.bind}, every interface: "
                "set leaderElection.advertise to the address at which other replicas reach this one"
            )
        if hooks.url is not None and hooks.key is None and hooks.key_file is None:
            raise ValueError(
                "leaderElection.enabled is true, and hooks.url is given without hooks.keyFile: it must be given, or no "
                "replica accepts calls from the scripts of another's jobs"
            )
        return self

    @model_validator(mode="after")
    def _needed_pods_are_read(self) -> Self:
        read = self.scope.read_namespaces
        if read is None:
            return self
        slurmds, most = self.nodes.slurmd_pods, self.kubernetes.connections // 2
        faults = []
        if self.foreign_pods.mode is ForeignPodsMode.JOBS:
            faults.append(
                "scope.readPods is namespaces, and foreignPods.mode is jobs: most foreign Pods are in namespaces that "
                "are not read. Set foreignPods.mode: off or scope.readPods: all"
            )
        if slurmds is not None and slurmds.namespace not in read:
            faults.append(
                f"scope.readPods is namespaces, and nodes.slurmdPods.namespace is {slurmds.namespace}: "
                "it must be one of scope.namespaces"
            )
        if len(read) > most:
            faults.append(
                f"scope.readPods is namespaces, and scope.namespaces has {len(read)} of them: each is a watch of its "
                f"own, and kubernetes.connections allows {most}. Raise kubernetes.connections"
            )
        if faults:
            raise ValueError("; ".join(faults))
        return self

    @model_validator(mode="after")
    def _names_are_known(self) -> Self:
        users, groups = {user.name for user in self.slurm.users}, {group.name for group in self.slurm.groups}
        given = {"defaults": self.jobs.defaults}
        given |= {f"namespaceDefaults.{name}": one for name, one in self.jobs.namespace_defaults.items()}
        unknown = [
            f"jobs.{place}.{key} is {text!r}: it must be a number, or a name from slurm.{where}"
            for place, one in given.items()
            for key, text, where, known in (
                ("userId", one.get(USER_ID), "users", users),
                ("groupId", one.get(GROUP_ID), "groups", groups),
            )
            if text is not None and not text.isdecimal() and text not in known
        ]
        if unknown:
            raise ValueError("; ".join(unknown))
        return self

    @property
    def listeners(self) -> tuple[Listener, ...]:
        """Return every address that the process listens at."""
        return listeners_of(self.http, self.admission, self.hooks, self.observability)

    @model_validator(mode="after")
    def _one_listener_for_each_address(self) -> Self:
        if faults := list(conflicts(self.listeners)):
            raise ValueError("; ".join(faults))
        return self
