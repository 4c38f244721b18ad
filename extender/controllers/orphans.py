"""Find and end orphaned jobs: placeholder jobs whose Pods ended while no extender ran.

Polls list the jobs; only a read of a job shows its owner. Every job that no workload is known to have is read: those at
the start a few at a time, those that appear later one by one. Among these may be one that an earlier process requested,
whose request was delayed, and one that lives again because slurmctld came back with an older state. That may be under
the id of a job read before, so all are read again in turn.

An orphaned job ends at once where a checkpoint shows that its Pod was deleted (`domain.jobs.checkpoint`). Otherwise a
restore of etcd may have taken the Pod back, and the mass-deletion guard says how long the job is kept.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Set
from dataclasses import dataclass
from itertools import islice
from typing import Any

import structlog

from extender.controllers.orphaned_jobs import OrphanedJob, OrphanedJobs
from extender.controllers.pod_absence_classifier import TEXTS, PodAbsenceClassifier
from extender.controllers.refresh import NON_PLACEHOLDER_READ_INTERVAL_S
from extender.domain.events import JobFound, ProbeAnswered
from extender.domain.job_outcomes.slurm_states import ENDED_STATES
from extender.domain.job_outcomes.workload_end import wait_status_of
from extender.domain.jobs.checkpoint import Checkpoint, PodAbsence
from extender.domain.jobs.identity import decode_mark
from extender.domain.jobs.job import JobView, Mark
from extender.domain.lifecycle.releasing import SOFT_TRIES
from extender.domain.placeholder import Placeholder, State
from extender.domain.pods.outcome import outcome_of
from extender.domain.ports import Clock, PodReads, PortError, SlurmJobs
from extender.domain.views import PodView
from extender.engine.engine import Engine
from extender.engine.engine_context import EngineState
from extender.engine.job_terminator import JobTerminator, ProvedJob, UnprovedJob
from extender.engine.mass_deletion_guard import RUNBOOK_FOR_MISSING_PODS, AbsenceVerdict, MassDeletionGuard
from extender.engine.missing_jobs import Orphan
from extender.engine.workload_resolver import WorkloadResolver
from extender.runtime.controller import Controller, Requeue, Resync
from extender.runtime.event_bus import EventBus
from extender.runtime.topics import JobStatesPolled, MassDeletionConfirmed, NonPlaceholderJobRead, UnmarkedJobRead

_log = structlog.get_logger(__name__)

STEP = 0.1
"""Seconds between two steps."""

STEP_LATER = 0.5
"""The same for jobs that appear when whatever was sent before the start has most likely arrived."""

AT_ONCE = 16
"""Jobs that are read in a step at the start, and ended in any step."""

_ALL = "all"
"""The one key: a step begins when the one before has ended."""

FENCED_AFTER = 0.5
"""Seconds before a job is tried again whose nodes are not drained yet."""

AGAIN_AFTER = 5.0
"""Seconds before a cancel is repeated whose job's end has not been seen."""

HOW_TO_RELEASE = (
    "many placeholder jobs have no Pod: etcd may have been restored. The jobs are ended after orphans.massGracePeriod. "
    f"To end the jobs now, confirm as in {RUNBOOK_FOR_MISSING_PODS}."
)

FORGED = (
    "its extra has a mark of this extender, but its admin_comment, which no owner of a job can write, has none, and "
    "neither its name nor its user proves that the extender submitted it: it is left unchanged"
)

HIDDEN = (
    "the API server has its Pod, but does not show it in lists: a cache of the API server is out of date; "
    "nothing is ended meanwhile"
)

_UNDECIDED = {State.SUBMITTING, State.UNSURE}
"""In these a workload may be about to learn of the job by itself."""


@dataclass(frozen=True, slots=True)
class OrphanOptions:
    """`in_turn`: seconds between two reads of jobs that were read before."""

    in_turn: float = NON_PLACEHOLDER_READ_INTERVAL_S


