"""Jobs of ours without a Pod: their Pods ended or left while no extender was there to see it.

Which jobs exist is in the polled states, whose they are only in the jobs themselves. Jobs that are there at the start
are read once each, slowly; later on, only such that were ours and live again (slurmctld came back with an older state).
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import structlog

from extender.domain.events import JobFound, ProbeAnswered
from extender.domain.identity import mark_of
from extender.domain.job import JobView, Mark
from extender.domain.outcomes import STATES, Meaning
from extender.domain.placeholder import Placeholder, State
from extender.domain.rules import Brake
from extender.engine.engine import Engine
from extender.ports import Clock, PodCache, PortError, SlurmJobs

_log = structlog.get_logger(__name__)

STEP = 0.1
"""Seconds between two reads: ten a second, however many jobs there are."""

SURE_AFTER = 5.0
"""Seconds for which the Pod of a job must be missing before the job is ended."""

MANY_AFTER = 600.0
"""The same where many jobs have no Pod. An etcd restored from a backup has no Pods made since; kubelets end those."""

REMEMBERED = 20_000
"""Own jobs of the past that are remembered."""

_UNDECIDED = {State.SUBMITTING, State.UNSURE}
"""In these a unit may be about to learn of the job by itself."""

_OVER = frozenset(rule.word for rule in STATES if rule.meaning is Meaning.OVER)


@dataclass(slots=True)
class _Orphan:
    """A live job of ours that no unit has as its own. `finished`: its Pod is there, and over."""

    unit: str
    since: float
    found: JobFound
    finished: bool = False
    told: bool = False


class OrphanController:
    """Finds them and ends them. `fresh` says whether the mirror of Pods is up to date; blind, nothing is ended."""

    def __init__(
        self,
        engine: Engine,
        jobs: SlurmJobs,
        cache: PodCache,
        clock: Clock,
        *,
        brake: Brake,
        fresh: Callable[[], bool],
    ) -> None:
        self._engine = engine
        self._jobs = jobs
        self._cache = cache
        self._clock = clock
        self._brake = brake
        self._fresh = fresh
        self._first_poll: float | None = None
        self._unread: dict[int, None] = {}
        self._read: set[int] = set()
        """Jobs that were read; none is read twice."""

        self._past: OrderedDict[int, None] = OrderedDict()
        """Jobs that were a unit's."""

        self._orphans: dict[int, _Orphan] = {}
        self._news = asyncio.Event()
        engine.listeners.append(self._placeholder_changed)

    def polled(self, states: Mapping[int, frozenset[str]]) -> None:
        """The state words of every job, just now."""
        now, live = self._clock.now(), self._engine.live_jobs
        if self._first_poll is None:
            self._first_poll = now
        found = states.keys() - self._read - live
        if now - self._first_poll > self._engine.options.timing.settle:  # until then, requests sent before may be late
            found &= self._past.keys()
        for job_id in found:
            if job_id not in self._orphans and not states[job_id] & _OVER:
                self._unread.setdefault(job_id)
        for job_id in [one for one in self._orphans if one in live or states.get(one, _OVER) & _OVER]:
            del self._orphans[job_id]
        if self._unread or self._orphans:
            self._news.set()

    async def run(self) -> None:
        """Read what may be an orphan, and end what is one, until cancelled."""
        while True:
            if not self._unread and not self._orphans:
                self._news.clear()
            await self._news.wait()
            await asyncio.sleep(STEP)
            if not self._fresh():
                continue
            if self._unread:
                job_id = next(iter(self._unread))
                del self._unread[job_id]
                await self._look(job_id)
            else:
                await self._end_orphans()

    async def _look(self, job_id: int) -> None:
        try:
            job = await self._jobs.read(job_id)
        except PortError as error:
            _log.info("job_not_read", job_id=job_id, error=str(error))
            self._unread.setdefault(job_id)  # behind the others
            await asyncio.sleep(1.0)
            return
        self._read.add(job_id)
        if job is not None and (mark := self._own_mark(job)) and job_id not in self._engine.live_jobs:
            found = JobFound(job_id, mark.attempt, job.state == "RUNNING", job.excluded)
            self._orphans[job_id] = _Orphan(mark.unit, self._clock.now(), found)

    def _own_mark(self, job: JobView) -> Mark | None:
        """The mark of a live job that this extender or one before it made, `None` of any other."""
        mark = mark_of(job)
        own = self._engine.mark("", 0)
        if mark is None or (mark.cluster, mark.scheduler) != (own.cluster, own.scheduler) or job.state in _OVER:
            return None
        return mark

    async def _end_orphans(self) -> None:
        """One that is due."""
        now = self._clock.now()
        homeless = self._homeless()
        missing = sum(not orphan.finished for orphan in homeless.values())
        total = len(self._engine.live_jobs) + len(homeless)
        many = missing > max(self._brake.least, int(total * self._brake.share))
        for job_id, orphan in homeless.items():
            wait = 0.0 if orphan.finished else MANY_AFTER if many else SURE_AFTER
            if now - orphan.since < wait:
                if many and not orphan.told:
                    orphan.told = True
                    _log.warning("orphan_waits", job_id=job_id, unit=orphan.unit, seconds=wait, orphans=missing)
                continue
            _log.info("orphan_ended", job_id=job_id, unit=orphan.unit, pod_finished=orphan.finished)
            answer = await self._jobs.cancel(job_id)
            orphan.since = now + 5.0 - wait  # again, until its end is seen
            if answer.over:
                self._orphans.pop(job_id, None)
            return

    def _homeless(self) -> dict[int, _Orphan]:
        """The jobs that no unit answers for. A unit that is known is told of the others, and ends what is too many."""
        homeless = {}
        for job_id, orphan in list(self._orphans.items()):
            record, pod = self._engine.record(orphan.unit), self._cache.get(orphan.unit)
            if record is not None and record.state in _UNDECIDED:
                continue
            if record is not None or (pod is not None and not pod.finished):
                del self._orphans[job_id]
                if record is not None:
                    self._engine.handle(orphan.unit, ProbeAnswered((orphan.found,)), "look for orphans")
                continue
            if pod is None and self._cache.may_exist(orphan.unit):
                orphan.since = self._clock.now()  # a Pod that cannot be read may run on it
                continue
            orphan.finished = pod is not None
            homeless[job_id] = orphan
        return homeless

    def _placeholder_changed(self, before: Placeholder, after: Placeholder) -> None:
        if before.job_id != after.job_id or before.surplus is not after.surplus:
            for job_id in {before.job_id, after.job_id, *after.surplus} - {None}:
                self._past[job_id] = None  # type: ignore[index]
            while len(self._past) > REMEMBERED:
                self._past.popitem(last=False)
