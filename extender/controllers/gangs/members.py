"""Keep the Pods of each gang, and decide when the gang requests a job and what it requests."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from extender.controllers.gangs.incomplete_gangs import IncompleteGangs
from extender.controllers.gangs.joined import Joined, settings_of, untranslatable, why_beyond, with_one_size
from extender.controllers.gangs.shared_names import SharedNames
from extender.domain import events as e
from extender.domain.backoff import Backoff
from extender.domain.gangs.agreement import Disagreed, MemberRequest, agreed
from extender.domain.gangs.completeness import (
    Complete,
    Completeness,
    GangCandidate,
    Incomplete,
    completeness,
)
from extender.domain.gangs.layout import ranks
from extender.domain.gangs.membership import SHARED_NAMES, Membership, gang_title
from extender.domain.gangs.successors import seating
from extender.domain.gangs.tenancy import gang_key
from extender.domain.jobs.cancelled import recorded_cancel
from extender.domain.jobs.job import JobRequest
from extender.domain.placeholder import Member, Placeholder, State
from extender.domain.pods.deferred_pods import DeferredPods, may_have_older_job
from extender.domain.ports import Announcement, Announcer, PodCache
from extender.domain.states import BoundState
from extender.domain.translation.gang_request import gang_request
from extender.domain.translation.translate import Translated, Translation
from extender.domain.views import PodView
from extender.domain.wellknown import Reason
from extender.engine.engine import Engine
from extender.runtime.controller import Controller
from extender.runtime.topics import PlaceholderChanged

HAS_NODES = frozenset({State.GRANTED, State.BOUND})
"""States in which the job has its nodes: a Pod that comes gets a free slot, or waits."""

REREAD = Backoff(30.0, 300.0)
"""Seconds between two reads of the owner of a gang that is incomplete."""

SETTLED_AT_ONCE = 64
"""Pods that name one gang: with more, changes of the gang are settled together after a while."""

SETTLED_APART = 0.0002
"""Seconds for each Pod of such a gang between two times at which it is settled: some ten times what a Pod costs."""

QUEUED = frozenset({State.SUBMITTING, State.UNSURE, State.WAITING})
"""States in which the job may wait in Slurm: it keeps its place for a while when the gang loses a member."""


@dataclass(frozen=True, slots=True)
class _Reading:
    """When the owner of an incomplete gang is read next."""

    at: float
    readings: int


class GangMembers:
    """The Pods of gangs. Keys are those of workloads. `own_gates` are the scheduling gates of the extender.

    `deferred`: Pods of a start that may be older members.
    """

    def __init__(
        self,
        engine: Engine,
        cache: PodCache,
        announcer: Announcer,
        own_gates: Collection[str],
        deferred: DeferredPods,
    ) -> None:
        self._engine = engine
        self._placeholders = engine.placeholders
        self._cache = cache
        self._announcer = announcer
        self._own_gates = frozenset(own_gates)
        self._deferred = deferred
        self._joined: dict[str, dict[str, Joined]] = {}
        self._key_of: dict[str, str] = {}
        self._nameless: set[str] = set()
        """UIDs of members of running gangs that name no gang any more since before a start."""

        self._lacking: dict[str, Incomplete] = {}
        """Why each gang has no job yet."""

        self._readings: dict[str, _Reading] = {}
        """When the owner of each incomplete gang is read next."""

        self._short_since: dict[str, float | None] = {}
        """Since when each gang lacks a member whose job keeps its place in the queue; `None`: until the next look."""

        self._beyond: dict[str, frozenset[str]] = {}
        """UIDs of the Pods of each gang that were notified that it is full."""

        self._names = SharedNames()
        self._incomplete = IncompleteGangs(self._announce)
        self._settler = Controller(
            "large gangs", self._settle_large, flow_of=self._placeholders.namespace_of, keep_early=True
        )

    def key_of(self, uid: str) -> str | None:
        """Return the workload of a Pod that is a member of a gang."""
        return self._key_of.get(uid)

    def uids(self, key: str) -> tuple[str, ...]:
        """Return the UIDs of the Pods that say that they belong to this gang."""
        return tuple(self._joined.get(key, ()))

    def memberships(self, key: str) -> dict[str, Membership]:
        """Return what each Pod of this gang says of its place in it, by UID."""
        return {uid: one.membership for uid, one in self._joined.get(key, {}).items()}

    def with_shared_name(self, key: str) -> list[str]:
        """Return the UIDs of the Pods of this gang whose source is one of `SHARED_NAMES`."""
        joined = self._joined.get(key, {}).values()
        return [one.uid for one in joined if one.membership.source in SHARED_NAMES]

    def lacking(self) -> dict[str, str]:
        """Return every gang by its key, with the sentence that says why it has no job yet; "" if it is complete."""
        return {key: self.waits_for(key) for key in self._joined}

    def is_gang(self, key: str) -> bool:
        """Return whether this workload is a gang."""
        return key in self._joined

    def has_request(self, uid: str) -> bool:
        """Return whether this Pod is a member of a gang, and was translated without a fault."""
        joined = self._joined.get(self._key_of.get(uid, ""), {}).get(uid)
        return joined is not None and isinstance(joined.translation, Translated)

    def has_further(self, key: str) -> bool:
        """Return whether the owner of the gang creates another Pod for each that succeeds."""
        return any(one.membership.further for one in self._joined.get(key, {}).values())

    def size_of(self, key: str) -> int:
        """Return how many members the gang had at first; 0: no gang, or not known."""
        joined = self._joined.get(key, {}).values()
        return max((one.membership.most or one.membership.expected or 0 for one in joined), default=0)

    def starts_by_leader(self, key: str) -> bool:
        """Return whether the owner creates later members only once earlier ones are Ready."""
        return any(one.membership.by_leader for one in self._joined.get(key, {}).values())

    def waits_for(self, key: str) -> str:
        """Return why the gang has no job yet, as a sentence or two; "" if it needs nothing more of its members."""
        found = self._lacking.get(key)
        if found is None:
            return ""
        return f"{found.text} {self._names.note(key)}".rstrip() if found.few else found.text

    def missing_of(self, p: Placeholder) -> str:
        """Return which Pods of a gang that has its nodes do not exist, as a sentence; "" if it is whole.

        A gang that grew since is not whole either: its job has no nodes for some of its Pods. Nor is one that got an
        allocation that was kept, if a Pod of it needs more than that has.
        """
        joined = self._joined.get(p.key, {})
        found = self._completeness(p, joined, self._candidates(joined))
        if found is None or self._untranslated(p, joined):
            return "The extender has not read all Pods of the gang yet."
        if isinstance(found, Incomplete):
            return found.text
        if (nodes := sum(map(p.has_node_for, range(found.size)))) < found.size:
            return f"Slurm job {p.job_id} has nodes for {nodes} of {found.size} members."
        known = {ref.uid for ref in p.refs}
        without = next((one.pod.full_name for one in found.members if one.pod.uid not in known), "")
        return f"Pod {without} has no slot of Slurm job {p.job_id}." if without else ""

    def _candidates(self, joined: dict[str, Joined]) -> list[GangCandidate]:
        return [
            GangCandidate(pod, one.membership)
            for uid, one in with_one_size(joined).items()
            if (pod := self._cache.get(uid)) is not None and not pod.finished
        ]

    def key_for(self, membership: Membership, translation: Translation) -> str | None:
        """Return the key of the gang; `None`: the tenant is not known, so that the Pod joins none."""
        return gang_key(membership, translation.request if isinstance(translation, Translated) else None)

    def take_unread(self, now: float) -> list[str]:
        """Return a Pod of each incomplete gang whose owner should be read again, less and less often.

        Watches do not show Jobs: one of whose Pods some have succeeded is complete with fewer than it was before, and
        one that was scaled up has more than the gang was thought to have.
        """
        due = []
        full = [key for key in self._beyond if not self._has_nodes(key)]
        for key in dict.fromkeys((*self._lacking, *full)):
            joined = self._joined.get(key)
            if not joined or next(iter(joined.values())).membership.source in SHARED_NAMES:
                continue
            reading = self._readings.get(key)
            if reading is not None and reading.at <= now:
                due.append(next(reversed(joined)))
            if reading is None or reading.at <= now:
                readings = 1 if reading is None else reading.readings + 1
                self._readings[key] = _Reading(now + REREAD.after(readings), readings)
        return due

    def _has_nodes(self, key: str) -> bool:
        p = self._placeholders.get(key)
        return p is not None and p.state in HAS_NODES

    def withdraw_short(self, now: float, kept_s: float) -> None:
        """Release the waiting job of each gang that has lacked a member for so many seconds."""
        for key, since in tuple(self._short_since.items()):
            p = self._placeholders.get(key)
            if p is None or p.state not in QUEUED or key not in self._lacking:
                del self._short_since[key]
            elif since is None:
                self._short_since[key] = now
            elif now - since >= kept_s:
                del self._short_since[key]
                self._withdraw(key, _refs(self._candidates(self._joined.get(key, {}))))

    def report_incomplete(self, now: float, within_s: float) -> None:
        """Announce why each gang that has been incomplete for so many seconds has no job."""

        def first(key: str) -> PodView | None:
            return next((one.pod for one in self._candidates(self._joined.get(key, {}))), None)

        self._incomplete.report(self._lacking, self.waits_for, first, now, within_s)

    def join(self, key: str, pod: PodView, membership: Membership, translation: Translation) -> None:
        """Add a Pod, or take over what it says now, and report what follows for the gang."""
        before = self._key_of.get(pod.uid)
        if before is not None:
            self._joined[before].pop(pod.uid)  # also of the same gang: the last one is what was read last
        self._key_of[pod.uid] = key
        self._names.add(key, membership)
        self._joined.setdefault(key, {})[pod.uid] = Joined(pod.uid, membership, translation)
        self.settle(key)
        if before is not None and before != key:
            self._left_by_one(before)

    def stay(self, key: str, pod: PodView, membership: Membership | None, translation: Translation) -> None:
        """Take over what a member says now, which stays a member. `None`: it names no gang any more."""
        known = self._joined.get(key, {}).get(pod.uid)
        if membership is None or (known is not None and membership.incarnation != known.membership.incarnation):
            membership = None if known is None else known.membership
        if membership is not None:
            self._nameless.discard(pod.uid)
            self.join(key, pod, membership, translation)
        elif pod.uid not in self._nameless:
            self._nameless.add(pod.uid)
            self.settle(key)

    def leave(self, uid: str) -> None:
        """Remove a Pod that is gone."""
        self._nameless.discard(uid)
        key = self._key_of.pop(uid, None)
        if key is None:
            return
        del self._joined[key][uid]
        self._left_by_one(key)

    def _left_by_one(self, key: str) -> None:
        if self._joined[key]:
            self.settle(key)
        else:
            del self._joined[key]
            self._names.remove(key)
            self._beyond.pop(key, None)
            self._complete(key)

    def placeholder_changed(self, event: PlaceholderChanged) -> None:
        """Let Pods that came while the job had its nodes, or was ending, have their turn."""
        key = event.after.key
        if key in self._joined and _places(event.before) != _places(event.after):
            asyncio.get_running_loop().call_soon(self.settle, key)

    async def run(self) -> None:
        """Settle gangs of many Pods, until cancelled."""
        await self._settler.run()

    async def _settle_large(self, key: str) -> None:
        self._settle(key)

    def settle(self, key: str) -> None:
        """Report what the Pods of a gang request, or what is missing; for very many Pods together with later changes.

        Each time costs a look at every Pod that names the gang, and any user can create thousands of them. After a
        start there is none until the gang is incomplete: a request known before the grant decides about its job.
        """
        p, many = self._placeholders.get(key), len(self._joined.get(key, ()))
        started = p is not None and p.state in QUEUED and p.request is None and not p.faults
        if many > SETTLED_AT_ONCE and (key in self._lacking or not started):
            self._settler.add(key, after=many * SETTLED_APART)
        else:
            self._settle(key)

    def _settle(self, key: str) -> None:
        """Report what the Pods of a gang request, or what is missing.

        In LOST the request stays as it is: a user's cancel that ended the job is recorded as one of that request.
        """
        p, joined = self._placeholders.get(key), self._joined.get(key, {})
        if p is not None and (p.state is State.LOST or self._untranslated(p, joined)):
            return
        candidates = self._candidates(joined)
        if candidates and p is not None and p.state is State.GONE:
            self._engine.forget(p)
            p = None
        if p is not None and p.state in HAS_NODES:
            self._complete(key)
            if candidates:
                self._fill_slots(p, candidates, joined)
            return
        found = self._completeness(p, joined, candidates)
        if isinstance(found, Incomplete):
            self._lacking[key] = found
            self._hold_back(key, p, found, candidates)
        elif found is not None:
            self._complete(key)
            if p is None or p.state is not State.RELEASING:  # Pods that come while a job ends wait until it is over
                self._request(key, found, joined)
                p = self._placeholders.get(key)
                self._report_full(key, found.beyond, None if p is None else p.request)

    def _completeness(
        self, p: Placeholder | None, joined: Mapping[str, Joined], candidates: Sequence[GangCandidate]
    ) -> Completeness | None:
        """Return whether the gang can start, or what it lacks; `None`: all of its Pods have finished."""
        absent = {uid: one.membership for uid, one in joined.items() if self._cache.get(uid) is None}
        if absent and p is not None:
            for member in p.members:
                if member.end:
                    absent.pop(member.ref.uid, None)
        if not (candidates or absent):
            return None
        return completeness(
            candidates, self._own_gates, absent, lambda pod: settings_of(pod.full_name, joined[pod.uid])
        )

    def _hold_back(
        self, key: str, p: Placeholder | None, found: Incomplete, candidates: Sequence[GangCandidate]
    ) -> None:
        """Have no further job submitted for an incomplete gang.

        A job that waits keeps its place: without a limit where the API server lacks Pods, which may come back. These
        stay members, and a refusal stays as well. While a job is released, its members stay: they are its outcome.
        """
        if p is not None and p.state in QUEUED:
            if found.absent:
                self._short_since.pop(key, None)
            else:
                self._short_since.setdefault(key, None)
        elif p is not None and p.state is State.RELEASING:
            self._withdraw(key, p.refs)
        elif p is None or p.state is not State.REFUSED or not found.absent:
            away = [] if p is None else [ref for ref in p.refs if ref.uid in found.absent]
            self._withdraw(key, [*_refs(candidates), *away])

    def _untranslated(self, p: Placeholder, joined: Collection[str]) -> bool:
        """Return whether after a start a member is there of which is not known yet what it requests.

        One that is a workload of its own by now is no member any more.
        """
        known = self._nameless.union(joined) if self._nameless else joined
        unknown = (one.ref.uid for one in p.members if not one.end and one.ref.uid not in known)
        return any(
            self._cache.get(uid) is not None and self._placeholders.workload_of_pod(uid) == p.key for uid in unknown
        )

    def _complete(self, key: str) -> None:
        self._lacking.pop(key, None)
        if key not in self._beyond:
            self._readings.pop(key, None)
        self._short_since.pop(key, None)

    def _fill_slots(self, p: Placeholder, candidates: Sequence[GangCandidate], joined: Mapping[str, Joined]) -> None:
        """Give Pods that came after the grant the slots of members that finished, or that no member had yet."""
        for one, text in untranslatable(p, candidates, joined):
            self._announce(one.pod, Reason.INVALID_SLURM_SETTINGS, text)
        requests = {
            one.pod.uid: translation.request
            for one in candidates
            if isinstance(translation := joined[one.pod.uid].translation, Translated)
        }
        known = p.request or p.submitted_request
        request = known or self._request_again(p, candidates, requests)
        if request is None:
            return
        found = seating(p, request, candidates, requests, self._own_gates)
        allowed = bool(p.faults) and len(requests) == len(candidates)  # a start found some of them invalid
        if found.changed or known is None or allowed:
            slots = tuple(sorted(found.slots))
            self._engine.handle(p.key, e.PodWanted(tuple(found.slots[one] for one in slots), request, slots), "gang")
        self._report_full(p.key, found.waiting)
        for one, text in found.refused:
            self._announce(one.pod, Reason.INVALID_SLURM_SETTINGS, text)

    def _request_again(
        self, p: Placeholder, candidates: Sequence[GangCandidate], requests: Mapping[str, JobRequest]
    ) -> JobRequest | None:
        """Return what a gang requests whose job a start found: what its members do that run, or else that wait."""
        there = [one for one in p.members if one.placed and not one.unknown] or p.members
        uids = {one.ref.uid for one in there}
        members = [one for one in candidates if one.pod.uid in uids and one.pod.uid in requests]
        if not members:
            return None
        first = members[0].membership
        member_requests = [MemberRequest(one.pod.full_name, requests[one.pod.uid]) for one in members]
        # Members that are bound have their slots: so many has the job, of a gang that had fewer members than at first.
        seated = any(one.placed and one.slot is not None for one in p.members)
        slots = len(p.job.slots) if p.job is not None and seated else 0
        size = max(p.size, slots or first.most or first.expected or 0)
        outcome = agreed(gang_title(first), member_requests, size)
        return None if isinstance(outcome, Disagreed) else outcome.request

    def _report_full(self, key: str, beyond: Collection[GangCandidate], request: JobRequest | None = None) -> None:
        """Report to each Pod for which the gang has no slot that it waits, once until it gets one."""
        notified = self._beyond.pop(key, frozenset())
        for one in beyond:
            if one.pod.uid not in notified:
                self._announce(one.pod, *why_beyond(one, self._joined[key][one.pod.uid], request))
        if beyond:
            self._beyond[key] = frozenset(one.pod.uid for one in beyond)

    def _withdraw(self, key: str, members: Collection[e.MemberRef]) -> None:
        """Keep the gang, with these members, without a request; a job that waits is released."""
        if members:
            self._engine.handle(key, e.PodRefused(tuple(members), ()), "gang")

    def _request(self, key: str, found: Complete, joined: Mapping[str, Joined]) -> None:
        """Request a job for a gang that can start. Slurm is searched first where older members may have one."""
        p = self._placeholders.get(key)
        slots = _slots(found, p)
        refs = _refs(sorted(found.members, key=lambda one: slots[one.pod.uid]))
        first = found.members[0]
        outcome = gang_request(found, {one.pod.uid: joined[one.pod.uid].translation for one in found.members})
        if isinstance(outcome, Disagreed):
            self._engine.handle(key, e.PodRefused(refs, outcome.faults), "gang")
            return
        if outcome.notice and (p is None or p.request != outcome.request):
            self._announce(first.pod, Reason.GANG_MEMBERS_DIFFER, outcome.notice)
        cancels = {recorded_cancel(one.pod) for one in found.members}
        cancelled = cancels.pop() if len(cancels) == 1 else None  # a Pod that came later records none
        first_time = p is None or (p.request is None and not p.placed and may_have_older_job(p))
        if first_time and self._deferred.may_have(key, first.pod.namespace):
            if p is not None:
                self._engine.forget(p)
            self._engine.adopt(key, list(map(Member, refs)), gang_title(first.membership), None, cancelled)
        wanted = e.PodWanted(refs, outcome.request, tuple(slots[ref.uid] for ref in refs), cancelled)
        self._engine.handle(key, wanted, "gang")

    def _announce(self, pod: PodView, reason: Reason, text: str) -> None:
        self._announcer.announce(Announcement("Pod", pod.namespace, pod.name, pod.uid, reason, text, warning=True))


def _places(p: Placeholder) -> tuple[object, ...]:
    """Return what decides whether a Pod that comes later may get a slot."""
    free = frozenset((m.ref.uid, m.end) for m in p.members if m.end or m.unknown)  # is known later after a forced end
    return p.state, p.slurm_nodes, p.payload.vacated if isinstance(p.payload, BoundState) else (), free


def _refs(candidates: Iterable[GangCandidate]) -> tuple[e.MemberRef, ...]:
    return tuple(e.MemberRef.of(one.pod) for one in candidates)


def _slots(found: Complete, p: Placeholder | None) -> dict[str, int]:
    """Return the slot of each member, which is its rank. A bound member keeps the slot that its record proves."""
    kept = {} if p is None else {one.ref.uid: one.slot for one in p.members if one.placed and one.slot is not None}
    uids = {one.pod.uid for one in found.members}
    orders = {one.pod.uid: one.membership.order for one in found.members}
    return ranks(orders, found.size, {uid: slot for uid, slot in kept.items() if uid in uids})
