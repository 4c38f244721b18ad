"""Notify the engine about the Pods of this scheduler: wanted, bound, ending, gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence

import structlog

from extender.controllers.absent_pods import AbsentPods
from extender.controllers.gang_intake import GangIntake, frees_members
from extender.controllers.owner_rounds import Controllers
from extender.controllers.pod_adoption import DEFERRED, OWNER_RETRY, Found, PodAdoption
from extender.controllers.returned_members import ReturnedMembers
from extender.controllers.scheduling import FilterCandidates
from extender.controllers.translation_queue import TranslationQueue
from extender.controllers.translations import NO_POLICY, Translations
from extender.domain import events as e
from extender.domain.gangs.context import GroupRef, root_annotations
from extender.domain.jobs.cancelled import recorded_cancel
from extender.domain.placeholder import Member, Placeholder, State
from extender.domain.pods.allocation_record import AllocationRecord, AllocationRecords
from extender.domain.pods.changes import requests_changed
from extender.domain.pods.deferred_pods import DeferredPods, may_have_older_job
from extender.domain.pods.outcome import outcome_of
from extender.domain.ports import Announcement, Announcer, Clock, Owners, PodCache
from extender.domain.translation.translate import Translated, TranslationRefused
from extender.domain.views import PodView
from extender.domain.wellknown import GATE, JOB_ID, POD_UID, Reason
from extender.engine.engine import Engine
from extender.engine.workload_resolver import WorkloadResolver
from extender.runtime.controller import Controller, Requeue, Resync
from extender.runtime.cooperative_yield import CooperativeYield
from extender.runtime.event_bus import EventBus
from extender.runtime.topics import (
    DeferredPodsAdopted,
    MassDeletionConfirmed,
    PlaceholderChanged,
    PodGroupChanged,
    PodRemoved,
)

_log = structlog.get_logger(__name__)

LONGEST_SHOWN = 100
"""Characters of an annotation that lines of the log and Events quote."""

SETTLE_EVERY = 10.0
"""Seconds between two checks of what was left open."""

CLASSIFY_EVERY = 2.0
"""Seconds between two looks at Pods that a list lacks, as long as there are some."""

_ALL = "all"
"""The one key of what settles everything that was left open."""

BINDING_SETTLED = 75.0
"""Seconds after which a Binding without an answer cannot be carried out any more."""

_PLACED = frozenset({State.BOUND, State.LOST, State.GONE})


class PodController:
    """Turn changes of Pods into events of their workloads. Keys of translations are UIDs.

    `fresh`: return whether the Pod informer is up to date. `missing` decides of Pods that a list lacks. `naming`
    returns the Pods that name a PodGroup.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        cache: PodCache,
        owners: Owners,
        announcer: Announcer,
        clock: Clock,
        events: EventBus,
        allocation_records: AllocationRecords,
        candidates: FilterCandidates,
        workloads: WorkloadResolver,
        gangs: GangIntake,
        translations: Translations,
        naming: Callable[[GroupRef], Sequence[PodView]],
        schedulers: Collection[str],
        missing: AbsentPods,
        deferred: DeferredPods,
        fresh: Callable[[], bool] = lambda: True,
    ) -> None:
        self._engine = engine
        self._cache = cache
        self._announcer = announcer
        self._clock = clock
        self._translations = translations
        self._schedulers = frozenset(schedulers)
        self._allocation_records = allocation_records
        self._candidates = candidates
        self._workloads = workloads
        self._gangs = gangs
        self._naming = naming
        self._returned = ReturnedMembers(engine, cache)
        self._fresh = fresh
        self._events = events
        self.missing = missing
        self._waiting = TranslationQueue(
            owners, cache, is_wanted=lambda uid: uid in self._requested, translate=self._translate
        )
        self.adoption = PodAdoption(
            engine,
            cache=cache,
            owners=owners,
            announcer=announcer,
            clock=clock,
            allocation_records=allocation_records,
            gangs=gangs,
            translations=translations,
            deferred=deferred,
            pods_of=workloads.pods,
            fresh=fresh,
        )
        self._deferred = deferred
        self._adopter = Controller("deferred Pods", self._adopt_deferred, keep_early=True)
        self._settler = Controller("settling", self._settle, resync=Resync(lambda: (_ALL,)))
        self._absences = Controller("absent Pods", self._classify_absent, resync=Resync(lambda: (_ALL,)))
        self._binding_since: dict[str, float] = {}
        """Since when the answer to the Binding of each Pod is awaited."""

        self._requested: set[str] = set()
        self._meanwhile: dict[str, PodView | None] = {}
        """Pods that changed during adoption, by UID, as they were when it began."""

        self._left_as: dict[str, PodView] = {}
        """The last state of Pods that were deleted during adoption."""

        self._absent_meanwhile: set[str] = set()
        self._adopting = False
        self.ready = False
        """Every Pod of the first list has been adopted."""

    @property
    def trouble(self) -> str:
        """Return which Pod of the first list cannot be adopted now, and why; ""."""
        return self.adoption.trouble

    def is_managed(self, pod: PodView) -> bool:
        """Return whether the extender places this Pod. In a namespace out of scope its translation refuses it."""
        return pod.scheduler_name in self._schedulers

    def changed(self, old: PodView | None, new: PodView | None) -> None:
        """Handle a watch event. Events during adoption are recorded; earlier ones are ignored."""
        if not self.ready:
            if self._adopting and (pod := old or new) is not None and self.is_managed(pod):
                self._meanwhile.setdefault(pod.uid, old)
                if new is None:
                    self._left_as[pod.uid] = pod
            return
        back = self.missing.back(new.uid) if new is not None and old is None else None
        if new is None:
            self._removed(old)
        elif self.is_managed(new):
            self._notified(old or back, new)
            if back is not None:
                self._gangs.changed(new.uid)
                self._recognise_again([new.uid])  # what decides on it may have changed meanwhile

    def absent(self, pods: Sequence[PodView]) -> None:
        """Handle Pods that a complete list lacks; during adoption they are only recorded."""
        if not self.ready:
            if self._adopting:
                self._absent_meanwhile |= {pod.uid for pod in pods}
                for pod in pods:
                    self._meanwhile.setdefault(pod.uid, pod)
                    self._left_as[pod.uid] = pod
            return
        handled = [pod for pod in pods if pod.uid in self._requested or pod.uid in self._deferred]
        if handled:
            self.missing.keep(handled)
            self._gangs.changed(*(pod.uid for pod in handled))
            self._absences.add(_ALL)

    def confirmed(self, _event: MassDeletionConfirmed) -> None:
        """Treat missing Pods as gone."""
        for pod in self.missing.due(confirmed=True):
            self._removed(pod)

    def reconsider(self, namespace: str | None = None) -> None:
        """Translate waiting Pods again: the policy or the labels of a Namespace changed.

        A Pod that has its node keeps it, and its job stays as requested; a later member of a gang that runs waits for a
        slot. During a start all of this is done at its end: a gang may have been adopted in parts that differ.
        """
        self.adoption.reconsidered = True
        if not self.ready:
            return
        for uid in sorted(self._requested):
            pod = self._cache.get(uid)
            if pod is None or pod.ended or namespace not in {None, pod.namespace}:
                continue
            if not self._is_placed(pod):
                self._waiting.put(pod)

    def _is_placed(self, pod: PodView) -> bool:
        """Return whether a Pod has its node, or its job has one for it."""
        p = self._engine.placeholders.by_pod(pod.uid)
        if p is None:  # a later member of a gang that runs
            return bool(pod.node_name)
        single = p.key == self._workloads.key_of_single(pod)
        if not single and not self._gangs.has_request(pod.uid):
            return False  # the others of its gang wait until it is known what it requests
        return bool(pod.node_name) or (p.state in _PLACED and (single or p.has_slot(pod.uid)))

    def reconsider_pods(self, pods: Sequence[PodView]) -> None:
        """Translate these Pods again where they wait: more is known of their ResourceClaims."""
        self._recognise_again([pod.uid for pod in pods])

    def pod_group_changed(self, event: PodGroupChanged) -> None:
        """Decide again to which gang the waiting Pods belong that name a PodGroup."""
        self._recognise_again([pod.uid for pod in self._naming(event.group)])

    def _recognise_again(self, uids: Sequence[str]) -> None:
        for uid in uids:
            pod = self._cache.get(uid)
            if uid in self._requested and pod is not None and not pod.node_name and not pod.ended:
                self._waiting.put(pod)

    async def adopt(self, there: Collection[PodView]) -> None:
        """Adopt the Pods that existed before this process: find each workload's job before any submission."""
        self._adopting, turns = True, CooperativeYield()
        pods = []
        for pod in there:
            await turns.maybe_yield()
            if self.is_managed(pod) and not pod.ended and pod.uid not in self._requested:
                self._report_foreign_record(pod)
                pods.append(pod)
        for key, found in (await self.adoption.at_start(pods)).items():
            await turns.maybe_yield()
            self._adopt(key, found)
        absent: dict[str, PodView] = {}
        while self._meanwhile:
            await turns.maybe_yield()
            self._catch_up(*self._meanwhile.popitem(), absent)
        self.ready, self._adopting = True, False
        self._left_as.clear()
        self._absent_meanwhile.clear()
        self.absent([pod for uid, pod in absent.items() if self._cache.get(uid) is None])
        if self.adoption.reconsidered:
            self.reconsider()
        if len(self._deferred):
            self._adopter.add(_ALL, after=OWNER_RETRY)

    async def _adopt_deferred(self, _all: str) -> Requeue | None:
        """Adopt the deferred Pods whose owners can be read by now. Members of a known gang join it as later ones."""
        workloads, again_after = await self.adoption.again()
        pods: list[PodView] = []
        for key, read in workloads.items():
            known = self._engine.placeholders.get(key)
            found = [one for one in read if not self._runs_unproven(one[0], known)]
            pods += [pod for pod, _ in found]
            for pod, _ in found:
                self._deferred.drop(pod.uid)
            if not found:
                continue
            if known is None or known.state is State.GONE:
                self._adopt(key, found)
            elif may_have_older_job(known):
                newer = [(pod, None) for pod in self._workloads.pods(key) if not pod.ended]
                self._engine.forget(known)
                self._adopt(key, [*found, *newer])
            else:
                for pod, _ in found:
                    self._notified(None, pod)
        if pods:
            self._events.publish(DeferredPodsAdopted(pods))
        return Requeue(again_after or DEFERRED.most) if len(self._deferred) else None

    def _runs_unproven(self, pod: PodView, gang: Placeholder | None) -> bool:
        """Return whether a Pod runs without a proof that it is a member of this gang, whose job is known.

        It stays deferred, and its node held: as a workload of its own it would lose its node to other jobs.
        """
        if gang is None or gang.key == self._workloads.key_of_single(pod):
            return False
        if gang.state is State.GONE or may_have_older_job(gang):
            return False
        return bool(pod.node_name) and not self._record_of(pod).gang_on(pod.node_name)

    def _adopt(self, key: str, found: Sequence[Found]) -> None:
        """Adopt a workload with these members: its job is found by what they record, and by its name."""
        pods = [pod for pod, _ in found]
        lead, read = next((one for one in found if one[1] is not None), found[0])
        title = self._translations.title(lead, root_annotations(read or ()))
        if key != self._workloads.key_of_single(lead):
            title = self._gangs.title_of(lead, read or (), title)
        job_id = next((job for pod in pods if (job := self._record_of(pod).job_id) is not None), None)
        cancelled = next((cancel for cancel in map(recorded_cancel, pods) if cancel is not None), None)
        self._engine.adopt(key, [self._member(pod) for pod in pods], title, job_id, cancelled)
        # Only now may anything have them translated: a gang that requests a job before its own is known loses it.
        self._requested.update(pod.uid for pod in pods)
        for pod, controllers in found:
            if controllers is None:
                self._waiting.put(pod)
            else:
                self._translate(pod, controllers)

    def _catch_up(self, uid: str, old: PodView | None, absent: dict[str, PodView]) -> None:
        """Notify of what happened to a Pod during adoption. Pods that lists lack are classified all at once."""
        now, last = self._cache.get(uid), self._left_as.get(uid, old)
        if now is None and last is not None and uid in self._absent_meanwhile:
            absent[uid] = last
        elif now is None:
            self._removed(last)
        else:
            self._notified(old, now)

    async def run(self) -> None:
        """Translate what is wanted and settle what was left open, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._waiting.run(), name="translations")
            group.create_task(self._settler.run(), name="settling")
            group.create_task(self._adopter.run(), name="deferred Pods")
            group.create_task(self._absences.run(), name="absent Pods")

    async def _classify_absent(self, _all: str) -> Requeue | None:
        """Accept the absence of Pods as a deletion where that is proven, or was waited for."""
        if not len(self.missing):
            return None
        await self.missing.classify()
        if self.ready and self._fresh():
            for pod in self.missing.due():
                if self._cache.get(pod.uid) is None:
                    self._removed(pod)
        return Requeue(CLASSIFY_EVERY) if len(self.missing) else None

    async def _settle(self, _all: str) -> Requeue:
        """Trust the watch about a Binding whose answer was lost, once no such request can be under way any more.

        Until then the request may still bind the Pod; kube-apiserver ends a request after 60 s (`--request-timeout`).
        """
        now = self._clock.now()
        open_ones = {
            member.ref.uid: p.key
            for p in self._engine.placeholders.all.values()
            for member in p.members
            if member.binding
        }
        since = self._binding_since = {uid: self._binding_since.get(uid, now) for uid in open_ones}
        if self.ready and self._fresh():
            for uid, key in open_ones.items():
                pod = self._cache.get(uid)
                if now - since[uid] > BINDING_SETTLED and pod is not None and not pod.node_name:
                    text = "the Binding was not answered, and the Pod is not bound"
                    self._engine.handle(key, e.BindFailed(uid, text), "settling")
            for uid in self._gangs.take_unread(now):
                if (unread := self._cache.get(uid)) is not None:
                    self._waiting.put(unread)
            for again in self._returned.take_waiting():
                self._notified(None, again)
            self._candidates.drop_unseen(lambda uid: uid in self._requested or self._cache.get(uid) is not None)
        return Requeue(SETTLE_EVERY)

    def _notified(self, old: PodView | None, new: PodView) -> None:
        if self.adoption.stays_deferred(new) or (new.uid not in self._requested and new.ended):
            return
        key = self._workloads.key_of(new)
        known = self._engine.placeholders.get(key)
        if new.uid in self._requested and not new.ended and self._returned.runs_again(new.uid, known):
            self._requested.discard(new.uid)
            if known is not None and known.state is not State.GONE:
                self._gangs.left(new.uid)  # it may be a workload of its own by now
                key = self._workloads.key_of(new)
                known = self._engine.placeholders.get(key)
        if new.uid not in self._requested and self._returned.must_wait(new, self._record_of(new)):
            return
        gone = known is not None and known.state is State.GONE
        if new.uid not in self._requested and (gone or _is_bound_with_record(new, self._record_of(new))):
            # On a node when it is seen first: it could not be read before, and its job is not known here. Or its
            # deletion was undone, by an etcd that was restored.
            key = self._returned.workload_of(new, self._record_of(new)) or key
            job_id = self._record_of(new).job_id
            self._engine.adopt(key, [self._member(new)], new.full_name, job_id, recorded_cancel(new))
        self._engine.meet(key, [e.MemberRef.of(new)])
        if new.uid not in self._requested:
            self._report_foreign_record(new)
        if new.uid not in self._requested or (old is not None and requests_changed(old, new)):
            self._wish(new)
        if new.node_name and not (old and old.node_name):
            record = self._record_of(new)
            job_id = record.job_on(new.node_name)
            self._engine.handle(key, e.PodBound(new.uid, new.node_name, job_id, record.slurm_node), "watch")
        if new.deleted_at is not None and not (old and old.deleted_at):
            self._engine.handle(key, e.PodEnding(new.uid), "watch")
        if new.ended and not (old and old.ended):
            how = e.PodEnd.SUCCEEDED if new.phase == "Succeeded" else e.PodEnd.FAILED
            if new.deleted_at is not None:  # kubelet gives every Pod that it has ended a phase
                how = e.PodEnd.REMOVED
            self._engine.handle(key, e.PodGone(new.uid, how, outcome_of(new)), "watch")
            self._gangs.finished(new.uid)
        if old is not None and _available(old) != _available(new):
            self._gangs.changed(new.uid)

    def placeholder_changed(self, event: PlaceholderChanged) -> None:
        """Begin again with Pods whose workload is over although they are there."""
        before, after = event.before, event.after
        if frees_members(after) and not frees_members(before):
            self._recognise_again(self._gangs.with_shared_name(after.key))  # they may move to another gang only now
        if after.state is State.GONE and before.state is not State.GONE:
            for ref in after.refs:
                if ref.uid in self._requested:
                    asyncio.get_running_loop().call_soon(self._begin_again, ref.uid)

    def _begin_again(self, uid: str) -> None:
        """Adopt a Pod once more whose deletion a restored etcd undid, while its job was still sought or ended."""
        pod, known = self._cache.get(uid), self._engine.placeholders.by_pod(uid)
        if pod is not None and not pod.ended and known is not None and known.state is State.GONE:
            self._requested.discard(uid)
            self._notified(None, pod)

    def _report_foreign_record(self, pod: PodView) -> None:
        """Warn that a copied Pod bears the status of its model, which says nothing about the copy."""
        if not self._record_of(pod).foreign:
            return
        job, uid = (pod.annotations.get(key, "")[:LONGEST_SHOWN] for key in (JOB_ID, POD_UID))
        _log.warning("status_annotations_ignored", pod=pod.full_name, uid=pod.uid, stated_job=job, written_for=uid)
        text = f'{JOB_ID}: "{job}" was written for another Pod ({uid}); this Pod has no part in that job.'
        self._announce(pod, Reason.STATUS_ANNOTATIONS_IGNORED, text)

    def _record_of(self, pod: PodView) -> AllocationRecord:
        return self._allocation_records.read(pod.annotations, pod.uid)

    def _member(self, pod: PodView) -> Member:
        """Return a member for a Pod, with the state that the Pod shows."""
        record, ending = self._record_of(pod), pod.deleted_at is not None
        job_id = record.job_on(pod.node_name)
        given = record.slurm_node if job_id is not None else ""
        hint = record.hint if pod.node_name else None
        slot = record.gang.rank if record.gang is not None and job_id is not None else None
        return Member(e.MemberRef.of(pod), slot, pod.node_name, job_id, hint, given, ending=ending)

    def _announce(self, pod: PodView, reason: Reason, text: str) -> None:
        self._announcer.announce(Announcement("Pod", pod.namespace, pod.name, pod.uid, reason, text, warning=True))

    def _removed(self, old: PodView | None) -> None:
        if old is not None:
            self._deferred.drop(old.uid)
        if old is not None and self._returned.left(old.uid):
            self._events.publish(PodRemoved("", old))
        elif old is not None and old.uid in self._requested:
            self._requested.discard(old.uid)
            self._events.publish(PodRemoved(self._workloads.key_of(old), old))
            self._gangs.left(old.uid)

    def _wish(self, pod: PodView) -> None:
        first = pod.uid not in self._requested
        self._requested.add(pod.uid)
        if first and pod.owner is None:
            self._translate(pod, ())
        else:
            self._waiting.put(pod)

    def _translate(self, pod: PodView, controllers: Controllers) -> None:
        translation = self._translations.of(pod, controllers)
        members = (e.MemberRef.of(pod),)
        if translation is None:  # translated again when the policy or the Namespace is known
            if not self._translations.possible:
                self._announce(pod, Reason.POLICY_UNUSABLE, NO_POLICY)
            return
        if isinstance(translation, Translated):
            for notice in translation.notices:
                self._announce(pod, notice.reason, notice.text)
        alone = self._gangs.accept(pod, controllers, translation)
        if alone is None:
            return
        translation = alone
        if isinstance(translation, TranslationRefused):
            self._engine.handle(self._workloads.key_of(pod), e.PodRefused(members, translation.faults), "translation")
            return
        wanted = e.PodWanted(members, translation.request, cancelled=recorded_cancel(pod))
        self._engine.handle(self._workloads.key_of(pod), wanted, "translation")


def _available(pod: PodView) -> tuple[object, ...]:
    """Return what decides whether a Pod counts as a member that is there. The extender's own gate does not."""
    return (tuple(gate for gate in pod.gates if gate != GATE), pod.deleted_at is None, pod.finished)


def _is_bound_with_record(pod: PodView, record: AllocationRecord) -> bool:
    """Return whether a Pod on a node names its job, with or without a proof."""
    return bool(pod.node_name) and (record.job_on(pod.node_name) is not None or record.hint is not None)
