"""Report the mapping of nodes: nodes without a partner, contradictory statements, partitions without a fence."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import structlog

from extender.domain.nodes.mapping import NodeMap
from extender.domain.ports import Announcement, Announcer
from extender.domain.views import NodeView
from extender.domain.wellknown import SLURM_NODE, Reason

_log = structlog.get_logger(__name__)

NAMED, NOTIFIED = 20, 200
"""Nodes without a partner: how many are named in a line of the log, and how many get an Event at a time."""

ALONE = (
    f"This Node maps to no Slurm node, so no Pod is placed here. Map it by the label or annotation {SLURM_NODE}, by "
    "its slurmd Pod (nodes.slurmdPods), by its name, or by Slurm's NodeHostname."
)


class NodeMappingReporter:
    """Report each new problem once, in the log and on Nodes. `awaited`: Nodes that are about to get a Slurm node."""

    def __init__(self, announcer: Announcer, awaited: Callable[[NodeView], bool]) -> None:
        self._announcer = announcer
        self._awaited = awaited
        self._weakly_fenced: tuple[str, ...] = ()

    def report_changes(self, before: NodeMap, now: NodeMap, nodes: Mapping[str, NodeView]) -> None:
        """Announce what changed in the mapping since it was computed last."""
        self._report_unmapped(before, now, nodes)
        for problem in now.problems:
            if problem not in before.problems:
                _log.warning("node_mapping_conflict", problem=problem)
                self._announce(problem, nodes)
        for problem in before.problems:
            if problem not in now.problems:
                _log.info("node_mapping_cleared", problem=problem)

    def report_weakly_fenced_partitions(self, problems: tuple[str, ...]) -> None:
        """Report settings of Slurm that no fence covers (`domain.nodes.fences`)."""
        for problem in problems:
            if problem not in self._weakly_fenced:
                _log.warning("fence_weak", problem=problem)
        self._weakly_fenced = problems

    def _report_unmapped(self, before: NodeMap, now: NodeMap, nodes: Mapping[str, NodeView]) -> None:
        """Name the nodes of either side that have no partner, or not any more: in the log, and on the first Nodes."""
        if new := sorted(set(now.without_kubernetes) - set(before.without_kubernetes)):
            _log.info("slurm_nodes_without_node", count=len(new), first=new[:NAMED])
        if not (new := sorted(set(now.without_slurm) - set(before.without_slurm))):
            return
        _log.info("nodes_without_slurm_node", count=len(new), first=new[:NAMED])
        disputed = {name for problem in now.problems for name in _words(problem)}
        lonely = [name for name in new if name not in disputed and not self._awaited(nodes[name])]
        for name in lonely[:NOTIFIED]:
            announcement = Announcement("Node", "", name, nodes[name].uid, Reason.NO_SLURM_NODE, ALONE)
            self._announcer.announce(announcement)

    def _announce(self, problem: str, nodes: Mapping[str, NodeView]) -> None:
        """Create an Event on every Node that the sentence names."""
        for name in _words(problem):
            if (node := nodes.get(name)) is not None:
                announcement = Announcement(
                    "Node", "", name, node.uid, Reason.NODE_MAPPING_CONFLICT, f"{problem}.", warning=True
                )
                self._announcer.announce(announcement)


def _words(problem: str) -> list[str]:
    """Return the words of a sentence that may be names of nodes."""
    return list(dict.fromkeys(word.rstrip(".") for word in re.findall(r"[A-Za-z0-9._-]+", problem)))
