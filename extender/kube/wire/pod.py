"""Reads a Pod into a `PodView`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from extender.domain.views import Allocated, Container, Failure, HostPort, OwnerReference, PodView
from extender.domain.wellknown import ALLOCATED_CONDITION, CONTAINERS_STARTED_CONDITION, DEFAULT_GRACE_S
from extender.kube.wire.fields import MOST, NOTHING, Fields, parsed
from extender.kube.wire.meta import annotations_of, controlling_owner, labels_of
from extender.kube.wire.placing import (
    Large,
    anti_affinity,
    beyond_nodes,
    node_selector,
    required_terms,
    resource_claims,
    tolerations,
    too_many_to_compare,
)

MOST_NAME = 256
"""Characters of the name of another object that are kept: more than Kubernetes allows, so that a longer one shows."""


def read_pod(obj: Mapping[str, Any] | bytes | str) -> PodView:
    """Read a Pod from its JSON, parsed or not, with or without `kind` and `apiVersion`. Raises MalformedObject."""
    pod = parsed("Pod", obj) if isinstance(obj, bytes | str) else Fields("Pod", obj)
    meta, spec, status = pod.inner("metadata"), pod.inner("spec"), pod.inner("status")
    owner, resources = controlling_owner(meta), spec.inner("resources")
    requests, grace = resources.strings("requests"), spec.number("terminationGracePeriodSeconds")
    statuses, init_statuses = status.each("containerStatuses"), status.each("initContainerStatuses")
    containers = _containers(spec.each("containers"), statuses)
    init_containers = _containers(spec.each("initContainers"), init_statuses)
    terms, overhead = required_terms(spec), spec.strings("overhead")
    phase, node, conditions = status.text("phase") or "Pending", spec.text("nodeName"), _Conditions(status)
    return PodView(
        uid=meta.text("uid"),
        namespace=meta.text("namespace"),
        name=meta.text("name"),
        resource_version=meta.text("resourceVersion"),
        scheduler_name=spec.text("schedulerName")[:MOST_NAME],
        annotations=annotations_of(meta),
        labels=labels_of(meta),
        owner=owner,
        created_at=meta.instant("creationTimestamp") or 0.0,
        deleted_at=meta.instant("deletionTimestamp"),
        deletion_grace_s=meta.number("deletionGracePeriodSeconds"),
        node_name=node,
        phase=phase,
        nominated_node=status.text("nominatedNodeName"),
        gates=tuple([gate.required_text("name") for gate in spec.each("schedulingGates", MOST)]),
        containers=containers,
        init_containers=init_containers,
        overhead=overhead,
        pod_requests=requests,
        pod_limits=resources.strings("limits"),
        pod_held=_held(requests, status),
        node_selector=node_selector(spec),
        required_terms=None if isinstance(terms, Large) else terms,
        tolerations=tolerations(spec),
        anti_affinity=anti_affinity(spec),
        beyond=(
            *beyond_nodes(spec),
            *too_many_to_compare(spec, terms),
            *_beyond_of_containers((*containers, *init_containers), overhead),
        ),
        resource_claims=resource_claims(spec, status),
        extended_resource_claim=status.inner("extendedResourceClaimStatus").text("resourceClaimName")[:MOST_NAME],
        host_network=spec.flag("hostNetwork"),
        scheduling_group=spec.inner("schedulingGroup").text("podGroupName")[:MOST_NAME],
        workload_ref=_workload_ref(spec.inner("workloadRef")),
        priority_class=spec.text("priorityClassName"),
        service_account=spec.text("serviceAccountName"),
        active_deadline_s=spec.number("activeDeadlineSeconds"),
        grace_s=DEFAULT_GRACE_S if grace is None else grace,
        status_reason=status.text("reason"),
        status_message=status.text("message"),
        failure=_failure(statuses, init_statuses) if phase in {"Succeeded", "Failed"} else None,
        unschedulable=conditions.unschedulable(),
        disruption=conditions.reason_of("DisruptionTarget"),
        allocated=conditions.allocated(),
        generation=meta.number("generation") or 0,
        ready=conditions.has("Ready", "True"),
        resize_refused=conditions.reason_of("PodResizePending") == "Infeasible",
        of_its_node=_of_its_node(owner),
        container_runs=any("running" in one.inner("state") for one in (*init_statuses, *statuses)),
        bound_at=conditions.bound_at() if node else None,
        idle_since=_idle_since(phase, conditions, init_containers, init_statuses) if node else None,
        held_up=_held_up([*init_statuses, *statuses]) if phase == "Pending" else "",
        not_starting=conditions.has(CONTAINERS_STARTED_CONDITION, "False"),
    )


class _Conditions:
    """The conditions of a Pod, by type; of several of one type the first."""

    __slots__ = ("_by_type",)

    def __init__(self, status: Fields) -> None:
        self._by_type: dict[str, Fields] = {}
        for one in status.each("conditions"):
            self._by_type.setdefault(one.text("type"), one)

    def get(self, word: str) -> Fields:
        """Return the condition of this type; one that is absent has no fields."""
        return self._by_type.get(word, NOTHING)

    def has(self, word: str, status: str) -> bool:
        """Return whether the condition has this status."""
        return self.get(word).text("status") == status

    def reason_of(self, word: str) -> str:
        """Return the reason of a condition that is True, else ""."""
        return self.get(word).text("reason") if self.has(word, "True") else ""

    def unschedulable(self) -> str:
        """Return why kube-scheduler could not place the Pod at its last try, else ""."""
        found = self.get("PodScheduled")
        if found.text("status") != "False" or found.text("reason") != "Unschedulable":
            return ""
        return found.text("message") or "Unschedulable"

    def bound_at(self) -> float | None:
        """Return when the Pod got its node: the Binding writes the condition (`pod/storage/storage.go`)."""
        return self.get("PodScheduled").instant("lastTransitionTime") if self.has("PodScheduled", "True") else None

    def allocated(self) -> Allocated | None:
        """Return the extender's own condition."""
        found = self._by_type.get(ALLOCATED_CONDITION)
        if found is None:
            return None
        return Allocated(found.text("status") == "True", found.text("reason"), found.text("message"))


