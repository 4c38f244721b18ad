"""Compute the external node of Slurm that a Node is registered as, or why it cannot be registered.

External nodes have no slurmd (`State=EXTERNAL`). CPUs, memory and GRES of one cannot be changed: such a node is deleted
and created again. Features, topology and address can (`update_node` in `slurmctld/node_mgr.c`); but slurmctld computes
the node sets of a node only when it is created, and at a reconfiguration.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from extender.domain.pods.requests import CPU, MEMORY, pod_requests
from extender.domain.policy.selectors import Selector
from extender.domain.policy.site import TranslationPolicy
from extender.domain.quantity import ONE, parse
from extender.domain.translation.gres import GPU, to_gres, with_type
from extender.domain.views import NodeView, PodView
from extender.domain.wellknown import BRIDGE_SLURM_NODE, SLURM_NODE
from extender.domain.wildcards import matches

MEBI = 2**20

VALUE = "{value}"
"""Stands in the text of a feature for the value of its label."""

_MARK = "slurm-extender"
_WORD = re.compile(r"[A-Za-z0-9_.:-]+")
_NOT_IN_A_WORD = re.compile(r"[^A-Za-z0-9_.-]")


class Unfit(ValueError):
    """Report that a Node cannot be registered as it is; the text says why."""


@dataclass(frozen=True, slots=True)
class FeatureRule:
    """Give Nodes with this label a feature. `value` `None`: any value; `{value}` in `feature` stands for it.

    Raises `ValueError` if that is no feature of Slurm.
    """

    label: str
    feature: str
    value: str | None = None
    node_set: bool = False
    """slurm.conf has a NodeSet of it."""

    def __post_init__(self) -> None:
        if not _WORD.fullmatch(self.feature.replace(VALUE, "x")):
            raise ValueError(
                f"feature {self.feature!r}: it must consist of letters, digits, '_', '.', ':', '-' and {VALUE}"
            )

    def of(self, labels: Mapping[str, str]) -> str | None:
        """Return the feature of a Node with these labels; `None`: none."""
        value = labels.get(self.label)
        if value is None or self.value not in {None, value}:
            return None
        return self.feature.replace(VALUE, _NOT_IN_A_WORD.sub("_", value))


@dataclass(frozen=True, slots=True)
class TopologyRule:
    """Place a Node in a topology of Slurm by the values of these labels, from the outermost unit to the innermost.

    slurmctld creates a missing switch below an existing one (`under`), and no other unit.
    """

    name: str
    labels: tuple[str, ...]
    under: str = ""

    def of(self, labels: Mapping[str, str]) -> str | None:
        """Return `NAME:unit:unit`; `None`: one of the labels is missing or empty."""
        units = [_NOT_IN_A_WORD.sub("_", labels.get(key, "")) for key in self.labels]
        above = (self.name, self.under) if self.under else (self.name,)
        return ":".join((*above, *units)) if all(units) else None


@dataclass(frozen=True, slots=True)
class ExternalRules:
    """Hold the site's rules. `selector` selects the Nodes; `None`: nothing is registered and nothing changed."""

    selector: Selector | None = None
    node_sets: tuple[str, ...] = ()
    """Features that every registered node has, for `NodeSet=NAME Feature=NAME` in slurm.conf."""

    features: tuple[FeatureRule, ...] = ()
    topologies: tuple[TopologyRule, ...] = ()
    translation: TranslationPolicy = field(default_factory=TranslationPolicy)
    """The names of resources and types of GPUs in Slurm: as in the jobs that ask for them."""

    schedulers: frozenset[str] = frozenset()
    """The schedulers whose Pods have jobs: these are no part of the system."""

    remove: bool = False
    """No Node is to be registered any more, whatever the selector says."""

    def in_a_node_set(self, feature: str) -> bool:
        """Return whether a node set rests on this feature: a node that gets or loses it has to be created again."""
        sets = [rule.feature.split(VALUE) for rule in self.features if rule.node_set]
        return feature in self.node_sets or any(_made_of(feature, parts) for parts in sets)

    def meant(self, node: NodeView) -> bool:
        """Return whether this Node has to be a node of Slurm."""
        return self.selector is not None and not self.remove and self.selector.selects(node.labels)


@dataclass(frozen=True, slots=True)
class SettleDelays:
    """Hold the delays. `settle`: seconds for which a Node must differ before its node in Slurm is emptied."""

    settle: float = 30.0


