"""Execute commands: call a port for each, and hand its outcome back as an event. Nothing here raises."""

from __future__ import annotations

import structlog

from extender.domain import commands as c
from extender.domain import events as e
from extender.domain.job_outcomes.pod_ends import ENDS
from extender.domain.job_outcomes.workload_end import wait_status_of
from extender.domain.jobs.cancelled import encode_cancelled
from extender.domain.placeholder import Placeholder
from extender.domain.placeholders import EmitEvent
from extender.domain.pods.allocation_record import AllocationRecords, woken_at
from extender.domain.ports import PortError
from extender.domain.wellknown import CANCELLED
from extender.engine.engine_context import EnginePorts, EngineState
from extender.engine.job_reader import JobReader
from extender.engine.job_terminator import ProvedJob
from extender.engine.pod_coverage import PodCoverage
from extender.engine.submissions import Submissions

_log = structlog.get_logger(__name__)


class CommandExecutor:
    """Calls a port for each command of the state machine."""

    def __init__(
        self,
        state: EngineState,
        ports: EnginePorts,
        reader: JobReader,
        allocation_records: AllocationRecords,
        *,
        coverage: PodCoverage,
        notify: EmitEvent,
    ) -> None:
        self._state = state
        self._ports = ports
        self._reader = reader
        self._allocation_records = allocation_records
        self._handle = notify
        self._submissions = Submissions(state, ports, coverage)

    async def to_slurm(self, key: str, command: c.Command) -> None:
        """Carry out a command for Slurm."""
        p = self._state.placeholders.get(key)
        if p is None:
            if isinstance(command, c.ReadJob):
                self._state.job_reads.still_wanted(key, command.job_id)
            return
        match command:
            case c.SubmitJob():
                for event in await self._submissions.submit(p, command):
                    self._handle(key, event, f"submit attempt {command.attempt}")
            case c.CancelJob():
                self._handle(key, await self._end(p, command), f"cancel {command.job_id}")
            case c.ReadJob():
                # The poll may have been faster, where many commands wait for their turn.
                if self._state.job_reads.still_wanted(key, command.job_id):
                    await self._reader.read(key, command.job_id, "read")
            case c.ProbeJob():
                await self._reader.probe(p, command)
            case c.FollowCandidates():
                self._handle(key, await self._submissions.follow(p, command), "follow")
            case c.UpdateJob():
                self._handle(key, await self._submissions.update(p, command), "update")
            case c.ShrinkJob():
                self._handle(key, await self._shrink(p, command), "shrink")
            case _:
                raise AssertionError(f"{command!r} is not for Slurm")

    async def to_kubernetes(self, key: str, command: c.Command) -> None:
        """Carry out a command for the API server."""
        match command:
            case c.WakePod():
                self._handle(key, await self._wake(key, command), "wake")
            case c.NoteCancelled(member, cancelled):
                text = encode_cancelled(cancelled, member.uid)
                accepted = await self._ports.pods.annotate(member, {CANCELLED: text})
                self._handle(key, e.CancelNoted(member.uid, accepted), "note")
            case c.EndPod():
                self._handle(key, await self._end_pod(command), "end")
            case _:
                raise AssertionError(f"{command!r} is not for Kubernetes")

    async def _wake(self, key: str, command: c.WakePod) -> e.WakeAnswered:
        """Write the devices of a member, then the grant: kube-scheduler takes an allocated ResourceClaim as it is."""
        p = self._state.placeholders.get(key)
        if (
            p is not None
            and p.job_id == command.job_id
            and (why := await self._ports.devices.prepare(p, command.member))
        ):
            return e.WakeAnswered(command.member.uid, False, why)
        more = woken_at(self._ports.clock.wall()) if command.again else {}
        annotations = self._allocation_records.written(command.job_id, command.node, command.member.uid)
        return await self._ports.pods.wake(
            command.member, {**annotations, **more}, wanted=lambda: self._has_job(key, command.job_id)
        )

    def _has_job(self, key: str, job_id: int) -> bool:
        p = self._state.placeholders.get(key)
        return p is not None and p.job_id == job_id

    async def _end_pod(self, command: c.EndPod) -> e.EvictAnswered:
        rule, by = ENDS[command.kind], command.by or None
        seen = self._ports.cache.get(command.member.uid)
        return await self._ports.pods.end(command.member, rule.reason, command.text, command.voluntary, by, seen=seen)

    async def _shrink(self, p: Placeholder, command: c.ShrinkJob) -> e.ShrinkAnswered:
        """Give nodes of a job back if it still is the workload's, and has more than those that are kept."""
        job_id = command.job_id
        try:
            job = await self._ports.jobs.read(job_id)
        except PortError as error:
            return e.ShrinkAnswered(job_id, None, str(error))
        if job is None or not self._reader.is_its(p, job) or not set(command.kept) < set(job.nodes):
            return e.ShrinkAnswered(job_id, None, f"job {job_id} is another one, or has other nodes")
        known = self._state.snapshot.slurm.nodes
        if any(name in known and known[name].external for name in set(job.nodes) - set(command.kept)):
            # slurmctld asks a slurmd there about the job, and starts nothing on a node that does not answer (26.05.5).
            return e.ShrinkAnswered(job_id, False, "Slurm does not take back external nodes of a running job.")
        return await self._ports.jobs.shrink(job_id, command.kept)

    async def _end(self, p: Placeholder, command: c.CancelJob) -> e.CancelAnswered:
        """End a job if it still is the workload's."""
        job_id = command.job_id
        try:
            proved = await self._ports.terminator.prove(job_id, lambda job: self._reader.is_its(p, job))
        except PortError as error:
            return e.CancelAnswered(job_id, job_ended=False, text=str(error))
        if proved is None:
            return e.CancelAnswered(job_id, job_ended=True, text=f"Slurm does not know job {job_id}")
        if not isinstance(proved, ProvedJob):
            _log.warning(
                "cancel_skipped_job_not_owned", job_id=job_id, name=proved.job.name, pod=p.pod_names, workload=p.key
            )
            return e.CancelAnswered(job_id, job_ended=True, text=f"the id of job {job_id} belongs to another job")
        seen = [self._ports.cache.get(member.ref.uid) for member in p.members]
        pods = [pod for pod in seen if pod is not None]
        status = wait_status_of(pods) if command.note and len(pods) == len(seen) else None
        return await self._ports.terminator.end(
            proved, note=command.note, exit_code=command.exit_code, wait_status=status
        )
