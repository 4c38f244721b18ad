"""Send requests to Slurm about one foreign Pod: find its jobs by name, submit a job, end a job."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from extender.controllers.foreign_pods.record import AGAIN_AFTER, ForeignPodRecord, HeldJob, Need, foreign_pod_job
from extender.controllers.foreign_pods.shortages import ShortagePhase, Shortages
from extender.domain.events import MemberRef
from extender.domain.foreign_pods.foreign_pod import ForeignPodJob, ForeignPodOptions, ForeignPodOrder
from extender.domain.foreign_pods.mark import (
    ForeignPodMark,
    encode_foreign_pod_mark,
    foreign_pod_mark_of,
    foreign_pod_name,
)
from extender.domain.job_outcomes.slurm_states import ENDED_STATES
from extender.domain.jobs.extender_identity import JobIdentity
from extender.domain.ports import Clock, ForeignPodJobResult, PodReads, PortError, SlurmForeignPods
from extender.engine.engine import Engine
from extender.engine.job_terminator import JobTerminator, ProvedJob

_log = structlog.get_logger(__name__)

REFUSED_FOR = 60.0
"""Seconds before Slurm is asked again for what it refused as such."""

SEARCH_AGAIN_AFTER = 1.0
"""Seconds before a job is looked for that may have been made."""


class ForeignPodRequests:
    """Send the requests and record the results. `doubted`: a Pod without a reported deletion."""

    def __init__(
        self,
        engine: Engine,
        slurm: SlurmForeignPods,
        terminator: JobTerminator,
        identity: JobIdentity,
        *,
        pods: PodReads,
        clock: Clock,
        shortages: Shortages,
        options: ForeignPodOptions,
        doubted: Callable[[ForeignPodRecord], bool],
    ) -> None:
        self._engine = engine
        self._identity = identity
        self._slurm = slurm
        self._terminator = terminator
        self._pods = pods
        self._clock = clock
        self._shortages = shortages
        self._options = options
        self._doubted = doubted

    async def execute(self, need: Need, uid: str, record: ForeignPodRecord) -> None:
        """Do what is needed. Never raises for what the other side does."""
        what = {Need.END: self._end, Need.SEARCH: self._check, Need.START: self._start}[need]
        try:
            await what(uid, record)
        except PortError as error:
            _log.info(
                "foreign_pods_job_not_read",
                pod=record.foreign_pod.pod if record.foreign_pod else "",
                uid=uid,
                error=str(error),
            )
            record.not_before = self._clock.now() + AGAIN_AFTER

    def short(self, record: ForeignPodRecord) -> tuple[bool, bool]:
        """Return whether its node had no room, and whether it still has none."""
        shortage = self._shortages.get(record.foreign_pod.node) if record.foreign_pod is not None else None
        return shortage is not None, shortage is not None and shortage.phase is ShortagePhase.FULL

    def is_own_mark(self, mark: ForeignPodMark | None, uid: str = "") -> bool:
        """Return whether a mark names this extender, and this foreign Pod."""
        author = self._identity
        if mark is None or (mark.cluster, mark.scheduler) != (author.cluster, author.scheduler):
            return False
        return uid in {"", mark.uid}

    async def _end(self, uid: str, record: ForeignPodRecord) -> None:
        """Cancel the jobs that are not its own, each if it still is what it was."""
        for job_id in self._duplicates(record):
            proved = await self._terminator.prove(job_id, lambda job: self.is_own_mark(foreign_pod_mark_of(job), uid))
            job = proved.job if isinstance(proved, ProvedJob) else None
            mark = foreign_pod_mark_of(job) if job is not None else None
            if not isinstance(proved, ProvedJob) or job is None or mark is None or job.state in ENDED_STATES:
                record.jobs.pop(job_id, None)
                continue
            if job_id in record.jobs and job.state == "RUNNING" and record.takes(mark):
                record.jobs[job_id].job = foreign_pod_job(job, mark)  # it started meanwhile
                continue
            if self._doubted(record) and await self._hidden(mark):
                record.gone_at = self._clock.now()
                return
            if job_id not in self._duplicates(record):
                continue  # its Pod came back, or needs this size again
            job_ended = (await self._terminator.end(proved)).job_ended
            _log.info("foreign_pods_job_ended", job_id=job_id, pod=mark.pod, uid=mark.uid)
            if job_ended:
                record.jobs.pop(job_id, None)
            elif job_id in record.jobs:
                record.jobs[job_id].ended_at = self._clock.now()

    def _duplicates(self, record: ForeignPodRecord) -> list[int]:
        """Return the jobs that are to end, as it is known now."""
        short, full = self.short(record)
        _, duplicates = record.own(self._clock.now(), short=short, full=full)
        return [one.job_id for one in duplicates]

    async def _hidden(self, mark: ForeignPodMark) -> bool:
        """Return whether its Pod exists although the informer does not show it: a list may be outdated."""
        namespace, _, name = mark.pod.partition("/")
        pod = await self._pods.read(MemberRef(mark.uid, namespace, name)) if name else None
        return pod is not None and not pod.finished

    async def _check(self, uid: str, record: ForeignPodRecord) -> None:
        if record.foreign_pod is None:
            return
        requested_at, author = self._clock.now(), self._identity
        name = foreign_pod_name(record.foreign_pod.pod, author.cluster, author.scheduler, uid)
        known = dict(record.jobs)
        found: dict[int, HeldJob] = {}
        for job in await self._slurm.find(name, known):
            mark = foreign_pod_mark_of(job)
            if mark is not None and self.is_own_mark(mark, uid) and job.state not in ENDED_STATES:
                before = known.get(job.job_id)
                since, ended_at = (before.since, before.ended_at) if before is not None else (requested_at, None)
                found[job.job_id] = HeldJob(foreign_pod_job(job, mark), since, ended_at)
        # One that was found among the states of jobs meanwhile stays.
        record.jobs = found | {job_id: one for job_id, one in record.jobs.items() if job_id not in known}
        record.searched = True

    async def _start(self, uid: str, record: ForeignPodRecord) -> None:
        foreign_pod, author = record.foreign_pod, self._identity
        if foreign_pod is None:
            return
        mark = ForeignPodMark(
            author.cluster, author.scheduler, uid, foreign_pod.node, foreign_pod.size, foreign_pod.pod
        )
        name = foreign_pod_name(foreign_pod.pod, author.cluster, author.scheduler, uid)
        short, _ = self.short(record)
        try:
            order = ForeignPodOrder(
                foreign_pod, name, encode_foreign_pod_mark(mark), self._options, not short, self._minutes()
            )
        except ValueError as error:
            record.refused, record.not_before = str(error), self._clock.now() + REFUSED_FOR
            return
        answer = await self._slurm.hold(order)
        now, current = self._clock.now(), record.foreign_pod == foreign_pod
        match answer.result:
            case ForeignPodJobResult.MADE:
                job = ForeignPodJob(answer.job_id, foreign_pod.node, foreign_pod.size, runs=order.immediate)
                record.jobs[answer.job_id] = HeldJob(job, now)
                if current:
                    record.refused = ""
                _log.info(
                    "foreign_pods_job_submitted",
                    job_id=answer.job_id,
                    pod=foreign_pod.pod,
                    uid=foreign_pod.uid,
                    node=foreign_pod.node,
                    amount=foreign_pod.amount.text,
                )
            case ForeignPodJobResult.NO_ROOM:
                _log.info(
                    "foreign_pods_job_without_room",
                    pod=foreign_pod.pod,
                    uid=foreign_pod.uid,
                    node=foreign_pod.node,
                    error=answer.text,
                )
                if current:
                    record.refused = ""
                    self._shortages.no_room(foreign_pod.node, answer.text)
            case ForeignPodJobResult.REFUSED:
                if record.refused != answer.text or not current:
                    _log.warning(
                        "foreign_pods_job_rejected",
                        pod=foreign_pod.pod,
                        uid=foreign_pod.uid,
                        node=foreign_pod.node,
                        error=answer.text,
                    )
                if current:
                    record.refused, record.not_before = answer.text, now + REFUSED_FOR
            case ForeignPodJobResult.UNKNOWN:
                _log.info(
                    "foreign_pods_job_unknown",
                    pod=foreign_pod.pod,
                    uid=foreign_pod.uid,
                    node=foreign_pod.node,
                    error=answer.text,
                )
                record.searched, record.not_before = False, now + SEARCH_AGAIN_AFTER

    def _minutes(self) -> int | None:
        """Return the longest time limit of the partition: more would never start."""
        slurm = self._engine.snapshot.slurm
        names = [name for name in slurm.partition_names(self._options.partition) if name in slurm.partitions]
        return slurm.partitions[names[0]].max_time_minutes if names else None
