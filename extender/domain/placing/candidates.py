"""Find the nodes that kube-scheduler's own filters would let a Pod use.

Covered: NodeName, NodeUnschedulable, node selector and required node affinity, taints and tolerations, and what kubelet
would admit where that is asked. All else that its filters look at is known not to be covered: such a Pod has to be
shown to kube-scheduler, which sees the volumes, ResourceClaims and other Pods that it depends on. So is a Pod with an
extended resource that no Node says to have, or that a DeviceClass names: it may stand behind it (KEP-5004), and its
devices are in ResourceSlices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from extender.domain.placing import taints
from extender.domain.placing.fit import Misfits, fit
from extender.domain.placing.node_affinity import requires, selects
from extender.domain.pods.requests import CLASS_RESOURCE, requested_resources
from extender.domain.views import AntiAffinity, NodeTerm, NodeView, PodView, Toleration


@dataclass(frozen=True, slots=True)
class Demands:
    """Hold the demands of a Pod on a node. They are equal for the Pods of one Deployment, and can be a key."""

    node_name: str = ""
    selector: tuple[tuple[str, str], ...] = ()
    terms: tuple[NodeTerm, ...] | None = None
    tolerations: tuple[Toleration, ...] = ()

    def met_by(self, node: NodeView) -> bool:
        """Return whether kube-scheduler's filters would let the Pod use this node, as far as they are covered."""
        return (
            (not self.node_name or self.node_name == node.name)
            and taints.admits(node, self.tolerations)
            and selects(dict(self.selector), node)
            and (self.terms is None or requires(self.terms, node))
        )


@dataclass(frozen=True, slots=True)
class NeedsKubeScheduler:
    """Report that only kube-scheduler can decide. `why` names the parts of the Pod, or the Pods, that cause it."""

    why: tuple[str, ...]


def demands(
    pod: PodView, repelling: Iterable[PodView] = (), offered: Callable[[str], bool] = lambda _resource: True
) -> Demands | NeedsKubeScheduler:
    """Return the demands of the Pod on a node. `repelling`: the Pods on nodes that have a required anti-affinity.

    `offered`: whether some Node reports this resource, and nothing else may stand for it.
    """
    beyond = list(pod.beyond)
    beyond += [f"toleration operator {each.operator}" for each in pod.tolerations if not taints.known(each)]
    beyond += [f"anti-affinity of {other.full_name}" for other in repelling if repels(other, pod)]
    beyond += [
        f"resource {name}, for which a DeviceClass may stand"
        for name in requested_resources(pod)
        if _odd(name, offered)
    ]
    if beyond:
        return NeedsKubeScheduler(tuple(sorted(set(beyond))))
    return Demands(pod.node_name, tuple(sorted(pod.node_selector.items())), pod.required_terms, pod.tolerations)


def candidates(
    pod: PodView,
    nodes: Iterable[NodeView],
    *,
    repelling: Iterable[PodView] = (),
    present: Callable[[str], Iterable[PodView]] | None = None,
) -> frozenset[str] | NeedsKubeScheduler:
    """Return the names of those of `nodes` that the Pod may use.

    With `present`, the Pods on a node by its name, only nodes whose kubelet would admit it once the Pods that end there
    have gone (`fit`).
    """
    there = tuple(nodes)
    wanted = demands(pod, repelling, lambda resource: any(resource in node.allocatable for node in there))
    if isinstance(wanted, NeedsKubeScheduler):
        return wanted
    found = [node for node in there if wanted.met_by(node)]
    if present is not None:
        found = [node for node in found if not isinstance(fit(pod, node, present(node.name)), Misfits)]
    return frozenset(node.name for node in found)


def _odd(resource: str, offered: Callable[[str], bool]) -> bool:
    """Return whether it may be a device of DRA (dynamic resource allocation); as `IsExtendedResourceName`."""
    if resource.startswith(CLASS_RESOURCE):
        return True
    extended = "/" in resource and "kubernetes.io/" not in resource
    return extended and not offered(resource)


def repels(other: PodView, pod: PodView) -> bool:
    """Return whether the required anti-affinity of `other` might keep `pod` off some nodes.

    kube-scheduler applies the anti-affinity of existing Pods as that of the Pod itself
    (`interpodaffinity/filtering.go`, satisfyExistingPodsAntiAffinity). What cannot be decided here counts as yes.
    """
    return any(_about(term, other, pod) for term in other.anti_affinity)


def _about(term: AntiAffinity, other: PodView, pod: PodView) -> bool:
    if not term.everywhere and pod.namespace not in (term.namespaces or (other.namespace,)):
        return False
    return all(pod.labels.get(key) == value for key, value in term.labels)
