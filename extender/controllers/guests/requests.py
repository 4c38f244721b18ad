"""What is asked of Slurm about one guest: its jobs by name, another job, the end of a job."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from extender.controllers.guests.record import AGAIN_AFTER, OVER, GuestRecord, HeldJob, Need, guest_job
from extender.controllers.guests.shortages import Phase, Shortages
from extender.domain.events import MemberRef
from extender.domain.guests.guest import GuestJob, GuestOptions, GuestOrder
from extender.domain.guests.mark import GuestMark, encode_guest_mark, guest_mark_of, guest_name
from extender.engine.engine import Engine
from extender.ports import Clock, Held, PodReads, PortError, SlurmGuests

_log = structlog.get_logger(__name__)

REFUSED_FOR = 60.0
"""Seconds before Slurm is asked again for what it refused as such."""

LOOK_AGAIN_AFTER = 1.0
"""Seconds before a job is looked for that may have been made."""


class GuestRequests:
    """Carries them out and writes on the record what came of it. `doubted`: a Pod that nobody saw leave."""

    def __init__(
        self,
        engine: Engine,
        slurm: SlurmGuests,
        *,
        pods: PodReads,
        clock: Clock,
        shortages: Shortages,
        options: GuestOptions,
        doubted: Callable[[GuestRecord], bool],
    ) -> None:
        self._engine = engine
        self._slurm = slurm
        self._pods = pods
        self._clock = clock
        self._shortages = shortages
        self._options = options
        self._doubted = doubted

    async def carry(self, need: Need, uid: str, record: GuestRecord) -> None:
        """Do what is needed. Never raises for what the other side does."""
        what = {Need.END: self._end, Need.LOOK: self._look, Need.START: self._start}[need]
        try:
            await what(uid, record)
        except PortError as error:
            _log.info(
                "foreign_pods_job_not_read", pod=record.guest.pod if record.guest else "", uid=uid, error=str(error)
            )
            record.not_before = self._clock.now() + AGAIN_AFTER

    def short(self, record: GuestRecord) -> tuple[bool, bool]:
        """Whether its node had no room, and whether it has none still."""
        shortage = self._shortages.get(record.guest.node) if record.guest is not None else None
        return shortage is not None, shortage is not None and shortage.phase is Phase.FULL

    def is_ours(self, mark: GuestMark | None, uid: str = "") -> bool:
        """Whether a mark names this extender, and this guest."""
        author = self._engine.identity
        if mark is None or (mark.cluster, mark.scheduler) != (author.cluster, author.scheduler):
            return False
        return uid in {"", mark.uid}

    async def _end(self, uid: str, record: GuestRecord) -> None:
        """Cancel the jobs that are not its own, each if it still is what it was."""
        short, full = self.short(record)
        _, surplus = record.own(self._clock.now(), short=short, full=full)
        for job_id in [one.job_id for one in surplus]:
            job = await self._slurm.read(job_id)
            mark = guest_mark_of(job) if job is not None else None
            if job is None or mark is None or not self.is_ours(mark, uid) or job.state in OVER:
                record.jobs.pop(job_id, None)
                continue
            if job_id in record.jobs and job.state == "RUNNING" and record.takes(mark):
                record.jobs[job_id].job = guest_job(job, mark)  # it started meanwhile
                continue
            if self._doubted(record) and await self._hidden(mark):
                record.gone_at = self._clock.now()
                return
            over = (await self._slurm.cancel(job_id)).over
            _log.info("foreign_pods_job_ended", job_id=job_id, pod=mark.pod, uid=mark.uid)
            if over:
                record.jobs.pop(job_id, None)
            elif job_id in record.jobs:
                record.jobs[job_id].ended_at = self._clock.now()

    async def _hidden(self, mark: GuestMark) -> bool:
        """Whether its Pod is there although the mirror does not show it: a list may come from the past."""
        namespace, _, name = mark.pod.partition("/")
        pod = await self._pods.read(MemberRef(mark.uid, namespace, name)) if name else None
        return pod is not None and not pod.finished

    async def _look(self, uid: str, record: GuestRecord) -> None:
        if record.guest is None:
            return
        asked_at, author = self._clock.now(), self._engine.identity
        name = guest_name(record.guest.pod, author.cluster, author.scheduler, uid)
        known = dict(record.jobs)
        found: dict[int, HeldJob] = {}
        for job in await self._slurm.find(name, known):
            mark = guest_mark_of(job)
            if mark is not None and self.is_ours(mark, uid) and job.state not in OVER:
                before = known.get(job.job_id)
                since, ended_at = (before.since, before.ended_at) if before is not None else (asked_at, None)
                found[job.job_id] = HeldJob(guest_job(job, mark), since, ended_at)
        # One that was found among the states of jobs meanwhile stays.
        record.jobs = found | {job_id: one for job_id, one in record.jobs.items() if job_id not in known}
        record.looked = True

    async def _start(self, uid: str, record: GuestRecord) -> None:
        guest, author = record.guest, self._engine.identity
        if guest is None:
            return
        mark = GuestMark(author.cluster, author.scheduler, uid, guest.node, guest.size, guest.pod)
        name = guest_name(guest.pod, author.cluster, author.scheduler, uid)
        short, _ = self.short(record)
        try:
            order = GuestOrder(guest, name, encode_guest_mark(mark), self._options, not short, self._minutes())
        except ValueError as error:
            record.refused, record.not_before = str(error), self._clock.now() + REFUSED_FOR
            return
        answer = await self._slurm.hold(order)
        now = self._clock.now()
        match answer.result:
            case Held.MADE:
                job = GuestJob(answer.job_id, guest.node, guest.size, runs=order.immediate)
                record.jobs[answer.job_id], record.refused = HeldJob(job, now), ""
                _log.info(
                    "foreign_pods_job_submitted",
                    job_id=answer.job_id,
                    pod=guest.pod,
                    uid=guest.uid,
                    node=guest.node,
                    amount=guest.amount.text,
                )
            case Held.NO_ROOM:
                _log.info(
                    "foreign_pods_job_without_room", pod=guest.pod, uid=guest.uid, node=guest.node, error=answer.text
                )
                if record.guest == guest:
                    record.refused = ""
                    self._shortages.no_room(guest.node, answer.text)
            case Held.REFUSED:
                if record.refused != answer.text:
                    _log.warning(
                        "foreign_pods_job_rejected", pod=guest.pod, uid=guest.uid, node=guest.node, error=answer.text
                    )
                record.refused, record.not_before = answer.text, now + REFUSED_FOR
            case Held.UNKNOWN:
                _log.info("foreign_pods_job_unknown", pod=guest.pod, uid=guest.uid, node=guest.node, error=answer.text)
                record.looked, record.not_before = False, now + LOOK_AGAIN_AFTER

    def _minutes(self) -> int | None:
        """The longest time limit of the partition: more would never start."""
        picture = self._engine.world.picture
        names = [name for name in picture.partition_names(self._options.partition) if name in picture.partitions]
        return picture.partitions[names[0]].max_time_minutes if names else None
