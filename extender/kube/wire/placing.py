"""Where a Pod may go: affinities, tolerations, and whatever else kube-scheduler's filters look at."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from pydantic import Field

from extender.domain.views import AntiAffinity, NodeTerm, Requirement, Toleration
from extender.kube.wire.meta import MOST, Few, StringMap, Wire

_INDIFFERENT = (
    *("name", "cephfs", "configMap", "csi", "downwardAPI", "emptyDir", "fc", "flexVolume", "flocker", "gitRepo"),
    *("glusterfs", "hostPath", "image", "nfs", "projected", "quobyte", "secret", "storageos"),
)
"""Sources of volumes that no filter of kube-scheduler looks at (`plugins/volumebinding`, `volumerestrictions`,
`volumezone`, `nodevolumelimits`): no claims, no disks of clouds, none that one Pod alone may use. Any other source, one
of a later release too, is left to kube-scheduler."""


VALUES = 10
"""Values of a node affinity for each entry of `MOST`; a list of 1,000 nodes is nothing unusual."""


class RequirementWire(Wire):
    """One `matchExpressions` or `matchFields` entry."""

    key: str
    operator: str
    values: list[str] | None = None


class TermWire(Wire):
    """One `nodeSelectorTerms` entry."""

    match_expressions: Few[RequirementWire] | None = None
    match_fields: Few[RequirementWire] | None = None


class SelectorWire(Wire):
    """`requiredDuringSchedulingIgnoredDuringExecution`."""

    node_selector_terms: Few[TermWire] | None = None


class NodeAffinityWire(Wire):
    """`affinity.nodeAffinity`."""

    required: SelectorWire | None = Field(default=None, alias="requiredDuringSchedulingIgnoredDuringExecution")


class LabelSelectorWire(Wire):
    """A label selector; of its expressions it matters only that there are any."""

    match_labels: StringMap | None = None


class PodTermWire(Wire):
    """One term of a Pod (anti-)affinity."""

    label_selector: LabelSelectorWire | None = None
    namespaces: list[str] | None = None
    namespace_selector: dict[str, Any] | None = None


class PodAffinityWire(Wire):
    """`affinity.podAffinity`, `affinity.podAntiAffinity`."""

    required: Few[PodTermWire] | None = Field(default=None, alias="requiredDuringSchedulingIgnoredDuringExecution")


class AffinityWire(Wire):
    """`affinity`."""

    node_affinity: NodeAffinityWire | None = None
    pod_affinity: PodAffinityWire | None = None
    pod_anti_affinity: PodAffinityWire | None = None


class TolerationWire(Wire):
    """`tolerations[]`."""

    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class SpreadWire(Wire):
    """`topologySpreadConstraints[]`."""

    when_unsatisfiable: str = ""


class PlacingWire(Wire):
    """The part of a Pod's `spec` that says where it may go. Base of the whole."""

    node_selector: StringMap | None = None
    affinity: AffinityWire | None = None
    tolerations: Few[TolerationWire] | None = None
    topology_spread_constraints: Few[SpreadWire] | None = None
    volumes: list[dict[str, Any]] | None = None
    resource_claims: list[dict[str, Any]] | None = None
    scheduling_group: dict[str, Any] | None = None
    workload_ref: dict[str, Any] | None = None

    def beyond(self) -> tuple[str, ...]:
        """The parts that need more than the node itself to be judged, in words; host ports are the caller's."""
        affinity = self.affinity or AffinityWire()
        spreads = self.topology_spread_constraints or ()
        kinds = {kind for volume in self.volumes or () for kind, given in volume.items() if given is not None}
        found = {
            "Pod affinity": affinity.pod_affinity and affinity.pod_affinity.required,
            "Pod anti-affinity": affinity.pod_anti_affinity and affinity.pod_anti_affinity.required,
            "topology spread": any(each.when_unsatisfiable != "ScheduleAnyway" for each in spreads),
            "resource claims": self.resource_claims,
            "scheduling group": self.scheduling_group or self.workload_ref,
        }
        volumes = (f"volume {kind}" for kind in sorted(kinds - set(_INDIFFERENT)))
        many = {
            "tolerations": len(self.tolerations or ()) > MOST,
            "node selector labels": len(self.node_selector or ()) > MOST,
            "node affinity expressions": _too_many(affinity),
        }
        parts = (f"more than {MOST} {what}" for what, given in many.items() if given)
        return (*(what for what, given in found.items() if given), *volumes, *parts)


def few_labels(selector: StringMap | None) -> StringMap:
    """The node selector; none of it where it is too large to be compared with each node."""
    return {} if selector is None or len(selector) > MOST else selector


def _too_many(affinity: AffinityWire) -> bool:
    """Whether kube-scheduler alone is to compare the required node affinity with nodes."""
    if affinity.node_affinity is None or affinity.node_affinity.required is None:
        return False
    terms = affinity.node_affinity.required.node_selector_terms or ()
    entries = [one for term in terms for one in (*(term.match_expressions or ()), *(term.match_fields or ()))]
    return max(len(terms), len(entries), sum(len(one.values or ()) for one in entries) // VALUES) > MOST


def required_terms(affinity: AffinityWire | None) -> tuple[NodeTerm, ...] | None:
    """The required node affinity; `None`: there is none, or it is too large. One without terms is another thing."""
    if affinity is None or affinity.node_affinity is None or affinity.node_affinity.required is None:
        return None
    if _too_many(affinity):
        return None
    return tuple(
        NodeTerm(_requirements(term.match_expressions), _requirements(term.match_fields))
        for term in affinity.node_affinity.required.node_selector_terms or ()
    )


def _requirements(io_context: list[RequirementWire] | None) -> tuple[Requirement, ...]:
    return tuple(Requirement(wire.key, wire.operator, tuple(wire.values or ())) for wire in io_context or ())


@lru_cache(maxsize=1024)
def _toleration(key: str, operator: str, value: str, effect: str) -> Toleration:
    return Toleration(key, operator, value, effect)


def tolerations(io_context: list[TolerationWire] | None) -> tuple[Toleration, ...]:
    """Kept once each: nearly every Pod of a cluster has the same few. None of them where they are too many."""
    if io_context is not None and len(io_context) > MOST:
        return ()
    return tuple(
        _toleration(wire.key or "", wire.operator or "", wire.value or "", wire.effect or "")
        for wire in io_context or ()
    )


def anti_affinity(affinity: AffinityWire | None) -> tuple[AntiAffinity, ...]:
    """A term without a selector is about no Pod (`apimachinery`, LabelSelectorAsSelector)."""
    if affinity is None or affinity.pod_anti_affinity is None:
        return ()
    if len(affinity.pod_anti_affinity.required or ()) > MOST:
        return (AntiAffinity(everywhere=True),)  # it may be about any Pod
    return tuple(
        AntiAffinity(
            tuple(sorted((term.label_selector.match_labels or {}).items())),
            tuple(term.namespaces or ()),
            everywhere=term.namespace_selector is not None,
        )
        for term in affinity.pod_anti_affinity.required or ()
        if term.label_selector is not None
    )
