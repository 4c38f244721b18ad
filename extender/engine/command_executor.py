"""Execute commands: call a port for each, and hand its outcome back as an event. Nothing here raises."""

from __future__ import annotations

import structlog

from extender.domain import commands as c
from extender.domain import events as e
from extender.domain.fates.ends import ENDS
from extender.domain.jobs.cancelled import encode_cancelled
from extender.domain.placeholder import Placeholder
from extender.domain.pods.claim import Claims, woken_at
from extender.domain.ports import PortError
from extender.domain.wellknown import CANCELLED
from extender.engine.engine_context import EngineContext
from extender.engine.engine_ports import EnginePorts
from extender.engine.inquiries import Inquiries
from extender.engine.job_end import end_job
from extender.engine.submissions import Submissions

_log = structlog.get_logger(__name__)


class CommandExecutor:
    """Calls a port for each command of the state machine."""

    def __init__(self, records: EngineContext, outside: EnginePorts, claims: Claims) -> None:
        self.inquiries = Inquiries(records, outside)
        self._submissions = Submissions(records, outside)
        self._records = records
        self._claims = claims
        self._outside = outside

    async def to_slurm(self, key: str, command: c.Command) -> None:
        """Carry out a command for Slurm."""
        p = self._records.units.get(key)
        if p is None:
            if isinstance(command, c.ReadJob):
                self._records.job_reads.still_wanted(key, command.job_id)
            return
        match command:
            case c.SubmitJob():
                for event in await self._submissions.submit(p, command):
                    self._records.handle(key, event, f"submit attempt {command.attempt}")
            case c.CancelJob():
                self._records.handle(key, await self._end(p, command), f"cancel {command.job_id}")
            case c.ReadJob():
                # The poll may have been faster, where many commands wait for their turn.
                if self._records.job_reads.still_wanted(key, command.job_id):
                    await self.inquiries.read(key, command.job_id, "read")
            case c.ProbeJob():
                await self.inquiries.probe(p, command)
            case c.FollowCandidates():
                self._records.handle(key, await self._submissions.follow(p, command), "follow")
            case c.UpdateJob():
                self._records.handle(key, await self._submissions.update(p, command), "update")
            case _:
                raise AssertionError(f"{command!r} is not for Slurm")

    async def to_kubernetes(self, key: str, command: c.Command) -> None:
        """Carry out a command for the API server."""
        match command:
            case c.WakePod():
                more = woken_at(self._outside.clock.wall()) if command.again else {}
                claim = self._claims.written(command.job_id, command.node, command.member.uid)
                woken = await self._outside.pods.wake(command.member, {**claim, **more})
                self._records.handle(key, woken, "wake")
            case c.NoteCancelled(member, cancelled):
                text = encode_cancelled(cancelled, member.uid)
                accepted = await self._outside.pods.annotate(member, {CANCELLED: text})
                self._records.handle(key, e.CancelNoted(member.uid, accepted), "note")
            case c.EndPod():
                self._records.handle(key, await self._end_pod(command), "end")
            case _:
                raise AssertionError(f"{command!r} is not for Kubernetes")

    async def _end_pod(self, command: c.EndPod) -> e.EvictAnswered:
        rule, by = ENDS[command.kind], command.by or None
        seen = self._outside.cache.get(command.member.uid)
        return await self._outside.pods.end(command.member, rule.reason, command.text, command.voluntary, by, seen=seen)

    async def _end(self, p: Placeholder, command: c.CancelJob) -> e.CancelAnswered:
        """End a job if it still is the unit's: ids are given out again after slurmctld lost its state.

        Between the two requests lie milliseconds; Slurm offers no precondition.
        """
        job_id = command.job_id
        try:
            job = await self._outside.jobs.read(job_id)
        except PortError as error:
            return e.CancelAnswered(job_id, over=False, text=str(error))
        if job is None:
            return e.CancelAnswered(job_id, over=True, text=f"Slurm does not know job {job_id}")
        if not self.inquiries.is_its(p, job):
            _log.warning("foreign_job_spared", job_id=job_id, name=job.name, pod=p.pod_names, uid=p.key)
            return e.CancelAnswered(job_id, over=True, text=f"job {job_id} is another's by now")
        return await end_job(self._outside.jobs, job, command.note, command.exit_code)
