"""Derive the wanted Slurm node of every Node to be registered; recompute when the Node or one of its Pods changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from extender.domain.nodes.external_nodes import DesiredNode, ExternalRules, Unfit, wanted
from extender.domain.views import NodeView, PodView
from extender.engine.cluster_snapshot import ClusterSnapshot


class NodeLister(Protocol):
    """Every Node, as last seen."""

    def named(self, name: str) -> NodeView | None:
        """Return the Node with this name."""
        ...

    def names(self) -> frozenset[str]:
        """Return the names of all Nodes."""
        ...


class DesiredNodes:
    """Keep the wanted Slurm nodes. `on_node` gives the Pods of a Node."""

    def __init__(
        self, rules: ExternalRules, kube_nodes: NodeLister, on_node: Callable[[str], Sequence[PodView]]
    ) -> None:
        self._rules = rules
        self._kube_nodes = kube_nodes
        self._on_node = on_node
        self._wanted: dict[str, DesiredNode] = {}
        """By the name of the Node."""

        self._unreadable: dict[str, str] = {}
        """Nodes of which it cannot be said what they are to be, and why."""

        self._dirty: set[str] | None = None
        """Nodes to be recomputed; `None`: all."""

    def changed(self, node: str) -> None:
        """Note that this Node, or a Pod that belongs to it, changed."""
        if self._dirty is not None:
            self._dirty.add(node)

    def read(self) -> bool:
        """Read what changed. Return false where nothing did."""
        known = self._wanted.keys() | self._unreadable.keys()
        dirty = self._kube_nodes.names() | known if self._dirty is None else self._dirty
        self._dirty = set()
        for name in dirty:
            self._wanted.pop(name, None)
            self._unreadable.pop(name, None)
            node = self._kube_nodes.named(name)
            if node is not None and self._rules.meant(node):
                try:
                    self._wanted[name] = wanted(node, self._on_node(name), self._rules)
                except Unfit as why:
                    self._unreadable[name] = str(why)
        return bool(dirty)

    def of(self, node: str, slurm_name: str, snapshot: ClusterSnapshot) -> DesiredNode | None:
        """Return the wanted Slurm node of this Node, under that name."""
        want = self._wanted.get(node)
        return _as_slurm_can(want, snapshot) if want is not None and want.name == slurm_name else None

    def by_slurm_name(self, snapshot: ClusterSnapshot) -> tuple[dict[str, DesiredNode], dict[str, str]]:
        """Return the wanted nodes by name; and the Nodes that cannot be registered, and why.

        Those cannot be read, contradict each other, or are Slurm nodes that the extender did not register.
        """
        found: dict[str, list[DesiredNode]] = {}
        unfit = dict(self._unreadable)
        for want in self._wanted.values():
            one = _as_slurm_can(want, snapshot)
            is_now = snapshot.node_map.slurm.get(one.node, one.name)
            has = snapshot.slurm.nodes.get(is_now)
            if is_now != one.name and has is not None and has.registered_for != one.node:
                unfit[one.node] = f"it is Slurm node {is_now} already"
            else:
                found.setdefault(one.name, []).append(one)
        for name, several in found.items():
            if len(several) > 1:
                nodes = ", ".join(sorted(one.node for one in several))
                unfit |= {one.node: f"Nodes {nodes} all state the Slurm name {name}" for one in several}
        return {name: one for name, (one, *others) in found.items() if not others}, unfit

    def lacking(self, snapshot: ClusterSnapshot) -> dict[str, str]:
        """Return the Nodes with GRES that slurm.conf does not name, and a sentence about each."""
        found = {}
        for want in self._wanted.values():
            if names := ", ".join(sorted(_unknown_gres(want, snapshot))):
                found[want.node] = f"GresTypes of slurm.conf must name {names}; Node {want.node} has none in Slurm"
        return found


def _unknown_gres(want: DesiredNode, snapshot: ClusterSnapshot) -> set[str]:
    known = snapshot.slurm.features.gres_types
    return set() if known is None else {full.partition(":")[0] for full in want.gres} - known


def _as_slurm_can(want: DesiredNode, snapshot: ClusterSnapshot) -> DesiredNode:
    """Return the Node without GRES that slurm.conf does not name: slurmctld would omit those silently."""
    unknown = _unknown_gres(want, snapshot)
    return want.without(unknown) if unknown else want
