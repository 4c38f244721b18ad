"""Pods: from JSON to `PodView`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pydantic import Field, ValidationError

from extender.domain.views import Allocated, Container, Failure, HostPort, OwnerReference, PodView
from extender.domain.wellknown import ALLOCATED_CONDITION, CONTAINERS_STARTED_CONDITION
from extender.kube.wire.meta import (
    MOST,
    Few,
    Int64,
    MetaWire,
    OddObject,
    OwnerWire,
    StringMap,
    Wire,
    annotations_of,
    explain,
    labels_of,
    seconds,
)
from extender.kube.wire.placing import PlacingWire, anti_affinity, few_labels, required_terms, tolerations

DEFAULT_GRACE_S = 30
"""`terminationGracePeriodSeconds` where none is given (Kubernetes `core/v1/defaults.go`)."""


MOST_NAME = 256
"""Characters of the name of another object that are kept: more than Kubernetes allows, so that a longer one shows."""


class ResourcesWire(Wire):
    """`resources` of a container or of a Pod (KEP-2837)."""

    requests: StringMap | None = None
    limits: StringMap | None = None


class PortWire(Wire):
    """`containers[].ports[]`."""

    host_port: Int64 | None = None
    protocol: str | None = None
    host_ip: str | None = Field(default=None, alias="hostIP")


class ContainerWire(Wire):
    """`containers[]` and `initContainers[]`."""

    name: str = ""
    resources: ResourcesWire | None = None
    ports: Few[PortWire] | None = None
    restart_policy: str | None = None


class GateWire(Wire):
    """`schedulingGates[]`."""

    name: str


class PodSpecWire(PlacingWire):
    """`spec`."""

    scheduler_name: str | None = None
    node_name: str | None = None
    scheduling_gates: Few[GateWire] | None = None
    containers: list[ContainerWire] | None = None
    init_containers: list[ContainerWire] | None = None
    overhead: StringMap | None = None
    resources: ResourcesWire | None = None
    host_network: bool | None = None
    priority_class_name: str | None = None
    service_account_name: str | None = None
    active_deadline_seconds: Int64 | None = None
    termination_grace_period_seconds: Int64 | None = None


class TerminatedWire(Wire):
    """`containerStatuses[].state.terminated`."""

    exit_code: Int64 = 0
    reason: str | None = None
    finished_at: datetime | None = None


class WaitingWire(Wire):
    """`containerStatuses[].state.waiting`."""

    reason: str | None = None


class RunningWire(Wire):
    """`containerStatuses[].state.running`."""


class ContainerStateWire(Wire):
    """`containerStatuses[].state`."""

    running: RunningWire | None = None
    terminated: TerminatedWire | None = None
    waiting: WaitingWire | None = None


class ContainerStatusWire(Wire):
    """`containerStatuses[]`."""

    name: str = ""
    state: ContainerStateWire | None = None
    resources: ResourcesWire | None = None
    allocated_resources: StringMap | None = None


class PodConditionWire(Wire):
    """`conditions[]`."""

    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None
    last_transition_time: datetime | None = None


class PodStatusWire(Wire):
    """`status`."""

    phase: str | None = None
    reason: str | None = None
    message: str | None = None
    nominated_node_name: str | None = None
    container_statuses: list[ContainerStatusWire] | None = None
    init_container_statuses: list[ContainerStatusWire] | None = None
    conditions: list[PodConditionWire] | None = None
    resources: ResourcesWire | None = None
    allocated_resources: StringMap | None = None


class PodWire(Wire):
    """A Pod, with or without `kind` and `apiVersion`: kube-scheduler's calls leave both out."""

    metadata: MetaWire = MetaWire()
    spec: PodSpecWire = PodSpecWire()
    status: PodStatusWire = PodStatusWire()

    def view(self) -> PodView:
        """The same as a value of the domain."""
        meta, spec, status = self.metadata, self.spec, self.status
        resources = spec.resources
        return PodView(
            uid=meta.uid or "",
            namespace=meta.namespace or "",
            name=meta.name or "",
            resource_version=meta.resource_version or "",
            scheduler_name=spec.scheduler_name or "",
            annotations=annotations_of(meta),
            labels=labels_of(meta),
            owner=controlling_owner(meta.owner_references),
            created_at=seconds(meta.creation_timestamp) or 0.0,
            deleted_at=seconds(meta.deletion_timestamp),
            deletion_grace_s=meta.deletion_grace_period_seconds,
            node_name=spec.node_name or "",
            phase=status.phase or "Pending",
            nominated_node=status.nominated_node_name or "",
            gates=tuple(gate.name for gate in spec.scheduling_gates or ()),
            containers=_containers(spec.containers, status.container_statuses),
            init_containers=_containers(spec.init_containers, status.init_container_statuses),
            overhead=spec.overhead or {},
            pod_requests=(resources.requests or {}) if resources else {},
            pod_limits=(resources.limits or {}) if resources else {},
            pod_held=_held((resources.requests or {}) if resources else {}, status),
            node_selector=few_labels(spec.node_selector),
            required_terms=required_terms(spec.affinity),
            tolerations=tolerations(spec.tolerations),
            anti_affinity=anti_affinity(spec.affinity),
            beyond=spec.beyond() + (("host ports",) if _host_ports(spec) else ()) + _too_many(spec),
            host_network=bool(spec.host_network),
            priority_class=spec.priority_class_name or "",
            service_account=spec.service_account_name or "",
            scheduling_group=_pod_group(spec),
            active_deadline_s=spec.active_deadline_seconds,
            grace_s=DEFAULT_GRACE_S
            if spec.termination_grace_period_seconds is None
            else spec.termination_grace_period_seconds,
            status_reason=status.reason or "",
            status_message=status.message or "",
            failure=_failure(status) if status.phase in {"Succeeded", "Failed"} else None,
            unschedulable=_unschedulable(status),
            disruption=_disruption(status),
            allocated=_allocated(status),
            generation=meta.generation or 0,
            ready=any(each.type == "Ready" and each.status == "True" for each in status.conditions or ()),
            resize_refused=_resize_refused(status),
            of_its_node=_of_its_node(meta.owner_references),
            container_runs=any(one.state and one.state.running for one in _statuses(status)),
            idle_since=_idle_since(spec, status) if spec.node_name else None,
            held_up=_held_up(status) if status.phase in {None, "Pending"} else "",
            not_starting=any(
                one.type == CONTAINERS_STARTED_CONDITION and one.status == "False" for one in status.conditions or ()
            ),
        )


