"""Map Slurm nodes to Kubernetes Nodes.

A pair is found by the first of these that applies: the extender's label or annotation on the Node; slurm-bridge's; the
Node that the Slurm node was registered for (`nodes.external_nodes`); the Pod that runs the slurmd; the same name; the
Slurm node's NodeHostname. An ambiguous node is in no pair: a wrong pair would start a Pod on a machine that Slurm has
allocated to another job.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from extender.domain.cluster import SlurmNode, SlurmSnapshot
from extender.domain.views import NodeView
from extender.domain.wellknown import BRIDGE_SLURM_NODE, RESTRICTED_SLURM_NODE, SLURM_NODE

_NONE: Mapping[str, Collection[str]] = MappingProxyType({})


SLURMD = "its slurmd Pod"


@dataclass(frozen=True, slots=True)
class Pairing:
    """Hold the rules by which Nodes are paired with Slurm nodes.

    Not `by_name`: neither name nor NodeHostname counts. A slurmd in a Pod restarts now and then, and its Slurm node
    must not be paired meanwhile with a Node that happens to have its name.

    `restricted`: of a Node's labels and annotations, only the label that no kubelet can write counts. By default a
    kubelet can give its own Node the other keys.
    """

    by_name: bool = True
    restricted: bool = False

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the labels and annotations by which a Node states its Slurm name, the strongest first."""
        return (RESTRICTED_SLURM_NODE,) if self.restricted else (RESTRICTED_SLURM_NODE, SLURM_NODE, BRIDGE_SLURM_NODE)


DEFAULT_PAIRING = Pairing()


@dataclass(frozen=True, slots=True)
class NodeMap:
    """Hold pairs of nodes, one to one, both ways. `problems` are sentences for an operator.

    Unless it is `known`, a node without a pair means nothing: the nodes of one side have not been read yet.
    """

    kubernetes: Mapping[str, str] = field(default_factory=dict)
    """Slurm name -> Kubernetes name."""

    slurm: Mapping[str, str] = field(default_factory=dict)
    """Kubernetes name -> Slurm name."""

    problems: tuple[str, ...] = ()
    known: bool = False
    last: Mapping[str, str] = field(default_factory=dict)
    """Kubernetes name -> Slurm name: pairs that are there, or were and of which neither has another partner now.

    What runs on a Node keeps Slurm's node while the Node, its label or its slurmd is away.
    """

    without_slurm: tuple[str, ...] = ()
    """Nodes that are no node of Slurm, those in dispute among them."""

    without_kubernetes: tuple[str, ...] = ()
    """Slurm nodes that are no Node."""

    _last_of: Mapping[str, str] = field(init=False, repr=False, compare=False)
    """`last` the other way round: one of ten thousand is asked for each of as many nodes."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "_last_of", {name: node for node, name in self.last.items()})

    def to_kubernetes(self, slurm_names: Iterable[str]) -> frozenset[str]:
        """Return the Kubernetes names of the nodes that have one."""
        return frozenset(self.kubernetes[name] for name in slurm_names if name in self.kubernetes)

    def to_slurm(self, kubernetes_names: Iterable[str]) -> frozenset[str]:
        """Return the Slurm names of the nodes that have one."""
        return frozenset(self.slurm[name] for name in kubernetes_names if name in self.slurm)

    def last_kubernetes(self, slurm_name: str) -> str:
        """Return the Kubernetes name that it has or had, else its own; "": its own name is another node's Node."""
        found = self.partner(slurm_name)
        return found if found is not None else ("" if slurm_name in self.last else slurm_name)

    def partner(self, slurm_name: str) -> str | None:
        """Return the Kubernetes name that it has or had."""
        return self._last_of.get(slurm_name)

    def last_slurm(self, kubernetes_names: Iterable[str]) -> frozenset[str]:
        """Return the Slurm names of the nodes that have or had one: for Pods that run there, never for new ones."""
        return frozenset(self.last[name] for name in kubernetes_names if name in self.last)


