"""Read jobs, find them by name, and send Slurm's answers to their workloads."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from extender.domain import commands as c
from extender.domain import events as e
from extender.domain.gangs.unknown_members import left_by_all
from extender.domain.job_outcomes import slurm_states as o
from extender.domain.jobs.events import job_events
from extender.domain.jobs.identity import job_name, mark_of
from extender.domain.jobs.job import JobRequest, JobView
from extender.domain.jobs.manual_changes import changes
from extender.domain.jobs.ownership import is_certain, proof
from extender.domain.jobs.time_limit import due_in
from extender.domain.nodes.member_nodes import slurm_nodes_of
from extender.domain.placeholder import Placeholder, State
from extender.domain.placeholders import EmitEvent
from extender.domain.ports import Announcement, Announcer, PortError
from extender.domain.states import UnsureState
from extender.domain.wellknown import Reason
from extender.engine.engine_context import EnginePorts, EngineState
from extender.engine.job_read_versions import RequestTime
from extender.engine.wait_context import QueuePositions
from extender.runtime.topics import MembersUnknown

_log = structlog.get_logger(__name__)


class JobReader:
    """Read jobs, find them by name, and notify their workloads."""

    def __init__(self, state: EngineState, ports: EnginePorts, queue: QueuePositions, notify: EmitEvent) -> None:
        self._state = state
        self._ports = ports
        self._queue = queue
        self._handle = notify
        self._manual_changes = ManualChangeNotifier(ports.announcer)

    def forget(self, key: str) -> None:
        """Drop what is remembered of a workload."""
        self._manual_changes.forget(key)

    async def read(self, key: str, job_id: int, source: str) -> bool:
        """Read one job and notify its workload; a job with another mark is not its job (ids are reused).

        False: Slurm did not answer.
        """
        requested_at = self._state.job_reads.next_request_time()
        try:
            job = await self._ports.jobs.read(job_id)
        except PortError as error:
            _log.info("job_not_read", job_id=job_id, error=str(error))
            return False
        self._notify(key, job_id, job, requested_at, source)
        return True

    def _notify(self, key: str, job_id: int, job: JobView | None, requested_at: RequestTime, source: str) -> None:
        """Send a read of its job to the workload; `None`: slurmctld does not know the job."""
        p = self._state.placeholders.get(key)
        if p is None or not self._state.job_reads.is_news(job_id, requested_at):
            return
        self._state.job_reads.delivered(key, job_id, requested_at)
        its = job is not None and self.is_its(p, job)
        self._state.job_reads.note(job_id, job.flags | {job.state} if job is not None and its else None)
        if job is None or not its:
            self._missed(p, job_id, job, requested_at, source)
            return
        self._state.missing_jobs.seen(p.key)
        if self._state.identity.learn_caller(p, job):
            _log.info("token_user_known", user_id=self._state.identity.caller, job_id=job.job_id)
        self._queue.check(p, job)
        self._manual_changes.check(p, job, self._name(p.key), p.submitted_request)
        due = due_in(job, [pod.grace_s for pod in self._ports.pods_of(p)])
        nodes = self._state.snapshot.slurm.nodes
        down = frozenset(name for name in p.slurm_nodes if name in nodes and nodes[name].state == "DOWN")
        for event in job_events(p, job, self._state.snapshot.node_map, due, down):
            self._handle(key, event, source)

    def is_its(self, p: Placeholder, job: JobView) -> bool:
        """Return whether this is a job of this workload, not another one with a reused id."""
        return proof(job, p.key, self._name(p.key), recorded=True, owner=None) is not None

    def _name(self, key: str, title: str = "") -> str:
        """Return the name of the workload's jobs; without a title, the suffix that they share."""
        own = self._state.identity.mark(key, 0)
        return job_name(title, own.cluster, own.scheduler, key)

    def _missed(self, p: Placeholder, job_id: int, job: JobView | None, requested_at: RequestTime, source: str) -> None:
        missing_jobs = self._state.missing_jobs
        runs = p.job_occupied and p.job_id == job_id and p.state is not State.LOST
        if runs:
            missing_jobs.doubt(p.key)
        if not missing_jobs.missed(p.key, job_id, requested_at.at):
            return
        if runs and not missing_jobs.may_end(p.key, job_id, p.refs, nodes_unknown=self._nodes_unknown(p)):
            return
        text = f"Slurm has no job {job_id}."
        if job is not None:
            text = f"Slurm job {job_id} is not this Pod's: neither its mark nor its name ({job.name}) says so."
            if p.state is not State.LOST:  # said once, not with each reading until the Pod is gone
                _log.warning("job_owned_by_another", job_id=job_id, name=job.name, pod=p.pod_names, workload=p.key)
        self._handle(p.key, e.JobEnded(job_id, e.EndKind.VANISHED, text), source)

    def _nodes_unknown(self, p: Placeholder) -> bool:
        """Return whether Slurm has none of the nodes of this workload's Pods: another Slurm may be answering."""
        snapshot = self._state.snapshot
        slurm_nodes = slurm_nodes_of(p, snapshot.node_map) or {member.node for member in p.members if member.placed}
        nodes = {*slurm_nodes, *p.slurm_nodes} - {""}
        if not nodes and any(member.unknown for member in p.members):
            return not snapshot.slurm.known  # all that is known of its members is their job
        return not (snapshot.slurm.known and snapshot.slurm.nodes.keys() & nodes)

    @staticmethod
    def _would_vanish(p: Placeholder, probed_at: float) -> bool:
        """Return whether an empty answer to a request of then would end running Pods on missing information alone."""
        if not isinstance(p.payload, UnsureState) or probed_at < p.payload.sure_at:
            return False
        return p.job_occupied and p.payload.empty_probes > 0

    async def probe(self, p: Placeholder, command: c.ProbeJob) -> None:
        """Find the live jobs of a workload and notify it."""
        owner, epoch = self._state.identity.owner_of_jobs(p), self._state.identity.mark(p.key, 0).epoch
        probed_at = self._ports.clock.now()
        try:
            jobs = await self._ports.jobs.probe(
                self._name(p.key, command.title), p.key, command.job_id, owner, command.hints
            )
        except PortError as error:
            self._handle(p.key, e.ProbeFailed(str(error)), "probe")
            return
        now = self._state.placeholders.get(p.key)
        if now is None:
            return
        user_submits = self._state.identity.user_submits(now)
        certain = {
            job.job_id
            for job in jobs
            if is_certain(job, recorded=job.job_id == command.job_id, user_submits=user_submits)
        }
        own_jobs = [job for job in jobs if job.job_id in certain] or jobs
        live: list[e.JobFound] = []
        ended: list[e.JobEnded] = []
        for job in jobs:
            seen = o.observe(job)
            if isinstance(seen, o.Ended) and not seen.alive:
                ended.append(e.JobEnded(job.job_id, seen.kind, seen.text))
                continue
            running = isinstance(seen, o.Running | o.Ending | o.Starting)
            found = mark_of(job)
            attempt, older, digests = (
                (found.attempt, found.epoch != epoch, found.request_digests) if found else (0, False, ())
            )
            left = left_by_all(now, job, self._state.deferred.unbound()) if running else ()
            live.append(
                e.JobFound(job.job_id, attempt, running, job.excluded, older, digests, job.job_id in certain, left)
            )
        if not live and not ended and self._would_vanish(now, probed_at):
            known = now.job_id or next((m.job_id for m in now.members if m.job_id is not None), None)
            if not self._state.missing_jobs.may_end(now.key, known, now.refs, nodes_unknown=self._nodes_unknown(now)):
                text = "its job is missing; the extender checks whether many others are too"
                self._handle(p.key, e.ProbeFailed(text), "probe")
                return
        if live and self._unrecordable(now):
            text = "the extender has not read all Nodes and Pods yet"
            self._handle(p.key, e.ProbeFailed(text), "probe")
            return
        if live:
            self._state.missing_jobs.seen(now.key)
        facts: list[e.Event] = [*self._unrecorded(now, own_jobs), *(ended if not live else [])]
        for event in facts:
            self._handle(p.key, event, "probe")
        self._handle(p.key, e.ProbeAnswered(tuple(live), probed_at), "probe")
        if any(job.left for job in live):
            self._ports.events.publish(MembersUnknown(p.key))

    def _unrecordable(self, p: Placeholder) -> bool:
        """Return whether some member is on a node without a recorded job, while the node mapping is unknown."""
        return not self._state.snapshot.node_map.known and any(m.placed and m.job_id is None for m in p.members)

    def _unrecorded(self, p: Placeholder, jobs: Sequence[JobView]) -> list[e.PodBound]:
        """Return members on the node of their running job whose annotation with the job's id was removed."""
        running = {
            self._state.snapshot.node_map.kubernetes.get(node): job.job_id
            for job in jobs
            if isinstance(o.observe(job), o.Running | o.Ending)
            for node in job.nodes
        }
        return [
            e.PodBound(member.ref.uid, member.node, running[member.node])
            for member in p.members
            if member.placed and member.job_id is None and member.node in running
        ]


