"""Combine the candidate nodes of a workload's members: its job may only get nodes that each of them may use."""

from __future__ import annotations

from collections.abc import Callable

from extender.domain import events as e
from extender.domain.placeholder import State
from extender.engine.placeholder_index import EmitEvent, PlaceholderIndex
from extender.runtime.event_bus import EventBus
from extender.runtime.topics import PlaceholderForgotten


class MemberCandidates:
    """Keep the last list of each member of a gang, and report the nodes that are in all of them."""

    def __init__(
        self, placeholders: PlaceholderIndex, emit: EmitEvent, is_gang: Callable[[str], bool], events: EventBus
    ) -> None:
        self._placeholders = placeholders
        self._emit = emit
        self._is_gang = is_gang
        self._lists: dict[str, dict[str, frozenset[str]]] = {}
        """By workload and member."""

        events.subscribe(PlaceholderForgotten, self._forgotten)

    def report(self, key: str, uid: str, nodes: frozenset[str], cause: str, *, computed: bool = False) -> None:
        """Take over the nodes that a member may use. `computed`: kube-scheduler has not offered them."""
        p = self._placeholders.get(key)
        if self._is_gang(key):
            lists = self._lists.setdefault(key, {})
            # Equal lists are one object, which is compared without a look at its nodes: most members have the same.
            lists[uid] = p.candidates if p is not None and p.candidates == nodes else nodes
            nodes = _in_all(lists)
            if p is not None and p.state is State.GRANTED:
                # Where other members are placed already, their nodes may be in no list; the barrier has its own limit.
                nodes |= {node for _, node in p.allocation}
        # Each list counts for a granted node: it may be missing repeatedly, or is offered at last.
        if p is None or computed or nodes != p.candidates or p.state is State.GRANTED:
            self._emit(key, e.CandidatesChanged(nodes, computed=computed), cause)

    def _forgotten(self, event: PlaceholderForgotten) -> None:
        self._lists.pop(event.key, None)

    def left(self, key: str, uid: str) -> frozenset[str] | None:
        """Drop and return the list of a member that has left; `None`: there is none."""
        return self._lists.get(key, {}).pop(uid, None)


def _in_all(lists: dict[str, frozenset[str]]) -> frozenset[str]:
    first, *others = set(lists.values())
    return first.intersection(*others)
