"""Check Nodes: both sides show the same state, and changes by others remain."""

from __future__ import annotations

from dataclasses import dataclass, field

from extender.domain.wellknown import (
    CORDONED_BY,
    DRAIN_PREFIX,
    NATIVE_JOB_TAINT,
    OWN_PREFIX,
    SLURM_AVAILABLE_CONDITION,
    UNAVAILABLE_TAINT,
)
from simulator.actors.operators import is_cordoned_by_others
from simulator.cluster import SimCluster
from simulator.event_log import node_subject
from simulator.invariants.checker import InvariantChecker
from simulator.invariants.invariant import Invariant
from simulator.kube.objects import Json
from simulator.kube.resources import NODES
from simulator.kube.storage import WatchEvent
from simulator.slurm.records import SimNode


@dataclass(slots=True)
class NodeInvariants:
    """Check the Nodes of one cluster, for `checker`."""

    cluster: SimCluster
    checker: InvariantChecker
    _nodes: dict[str, Json] = field(default_factory=dict)

    def begin(self) -> None:
        """Start to check."""
        self._nodes = {one["metadata"]["name"]: one for one in self.cluster.kube.storage.of(NODES)}
        self.cluster.kube.storage.listen(self._on_event)
        self.checker.also.append(self.check)

    def _on_event(self, event: WatchEvent) -> None:
        if event.resource != NODES:
            return
        name = event.object["metadata"]["name"]
        before = self._nodes.get(name)
        self._nodes[name] = event.object
        if before is None or not self.cluster.kube.in_client_request:
            return
        self.checker.checked[Invariant.FOREIGN_CORDONS] += 1
        subject = node_subject(self.cluster.names.slurm(name))
        after = event.object
        if is_cordoned_by_others(before) and not _unschedulable(after):
            self.checker.violate(Invariant.FOREIGN_CORDONS, f"the cordon of Node {name} was lifted", subject)
        if _taints_of_others(before) != _taints_of_others(after):
            self.checker.violate(Invariant.FOREIGN_CORDONS, f"other taints of Node {name} were changed", subject)

    def check(self) -> None:
        """Check everything that must hold after its time limit."""
        drain = self.cluster.extender.config.nodes.drain
        for slurm in self.cluster.slurm.controller.nodes.values():
            node = self.cluster.kube.node(self.cluster.names.kube(slurm.name))
            if node is None:
                continue
            subject = node_subject(slurm.name)
            shown, ill = _shown(node), _ill(slurm)
            hidden, old = ill and not shown, bool(shown) and not ill
            text = "Slurm starts nothing there, and the Node says nothing"
            self.checker.hold(Invariant.SAME_NODE_STATE, f"{slurm.name} hidden", hidden, text, subject)
            text = f"Slurm has it well, and the Node has {shown}"
            self.checker.hold(Invariant.SAME_NODE_STATE, f"{slurm.name} old", old, text, subject)
            missed = drain.cordoned and is_cordoned_by_others(node) and not (slurm.drained or slurm.failing)
            self.checker.hold(
                Invariant.SAME_NODE_STATE, f"{slurm.name} cordon", missed, "it is cordoned and not drained", subject
            )
            busy = any(slurm.name in job.nodes for job in self.cluster.slurm.controller.known_jobs() if job.running)
            stale = NATIVE_JOB_TAINT in _keys(node) and not busy
            self.checker.hold(
                Invariant.SAME_NODE_STATE, f"{slurm.name} lock", stale, "it is locked for no job", subject
            )


def _ill(node: SimNode) -> bool:
    said = node.failing or node.maintenance or (node.drained and not node.reason.startswith(DRAIN_PREFIX))
    return node.down or node.silent or said


def _shown(node: Json) -> str:
    """Return the marks of the extender on the Node by which Slurm has it unavailable."""
    said = [
        one["type"]
        for one in node["status"]["conditions"]
        if one["type"] == SLURM_AVAILABLE_CONDITION and one["status"] == "False"
    ]
    said += [UNAVAILABLE_TAINT] if UNAVAILABLE_TAINT in _keys(node) else []
    said += [CORDONED_BY] if CORDONED_BY in (node["metadata"].get("annotations") or {}) else []
    return ", ".join(said)


def _keys(node: Json) -> set[str]:
    return {taint["key"] for taint in node["spec"].get("taints") or ()}


def _unschedulable(node: Json) -> bool:
    return bool(node["spec"].get("unschedulable"))


def _taints_of_others(node: Json) -> list[Json]:
    return [taint for taint in node["spec"].get("taints") or () if not taint["key"].startswith(OWN_PREFIX)]
