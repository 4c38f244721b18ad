"""Compute the candidate nodes of gated Pods, one list for each different demand, and follow changes of Nodes.

Any author can give each Pod a demand of its own. So equal lists are one object, lists that no workload holds are kept
up to a bound, and each comparison with every Node is work of a queue in which namespaces take turns.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from weakref import ReferenceType, ref

from extender.controllers.scheduling import LISTS_KEPT, CandidateLists
from extender.domain.events import MemberRef
from extender.domain.placing.candidates import Demands
from extender.domain.views import NodeView, PodView
from extender.runtime.controller import Controller
from extender.runtime.cooperative_yield import CooperativeYield

NOTIFY_APART = 0.2
"""Seconds between two rounds of notifications about changed Nodes: a rack that fails is one change to a job."""

IDLE_KEPT = 64
"""Demands that no waiting Pod has are kept for the next one, the last so many: a list is compared with every Node."""


@dataclass(slots=True)
class _Waiting:
    """The UIDs of the Pods that wait with some demands, and the nodes that meet these.

    The lists are held by the workloads and by `CandidateLists`: `None` if neither has them, or before the first look.
    """

    pods: set[str] = field(default_factory=set)
    _nodes: ReferenceType[frozenset[str]] | None = None
    _reported: ReferenceType[frozenset[str]] | None = None

    @property
    def nodes(self) -> frozenset[str] | None:
        return None if self._nodes is None else self._nodes()

    @nodes.setter
    def nodes(self, nodes: frozenset[str]) -> None:
        self._nodes = ref(nodes)

    @property
    def reported(self) -> frozenset[str] | None:
        """Return the list that the Pods were notified of last."""
        return None if self._reported is None else self._reported()

    @reported.setter
    def reported(self, nodes: frozenset[str]) -> None:
        self._reported = ref(nodes)


@dataclass(frozen=True, slots=True)
class _Change:
    """A Node as all lists count it, and as it is now; `None`: it does not exist."""

    old: NodeView | None
    new: NodeView | None


class GatedCandidates:
    """Report the candidate nodes of each Pod that waits here, and every change of them.

    `workload_of` gives the key of a workload by the UID of its Pod. `report` gets the UIDs of Pods of one workload, and
    their nodes. One worker does one thing at a time, so that no list misses a change.
    """

    def __init__(
        self,
        nodes: Callable[[], Iterable[NodeView]],
        workload_of: Callable[[str], str],
        report: Callable[[Collection[str], frozenset[str]], None],
    ) -> None:
        self._nodes = nodes
        self._workload_of = workload_of
        self._report = report
        self._lists = CandidateLists()
        self._waiting: dict[Demands, _Waiting] = {}
        self._idle: OrderedDict[Demands, None] = OrderedDict()
        self._demands: dict[str, Demands] = {}
        """What each Pod demands, by UID."""

        self._changed: dict[str, _Change] = {}
        """Nodes that the lists do not count as they are now, by name."""

        self._controller = Controller("candidates", self._reconcile, flow_of=_namespace_of, keep_early=True)

    async def run(self) -> None:
        """Compute lists and notify of changed ones, until cancelled."""
        await self._controller.run()

    def demands_of(self, uid: str) -> Demands | None:
        """Return the demands of a Pod that waits here."""
        return self._demands.get(uid)

    def join(self, pod: PodView, wanted: Demands) -> None:
        """Report the nodes of a Pod, at once if its demands are known: thousands of equal Pods share one list."""
        if self._demands.get(pod.uid) == wanted:
            return
        self.leave(pod.uid)
        entry = self._waiting.setdefault(wanted, _Waiting())
        self._idle.pop(wanted, None)
        entry.pods.add(pod.uid)
        self._demands[pod.uid] = wanted
        if (nodes := entry.reported) is None:
            self._controller.add(MemberRef.of(pod))
        else:
            self._report((pod.uid,), nodes)

    def leave(self, uid: str) -> None:
        """Remove a Pod that waits here no more."""
        wanted = self._demands.pop(uid, None)
        if wanted is None:
            return
        pods = self._waiting[wanted].pods
        pods.discard(uid)
        if not pods:
            self._idle[wanted] = None
            if len(self._idle) > IDLE_KEPT:
                del self._waiting[self._idle.popitem(last=False)[0]]

    def node_changed(self, old: NodeView | None, new: NodeView | None) -> None:
        """Have a changed Node compared with every demand. Several changes of it before its turn are one."""
        node = new or old
        if node is not None:
            before = self._changed.get(node.name)
            self._changed[node.name] = _Change(old if before is None else before.old, new)
            self._controller.add(node.name)

    async def _reconcile(self, key: MemberRef | Demands | str) -> None:
        if isinstance(key, str):
            await self._follow(key, self._changed.pop(key))
            return
        wanted = key if isinstance(key, Demands) else self._demands.get(key.uid)
        entry = None if wanted is None else self._waiting.get(wanted)
        if wanted is None or entry is None:
            return
        if isinstance(key, Demands) or entry.reported is None:  # else a Pod with these demands had its turn before
            await self._report_to_all(wanted, entry)

    async def _report_to_all(self, wanted: Demands, entry: _Waiting) -> None:
        """Notify every Pod with these demands which nodes meet them now, unless they know that."""
        if (nodes := entry.nodes) is None:
            nodes = await self._compute(wanted, entry)
        if nodes == entry.reported:
            return
        entry.reported = nodes
        by_workload = dict[str, list[str]]()
        for uid in entry.pods:
            by_workload.setdefault(self._workload_of(uid), []).append(uid)
        turns = CooperativeYield()
        for uids in by_workload.values():
            await turns.maybe_yield()
            if waiting := [uid for uid in uids if uid in entry.pods]:
                self._report(waiting, nodes)

    async def _follow(self, name: str, change: _Change) -> None:
        """Compare a changed Node once with each demand; equal lists change together."""
        turns, moved = CooperativeYield(), dict[frozenset[str], frozenset[str]]()
        for wanted, entry in tuple(self._waiting.items()):
            await turns.maybe_yield()
            meets = change.new is not None and wanted.met_by(change.new)
            nodes = entry.nodes
            if nodes is None:
                met = change.old is not None and wanted.met_by(change.old)
            elif (met := name in nodes) != meets:
                if nodes not in moved:
                    if len(moved) >= LISTS_KEPT:
                        moved.clear()
                    moved[nodes] = self._lists.one(nodes | {name} if meets else nodes - {name})
                entry.nodes = moved[nodes]
            if met != meets:
                self._controller.add(wanted, after=NOTIFY_APART)

    async def _compute(self, wanted: Demands, entry: _Waiting) -> frozenset[str]:
        """Compare the demands with every Node as all lists count it; a change has its turn afterwards."""
        nodes: dict[str, NodeView | None] = {node.name: node for node in self._nodes()}
        nodes |= {name: change.old for name, change in self._changed.items()}
        turns, found = CooperativeYield(), set[str]()
        for name, node in nodes.items():
            await turns.maybe_yield()
            if node is not None and wanted.met_by(node):
                found.add(name)
        entry.nodes = listed = self._lists.one(found)
        return listed


def _namespace_of(key: MemberRef | Demands | str) -> str:
    return key.namespace if isinstance(key, MemberRef) else ""
