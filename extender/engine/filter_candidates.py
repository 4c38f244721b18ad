"""Keep the Pods that kube-scheduler has shown, and the candidate nodes of each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from extender.domain import events as e
from extender.domain.placeholder import Placeholder, State
from extender.domain.verdict import FilterVerdict, filter_verdict
from extender.domain.views import PodView
from extender.engine.candidate_lists import CandidateLists
from extender.engine.emit_event import EmitEvent
from extender.engine.units import Units


class FilterCandidates:
    """`meet` opens the record of a unit, `forget` closes one."""

    def __init__(
        self,
        units: Units,
        meet: Callable[[str, Sequence[e.MemberRef]], None],
        tell: EmitEvent,
        forget: Callable[[Placeholder], None],
    ) -> None:
        self.full: set[str] = set()
        """Units for which kube-scheduler has shown a full list of nodes."""

        self._units = units
        self._meet = meet
        self._tell = tell
        self._forget = forget
        self._lists = CandidateLists()
        self._unseen: set[str] = set()

    def answer(self, pod: PodView, nodes: Collection[str], full: bool) -> FilterVerdict:
        """kube-scheduler asks for a node of these. `full`: all that passed its other filters, not a single try-out."""
        key = self._units.unit_of_pod(pod.uid) or pod.uid
        if full and nodes:
            self._meet(key, [e.MemberRef(pod.uid, pod.namespace, pod.name)])
            self.full.add(key)
            candidates, p = self._lists.one(nodes), self._units.all[key]
            # Each list counts for a granted node: it may be missing again and again, or is offered at last.
            if candidates != p.candidates or p.state is State.GRANTED:
                self._tell(key, e.CandidatesChanged(candidates), "filter")
        return filter_verdict(self._units.get(key), pod.uid, nodes)

    def drop_unseen(self, known: Callable[[str], bool]) -> None:
        """Drop records of Pods that only kube-scheduler has shown, its copy being older than their end.

        Only on the second call in a row that finds them unknown: the watch may be a moment behind kube-scheduler's.
        """
        unseen = {
            p.key
            for p in self._units.in_state(State.ABSENT)
            if p.request is None and not p.faults and not p.surplus
            if not any(known(ref.uid) for ref in p.refs)
        }
        for key in unseen & self._unseen:
            self._forget(self._units.all[key])
        self._unseen = unseen