def grounds(
    nodes: Iterable[NodeView], slurm: SlurmSnapshot, slurmd_pods: Mapping[str, Collection[str]] = _NONE
) -> tuple[object, ...]:
    """Return all inputs of `map_nodes`. While they are equal, the result is the same."""
    return (
        {node.name: tuple(_names(node, key) for key in DEFAULT_PAIRING.keys) for node in nodes},
        {name: (node.hostname, node.registered_for) for name, node in slurm.nodes.items()},
        {name: sorted(on) for name, on in slurmd_pods.items()},
    )


def map_nodes(
    nodes: Iterable[NodeView],
    slurm: SlurmSnapshot,
    slurmd_pods: Mapping[str, Collection[str]] = _NONE,
    before: NodeMap | None = None,
    *,
    pairing: Pairing = DEFAULT_PAIRING,
) -> NodeMap:
    """Pair the Nodes with Slurm's. `slurmd_pods`: Slurm name -> Kubernetes nodes of the Pods that run its slurmd.

    Nodes that Slurm does not know, and Slurm nodes outside of Kubernetes, are ordinary and no problem; a statement that
    cannot be true is one.
    """
    named = {node.name: node for node in sorted(nodes, key=lambda node: node.name)}
    was = {} if before is None else before.last
    if not slurm.nodes or not named:
        return NodeMap(last=was)
    matching = _Matching(named, slurm)
    matching.refuse_names_of_others(pairing, slurmd_pods)
    matching.refuse_names_under_two_keys(pairing)
    for key in pairing.keys:
        matching.stated(f"label or annotation {key}", lambda node, key=key: _names(node, key))  # type: ignore[misc]
    matching.registered({node.name: node.registered_for for node in slurm.nodes.values() if node.registered_for})
    matching.pair(SLURMD, {name: sorted(on) for name, on in slurmd_pods.items()}, certain=True)
    if pairing.by_name:
        matching.pair("its name", {name: [name] for name in slurm.nodes})
        matching.pair("its NodeHostname", {n.name: [n.hostname] for n in slurm.nodes.values() if n.hostname})
    pairs = matching.pairs
    current = {node: name for name, node in pairs.items()}
    kept = {node: name for node, name in was.items() if name in slurm.nodes and name not in pairs}
    return NodeMap(
        MappingProxyType(pairs),
        MappingProxyType(current),
        tuple(matching.problems),
        known=True,
        last=MappingProxyType(kept | current),
        without_slurm=tuple(name for name in named if name not in current),
        without_kubernetes=tuple(sorted(slurm.nodes.keys() - pairs.keys())),
    )


def speaks_no_more(node: NodeView, was: SlurmNode) -> bool:
    """Return whether the Node's label or annotation that named that Slurm node was removed."""
    named = any(_names(node, key) for key in DEFAULT_PAIRING.keys)
    return not named and node.name not in {was.name, was.hostname, was.registered_for}