def read_pod(obj: Mapping[str, Any] | bytes | str) -> PodView:
    """A Pod from its JSON, parsed or not. Raises OddObject."""
    try:
        if isinstance(obj, bytes | str):
            return PodWire.model_validate_json(obj).view()
        return PodWire.model_validate(obj).view()
    except ValidationError as error:
        raise OddObject(f"not a Pod: {explain(error)}") from error


def controlling_owner(references: list[OwnerWire] | None) -> OwnerReference | None:
    """The reference with `controller: true`; the API server allows one at most."""
    for reference in references or ():
        if reference.controller:
            return OwnerReference(reference.api_version, reference.kind, reference.name, reference.uid)
    return None


def _pod_group(spec: PodSpecWire) -> str:
    name = (spec.scheduling_group or {}).get("podGroupName")
    return name[:MOST_NAME] if isinstance(name, str) else ""


def _containers(specs: list[ContainerWire] | None, statuses: list[ContainerStatusWire] | None) -> tuple[Container, ...]:
    told = {status.name: status for status in statuses or ()}
    return tuple(_container(wire, told.get(wire.name)) for wire in specs or ())


def _of_its_node(references: list[OwnerWire] | None) -> bool:
    """A mirror Pod, which stands for a static one, is owned by its Node (`kubelet/pod/mirror_client.go`)."""
    owner = controlling_owner(references)
    return owner is not None and (owner.api_version.partition("/")[0], owner.kind) in {
        ("apps", "DaemonSet"),
        ("v1", "Node"),
    }


