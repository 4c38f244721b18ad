"""Combine the candidate nodes of a workload's members: its job may only get nodes that each of them may use."""

from __future__ import annotations

from collections.abc import Collection

from extender.controllers.gangs.members import GangMembers
from extender.domain import events as e
from extender.domain.placeholder import Placeholder, State
from extender.domain.placeholders import EmitEvent, Placeholders
from extender.runtime.topics import PlaceholderChanged, PlaceholderForgotten


class MemberCandidates:
    """Keep the last list of each member of a gang, and report the nodes that are in all of them."""

    def __init__(self, placeholders: Placeholders, emit: EmitEvent, gangs: GangMembers) -> None:
        self._placeholders = placeholders
        self._emit = emit
        self._gangs = gangs
        self._lists: dict[str, dict[str, frozenset[str]]] = {}
        """By workload and member."""

    def report(self, key: str, uid: str, nodes: frozenset[str], cause: str, *, computed: bool = False) -> None:
        """Take over the nodes that a member may use. `computed`: kube-scheduler has not offered them."""
        self.report_together(key, (uid,), nodes, cause, computed=computed)

    def report_together(
        self, key: str, uids: Collection[str], nodes: frozenset[str], cause: str, *, computed: bool = False
    ) -> None:
        """Take over the nodes that several members may use: the lists of a gang are compared once for all of them."""
        p = self._placeholders.get(key)
        if self._gangs.is_gang(key):
            lists = self._lists.setdefault(key, {})
            # Equal lists are one object, which is compared without a look at its nodes: most members have the same.
            lists.update(dict.fromkeys(uids, p.candidates if p is not None and p.candidates == nodes else nodes))
            bounding = _bounding(p, lists)
            if bounding.keys().isdisjoint(uids):
                return
            nodes = _in_all(bounding)
            if p is not None and p.state is State.GRANTED:
                # Where other members are placed already, their nodes may be in no list; the barrier has its own limit.
                nodes |= {node for _, node in p.allocation}
        # Each list counts for a granted node: it may be missing repeatedly, or is offered at last.
        if p is None or computed or nodes != p.candidates or p.state is State.GRANTED:
            self._emit(key, e.CandidatesChanged(nodes, computed=computed), cause)

    def left(self, key: str, uid: str) -> frozenset[str] | None:
        """Drop and return the list of a member that has left; `None`: there is none. It bounds the others no more."""
        lists = self._lists.get(key, {})
        nodes = lists.pop(uid, None)
        if not lists:
            self._lists.pop(key, None)
        elif nodes is not None:
            self._report_again(self._placeholders.get(key), lists)
        return nodes

    def finished(self, uid: str) -> None:
        """Drop the list of a member that has finished: it does not bound the nodes of its successors."""
        if (key := self._gangs.key_of(uid)) is not None:
            self.left(key, uid)

    def forgotten(self, event: PlaceholderForgotten) -> None:
        """Drop the lists of the Pods that are gone. Others may have come for the next job, and are not tried again."""
        lists = self._lists.pop(event.key, {})
        if kept := {uid: nodes for uid, nodes in lists.items() if self._gangs.key_of(uid) == event.key}:
            self._lists[event.key] = kept

    def placeholder_changed(self, event: PlaceholderChanged) -> None:
        """Report the lists of Pods that came before their gang requested a job, or before they became members."""
        before, p = event.before, event.after
        if p.request is None or not (lists := self._lists.get(p.key)):
            return
        if p.candidates is None:
            if bounding := _bounding(p, lists):
                self._emit(p.key, e.CandidatesChanged(_in_all(bounding), computed=True), "gang")
        elif before.request is None or (before.members is not p.members and before.refs != p.refs):
            self._report_again(p, lists)

    def _report_again(self, p: Placeholder | None, lists: dict[str, frozenset[str]]) -> None:
        """Report the nodes of a gang whose members are others now, if that changes them."""
        if p is not None and p.candidates is not None and (bounding := _bounding(p, lists)):
            nodes = _in_all(bounding)
            if nodes != p.candidates:
                self._emit(p.key, e.CandidatesChanged(nodes, computed=True), "gang")


def _bounding(p: Placeholder | None, lists: dict[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    """Return the lists that count: those of members once the gang has a request, until then those of all its Pods."""
    if p is None or p.request is None:
        return lists
    return {ref.uid: lists[ref.uid] for ref in p.refs if ref.uid in lists}


def _in_all(lists: dict[str, frozenset[str]]) -> frozenset[str]:
    first, *others = set(lists.values())
    return first.intersection(*others) if others else first  # not a copy, for the comparisons of `report`
