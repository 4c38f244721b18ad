"""Answer kube-scheduler's two calls, `/filter` and `/bind`, without waiting for Slurm.

What kube-scheduler has shown, Pods and the candidate nodes of each, is kept. Lists of nodes are kept once each: a
thousand Pods are mostly offered the same thousand.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence

from extender.controllers.gangs.barrier import GangBarrier
from extender.controllers.gangs.bindings import MemberBindings
from extender.controllers.gangs.candidates import MemberCandidates
from extender.domain.events import MemberRef
from extender.domain.placeholder import State
from extender.domain.placeholders import Placeholders
from extender.domain.pods.deferred_pods import DeferredPods
from extender.domain.ports import BindResult, PodCache, Pods
from extender.domain.verdict import UNREADY_TEXT, FilterVerdict, Pass, Unready, Wait, bind_refusal, filter_verdict
from extender.domain.views import PodView
from extender.engine.engine import Engine
from extender.engine.workload_resolver import WorkloadResolver
from extender.runtime.event_bus import EventBus
from extender.runtime.topics import PlaceholderForgotten, PodFiltered, PodRemoved

NOT_KNOWN = "the extender has not read the Pod yet"
OTHER_NAME = "the Pod with this UID has another name or namespace"


class Scheduling:
    """Answer `/filter` and `/bind`.

    `schedulers` are the scheduler names of this extender. Pods of other names pass `/filter` unchanged. kube-scheduler
    leaves the Bindings of every profile to its one binder (`schedule_one.go`, extendersBinding): those of
    `other_profiles` are executed as requested, and all others are refused.
    No job is submitted before the watch has shown the Pod too: kube-scheduler may ask for a Pod that is already gone.
    """

    def __init__(
        self,
        engine: Engine,
        placeholders: Placeholders,
        candidates: FilterCandidates,
        pods: Pods,
        cache: PodCache,
        *,
        deferred: DeferredPods,
        bindings: MemberBindings,
        barrier: GangBarrier,
        schedulers: Collection[str],
        ready: Callable[[], bool],
        other_profiles: Collection[str] = (),
    ) -> None:
        self._engine = engine
        self._placeholders = placeholders
        self._candidates = candidates
        self._pods = pods
        self._cache = cache
        self._schedulers = frozenset(schedulers)
        self._bindings = bindings
        self._barrier = barrier
        self._deferred = deferred
        self._other_profiles = frozenset(other_profiles)
        self._ready = ready

    def close(self) -> None:
        """End the calls of `/bind` that are held, since the process stops."""
        self._barrier.close()

    @property
    def ready(self) -> bool:
        """Return whether everything that existed at the start is known."""
        return self._ready()

    def offer(self, pod: PodView, nodes: Sequence[str], full: bool) -> FilterVerdict:
        """Answer a filter call. `full`: `nodes` are all that passed, not one try-out of a nominated node."""
        if pod.scheduler_name not in self._schedulers:
            return Pass(nodes)
        if not self._ready():
            return Unready(UNREADY_TEXT)
        if reason := self._deferred.reason_of(pod.uid):
            return Wait(f"not adopted yet: {reason}")
        return self._candidates.answer(pod, nodes, full)

    async def bind(self, pod: MemberRef, node: str) -> str:
        """Bind, if the grant still holds; "" once the Pod is bound there, else a sentence for kube-scheduler."""
        p, known = self._placeholders.by_pod(pod.uid), self._cache.get(pod.uid)
        if known is not None and MemberRef.of(known) != pod:
            return OTHER_NAME  # no name of a caller becomes a path of the API server
        if p is None:
            return await self._bind_foreign(pod, node)
        member = p.member(pod.uid)
        if member is not None and member.ref != pod:
            return OTHER_NAME
        if refusal := bind_refusal(p, pod.uid, node):
            return refusal
        # Also if it was bound before: a restored etcd may not know the Binding, and a success would make kube-scheduler
        # wait without end. If the API server does know it, a second Binding changes nothing.
        if p.state is State.GRANTED:
            votes = p.is_gang and member is not None and member.wanting
            if busy := self._engine.recheck(p, pod.uid if votes else ""):
                return busy
            if votes:
                return await self._barrier.vote(p, pod.uid, node)
        self._bindings.begin(p, pod, node)
        return await self._bindings.post(p, pod, node)

    async def _bind_foreign(self, pod: MemberRef, node: str) -> str:
        known = self._cache.get(pod.uid)
        if known is None:
            return NOT_KNOWN
        if known.scheduler_name in self._schedulers:
            return "Slurm has no allocation for this Pod"
        if known.scheduler_name not in self._other_profiles:
            return (
                f"the Pod's schedulerName is {known.scheduler_name}, whose Pods this extender does not bind; if it is "
                "another profile of this kube-scheduler, scheduler.otherProfiles of the extender has to list it"
            )
        answer = await self._pods.bind(pod, node, {})
        return "" if answer.result is BindResult.BOUND else answer.text


class FilterCandidates:
    """Keep which Pods kube-scheduler has shown, and with which nodes."""

    def __init__(
        self,
        engine: Engine,
        placeholders: Placeholders,
        workloads: WorkloadResolver,
        members: MemberCandidates,
        events: EventBus,
    ) -> None:
        self._full: dict[str, set[str]] = {}
        """UIDs of the Pods for which kube-scheduler has shown a full list of nodes, by workload."""

        self._engine = engine
        self._placeholders = placeholders
        self._workloads = workloads
        self._members = members
        self._lists = CandidateLists()
        self._unseen: set[str] = set()
        self._unseen_lists = UnseenLists(lambda uid: workloads.shown(uid) is not None)
        self._events = events

    def has_full(self, uid: str) -> bool:
        """Return whether kube-scheduler has shown a full list of nodes for this Pod, not for others of its gang."""
        return uid in self._full.get(self._workloads.key_of_uid(uid), ())

    def forgotten(self, event: PlaceholderForgotten) -> None:
        """Drop what is known of a workload."""
        for uid in self._full.pop(event.key, ()):
            self._unseen_lists.drop(uid)

    def removed(self, event: PodRemoved) -> None:
        """Drop a Pod that is gone."""
        self._full.get(event.workload, set()).discard(event.pod.uid)
        self._unseen_lists.drop(event.pod.uid)

    def answer(self, pod: PodView, nodes: Collection[str], full: bool) -> FilterVerdict:
        """Answer kube-scheduler, which filters these nodes. `full`: all that passed its filters, not one try-out."""
        self._events.publish(PodFiltered(pod.namespace, pod.uid))
        key = self._workloads.key_of(pod)
        if full and nodes:
            if not self._unseen_lists.admit(pod.uid, nodes):
                return Unready(NOT_KNOWN)
            self._engine.meet(key, [MemberRef.of(self._workloads.shown(pod.uid) or pod)])
            self._full.setdefault(key, set()).add(pod.uid)
            self._members.report(key, pod.uid, self._lists.one(nodes), "filter")
        return filter_verdict(self._placeholders.get(key), pod.uid, nodes)

    def drop_unseen(self, known: Callable[[str], bool]) -> None:
        """Drop records of Pods that only kube-scheduler has shown, its copy being older than their end.

        Also drop those of gangs whose Pods have all joined another one. Only on the second call in a row that finds
        them unknown: the watch may be a moment behind kube-scheduler's.
        """
        unseen = {
            p.key
            for p in self._placeholders.in_state(State.ABSENT)
            if p.request is None and not p.faults and not p.duplicate_jobs and p.reprobe_at is None
            if not any(known(ref.uid) for ref in p.refs)
        }
        for key in unseen & self._unseen:
            self._engine.forget(self._placeholders.all[key])
        self._unseen = unseen


UNSEEN_KEPT = 1000
"""Pods that kube-scheduler has shown and the watch has not: it may be a moment behind."""

UNSEEN_BYTES = 128 * 2**20
"""Memory of the lists of these Pods: as many lists of a thousand nodes."""

NAME_BYTES = 128
"""Memory of a name beside its characters: the string, its place in a set, and room to grow."""


def size_of(nodes: Collection[str]) -> int:
    """Return about how many bytes a list of nodes takes."""
    return sum(map(len, nodes)) + NAME_BYTES * len(nodes)


class UnseenLists:
    """Bound the lists of Pods that only kube-scheduler has shown: a caller may invent any number of Pods.

    `seen` returns whether the watch has shown the Pod with this UID.
    """

    def __init__(self, seen: Callable[[str], bool]) -> None:
        self._seen = seen
        self._sizes: dict[str, int] = {}
        self._total = 0

    def admit(self, uid: str, nodes: Collection[str]) -> bool:
        """Return whether this list of a Pod may be kept. Each Pod that the watch has shown may have one."""
        if self._seen(uid):
            self.drop(uid)
            return True
        size = size_of(nodes)
        if not self._has_room(uid, size):
            for one in tuple(filter(self._seen, self._sizes)):
                self.drop(one)
        if not self._has_room(uid, size):
            return False
        self.drop(uid)
        self._sizes[uid] = size
        self._total += size
        return True

    def drop(self, uid: str) -> None:
        """Forget a Pod whose list is kept no more, or that the watch has shown."""
        self._total -= self._sizes.pop(uid, 0)

    def _has_room(self, uid: str, size: int) -> bool:
        """Return whether there is room for this list in place of the Pod's last one."""
        known = self._sizes.get(uid)
        total = self._total + size - (known or 0)
        return total <= UNSEEN_BYTES and (known is not None or len(self._sizes) < UNSEEN_KEPT)


LISTS_KEPT = 256
LIST_BYTES_KEPT = 64 * 2**20
"""Memory of all of them."""


class CandidateLists:
    """The lists seen last."""

    def __init__(self) -> None:
        self._known: OrderedDict[frozenset[str], frozenset[str]] = OrderedDict()
        self._bytes = 0

    def one(self, nodes: Collection[str]) -> frozenset[str]:
        """Return the same nodes, as the object that was given out for them before."""
        new = frozenset(nodes)
        known = self._known.setdefault(new, new)
        self._known.move_to_end(known)
        if known is new:
            self._bytes += size_of(new)
        while len(self._known) > LISTS_KEPT or self._bytes > LIST_BYTES_KEPT:
            oldest, _ = self._known.popitem(last=False)
            self._bytes -= size_of(oldest)
        return known