class _Matching:
    """Hold the pairs found so far, and the nodes of both sides that are paired or in dispute."""

    def __init__(self, nodes: Mapping[str, NodeView], slurm: SlurmSnapshot) -> None:
        self.pairs: dict[str, str] = {}
        self.problems: list[str] = []
        self._free_nodes = dict(nodes)
        self._free_names = dict.fromkeys(slurm.nodes)
        self._known = slurm.nodes

    def refuse_names_of_others(self, pairing: Pairing, slurmd_pods: Mapping[str, Collection[str]]) -> None:
        """Take out Nodes that state the name of another Node, with that Node, unless that one states something itself.

        A kubelet can label and annotate its own Node: by the name of another one it would draw Pods that are meant for
        that, and their Secrets. Where the other Node states a name, both statements are compared in `stated`.
        """
        nodes = dict(self._free_nodes)
        silent = {name for name, node in nodes.items() if not any(_names(node, key) for key in pairing.keys)}
        for node in nodes.values():
            for key in pairing.keys:
                for name in _names(node, key):
                    known = self._known.get(name)
                    if known is None:
                        continue
                    owners = {known.registered_for, *slurmd_pods.get(name, ())}
                    owners |= {name, known.hostname} if pairing.by_name else set()
                    for owner in sorted((owners & silent) - {node.name}):
                        self.problems.append(
                            f"Node {node.name}: label or annotation {key} names {name!r}, which is Node {owner}; no "
                            f"Pod is placed on either. If it is right, Node {owner} has to state its own Slurm name"
                        )
                        for one in (node.name, owner):
                            self._free_nodes.pop(one, None)
                        self._free_names.pop(name, None)

    def refuse_names_under_two_keys(self, pairing: Pairing) -> None:
        """Take out Nodes that state one name under different keys which kubelets can write.

        Else a kubelet would draw the Pods of a Node that states its name under a weaker key. What the label says that
        no kubelet can write holds against all of them.
        """
        nodes = self._free_nodes
        certain = {name for node in nodes.values() for name in _names(node, RESTRICTED_SLURM_NODE)}
        under: dict[str, dict[str, str]] = {}
        for node in nodes.values():
            key = next((key for key in pairing.keys if _names(node, key)), RESTRICTED_SLURM_NODE)
            if key != RESTRICTED_SLURM_NODE:
                for name in _names(node, key):
                    under.setdefault(name, {})[node.name] = key
        for name, keys in under.items():
            if name in self._known and name not in certain and len(set(keys.values())) > 1:
                claims = ", ".join(f"{node} ({key})" for node, key in keys.items())
                self.problems.append(f"Slurm node {name} is stated by Nodes {claims}; no Pod is placed on any of them")
                self._free_names.pop(name, None)
                for one in keys:
                    self._free_nodes.pop(one, None)

    def stated(self, how: str, name_of: Callable[[NodeView], tuple[str, ...]]) -> None:
        """Pair Nodes that state their Slurm node themselves; a wrong statement takes them out."""
        statements: dict[str, list[str]] = {}
        for node in list(self._free_nodes.values()):
            for name in name_of(node):
                if name in self._known:
                    statements.setdefault(name, []).append(node.name)
                else:
                    self.problems.append(f"Node {node.name}: {how} names {name!r}, which does not exist in Slurm")
                    self._free_nodes.pop(node.name, None)
        self.pair(how, statements)

    def registered(self, nodes: Mapping[str, str]) -> None:
        """Pair Slurm nodes that were created for a Node: with no other Node while that one is away or another's."""
        there = {name: node for name, node in nodes.items() if node in self._free_nodes}
        for name in nodes.keys() - there.keys():
            self._free_names.pop(name, None)
        self.pair("its registration", {name: [node] for name, node in there.items()})

    def pair(self, how: str, statements: Mapping[str, list[str]], *, certain: bool = False) -> None:
        """Pair nodes that are stated once on both sides; a dispute takes all of its nodes out.

        `certain`: the statement is a fact about the Slurm node, which is nothing else if the statement cannot be true.
        """
        open_statements = {
            name: [node for node in nodes if node in self._free_nodes]
            for name, nodes in statements.items()
            if name in self._free_names
        }
        names_by_node: dict[str, list[str]] = {}
        for name, nodes in open_statements.items():
            for node in nodes:
                names_by_node.setdefault(node, []).append(name)
        for name, nodes in open_statements.items():
            stated_by = statements[name] if certain else nodes
            if len(stated_by) > 1:
                self.problems.append(f"Slurm node {name} is stated by Nodes {', '.join(stated_by)} through {how}")
                self._free_names.pop(name, None)
            elif nodes and len(names_by_node[nodes[0]]) == 1:
                self.pairs[name] = nodes[0]
            elif certain and not nodes:
                where = ", ".join(statements[name])
                self.problems.append(f"Slurm node {name}: {how} is on {where}, which is no Node or another's")
                self._free_names.pop(name, None)
        for node, names in names_by_node.items():
            if len(names) > 1:
                self.problems.append(f"Node {node} is stated for Slurm nodes {', '.join(sorted(names))} through {how}")
            del self._free_nodes[node]
            for name in names:
                self._free_names.pop(name, None)


def _names(node: NodeView, key: str) -> tuple[str, ...]:
    # Two different names are two statements, which is a dispute. NodeRestriction keeps kubelets from labels alone.
    on_label = node.labels.get(key)
    noted = node.annotations.get(key) if key != RESTRICTED_SLURM_NODE else None
    if not on_label and not noted:
        return ()
    return tuple(dict.fromkeys(name for name in (on_label, noted) if name))
