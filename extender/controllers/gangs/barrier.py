"""Hold the Bindings of a gang until kube-scheduler has accepted each member on its node, then bind all of them.

Each `/bind` of a member is a vote. The call that completes the votes has all members bound, those too for which no call
is open at that moment: kube-scheduler drops a Pod that it finds bound. A call is held for a moment only to spare its
member kube-scheduler's back-off.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from enum import StrEnum

import structlog

from extender.controllers.gangs.bindings import STOPPED, TOO_LATE, MemberBindings
from extender.controllers.gangs.held_calls import HeldCalls
from extender.domain import events as e
from extender.domain.gangs.bind_calls import BindCalls
from extender.domain.gangs.successors import came_later
from extender.domain.gangs.votes import Ballot, judged_of_node, judged_of_pod, turn_s, wanting
from extender.domain.placeholder import Placeholder, State
from extender.domain.ports import Clock, PodCache
from extender.domain.states import BoundState
from extender.domain.verdict import WAITING_TEXT
from extender.domain.views import PodView
from extender.engine.engine import Engine
from extender.runtime.controller import Controller, Requeue
from extender.runtime.topics import NodeChanged, PlaceholderChanged, PlaceholderForgotten, PodChanged, PodFiltered

_log = structlog.get_logger(__name__)

CHANGED = "the Pod or its Node changed after kube-scheduler chose the Node; kube-scheduler tries again"

COUNTED = 16
"""Members of the largest gang whose votes an answer counts. kube-scheduler writes each new text to the API server."""

LATELY_S = 1.0
"""For so long calls that end share one sentence about Pods that are missing."""

AT_ONCE = 16
"""Bindings of members that are under way at a time."""

MORE_TIMES = 4
"""How often the time for all Bindings begins again for a gang of which kube-scheduler has not reached every member."""


class BarrierOutcome(StrEnum):
    """Name how an attempt to bind a whole gang ended."""

    PASSED = "passed"
    """All members were bound."""

    NODE_BUSY = "node_busy"
    """All had voted, and a node could not be used any more."""

    EXPIRED = "expired"
    """A member was not accepted in time: the job is released, or those that run continue without it."""

    BROKEN = "broken"
    """The same, with some members bound already: these are evicted."""


class GangBarrier:
    """Count votes by workload, and bind each gang whose votes are complete. Keys are those of workloads.

    `bind_within_s`: how long the nodes of a gang may be offered before all members are bound; then the job is released,
    unless kube-scheduler is busy with other Pods and has not reached a member.
    `missing_of`: which Pods of a gang do not exist, as a sentence; "" for none. `starts_by_leader`: the owner of a gang
    creates most members only when others run, and without them the gang has not started.
    `undone_by_errors`: an error of `/bind` makes kube-scheduler undo what it has set aside for the Pod, so that its
    vote counts only while its call is open.
    """

    def __init__(
        self,
        engine: Engine,
        bindings: MemberBindings,
        cache: PodCache,
        clock: Clock,
        *,
        calls: BindCalls,
        bind_within_s: float,
        missing_of: Callable[[Placeholder], str],
        starts_by_leader: Callable[[str], bool],
        undone_by_errors: Callable[[PodView], bool],
    ) -> None:
        self._engine = engine
        self._missing_of = missing_of
        self._starts_by_leader = starts_by_leader
        self._undone_by_errors = undone_by_errors
        self._bindings = bindings
        self._cache = cache
        self._clock = clock
        self._calls = calls
        self._stopped = False
        self._bind_within_s = bind_within_s
        self.outcomes = Counter[str](dict.fromkeys(BarrierOutcome, 0))
        """How barriers ended, since the start of the process."""

        self._ballots: dict[str, Ballot] = {}
        self._open = HeldCalls(calls.most)
        self._offered: dict[str, int] = {}
        """The job of each gang whose nodes are offered to kube-scheduler."""

        self._reached: dict[str, set[str]] = {}
        """The members of each such gang that kube-scheduler has tried to place since then, by UID."""

        self._prolonged = Counter[str]()
        """How often the time of each such gang began again."""

        self._filtered_at = float("-inf")
        """When kube-scheduler asked for a node of any Pod last."""

        self._begun: dict[str, int] = {}
        """The job of each gang that was whole when its members were bound: a successor alone is bound to it, too."""

        self._left_out: dict[str, dict[str, bool]] = {}
        """The later members of each gang that were not accepted in time, by UID. True: others are bound without it;
        False: it voted since."""

        self._absences_said: dict[str, tuple[float, str]] = {}
        """Which Pods each such gang lacks, and when that was computed: for the text of calls that end."""

        self._due: dict[str, float] = {}
        """When the time for all Bindings is over for each gang whose nodes are offered; the queue may say earlier."""

        self._held_since: dict[str, float] = {}
        """Since when the extender holds back the nodes of each gang that were offered before."""

        self._absences_due: dict[str, float] = {}
        """The same for each gang with nodes that are not offered yet."""

        self._deadlines = Controller("gang deadlines", self._expire, keep_early=True)
        self._absences = Controller("gangs with nodes and without Pods", self._release_incomplete, keep_early=True)
        of = engine.placeholders.namespace_of
        self._poster = Controller("bindings of members", self._post, workers=AT_ONCE, flow_of=lambda one: of(one[0]))
        self._binder = Controller("gang bindings", self._bind_all, workers=4, flow_of=of)

    async def run(self) -> None:
        """Bind gangs, and end barriers that are not passed in time, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for one in (self._binder, self._poster, self._deadlines, self._absences):
                group.create_task(one.run(), name=one.name)

    def close(self) -> None:
        """End the calls that are held, and hold no more, since the process stops: kube-scheduler calls another one."""
        self._stopped = True
        for call in self._open.all():
            if not self._is_binding(call.key, call.uid):
                self._open.answer(call.key, call.uid, STOPPED)

    def filtered(self, event: PodFiltered) -> None:
        """Note that kube-scheduler tries to place a Pod, of a gang or not."""
        self._filtered_at = self._clock.now()
        if not self._offered:
            return
        key = self._engine.placeholders.workload_of_pod(event.uid)
        if key in self._offered:
            self._reached.setdefault(key, set()).add(event.uid)

    async def vote(self, p: Placeholder, uid: str, node: str) -> str:
        """Count the vote of a member for its node; "" once it is bound, else a sentence for kube-scheduler."""
        if self._stopped:
            return STOPPED
        if p.job_id is None:
            return "Slurm has no allocation for this Pod"
        ballot = self._ballots.get(p.key)
        if ballot is None or ballot.job_id != p.job_id:
            ballot = Ballot(p.job_id, self._calls.vote_valid_s, len(p.members))
        ballot = self._ballots[p.key] = ballot.cast(uid, node, self._clock.now())
        if uid in (left_out := self._left_out.get(p.key, {})):
            left_out[uid] = False
        if ballot.is_complete(self._awaited(p), self._clock.now()):
            self._binder.add(p.key)
        call = self._open.open(p.members[0].ref.namespace, p.key, uid, self._clock.now())
        if (oldest := self._open.excess(lambda one: not self._is_binding(one.key, one.uid))) is not None:
            self._open.answer(oldest.key, oldest.uid, self._incomplete(oldest.key, oldest.uid))
        try:
            hold_s = self._hold_s(uid)
            await asyncio.wait([call.answer], timeout=hold_s)
            if not call.answer.done() and self._is_binding(p.key, uid):
                await asyncio.wait([call.answer], timeout=self._calls.hold_for_binding_s - hold_s)
            return call.answer.result() if call.answer.done() else self._incomplete(p.key, uid)
        finally:
            self._open.close(call)

    def _is_binding(self, key: str, uid: str) -> bool:
        """Return whether the Binding of a member is about to be sent, or is not answered yet."""
        p = self._engine.placeholders.get(key)
        member = None if p is None else p.member(uid)
        return member is not None and member.binding

    def _hold_s(self, uid: str) -> float:
        pod = self._cache.get(uid)
        return self._calls.hold_s(undone_by_errors=pod is not None and self._undone_by_errors(pod))

    def voted(self, p: Placeholder) -> frozenset[str]:
        """Return the members whose votes for the present allocation count now, by UID."""
        ballot = self._ballots.get(p.key)
        if ballot is None or ballot.job_id != p.job_id:
            return frozenset()
        return frozenset(one.uid for one in ballot.valid(self._clock.now()))

    def node_changed(self, event: NodeChanged) -> None:
        """Void the votes for a Node of which kube-scheduler judges something that changed."""
        node = event.new or event.old
        same = (
            event.old is not None and event.new is not None and judged_of_node(event.old) == judged_of_node(event.new)
        )
        if node is None or same:
            return
        for key, ballot in tuple(self._ballots.items()):
            self._void(key, ballot.without_node(node.name))

    def pod_changed(self, event: PodChanged) -> None:
        """Void the vote of a Pod that leaves, or of which kube-scheduler judges something that changed."""
        pod = event.new or event.old
        key = None if pod is None else self._engine.placeholders.workload_of_pod(pod.uid)
        if pod is None or key not in self._ballots:
            return
        if event.old is None or event.new is None or judged_of_pod(event.old) != judged_of_pod(event.new):
            self._void(key, self._ballots[key].without_pod(pod.uid))

    def placeholder_changed(self, event: PlaceholderChanged) -> None:
        """Drop the votes for an allocation that is gone, or that may not be used now."""
        after = event.after
        if after.state is not State.GRANTED or after.cleared:
            self._absences_due.pop(after.key, None)
        if after.state is not State.GRANTED:
            self._withdraw(after.key)
        elif not after.cleared and after.is_gang:
            self._absences_due.setdefault(after.key, self._clock.now() + self._bind_within_s)
            self._absences.add(_deadline(after), after=self._bind_within_s)
        elif after.cleared and after.is_gang and after.job_id not in (None, self._offered.get(after.key, 0)):
            self._offered[after.key] = after.job_id or 0
            self._start_time(after)
        self._pause_time(event)
        if isinstance(after.payload, BoundState) and after.payload.kept_until:
            self._begun.pop(after.key, None)  # the next incarnation is bound as a whole, too
        if event.after.state is not State.GRANTED or (event.before.cleared and not event.after.cleared):
            self._drop(event.after.key, "its Slurm allocation may not be used now")

    def _pause_time(self, event: PlaceholderChanged) -> None:
        """Count no time in which the extender itself holds back nodes that it offered: no Node refused a member."""
        before, after, now = event.before, event.after, self._clock.now()
        if before.cleared and not after.cleared and after.key in self._due:
            self._held_since.setdefault(after.key, now)
        elif after.cleared and (since := self._held_since.pop(after.key, None)) is not None:
            self._due[after.key] += now - since
            self._deadlines.add(_deadline(after), after=self._due[after.key] - now)

    def forgotten(self, event: PlaceholderForgotten) -> None:
        """Drop the votes of a workload that is over."""
        self._withdraw(event.key)
        self._absences_due.pop(event.key, None)
        self._begun.pop(event.key, None)
        self._absences_said.pop(event.key, None)
        self._drop(event.key, "the gang is over")

    def _void(self, key: str, left: Ballot) -> None:
        """Keep these votes alone, and end the calls of the others now: kube-scheduler tries their members again.

        The call of a member whose Binding is under way goes on: for an error kube-scheduler would undo its
        ResourceClaims.
        """
        kept = {one.uid for one in left.votes}
        voided = [one.uid for one in self._ballots[key].votes if one.uid not in kept]
        self._ballots[key] = left
        for uid in voided:
            if not self._is_binding(key, uid):
                self._open.answer(key, uid, CHANGED)

    def _within_s(self, p: Placeholder) -> float:
        return self._bind_within_s + turn_s(len(p.members))

    def _start_time(self, p: Placeholder) -> None:
        within_s = self._within_s(p)
        self._due[p.key] = self._clock.now() + within_s
        self._deadlines.add(_deadline(p), after=within_s)

    def _withdraw(self, key: str) -> None:
        self._offered.pop(key, None)
        self._due.pop(key, None)
        self._held_since.pop(key, None)
        self._reached.pop(key, None)
        self._prolonged.pop(key, None)
        self._left_out.pop(key, None)

    def _awaited(self, p: Placeholder) -> frozenset[str]:
        """Return the members that are bound together next, by UID."""
        return wanting(p) - {uid for uid, left in self._left_out.get(p.key, {}).items() if left}

    def _absent(self, p: Placeholder) -> str:
        """Return which Pods the gang lacks, as a sentence; "" where it is whole, or was when it began to be bound."""
        begun = p.job_id is not None and self._begun.get(p.key) == p.job_id
        return "" if begun or any(member.placed for member in p.members) else self._missing_of(p)

    def _absent_lately(self, p: Placeholder) -> str:
        """Return the same, computed at most LATELY_S ago: the calls of hundreds of members may end at once."""
        now, known = self._clock.now(), self._absences_said.get(p.key)
        if known is None or now - known[0] > LATELY_S:
            known = self._absences_said[p.key] = (now, self._absent(p))
        return known[1]

    async def _expire(self, deadline: tuple[str, int]) -> None:
        """Release the job of a gang whose members are not all bound in time, and name the Node that refused one."""
        key, job_id = deadline
        p = self._engine.placeholders.get(key)
        if p is None or p.state is not State.GRANTED or p.job_id != job_id or self._offered.get(key) != job_id:
            return
        if (left_s := self._due.get(key, 0.0) - self._clock.now()) > 0.0:
            self._deadlines.add(deadline, after=left_s)
            return
        if key in self._held_since:
            return  # the time goes on once the nodes are offered again
        if not wanting(p):  # Every Binding was sent. Those without an answer end nothing, and may still be refused.
            self._start_time(p)
            return
        if absent := self._absent(p):
            self._release(key, job_id, absent, self._within_s(p))
            return
        ballot = self._ballots.get(key) or Ballot(job_id, self._calls.vote_valid_s)
        awaited, now = self._awaited(p), self._clock.now()
        missing, refused = sorted(ballot.missing(awaited, now)), sorted(ballot.refused(awaited, now))
        accepted = bool(missing) and not refused
        if self._is_in_queue(key, missing) or (accepted and self._prolonged[key] < MORE_TIMES):
            self._prolonged[key] += 1
            self._start_time(p)
            return
        if came_later(p, self._pods_of(p)) and not self._starts_by_leader(key):
            self._continue_without(p, refused or missing)
            self._start_time(p)
            return
        if accepted:  # each member on its node, and never all at one time: no Node is to blame
            self._release(key, job_id, "kube-scheduler accepted its members one after the other.", self._within_s(p))
            return
        node, text = self._refusal(p, (refused or sorted(wanting(p)))[0])
        if any(member.placed for member in p.members):
            self.outcomes[BarrierOutcome.BROKEN] += 1
            self._engine.handle(key, e.NodeRefused(node, text), "gang barrier")  # the next job excludes it
            text = f"The gang cannot start as a whole: Node {node}: {text}"
            self._engine.handle(key, e.JobEnded(job_id, e.EndKind.FAILED, text, alive=True), "gang barrier")
        else:
            self.outcomes[BarrierOutcome.EXPIRED] += 1
            self._engine.handle(key, e.NodeRefused(node, text), "gang barrier")

    def _refusal(self, p: Placeholder, uid: str) -> tuple[str, str]:
        """Return the Node of a member that was not accepted in time, and a sentence about that."""
        pod, within_s = self._cache.get(uid), self._within_s(p)
        refusal = pod.unschedulable if pod is not None else ""
        name = pod.full_name if pod is not None else "a member"
        return p.node_of(uid), f"kube-scheduler did not accept {name} there within {within_s:g} s. {refusal}".strip()

    def _continue_without(self, p: Placeholder, missing: Collection[str]) -> None:
        """Have later members bound without these, which keep their nodes and wait for kube-scheduler."""
        known, still = self._left_out.get(p.key, {}), wanting(p)
        left_out = {uid: left for uid, left in known.items() if uid in still}
        self._left_out[p.key] = left_out | dict.fromkeys(missing, True)
        for uid in missing:
            if uid not in known:
                self.outcomes[BarrierOutcome.EXPIRED] += 1
                self._engine.handle(p.key, e.NodeRefused(*self._refusal(p, uid), later=uid), "gang barrier")
        self._binder.add(p.key)

    def _pods_of(self, p: Placeholder) -> dict[str, PodView]:
        return {ref.uid: pod for ref in p.refs if (pod := self._cache.get(ref.uid)) is not None}

    async def _release_incomplete(self, grant: tuple[str, int]) -> Requeue | None:
        """Release the job of a gang that lacks Pods, no member of which is bound, though its nodes are not offered yet.

        What they wait for may need the whole gang, such as a mark that covers it, and would hold them indefinitely.
        After a start this is so, too, where the Pods were changed meanwhile and request no job together.
        """
        key, job_id = grant
        p = self._engine.placeholders.get(key)
        if p is None or p.state is not State.GRANTED or p.job_id != job_id or p.cleared:
            return None
        if (left_s := self._absences_due.get(key, 0.0) - self._clock.now()) > 0.0:
            return Requeue(left_s)
        disagreed = "; ".join(p.faults) if (p.request or p.submitted_request) is None and not p.job_occupied else ""
        if lacking := self._absent(p) or disagreed:
            self._release(key, job_id, lacking, self._bind_within_s)
            return None
        return Requeue(self._bind_within_s)

    def _release(self, key: str, job_id: int, lacking: str, within_s: float) -> None:
        self.outcomes[BarrierOutcome.EXPIRED] += 1
        text = f"The gang cannot start as a whole within {within_s:g} s: {lacking}"
        self._engine.handle(key, e.JobEnded(job_id, e.EndKind.FAILED, text, alive=True), "gang barrier")

    def _is_in_queue(self, key: str, missing: Iterable[str]) -> bool:
        """Return whether kube-scheduler tries other Pods, and has not reached one of these members: no Node refused it.

        A job that is submitted again would wait again in Slurm, without a Node that is to blame for nothing.
        """
        busy = self._clock.now() - self._filtered_at < self._bind_within_s
        return busy and self._prolonged[key] < MORE_TIMES and not all(self._is_reached(key, uid) for uid in missing)

    def _is_reached(self, key: str, uid: str) -> bool:
        """Return whether kube-scheduler tried a member. One that its own filters reject never comes to `/filter`.

        One that waits for Slurm by its condition was tried before the grant, and may be in the queue since.
        """
        pod = self._cache.get(uid)
        refusal = pod.unschedulable if pod is not None else ""
        return uid in self._reached.get(key, ()) or (bool(refusal) and WAITING_TEXT not in refusal)

    async def _bind_all(self, key: str) -> None:
        """Bind every member that has no node, if all of them have voted and the nodes still fit."""
        p, ballot = self._engine.placeholders.get(key), self._ballots.get(key)
        if p is None or ballot is None or p.state is not State.GRANTED or ballot.job_id != p.job_id:
            return
        awaited = self._awaited(p)
        if not ballot.is_complete(awaited, self._clock.now()) or self._absent(p):
            return
        if not all(map(p.node_of, awaited)):
            return  # a member has another slot now, and the job is being read
        # kube-scheduler keeps no room for members that voted earlier and are in its back-off now.
        if busy := self._engine.recheck(p):
            self.outcomes[BarrierOutcome.NODE_BUSY] += 1
            self._drop(key, busy)
            return
        members = [(member.ref, p.node_of(member.ref.uid)) for member in p.members if member.ref.uid in awaited]
        self._begun[key] = ballot.job_id
        for ref, node in members:
            self._bindings.begin(p, ref, node)
            self._poster.add((key, ref.uid))
        self.outcomes[BarrierOutcome.PASSED] += 1
        _log.info("gang_bound", workload=key, job_id=p.job_id, members=len(members))

    async def _post(self, one: tuple[str, str]) -> None:
        """Send the Binding of one member, unless the allocation was lost since all of them were to be bound."""
        key, uid = one
        p = self._engine.placeholders.get(key)
        member = None if p is None else p.member(uid)
        if p is None or member is None or not member.binding:
            return
        pod, call = self._cache.get(uid), self._open.get(key, uid)
        refused = "its Slurm allocation is ending" if p.state is not State.GRANTED else ""
        if not refused and call is None and pod is not None and self._undone_by_errors(pod):
            refused = TOO_LATE  # kube-scheduler got an error, and has undone what it had set aside for the Pod
        if refused:
            self._engine.handle(key, e.BindFailed(uid, refused), "gang barrier")
            self._open.answer(key, uid, refused)
            return
        waited_s = 0.0 if call is None else self._clock.now() - call.at
        self._open.answer(key, uid, await self._bindings.post(p, member.ref, p.node_of(uid), waited_s=waited_s))

    def _incomplete(self, key: str, uid: str) -> str:
        p, ballot = self._engine.placeholders.get(key), self._ballots.get(key)
        pod = self._cache.get(uid)
        if p is None or ballot is None:
            return "Slurm has no allocation for this Pod"
        if pod is not None and self._undone_by_errors(pod):
            # The error that this call gets undoes what kube-scheduler has set aside for the Pod.
            ballot = self._ballots[key] = ballot.undo(uid)
        if absent := self._absent_lately(p):
            return f"{absent} None is bound before all are"
        if len(p.members) > COUNTED:
            return "not every member of the gang has a node yet; none is bound before all"
        missing = len(ballot.missing(self._awaited(p), self._clock.now()))
        return (
            f"{len(p.members) - missing} of {len(p.members)} members of the gang have a node; none is bound before all"
        )

    def _drop(self, key: str, why: str) -> None:
        self._ballots.pop(key, None)
        p = self._engine.placeholders.get(key)
        for uid in self._open.members(key):
            if self._is_binding(key, uid):
                continue  # it is answered when its Binding is
            member = None if p is None else p.member(uid)
            self._open.answer(key, uid, "" if member is not None and member.node else why)


def _deadline(p: Placeholder) -> tuple[str, int]:
    return p.key, p.job_id or 0
