"""Recognise the gang of each Pod, and hand the Pod over to it; a Pod that names no usable gang is refused by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from extender.controllers.gangs.candidates import MemberCandidates
from extender.controllers.gangs.members import GangMembers
from extender.domain import events as e
from extender.domain.gangs.completeness import lacks_members
from extender.domain.gangs.context import ControllerView, GangContext
from extender.domain.gangs.membership import Membership, gang_title
from extender.domain.gangs.recognition import GangRefused, recognise
from extender.domain.gangs.tenancy import gang_key
from extender.domain.jobs.job import Charge
from extender.domain.placeholder import Placeholder, State
from extender.domain.ports import PodCache
from extender.domain.renewal import replace
from extender.domain.translation.translate import Translation, TranslationRefused
from extender.domain.views import PodView
from extender.engine.engine import Engine
from extender.engine.workload_resolver import WorkloadResolver

UNUSED = frozenset({State.ABSENT, State.REFUSED})
"""States of a workload for which no job exists."""


TOO_MANY = "{most} Pods name {gang} already, which is the limit; delete some of them, then recreate this Pod"

MOST_TIMES = 2
"""Pods that may name one gang, in terms of the largest gang: all of a gang, and a successor of each."""


def frees_members(p: Placeholder) -> bool:
    """Return whether the Pods of this workload may join another: no job of it exists, and no request may create one.

    A workload that has submitted keeps its Pods as long as they request a job. A gang without a request is incomplete.
    """
    if p.state not in UNUSED or p.duplicate_jobs:
        return False
    return p.attempt == 0 or (p.request is None and p.reprobe_at is None)


class GangIntake:
    """Decide for each Pod whether it is a member of a gang.

    `site` has the site's choices, and the PodGroups. `beyond_rule` returns why the policy does not allow the gang of a
    Pod, as a sentence. `placed_alone` is called with each Pod that is a workload of its own.
    """

    def __init__(
        self,
        engine: Engine,
        gangs: GangMembers,
        candidates: MemberCandidates,
        *,
        cache: PodCache,
        site: GangContext,
        beyond_rule: Callable[[PodView, Membership], str],
        replace_within_s: float,
        complete_within_s: float,
        placed_alone: Callable[[PodView], None],
    ) -> None:
        self._engine = engine
        self._gangs = gangs
        self._candidates = candidates
        self._cache = cache
        self._site = site
        self._beyond_rule = beyond_rule
        self._replace_within_s = replace_within_s
        self._complete_within_s = complete_within_s
        self._placed_alone = placed_alone

    def key_of(self, pod: PodView, controllers: tuple[ControllerView, ...], charged: Charge) -> str | None:
        """Return the workload of a Pod that is a member of a gang, also where it would be refused now."""
        found = recognise(pod, self._context(controllers))
        return gang_key(found, charged) if isinstance(found, Membership) else None

    def title_of(self, pod: PodView, controllers: tuple[ControllerView, ...], title: str) -> str:
        """Return the readable part of the name of a gang's job, whose member would be called `title` by itself."""
        found = recognise(pod, self._context(controllers))
        if not isinstance(found, Membership) or title != pod.full_name:
            return title
        return gang_title(found)

    def lacks(self, pods: Sequence[PodView], controllers: tuple[ControllerView, ...]) -> bool:
        """Return whether the gang of these Pods needs others to start, or may; False: they are in no gang.

        `controllers` are those of the first one.
        """
        found = recognise(pods[0], self._context(controllers))
        if not isinstance(found, Membership):
            return False
        live = sum(pod.deleted_at is None and not pod.finished for pod in pods)
        return found.expected is None or lacks_members(found, found.expected, live)

    def accept(
        self, pod: PodView, controllers: tuple[ControllerView, ...], translation: Translation
    ) -> Translation | None:
        """Add the Pod to its gang, and return `None`; else return what becomes of the Pod by itself."""
        found = recognise(pod, self._context(controllers))
        fault = found.text if isinstance(found, GangRefused) else ""
        if isinstance(found, Membership):
            fault = self._beyond_rule(pod, found)
        if fault:
            translation = TranslationRefused(
                (fault, *(translation.faults if isinstance(translation, TranslationRefused) else ()))
            )
        kept = self._kept(pod) or (self._gangs.key_of(pod.uid) if fault else None)
        if kept is not None:
            self._gangs.stay(kept, pod, found if isinstance(found, Membership) else None, translation)
            return None
        if fault or isinstance(found, GangRefused):
            return translation
        key = self._gangs.key_for(found, translation) if found is not None else None
        before = self._gangs.key_of(pod.uid) or self._engine.placeholders.workload_of_pod(pod.uid)
        single = WorkloadResolver.key_of_single(pod)
        if found is None or key is None or not self._may_move(pod.uid, key):
            if before is not None and before != single:
                self._leave(pod, before)
            self._placed_alone(pod)
            return translation
        if before != key and not pod.node_name and self._is_crowded(key):
            if before is not None and before != single:
                self._leave(pod, before)
            return TranslationRefused((TOO_MANY.format(gang=found.name, most=MOST_TIMES * self._site.largest),))
        alone = self._engine.placeholders.get(single)
        if alone is not None:
            self._engine.forget(alone)
        self._gangs.join(key, pod, found, translation)
        if alone is not None and alone.candidates is not None:
            self._candidates.report(key, pod.uid, alone.candidates, "gang", computed=True)
        if before is not None and before not in {key, single}:
            self._moved(pod.uid, before, key)
        return None

    def has_request(self, uid: str) -> bool:
        """Return whether it is known what this Pod requests as a member of its gang: nothing where it is refused."""
        return self._gangs.has_request(uid)

    def left(self, uid: str) -> None:
        """Handle a Pod that is gone."""
        if (key := self._gangs.key_of(uid)) is not None:
            self._candidates.left(key, uid)
        self._gangs.leave(uid)

    def finished(self, uid: str) -> None:
        """Handle a Pod that has finished."""
        self._candidates.finished(uid)

    def changed(self, *uids: str) -> None:
        """Settle the gangs of Pods that changed, or that a list lacks: they may be complete or incomplete now."""
        for key in sorted({key for uid in uids if (key := self._gangs.key_of(uid)) is not None}):
            self._gangs.settle(key)

    def with_shared_name(self, key: str) -> list[str]:
        """Return the UIDs of the Pods of this gang that belong to it by a name that other Pods can repeat."""
        return self._gangs.with_shared_name(key)

    def take_unread(self, now: float) -> list[str]:
        """Return a Pod of each incomplete gang whose owner should be read again.

        Gangs that lack a member for too long give their place in Slurm's queue up, and an Event reports them.
        """
        self._gangs.withdraw_short(now, self._replace_within_s)
        self._gangs.report_incomplete(now, self._complete_within_s)
        return self._gangs.take_unread(now)

    def _kept(self, pod: PodView) -> str | None:
        """Return the gang in which a Pod stays, whatever it says now: a job was submitted for the gang, or may be."""
        p = self._engine.placeholders.by_pod(pod.uid)
        if p is None or p.key == WorkloadResolver.key_of_single(pod):
            return None
        return None if frees_members(p) else p.key

    def _is_crowded(self, key: str) -> bool:
        """Return whether so many Pods name this gang that a further one would cost others too much."""
        uids, most = self._gangs.uids(key), MOST_TIMES * self._site.largest
        if len(uids) < most:
            return False
        return sum((pod := self._cache.get(uid)) is None or not pod.finished for uid in uids) >= most

    def _may_move(self, uid: str, key: str) -> bool:
        """Return whether a Pod may belong to this workload: it stays where a job was submitted for it."""
        p = self._engine.placeholders.by_pod(uid)
        return p is None or p.key == key or frees_members(p)

    def _leave(self, pod: PodView, gang: str) -> None:
        """Make a Pod that is a member of a gang without a job a workload of its own."""
        joined, single = self._gangs.key_of(pod.uid) is not None, WorkloadResolver.key_of_single(pod)
        self._engine.meet(single, [e.MemberRef.of(pod)])  # so that the gang misses it
        self._gangs.leave(pod.uid)
        if not joined:  # a start has adopted it with the others
            self._gangs.settle(gang)
        self._moved(pod.uid, gang, single)

    def _moved(self, uid: str, before: str, now: str) -> None:
        """Take over the nodes that the Pod may use, and forget a gang without a job that has lost its last Pod.

        The record of one that has submitted only loses its members: the last search for a late job needs it.
        `FilterCandidates.drop_unseen` drops it later.
        """
        if (nodes := self._candidates.left(before, uid)) is not None:
            self._candidates.report(now, uid, nodes, "gang", computed=True)
        p = self._engine.placeholders.get(before)
        if p is None or self._gangs.uids(before) or p.state not in UNUSED or p.duplicate_jobs:
            return
        if p.state is State.ABSENT and p.attempt:
            self._engine.handle(before, e.PodRefused((), ()), "gang")
        else:
            self._engine.forget(p)

    def _context(self, controllers: tuple[ControllerView, ...]) -> GangContext:
        return replace(self._site, controllers=controllers)