class OrphanController:
    """End orphaned jobs. `fresh`: return whether the informers are up to date; otherwise no job is ended.

    `settle`: seconds within which a request of an earlier process arrives. A Pod that was removed may still run:
    `left_behind` keeps Slurm off the nodes of its job, and says whether it does by now. `known_otherwise`: jobs that
    are no placeholder jobs, and that others look after. `departed` gives a Pod that this process saw leave: its job is
    no reason to doubt the list of Pods.
    """

    def __init__(
        self,
        engine: Engine,
        state: EngineState,
        jobs: SlurmJobs,
        terminator: JobTerminator,
        *,
        orphaned: OrphanedJobs,
        workloads: WorkloadResolver,
        pods: PodReads,
        settle: float,
        clock: Clock,
        mass_deletion_guard: MassDeletionGuard,
        fresh: Callable[[], bool],
        events: EventBus,
        left_behind: Callable[[JobView, Mark], bool],
        known_otherwise: Callable[[], Set[int]],
        classifier: PodAbsenceClassifier,
        departed: Callable[[str], PodView | None] = lambda _uid: None,
        options: OrphanOptions = OrphanOptions(),
    ) -> None:
        self._left_behind = left_behind
        self._departed = departed
        self._options = options
        self._count = state.missing_jobs.count
        self._engine = engine
        self._state = state
        self._settle = settle
        self._jobs = jobs
        self._terminator = terminator
        self._workloads = workloads
        self._pods = pods
        self._clock = clock
        self._mass_deletion_guard = mass_deletion_guard
        self._fresh = fresh
        self._first_poll: float | None = None
        self._unread: dict[int, None] = {}
        self._read: dict[int, None] = {}
        """Jobs of others that were read, those first that are to be read again first."""

        self._unproven: set[int] = set()
        """Of these, those whose user could have proved that they are placeholder jobs."""

        self._forged: set[int] = set()
        """Of these, those that were reported as forged."""

        self._in_turn_at = 0.0

        self._orphans = orphaned.by_id
        self._events = events
        self._known_otherwise = known_otherwise
        self._classifier = classifier

        self._controller = Controller("orphans", self._reconcile, resync=Resync(lambda: (_ALL,)))

    def polled(self, event: JobStatesPolled) -> None:
        """Compare the jobs that are known with the state words of every job, just now."""
        states = event.states
        now, live = self._clock.now(), self._engine.placeholders.jobs | self._known_otherwise()
        if self._first_poll is None:
            self._first_poll = now
        if self._unproven and self._state.identity.caller is not None:
            for job_id in self._unproven:  # judge them by their user, now that the extender's user is known
                self._read.pop(job_id, None)
            self._unproven.clear()
        # Ten thousand jobs have a handful of sets of words among them.
        living = {job_states for job_states in set(states.values()) if not job_states & ENDED_STATES}
        # One that is over is forgotten: it may live again, in a state of slurmctld that was restored.
        self._read = {job: None for job in self._read if job not in live and states.get(job) in living}
        self._forged &= self._read.keys()
        self._unproven &= self._read.keys()
        for job_id in sorted(states.keys() - self._read.keys() - live):
            if job_id not in self._orphans and states[job_id] in living:
                self._unread.setdefault(job_id)
        for known in (self._orphans, self._unread):
            for job_id in [one for one in known if one in live or states.get(one, ENDED_STATES) & ENDED_STATES]:
                del known[job_id]
        if self._unread or self._orphans:
            self._controller.add(_ALL, after=self._pause)

    async def run(self) -> None:
        """Read what may be an orphan, and end what is one, until cancelled."""
        await self._controller.run()

    @property
    def _pause(self) -> float:
        """Return seconds between two steps."""
        return STEP if self._orphans or self._early else STEP_LATER

    async def _reconcile(self, _all: str) -> Requeue:
        """Read the next jobs, and end those that are due."""
        if self._fresh():
            await self._step()
        return Requeue(self._pause if self._unread or self._orphans else self._options.in_turn)

    async def _step(self) -> None:
        if self._clock.now() - self._in_turn_at >= self._options.in_turn and not self._unread:
            self._in_turn_at = self._clock.now()
            again = next((job_id for job_id in self._read if job_id not in self._orphans), None)
            if again is not None:
                self._unread[again] = None
                self._events.publish(NonPlaceholderJobRead())
        early = self._early
        following = list(islice(self._unread, AT_ONCE if early else 1))
        for job_id in following:
            del self._unread[job_id]
        await asyncio.gather(*map(self._check, following))
        if self._orphans:
            # Many without a Pod are held, and at the start how many there are is known when all are read.
            await self._end_orphans(counted=not (early and self._unread))

    @property
    def _early(self) -> bool:
        """Return whether a request that was sent before the start may still be on its way."""
        return self._first_poll is None or self._clock.now() - self._first_poll <= self._settle

    async def _check(self, job_id: int) -> None:
        try:
            job = await self._jobs.read(job_id)
        except PortError as error:
            _log.info("job_not_read", job_id=job_id, error=str(error))
            self._unread.setdefault(job_id)  # behind the others
            await asyncio.sleep(1.0)
            return
        self._read.pop(job_id, None)
        self._read[job_id] = None  # behind the others
        if job is None or job_id in self._engine.placeholders.jobs:
            return
        mark, sure = self._own_mark(job)
        if mark is None:
            self._events.publish(UnmarkedJobRead(job))
        elif not sure:
            if self._state.identity.caller is None:
                self._unproven.add(job_id)
            if job_id not in self._forged:
                self._forged.add(job_id)
                _log.warning(
                    "mark_not_proven",
                    job_id=job_id,
                    name=job.name,
                    user_id=job.user_id,
                    workload=mark.workload,
                    why=FORGED,
                )
        else:
            older = mark.epoch != self._state.identity.epoch
            found = JobFound(job_id, mark.attempt, job.state == "RUNNING", job.excluded, older, mark.request_digests)
            namespace = next((ref.namespace for ref in self._workloads.members_of_job(job, mark)), "")
            orphan = OrphanedJob(mark.workload, self._clock.now(), found, namespace=namespace, nodes=job.nodes)
            orphan.checkpoint = _checkpoint_of(job)
            self._orphans[job_id] = orphan

    def _own_mark(self, job: JobView) -> tuple[Mark | None, bool]:
        """Return the mark of a live job that names this extender, and whether the extender surely made the job."""
        if job.state in ENDED_STATES:
            return None, False
        return self._state.identity.mark_on(job)

    def _is_job_of(self, job: JobView, workload: str) -> bool:
        mark, sure = self._own_mark(job)
        return mark is not None and sure and mark.workload == workload

    def confirmed(self, _event: MassDeletionConfirmed) -> None:
        """End the jobs that have no Pod now."""
        for orphan in self._orphans.values():
            orphan.excused = True
        if self._orphans:
            _log.warning("orphaned_jobs_released", why="an administrator confirmed", jobs=sorted(self._orphans))

    def shown(self) -> list[dict[str, Any]]:
        """Return the jobs that have no Pod, for `/debug`."""
        now = self._clock.now()
        return [
            {
                "jobId": job_id,
                "workload": orphan.workload,
                "podFinished": orphan.finished,
                "podAbsence": str(orphan.absence or ""),
                "seconds": round(now - orphan.since, 1),
                "said": orphan.logged or "found",
            }
            for job_id, orphan in sorted(self._orphans.items())
        ]

    @property
    def restore_suspected(self) -> str:
        """Return why jobs are kept although their Pods are absent, where a checkpoint says so; ""."""
        kept = Counter(orphan.absence for orphan in self._orphans.values() if not orphan.explained)
        return "; ".join(f"{kept[why]} jobs without a Pod: {text}" for why, text in TEXTS.items() if kept[why])

    def suspected_nodes(self) -> set[str]:
        """Return the Nodes on which Pods may run that a restore took back."""
        node_map = self._engine.snapshot.node_map
        kept = [one for one in self._orphans.values() if one.absence is PodAbsence.RESTORED and not one.explained]
        return {name for one in kept for node in one.nodes if (name := node_map.last_kubernetes(node))}

    async def _end_orphans(self, *, counted: bool) -> None:
        """End those that are due. `counted`: all jobs were read, so that the number of those without a Pod is known."""
        await self._classifier.classify(self._without_pod().values())
        now, without_pod = self._clock.now(), self._without_pod()
        missing = sum(not (orphan.explained or orphan.absence is PodAbsence.DELETED) for orphan in without_pod.values())
        total = len(self._engine.placeholders.jobs) + len(without_pod)
        due: list[tuple[int, OrphanedJob]] = []
        for job_id, orphan in without_pod.items():
            if not orphan.logged:
                self._log_and_count(job_id, orphan, "found")
            verdict = self._judge(orphan, missing, total)
            if not verdict.lasted:
                if verdict.held:
                    self._say_held(job_id, orphan, missing, verdict.wait_s)
            elif self._mass_deletion_guard.dry_run:
                self._log_and_count(
                    job_id, orphan, "would_be_ended", pod_finished=orphan.finished, why="orphans.dryRun is on"
                )
            elif now >= orphan.not_before and (counted or verdict.wait_s == 0.0):
                due.append((job_id, orphan))
        await asyncio.gather(*(self._try_end(job_id, orphan) for job_id, orphan in due[:AT_ONCE]))

    def _judge(self, orphan: OrphanedJob, missing: int, total: int) -> AbsenceVerdict:
        """Judge the absence of its Pod, where `missing` of `total` jobs lack their Pods."""
        certain = orphan.finished or orphan.excused
        why = PodAbsence.DELETED if certain else orphan.absence or PodAbsence.UNREADABLE
        return self._mass_deletion_guard.judge(orphan.since, missing, total, why, reported=orphan.left)

    def _say_held(self, job_id: int, orphan: OrphanedJob, missing: int, wait: float) -> None:
        what = HOW_TO_RELEASE if orphan.absence is None else TEXTS.get(orphan.absence, HOW_TO_RELEASE)
        self._log_and_count(job_id, orphan, "held", orphans=missing, seconds=wait, what=what)

    async def _try_end(self, job_id: int, orphan: OrphanedJob) -> None:
        """End it; where its nodes are not drained yet, try again soon."""
        fenced = await self._end(job_id, orphan)
        orphan.not_before = self._clock.now() + (AGAIN_AFTER if fenced else FENCED_AFTER)

    async def _end(self, job_id: int, orphan: OrphanedJob) -> bool:
        """Cancel it, if it is what it was and its Pod is surely gone. False: its nodes are not drained yet."""
        try:
            proved = await self._terminator.prove(job_id, lambda job: self._is_job_of(job, orphan.workload))
        except PortError as error:
            _log.info("job_not_read", job_id=job_id, error=str(error))
            return True
        if not isinstance(proved, ProvedJob) or (mark := self._own_mark(job := proved.job)[0]) is None:
            if isinstance(proved, UnprovedJob) and proved.job.state not in ENDED_STATES:
                _log.warning(
                    "cancel_skipped_job_not_owned", job_id=job_id, name=proved.job.name, workload=orphan.workload
                )
            self._orphans.pop(job_id, None)
            return True
        if self._engine.placeholders.get(orphan.workload) is not None:
            return True  # its Pod came while it was read
        if self._workloads.may_be_deferred(orphan.workload, orphan.namespace):
            return True
        pod = self._pod_of(orphan.workload) or self._departed_of(orphan.workload)
        if pod is None:
            try:
                pod = await self._hidden(job, mark)
            except PortError as error:
                _log.info("pod_not_read", job_id=job_id, workload=orphan.workload, error=str(error))
                return True
            if pod is not None and not pod.finished:
                self._log_and_count(job_id, orphan, "spared", pod=pod.full_name, why=HIDDEN)
                return True
            if pod is None and not await self._is_explained(job, orphan):
                return True
        if (pod is None or (orphan.left and not pod.stopped)) and not self._left_behind(job, mark):
            orphan.end_requests = 0
            return False
        self._log_and_count(job_id, orphan, "ended", pod_finished=orphan.finished)
        again, orphan.end_requests = orphan.end_requests >= SOFT_TRIES, orphan.end_requests + 1
        note, exit_code = ("", None) if again or pod is None else _outcome(pod)
        status = None if pod is None else wait_status_of([pod])
        if (await self._terminator.end(proved, note=note, exit_code=exit_code, wait_status=status)).job_ended:
            self._orphans.pop(job_id, None)
        return True

    async def _is_explained(self, job: JobView, orphan: OrphanedJob) -> bool:
        """Return whether the checkpoint is still there, where it alone explains why the Pod is absent.

        It is read after the Pod was: a restore between the two would have taken the checkpoint back as well.
        """
        if orphan.explained or orphan.absence is not PodAbsence.DELETED:
            return True
        orphan.absence = await self._classifier.why(_checkpoint_of(job))
        return orphan.absence is PodAbsence.DELETED

    async def _hidden(self, job: JobView, mark: Mark) -> PodView | None:
        """Return its Pod if it exists although the mirror lacks it: a list may be old. Raises PortError."""
        for ref in self._workloads.members_of_job(job, mark):
            if (pod := await self._pods.read(ref)) is not None:
                return pod
        return None

    def _pod_of(self, workload: str) -> PodView | None:
        """Return a Pod of a workload, one that is not finished if there is one."""
        return min(self._workloads.pods(workload), key=lambda pod: pod.finished, default=None)

    def _departed_of(self, workload: str) -> PodView | None:
        """Return a Pod of a workload that this process saw leave, as it was then."""
        return next((pod for uid in self._workloads.uids(workload) if (pod := self._departed(uid)) is not None), None)

    def _log_and_count(self, job_id: int, orphan: OrphanedJob, word: str, **more: object) -> None:
        """Log and count what is thought of it, once as long as that stays the same."""
        if orphan.logged == word:
            return
        orphan.logged = word
        counts = {"found": self._count.found, "held": self._count.held, "ended": self._count.ended}
        counts.get(word, self._count.spared)[Orphan.JOB] += 1
        _log.warning(f"orphaned_job_{word}", job_id=job_id, workload=orphan.workload, **more)

    def _without_pod(self) -> dict[int, OrphanedJob]:
        """Return the jobs without a workload. An existing workload is notified of its duplicates, and ends them."""
        without_pod = {}
        for job_id, orphan in list(self._orphans.items()):
            if self._workloads.may_be_deferred(orphan.workload, orphan.namespace):
                orphan.since = self._clock.now()  # whose job it is follows from an owner that cannot be read
                continue
            record, pod = self._engine.placeholders.get(orphan.workload), self._pod_of(orphan.workload)
            if record is not None and (record.state in _UNDECIDED or self._may_get(record, orphan)):
                continue
            if record is not None or (pod is not None and not pod.finished):
                del self._orphans[job_id]
                if record is not None:
                    self._engine.handle(orphan.workload, ProbeAnswered((orphan.found,)), "look for orphans")
                continue
            if pod is None and self._workloads.may_have_pods(orphan.workload):
                orphan.since = self._clock.now()  # a Pod that cannot be read may run on it
                continue
            orphan.finished, orphan.left = pod is not None, self._departed_of(orphan.workload) is not None
            without_pod[job_id] = orphan
        return without_pod

    def _may_get(self, p: Placeholder, orphan: OrphanedJob) -> bool:
        """Return whether a workload may get its job back when it submits for the first time.

        Its Pods are new to this process: a restored etcd lacked them when it started, and has them again.
        """
        expired = self._mass_deletion_guard.judge(orphan.since, why=PodAbsence.RESTORED).lasted
        return p.state is State.ABSENT and p.attempt == 0 and not expired


def _checkpoint_of(job: JobView) -> Checkpoint | None:
    """Return the checkpoint that the mark of a job names, as the extender wrote it."""
    mark = decode_mark(job.admin_comment)
    return None if mark is None else mark.checkpoint


def _outcome(pod: PodView) -> tuple[str, int | None]:
    """Return the note for the job of a Pod that is over, and the exit code for its script."""
    code = None if pod.deleted_at is not None else int(pod.phase == "Failed")
    return f"Pod {pod.full_name} {outcome_of(pod)}", code
