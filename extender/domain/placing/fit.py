"""Predict whether kubelet would admit a Pod on a node, with kubelet's own sums, before the Pod is bound there.

The rules are those of `pkg/kubelet/lifecycle/predicate.go` and what it calls: NodeResourcesFit (`noderesources/fit.go`)
and NodePorts. Taints, node affinity and the operating system are left out: kube-scheduler has checked them. Stricter
than kubelet in one thing: an extended resource that the node does not have is a misfit; kubelet would start the Pod.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from extender.domain import quantity
from extender.domain.pods.requests import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, pod_requests
from extender.domain.views import HostPort, NodeView, PodView

_ANY_IP = "0.0.0.0"  # noqa: S104 (a value to compare with, nothing is bound)


@dataclass(frozen=True, slots=True)
class Fits:
    """Report that kubelet would admit the Pod now."""


@dataclass(frozen=True, slots=True)
class Busy:
    """Report that kubelet would admit it once the Pods that are ending have gone; `text` says what they hold."""

    text: str


@dataclass(frozen=True, slots=True)
class Misfits:
    """Report that kubelet would not admit it even without the Pods that are ending; `text` says what is missing."""

    text: str


Fit = Fits | Busy | Misfits


def fit(
    pod: PodView,
    node: NodeView,
    present: Iterable[PodView],
    on_no_node: Callable[[str], bool] = lambda _resource: False,
) -> Fit:
    """Check one Pod against a node and the Pods on it. `present` may contain the Pod itself and finished Pods.

    For several Pods that go to one node together, the earlier ones belong into `present`. A Node that has not reported
    its resources yet is busy, not a misfit.
    `on_no_node`: resources that are on no node, or not counted there; asked of one that does not have them they do not
    matter.
    """
    if not node.allocatable:
        return Busy(f"Node {node.name} has not reported its allocatable resources yet")
    others = [other for other in present if other.uid != pod.uid and not other.finished]
    ending = [other for other in others if other.deleted_at is not None]
    try:
        requested = _demand_of(pod).sizes
        allocatable = _sizes_of_node(node)
    except ValueError as why:
        return Misfits(f"Node {node.name}: {why}")
    requested = {name: amount for name, amount in requested.items() if name in allocatable or not on_no_node(name)}
    occupied = _Occupancy()
    occupied.add(other for other in others if other.deleted_at is None)
    if wants := occupied.wants(pod, requested, allocatable):
        return Misfits(f"Node {node.name} {wants}")
    occupied.add(ending)
    if ending and (wants := occupied.wants(pod, requested, allocatable)):
        return Busy(f"Node {node.name} {wants}; ending there: {', '.join(sorted(other.full_name for other in ending))}")
    return Fits()


@dataclass(slots=True)
class _Occupancy:
    """Sum up the part of a node that some Pods hold."""

    used: dict[str, int] = field(default_factory=dict)
    ports: list[tuple[HostPort, PodView]] = field(default_factory=list)
    pods: int = 0

    def add(self, pods: Iterable[PodView]) -> None:
        used = self.used
        for pod in pods:
            self.pods += 1
            try:
                held = _demand_of(pod)
            except ValueError:  # the API server lets no such Pod in
                self.ports += ((port, pod) for port in host_ports(pod))
                continue
            if held.ports:
                self.ports += ((port, pod) for port in held.ports)
            for name, amount in held.sizes.items():
                used[name] = used.get(name, 0) + amount

    def wants(self, pod: PodView, requested: Mapping[str, int], allocatable: Mapping[str, int]) -> str:
        """Return what keeps the Pod off; "": nothing."""
        wants = []
        if self.pods + 1 > allocatable.get(PODS, 0):
            wants.append(f"runs {self.pods} Pods of at most {allocatable.get(PODS, 0)}")
        for name, amount in requested.items():
            has, used = allocatable.get(name, 0), self.used.get(name, 0)
            if amount > max(0, has - used):
                of = unit(name)
                wants.append(f"lacks {name}: {amount}{of} asked, {used}{of} of {has}{of} in use")
        for port in host_ports(pod):
            holder = next((other for held, other in self.ports if _collide(port, held)), None)
            if holder:
                wants.append(f"has its {port.protocol or 'TCP'} port {port.port} taken by {holder.full_name}")
        return "; ".join(wants)


_UNITS = {CPU: "m", MEMORY: " bytes", EPHEMERAL_STORAGE: " bytes"}


def unit(resource: str) -> str:
    """Return the suffix of a number of this resource in kubelet's units."""
    return _UNITS.get(resource, "")


@dataclass(frozen=True, slots=True)
class _PodDemand:
    """Hold what one Pod takes of its node."""

    pod: PodView
    sizes: Mapping[str, int]
    ports: tuple[HostPort, ...]


_SIZES: dict[str, _PodDemand] = {}
"""The demand of each Pod, as computed last: a node is checked again for every Pod that is bound to it."""

_MOST_SIZES = 4096


def _demand_of(pod: PodView) -> _PodDemand:
    """Return what a Pod holds. Raises ValueError for requests that are no quantities."""
    known = _SIZES.get(pod.uid)
    if known is not None and known.pod is pod:
        return known
    held = _PodDemand(pod, sized(pod_requests(pod)), tuple(host_ports(pod)))
    if len(_SIZES) >= _MOST_SIZES:
        _SIZES.clear()
    _SIZES[pod.uid] = held
    return held


_NODE_SIZES: dict[str, tuple[Mapping[str, str], dict[str, int]]] = {}
"""The room of each Node, as computed last."""


def _sizes_of_node(node: NodeView) -> Mapping[str, int]:
    known = _NODE_SIZES.get(node.name)
    if known is not None and known[0] is node.allocatable:
        return known[1]
    sizes = sized({name: quantity.parse(text) for name, text in node.allocatable.items()})
    if len(_NODE_SIZES) >= _MOST_SIZES:
        _NODE_SIZES.clear()
    _NODE_SIZES[node.name] = node.allocatable, sizes
    return sizes


def sized(requests: Mapping[str, int]) -> dict[str, int]:
    """Return it in kubelet's units, each Pod rounded up by itself: thousandths of a CPU, whole units of all else."""
    return {
        name: quantity.millicpus_up(size) if name == CPU else quantity.whole_up(size) for name, size in requests.items()
    }


def host_ports(pod: PodView) -> Iterator[HostPort]:
    """Yield the ports of the node that the Pod holds for as long as it runs."""
    for container in pod.init_containers:
        if container.sidecar:  # the only init containers that hold a port for as long as the Pod runs
            yield from container.host_ports
    for container in pod.containers:
        yield from container.host_ports


def _collide(one: HostPort, other: HostPort) -> bool:
    if (one.protocol or "TCP", one.port) != (other.protocol or "TCP", other.port) or one.port <= 0:
        return False
    ips = {one.ip or _ANY_IP, other.ip or _ANY_IP}
    return len(ips) == 1 or _ANY_IP in ips
