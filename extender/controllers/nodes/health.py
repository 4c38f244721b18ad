"""Hold the Slurm nodes of Nodes that take no new Pods in Kubernetes either: cordoned, not Ready, deleted ...

The node controller keeps a node drained for as long as there is a cause, drains it again if the drain is lifted, and
leaves the drains of others alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from extender.controllers.nodes.controller import NodeController
from extender.controllers.nodes.drains import NODE_CAUSE
from extender.domain.nodes.causes import DrainRules, NodeFacts, causes, deleted_in, may_say_not_ready
from extender.domain.nodes.mapping import speaks_no_more
from extender.domain.ports import Clock
from extender.domain.views import NodeView, PodView
from extender.engine.engine import Engine
from extender.runtime.controller import Controller, Requeue, Resync
from extender.runtime.topics import DrainFound, NodeChanged, SnapshotChanged

CHECK_EVERY = 1.0
"""Seconds between two checks of a Node that is not Ready: a rule may demand that this lasts."""


class HealthController:
    """Compare every Node that is or was a node of Slurm with the rules, when it or the snapshot changes.

    Keys are names of Slurm nodes. `slurmds` gives the Pods that run the slurmd of a Slurm node.
    """

    def __init__(
        self,
        engine: Engine,
        nodes: NodeController,
        clock: Clock,
        rules: DrainRules,
        *,
        kube_node: Callable[[str], NodeView | None],
        slurmds: Callable[[str], Iterable[PodView]],
    ) -> None:
        self._engine = engine
        self._nodes = nodes
        self._clock = clock
        self._rules = rules
        self._kube_node = kube_node
        self._slurmds = slurmds
        self._held: dict[str, dict[str, str]] = {}
        """What each Slurm node is held for, by kind."""

        self._not_ready: dict[str, float] = {}
        """Since when each Node has not been Ready."""

        self._had_slurmd: dict[str, str] = {}
        """The last Pod that ran the slurmd of each Slurm node."""

        self._remembered: dict[str, str] = {}
        """Slurm nodes whose Node was deleted before this start, and which it was."""

        self._left: set[str] = set()
        """Nodes that an administrator removed from Slurm: their labels name no Slurm node any more."""

        self._controller = Controller("health of nodes", self._reconcile, resync=Resync(self._all))

    def node_changed(self, event: NodeChanged) -> None:
        """Check this Node for causes of a drain."""
        if (node := event.new or event.old) is not None:
            for slurm_node in self._engine.snapshot.node_map.last_slurm([node.name]):
                self._controller.add(slurm_node)

    def snapshot_changed(self, _event: SnapshotChanged) -> None:
        """Check all Nodes for causes of a drain."""
        if self._controller.running:
            for slurm_node in self._all():
                self._controller.add(slurm_node)

    def slurmd_changed(self, slurm_node: str) -> None:
        """Handle a change of a Pod that runs the slurmd of this Slurm node."""
        self._controller.add(slurm_node)

    def drain_found(self, event: DrainFound) -> None:
        """Hold on what the process before this one held, at once and without a wait: the drain may be lifted next."""
        slurm_node, reason = event.slurm_node, event.reason
        node_map = self._engine.snapshot.node_map
        if not (self._controller.running and self._rules.some and node_map.known):
            return
        name = node_map.partner(slurm_node)
        if name is not None:
            node = self._kube_node(name)
            if (
                node is not None
                and not node.ready
                and self._rules.not_ready_after is not None
                and may_say_not_ready(reason)
            ):
                self._not_ready[name] = self._clock.now() - self._rules.not_ready_after
            self._check_one(slurm_node, name)
        elif deleted := deleted_in(reason):
            self._remembered[slurm_node] = deleted
            self._check_one(slurm_node, deleted)

    async def run(self) -> None:
        """Compare until cancelled."""
        await self._controller.run()

    async def _reconcile(self, slurm_node: str) -> Requeue | None:
        name = self._was(slurm_node)
        if name is None or not (self._rules.some and self._engine.snapshot.node_map.known):
            return None
        self._check_one(slurm_node, name)
        return Requeue(CHECK_EVERY) if name in self._not_ready else None

    def _all(self) -> list[str]:
        """Return every Slurm node that is or was a Node, and drop what is remembered of others.

        While the mapping is unknown, everything stays as it is.
        """
        node_map = self._engine.snapshot.node_map
        if not (self._rules.some and node_map.known):
            return []
        pairs = {slurm_node: name for name, slurm_node in node_map.last.items()}
        known = self._engine.snapshot.slurm.nodes
        self._remembered = {s: name for s, name in self._remembered.items() if s not in pairs and s in known}
        for slurm_node in self._held.keys() - pairs.keys() - self._remembered.keys():
            self._hold(slurm_node, {})  # Slurm does not have it any more
        both = self._remembered | pairs
        names = set(both.values())
        self._not_ready = {name: since for name, since in self._not_ready.items() if name in names}
        self._had_slurmd = {its: pod for its, pod in self._had_slurmd.items() if its in both}
        self._left &= names
        return list(both)

    def _was(self, slurm_node: str) -> str | None:
        """Return the Node that it is or was, deleted ones from before this start included."""
        return self._engine.snapshot.node_map.partner(slurm_node) or self._remembered.get(slurm_node)

    def _check_one(self, slurm_node: str, name: str) -> None:
        node, now = self._kube_node(name), self._clock.now()
        if node is None or node.ready:
            self._not_ready.pop(name, None)
        else:
            self._not_ready.setdefault(name, now)
        since = self._not_ready.get(name)
        not_ready_s = None if since is None else now - since
        slurmd_pods = tuple(self._slurmds(slurm_node))
        if slurmd_pods:
            self._had_slurmd[slurm_node] = slurmd_pods[-1].full_name
        had = self._had_slurmd.get(slurm_node, "")
        if node is None and name in self._left:
            self._hold(slurm_node, {})
            return
        was = self._engine.snapshot.slurm.nodes.get(slurm_node)
        if node is not None and was is not None and speaks_no_more(node, was) and not had:
            self._left.add(name)
        else:
            self._left.discard(name)
        self._hold(slurm_node, causes(NodeFacts(name, node, not_ready_s, slurmd_pods, had), self._rules))

    def _hold(self, slurm_node: str, wanted: Mapping[str, str]) -> None:
        held = self._held.get(slurm_node, {})
        for kind, text in wanted.items():
            if held.get(kind) != text:
                self._nodes.hold(slurm_node, f"{NODE_CAUSE}{kind} {slurm_node}", text, closely=0.0)
        for kind in held.keys() - wanted.keys():
            self._nodes.release_hold(f"{NODE_CAUSE}{kind} {slurm_node}")
        if wanted:
            self._held[slurm_node] = dict(wanted)
        else:
            self._held.pop(slurm_node, None)
