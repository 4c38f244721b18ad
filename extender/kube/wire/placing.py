"""Read where a Pod may go: affinities, tolerations, and everything else that kube-scheduler's filters use."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from functools import lru_cache

from extender.domain.views import RESOURCE_CLAIMS, AntiAffinity, NodeTerm, PodResourceClaim, Requirement, Toleration
from extender.kube.wire.fields import MOST, Fields

_INDIFFERENT = frozenset(
    (
        *("name", "cephfs", "configMap", "csi", "downwardAPI", "emptyDir", "fc", "flexVolume", "flocker", "gitRepo"),
        *("glusterfs", "hostPath", "image", "nfs", "projected", "quobyte", "secret", "storageos"),
    )
)
"""Sources of volumes that no filter of kube-scheduler looks at (`plugins/volumebinding`, `volumerestrictions`,
`volumezone`, `nodevolumelimits`): no PersistentVolumeClaims, no disks of clouds, none that one Pod alone may use. Any
other source, one of a later release too, is left to kube-scheduler."""


MOST_RESOURCE_CLAIMS = 32
"""ResourceClaims of a Pod (`MaxPodResourceClaims` is 32 or less in every release)."""

VALUES = 10
"""Values of a node affinity for each entry of `MOST`; a list of 1,000 nodes is nothing unusual."""


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def beyond_nodes(spec: Fields) -> tuple[str, ...]:
    """Return the parts that need more than the node itself to be judged, in words; host ports are the caller's."""
    affinity = spec.inner("affinity")
    kinds = {kind for volume in spec.each("volumes") for kind in volume.given()}
    found = {
        "Pod affinity": affinity.inner("podAffinity").count(_REQUIRED),
        "Pod anti-affinity": affinity.inner("podAntiAffinity").count(_REQUIRED),
        "topology spread": any(
            one.text("whenUnsatisfiable") != "ScheduleAnyway" for one in spec.each("topologySpreadConstraints", MOST)
        ),
        RESOURCE_CLAIMS: spec.count("resourceClaims"),
        "scheduling group": spec.count("schedulingGroup") or spec.count("workloadRef"),
    }
    volumes = (f"volume {kind}" for kind in sorted(kinds - _INDIFFERENT))
    return (*(what for what, given in found.items() if given), *volumes)


def resource_claims(spec: Fields, status: Fields) -> tuple[PodResourceClaim, ...]:
    """Return the ResourceClaims of a Pod; the status has the names of those that Kubernetes made from templates."""
    if "resourceClaims" not in spec:
        return ()
    made = {
        one.text("name"): one.text("resourceClaimName")
        for one in status.each("resourceClaimStatuses", MOST_RESOURCE_CLAIMS)
    }
    return tuple(
        PodResourceClaim(
            name := one.text("name"),
            one.text("resourceClaimName") or made.get(name, ""),
            needless=name in made and not made[name],
            template=one.text("resourceClaimTemplateName"),
        )
        for one in spec.each("resourceClaims", MOST_RESOURCE_CLAIMS)
    )


def too_many_to_compare(spec: Fields, terms: Terms) -> list[str]:
    """Return the parts that are too large to be compared with each node, in words."""
    many = {
        "tolerations": spec.count("tolerations") > MOST,
        "node selector labels": spec.count("nodeSelector") > MOST,
        "node affinity expressions": terms is Large.LARGE,
    }
    return [f"more than {MOST} {what}" for what, given in many.items() if given]


def node_selector(spec: Fields) -> dict[str, str]:
    """Return the node selector; none of it where it is too large to be compared with each node."""
    return {} if spec.count("nodeSelector") > MOST else spec.strings("nodeSelector")


class Large(Enum):
    """Stands for terms that kube-scheduler alone is to compare with nodes."""

    LARGE = auto()


Terms = tuple[NodeTerm, ...] | Large | None
"""Required node affinity. `None`: there is none; one without terms is another thing."""


def required_terms(spec: Fields) -> Terms:
    """Return the required node affinity."""
    affinity = spec.inner("affinity").inner("nodeAffinity")
    if _REQUIRED not in affinity:
        return None
    terms = [
        (term.each("matchExpressions", MOST), term.each("matchFields", MOST))
        for term in affinity.inner(_REQUIRED).each("nodeSelectorTerms", MOST)
    ]
    entries = [one for labels, fields in terms for one in (*labels, *fields)]
    if max(len(terms), len(entries), sum([one.count("values") for one in entries]) // VALUES) > MOST:
        return Large.LARGE
    return tuple([NodeTerm(_requirements(labels), _requirements(fields)) for labels, fields in terms])


def _requirements(entries: Sequence[Fields]) -> tuple[Requirement, ...]:
    return tuple(
        [Requirement(one.required_text("key"), one.required_text("operator"), one.texts("values")) for one in entries]
    )


@lru_cache(maxsize=1024)
def _toleration(key: str, operator: str, value: str, effect: str) -> Toleration:
    return Toleration(key, operator, value, effect)


def tolerations(spec: Fields) -> tuple[Toleration, ...]:
    """Return the tolerations, none of them where they are too many. Equal ones are kept once for all Pods."""
    if spec.count("tolerations") > MOST:
        return ()
    return tuple(
        [
            _toleration(one.text("key"), one.text("operator"), one.text("value"), one.text("effect"))
            for one in spec.each("tolerations")
        ]
    )


def anti_affinity(spec: Fields) -> tuple[AntiAffinity, ...]:
    """Return the required terms. One without a selector is about no Pod (`apimachinery`, LabelSelectorAsSelector).

    Each gated Pod of any namespace is compared with them: of more than `MOST` terms, or labels and namespaces in all
    terms, one is returned that may be about any Pod.
    """
    terms = spec.inner("affinity").inner("podAntiAffinity").each(_REQUIRED, MOST)
    selecting = [(term, term.inner("labelSelector")) for term in terms if "labelSelector" in term]
    entries = sum([term.count("namespaces") + selector.count("matchLabels") for term, selector in selecting])
    if max(len(terms), entries) > MOST:
        return (AntiAffinity(everywhere=True),)
    return tuple(
        AntiAffinity(
            tuple(sorted(selector.strings("matchLabels").items())),
            term.texts("namespaces"),
            everywhere="namespaceSelector" in term,
        )
        for term, selector in selecting
    )
