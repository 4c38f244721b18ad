"""Which Kubernetes Node a Slurm node is.

A pair is found by the first of these that says anything: our label or annotation on the Node; slurm-bridge's label; the
Pod that runs the slurmd; the same name; the Slurm node's NodeHostname. What is ambiguous is in no pair: a wrong pair
would start a Pod on a machine that Slurm has given to somebody else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from extender.domain.cluster import SlurmPicture
from extender.domain.views import NodeView
from extender.domain.wellknown import BRIDGE_SLURM_NODE, SLURM_NODE

_NONE: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class NodeMap:
    """Pairs of nodes, one to one, both ways. `problems` are sentences for an operator.

    Unless it is `known`, a node without a pair means nothing: the nodes of one side have not been read yet.
    """

    kubernetes: Mapping[str, str] = field(default_factory=dict)
    """Slurm name -> Kubernetes name."""

    slurm: Mapping[str, str] = field(default_factory=dict)
    """Kubernetes name -> Slurm name."""

    problems: tuple[str, ...] = ()
    known: bool = False

    def to_kubernetes(self, slurm_names: Iterable[str]) -> frozenset[str]:
        """The Kubernetes names of those that have one."""
        return frozenset(self.kubernetes[name] for name in slurm_names if name in self.kubernetes)

    def to_slurm(self, kubernetes_names: Iterable[str]) -> frozenset[str]:
        """The Slurm names of those that have one."""
        return frozenset(self.slurm[name] for name in kubernetes_names if name in self.slurm)


def map_nodes(nodes: Iterable[NodeView], slurm: SlurmPicture, slurmd_pods: Mapping[str, str] = _NONE) -> NodeMap:
    """Pairs the Nodes with Slurm's. `slurmd_pods`: Slurm name -> Kubernetes node of the Pod that runs its slurmd.

    Nodes that Slurm does not know, and Slurm nodes outside of Kubernetes, are ordinary and no problem; a statement that
    cannot be true is one.
    """
    by_name = {node.name: node for node in sorted(nodes, key=lambda node: node.name)}
    if not slurm.nodes or not by_name:
        return NodeMap()
    matching = _Matching(by_name, slurm)
    matching.stated("label or annotation " + SLURM_NODE, _own_names)
    matching.stated("label " + BRIDGE_SLURM_NODE, lambda node: _said(node.labels.get(BRIDGE_SLURM_NODE)))
    matching.pair("the Pod of its slurmd", {name: [node] for name, node in slurmd_pods.items()})
    matching.pair("its name", {name: [name] for name in slurm.nodes})
    matching.pair("its NodeHostname", {n.name: [n.hostname] for n in slurm.nodes.values() if n.hostname})
    pairs = matching.pairs
    return NodeMap(
        MappingProxyType(pairs),
        MappingProxyType({node: name for name, node in pairs.items()}),
        tuple(matching.problems),
        known=True,
    )


class _Matching:
    """Pairs found so far, and the nodes of both sides that are spoken for, paired or in dispute."""

    def __init__(self, nodes: Mapping[str, NodeView], slurm: SlurmPicture) -> None:
        self.pairs: dict[str, str] = {}
        self.problems: list[str] = []
        self._free_nodes = dict(nodes)
        self._free_names = dict.fromkeys(slurm.nodes)
        self._known = slurm.nodes

    def stated(self, how: str, name_of: Callable[[NodeView], tuple[str, ...]]) -> None:
        """Nodes that say themselves which Slurm node they are; to say it wrongly takes them out."""
        claims: dict[str, list[str]] = {}
        for node in list(self._free_nodes.values()):
            for name in name_of(node):
                if name in self._known:
                    claims.setdefault(name, []).append(node.name)
                else:
                    self.problems.append(f"Node {node.name}: {how} names {name!r}, which Slurm does not know")
                    self._free_nodes.pop(node.name, None)
        self.pair(how, claims)

    def pair(self, how: str, claims: Mapping[str, list[str]]) -> None:
        """Pairs what is claimed once on both sides; a dispute takes all of its nodes out."""
        open_claims = {
            name: [node for node in nodes if node in self._free_nodes]
            for name, nodes in claims.items()
            if name in self._free_names
        }
        claimants: dict[str, list[str]] = {}
        for name, nodes in open_claims.items():
            for node in nodes:
                claimants.setdefault(node, []).append(name)
        for name, nodes in open_claims.items():
            if len(nodes) > 1:
                self.problems.append(f"Slurm node {name} is claimed by Nodes {', '.join(nodes)} through {how}")
            elif nodes and len(claimants[nodes[0]]) == 1:
                self.pairs[name] = nodes[0]
        for node, names in claimants.items():
            if len(names) > 1:
                self.problems.append(f"Node {node} is claimed for Slurm nodes {', '.join(sorted(names))} through {how}")
            del self._free_nodes[node]
            for name in names:
                self._free_names.pop(name, None)


def _own_names(node: NodeView) -> tuple[str, ...]:
    # Two different names are two claims, which is a dispute.
    return tuple({*_said(node.labels.get(SLURM_NODE)), *_said(node.annotations.get(SLURM_NODE))})


def _said(name: str | None) -> tuple[str, ...]:
    return (name,) if name else ()