_log = structlog.get_logger(__name__)


class ManualChangeNotifier:
    """Remembers what was announced for each job."""

    def __init__(self, announcer: Announcer) -> None:
        self._announcer = announcer
        self._notified: dict[str, tuple[int, frozenset[str]]] = {}
        """By workload: its job, and the words of what was said last of it."""

    def check(self, p: Placeholder, job: JobView, name: str, request: JobRequest | None) -> None:
        """Announce what a read of the workload's job shows as changed since the request that Slurm was sent."""
        if job.job_id != p.job_id:
            return
        found = dict(changes(request, job, name))
        last_job, kinds = self._notified.get(p.key, (job.job_id, frozenset[str]()))
        if last_job != job.job_id:
            kinds = frozenset()
        for word, text in found.items():
            if word not in kinds:
                _log.warning(
                    "job_changed_manually", what=word, job_id=job.job_id, pod=p.pod_names, workload=p.key, why=text
                )
                for ref in p.refs:
                    reason = Reason.JOB_CHANGED_MANUALLY
                    self._announcer.announce(
                        Announcement("Pod", ref.namespace, ref.name, ref.uid, reason, text, warning=True)
                    )
        if found:
            self._notified[p.key] = job.job_id, frozenset(found)
        else:
            self._notified.pop(p.key, None)

    def forget(self, key: str) -> None:
        """Forget a workload that is over."""
        self._notified.pop(key, None)