def _containers(specs: Sequence[Fields], statuses: Sequence[Fields]) -> tuple[Container, ...]:
    by_name = {status.text("name"): status for status in statuses}
    return tuple([_container(spec, by_name.get(spec.text("name"), NOTHING)) for spec in specs])


def _container(spec: Fields, status: Fields) -> Container:
    resources = spec.inner("resources")
    requests = resources.strings("requests")
    return Container(
        name=spec.text("name"),
        requests=requests,
        limits=resources.strings("limits"),
        host_ports=tuple(
            [
                HostPort(number, port.text("protocol") or "TCP", port.text("hostIP"))
                for port in spec.each("ports", MOST)
                if (number := port.number("hostPort"))
            ]
        ),
        sidecar=spec.text("restartPolicy") == "Always",
        held=_held(requests, status),
    )


def _held(requested: Mapping[str, str], status: Fields) -> tuple[Mapping[str, str], ...]:
    """Return what is set aside and given (KEP-1287), where it is not what is requested."""
    if status is NOTHING:
        return ()
    reported = (status.strings("allocatedResources"), status.inner("resources").strings("requests"))
    return tuple([one for one in reported if one and one != requested])


def _of_its_node(owner: OwnerReference | None) -> bool:
    """Return whether the Pod belongs to its node. A Node owns its mirror Pods (`kubelet/pod/mirror_client.go`)."""
    return owner is not None and (owner.api_version.partition("/")[0], owner.kind) in {
        ("apps", "DaemonSet"),
        ("v1", "Node"),
    }


def _beyond_of_containers(containers: Sequence[Container], overhead: Mapping[str, str]) -> Iterator[str]:
    """Yield the parts of the containers on which kube-scheduler alone can judge a node, in words."""
    if any(one.host_ports for one in containers):
        yield "host ports"
    if len(containers) > MOST:
        yield f"more than {MOST} containers"
    names = set(overhead).union(*[one.requests for one in containers])
    if len(names) > MOST:
        yield f"more than {MOST} resources"


def _idle_since(
    phase: str, conditions: _Conditions, init_containers: Sequence[Container], init_statuses: Sequence[Fields]
) -> float | None:
    """Return since when no container of a Pod runs that has yet to start for the first time; `None`: that is not so.

    kubelet's phase is Pending while a container that is no init container, or a sidecar, has yet to start for the
    first time, whatever others do (`kubelet_pods.go`, getPhase). Only an init container that runs is on its way.

    The time at which the Pod got its node is that of the condition which the Binding writes.
    """
    if phase != "Pending":
        return None
    sidecars = {one.name for one in init_containers if one.sidecar}
    states = [(one.text("name") in sidecars, one.inner("state")) for one in init_statuses]
    if any("running" in state for sidecar, state in states if not sidecar):
        return None
    ended = [state.inner("terminated") for _, state in states if "terminated" in state]
    instants = [conditions.bound_at()]
    instants += [how.instant("finishedAt") for how in ended if not how.number("exitCode")]
    return max((at for at in instants if at is not None), default=None)


def _held_up(statuses: Sequence[Fields]) -> str:
    for one in statuses:
        state = one.inner("state")
        reason = state.inner("waiting").text("reason")
        if reason not in {"", "PodInitializing"}:
            return f"{one.text('name')}: {reason}"
    return ""


def _workload_ref(found: Fields) -> str:
    parts = (found.text(key)[:MOST_NAME] for key in ("name", "podGroup", "podGroupReplicaKey"))
    return "/".join(part for part in parts if part)


def _failure(*kinds: Sequence[Fields]) -> Failure | None:
    """Return the container that ended worst; an init container where no other failed."""
    for statuses in kinds:
        ended = [(one.text("name"), one.inner("state").inner("terminated")) for one in statuses]
        failed = [
            Failure(name, number, how.text("reason"), how.number("signal") or 0)
            for name, how in ended
            if (number := how.number("exitCode") or 0)
        ]
        if failed:
            return max(failed, key=lambda one: one.exit_code)
    return None