def _container(wire: ContainerWire, status: ContainerStatusWire | None) -> Container:
    resources = wire.resources
    return Container(
        name=wire.name,
        requests=(resources.requests or {}) if resources else {},
        limits=(resources.limits or {}) if resources else {},
        host_ports=tuple(
            HostPort(port.host_port, port.protocol or "TCP", port.host_ip or "")
            for port in wire.ports or ()
            if port.host_port
        ),
        sidecar=wire.restart_policy == "Always",
        held=_held((resources.requests or {}) if resources else {}, status),
    )


def _held(requested: StringMap, status: ContainerStatusWire | PodStatusWire | None) -> tuple[StringMap, ...]:
    """What is set aside and given (KEP-1287), where it is not what is requested."""
    if status is None:
        return ()
    told = (status.allocated_resources, status.resources.requests if status.resources else None)
    return tuple(one for one in told if one and one != requested)


def _resize_refused(status: PodStatusWire) -> bool:
    pending = (one for one in status.conditions or () if one.type == "PodResizePending" and one.status == "True")
    return any(one.reason == "Infeasible" for one in pending)


def _host_ports(spec: PodSpecWire) -> bool:
    containers = [*(spec.containers or ()), *(spec.init_containers or ())]
    return any(port.host_port for container in containers for port in container.ports or ())


def _too_many(spec: PodSpecWire) -> tuple[str, ...]:
    """What is too much to be compared with each node; kube-scheduler judges such a Pod."""
    containers = [*(spec.containers or ()), *(spec.init_containers or ())]
    names = {name for one in containers if one.resources for name in one.resources.requests or ()}
    many = {"containers": len(containers) > MOST, "resources": len(names | (spec.overhead or {}).keys()) > MOST}
    return tuple(f"more than {MOST} {what}" for what, given in many.items() if given)


def _statuses(status: PodStatusWire) -> list[ContainerStatusWire]:
    return [*(status.init_container_statuses or ()), *(status.container_statuses or ())]


def _unschedulable(status: PodStatusWire) -> str:
    for condition in status.conditions or ():
        if condition.type == "PodScheduled" and condition.status == "False" and condition.reason == "Unschedulable":
            return condition.message or condition.reason
    return ""


def _disruption(status: PodStatusWire) -> str:
    for condition in status.conditions or ():
        if condition.type == "DisruptionTarget" and condition.status == "True":
            return condition.reason or ""
    return ""


def _allocated(status: PodStatusWire) -> Allocated | None:
    for condition in status.conditions or ():
        if condition.type == ALLOCATED_CONDITION:
            return Allocated(condition.status == "True", condition.reason or "", condition.message or "")
    return None


def _idle_since(spec: PodSpecWire, status: PodStatusWire) -> float | None:
    """kubelet's phase is Pending while a container that is no init container, or a sidecar, has yet to start for the
    first time, whatever others do (`kubelet_pods.go`, getPhase). Only an init container that runs is on its way.

    The time at which the Pod got its node is that of the condition which the Binding writes.
    """
    sidecars = {one.name for one in spec.init_containers or () if one.restart_policy == "Always"}
    first = [one for one in status.init_container_statuses or () if one.name not in sidecars]
    if status.phase not in {None, "Pending"} or any(one.state and one.state.running for one in first):
        return None
    bound = [
        one.last_transition_time
        for one in status.conditions or ()
        if one.type == "PodScheduled" and one.status == "True"
    ]
    ended = [one.state.terminated for one in status.init_container_statuses or () if one.state and one.state.terminated]
    instants = [*bound, *(how.finished_at for how in ended if how.exit_code == 0)]
    return max((at for one in instants if (at := seconds(one)) is not None), default=None)


def _held_up(status: PodStatusWire) -> str:
    for one in _statuses(status):
        if one.state and one.state.waiting and one.state.waiting.reason not in {None, "PodInitializing"}:
            return f"{one.name}: {one.state.waiting.reason}"
    return ""


def _failure(status: PodStatusWire) -> Failure | None:
    """The container that ended worst; an init container where no other failed."""
    for statuses in (status.container_statuses, status.init_container_statuses):
        ended = [(one.name, one.state.terminated) for one in statuses or () if one.state and one.state.terminated]
        failed = [Failure(name, how.exit_code, how.reason or "") for name, how in ended if how.exit_code != 0]
        if failed:
            return max(failed, key=lambda one: one.exit_code)
    return None