@dataclass(frozen=True, slots=True)
class DesiredNode:
    """Describe a Node as it has to be in Slurm. `node` is its name in Kubernetes."""

    name: str
    node: str
    address: str
    cpus: int
    memory_mb: int
    gres: Mapping[str, int] = field(default_factory=dict)
    """By name, with a type where one is known: `gpu:h100`."""

    features: tuple[str, ...] = ()
    topology: str = ""
    ready: bool = True
    """The Node is Ready in Kubernetes. The size of a Node that is not may be anything."""

    def without(self, gres: Collection[str]) -> DesiredNode:
        """Return it without GRES of these names."""
        return replace(self, gres={full: n for full, n in self.gres.items() if full.partition(":")[0] not in gres})


def _made_of(feature: str, parts: Iterable[str]) -> bool:
    return matches("*".join(parts), feature)


def slurm_name(node: NodeView) -> str:
    """Return the name that the Node has or gets in Slurm. Raises `Unfit`."""
    for key in (SLURM_NODE, BRIDGE_SLURM_NODE):
        names = {name for name in (node.labels.get(key), node.annotations.get(key)) if name}
        if len(names) > 1:
            raise Unfit(f"label and annotation {key} differ: {' and '.join(sorted(names))}")
        if names:
            return names.pop()
    return node.name


def part_of_the_system(pod: PodView, schedulers: frozenset[str]) -> bool:
    """Return whether Slurm cannot allocate the part of this Pod: a DaemonSet's or a static Pod without a job."""
    return pod.of_its_node and pod.scheduler_name not in schedulers and not pod.finished


def wanted(node: NodeView, pods: Iterable[PodView], rules: ExternalRules) -> DesiredNode:
    """Return the node of Slurm for this Node, less the Pods of the system on it. Raises `Unfit`."""
    room = _room(node, pods, rules)
    cpus, memory_mb = room.get(CPU, 0) // ONE, room.get(MEMORY, 0) // (ONE * MEBI)
    if cpus < 1 or memory_mb < 1:
        raise Unfit(
            f"{cpus} whole CPUs and {memory_mb} MiB are left of its allocatable amounts without DaemonSet Pods and "
            "static Pods; a Slurm node needs at least 1 of both"
        )
    if not node.internal_ip:
        # slurmctld would resolve the name at the start of each job, with its locks held.
        raise Unfit("it has no address of the type InternalIP, which slurmctld needs")
    features = [name for rule in rules.features if (name := rule.of(node.labels))]
    return DesiredNode(
        name=slurm_name(node),
        node=node.name,
        address=node.internal_ip,
        cpus=cpus,
        memory_mb=memory_mb,
        gres=_gres(node, room, rules),
        features=tuple(sorted({*rules.node_sets, *features})),
        topology=",".join(found for rule in rules.topologies if (found := rule.of(node.labels))),
        ready=node.ready is True,
    )


def _room(node: NodeView, pods: Iterable[PodView], rules: ExternalRules) -> dict[str, int]:
    """Return allocatable less the requests of the system's Pods, in billionths."""
    try:
        room = {name: parse(text) for name, text in node.allocatable.items()}
    except ValueError as why:
        raise Unfit(f"status.allocatable: {why}") from None
    if CPU not in room or MEMORY not in room:
        raise Unfit("status.allocatable lacks its CPUs or its memory")
    for pod in pods:
        if part_of_the_system(pod, rules.schedulers):
            try:
                requests = pod_requests(pod)
            except ValueError as why:
                raise Unfit(f"Pod {pod.full_name}: {why}") from None
            for name, size in requests.items():
                room[name] = room.get(name, 0) - size
    return room


def _gres(node: NodeView, room: Mapping[str, int], rules: ExternalRules) -> dict[str, int]:
    """Return the GRES that the map names. Slurm has none of the other resources."""
    policy = rules.translation
    # Whole devices: half a device cannot be allocated.
    gres = to_gres({name: size // ONE * ONE for name, size in room.items()}, policy).gres
    labels = [value for key in policy.gpu_type_labels if (value := node.labels.get(key)) is not None]
    types = {policy.gpu_types[value] for value in labels if value in policy.gpu_types}
    if GPU in gres and len(types) > 1:
        raise Unfit(f"its labels name more than one type of GPU: {', '.join(sorted(types))}")
    return with_type(gres, types.pop() if types else "")


def mark(owner: str, node: str) -> str:
    """Return the feature that marks a registered node: no other text of a new node can be chosen.

    `Extra` and `Comment` can only be written afterwards: a crash in between would leave a node without an owner.
    """
    return f"{_MARK}:{owner}:{node}"


def marked(features: Iterable[str]) -> tuple[str, str]:
    """Return the extender that registered a node and the name of the Node; both "": it has no such feature."""
    found = [one.split(":") for one in features if one.startswith(f"{_MARK}:")]
    return (found[0][1], found[0][2]) if len(found) == 1 and len(found[0]) == 3 else ("", "")
