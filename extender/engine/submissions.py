"""Have jobs made and changed as a workload requests them, and know which partitions are full."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from extender.domain import commands as c
from extender.domain import events as e
from extender.domain.cluster import SlurmSnapshot
from extender.domain.jobs.changes import FOLLOWED, changed, raises_limit
from extender.domain.jobs.identity import job_name, named_members, with_request_digests
from extender.domain.jobs.job import JobOrder, JobRequest, JobView
from extender.domain.jobs.request_digests import request_digests
from extender.domain.jobs.time_limit import whence, within_partition
from extender.domain.placeholder import Placeholder
from extender.domain.placeholders import Placeholders
from extender.domain.ports import Clock, PortError
from extender.domain.renewal import replace
from extender.domain.rules import REFUSED_FOR, NoPlan, QueuedPlaceholders, SubmissionPlan, must_queue
from extender.engine.engine_context import EnginePorts, EngineState
from extender.engine.planning import Planner
from extender.engine.pod_coverage import PodCoverage

UNKNOWN_NODE = 2018
"""ESLURM_INVALID_NODE_NAME: an excluded node was deleted since the last read of Slurm's nodes."""

TOO_LONG = frozenset({2050, 2051})
"""ESLURM_ACCOUNTING_POLICY, which a QOS with DenyOnLimit answers, and ESLURM_INVALID_TIME_LIMIT (`slurm_errno.h`)."""

NOT_WANTED = "The Pod was deleted or changed before its job was submitted."

LEFT_JOB = "Slurm has a job from before that has this workload's mark."


class Submissions:
    """Has jobs made and changed. What comes of it is an event; nothing is raised."""

    def __init__(self, state: EngineState, ports: EnginePorts, coverage: PodCoverage) -> None:
        self._state = state
        self._ports = ports
        self._partitions = PartitionBackpressure(ports.clock, state.placeholders, lambda: state.snapshot.slurm)
        self._coverage = coverage
        self._planner = Planner(ports.on_no_node, gangs_need_fence=ports.gangs_need_fence)

    async def submit(self, p: Placeholder, command: c.SubmitJob) -> list[e.Event]:
        """Have a job made, unless its Pod left or changed meanwhile, its gang lacks one, or it could run nowhere."""
        attempt, request, snapshot = command.attempt, command.request, self._state.snapshot
        lacking = self._ports.gang_waits_for(p.key)  # since it was complete, as during a search for its job
        if lacking or not p.wants or p.request != request:
            return [e.SubmitRefused(attempt, permanent=False, text=lacking or NOT_WANTED)]
        if attempt == 1 and self._ports.has_left_job(p.key):
            return [e.SubmitUnknown(attempt, LEFT_JOB, sent=False)]  # it is searched for, and keeps its place
        chosen, nowhere = self._plan(p, command, command.candidates)
        impossible = bool(nowhere) or isinstance(chosen, NoPlan)
        if impossible and p.candidates is not None and p.candidates != command.candidates:
            # A node that was refused before may be the only one of the partition and mode, or large enough.
            chosen, nowhere = self._plan(p, command, p.candidates)
        if nowhere:
            return [e.SubmitRefused(attempt, permanent=False, text=nowhere, nowhere=True)]
        if isinstance(chosen, NoPlan):
            return [e.SubmitRefused(attempt, chosen.permanent, f"{chosen.text[0].upper()}{chosen.text[1:]}.")]
        checkpoint = await self._coverage.checkpoint(p)
        now = self._state.placeholders.get(p.key)
        if now is None or not now.wants or now.request != request:
            return [e.SubmitRefused(attempt, permanent=False, text=NOT_WANTED)]
        if not {ref.uid for ref in now.refs} <= {ref.uid for ref in p.refs}:
            checkpoint = None  # a member came meanwhile
        p = now
        graces = [pod.grace_s for pod in self._ports.pods_of(p)]
        mark = self._state.identity.mark(p.key, attempt)
        named = next((ref.full_name for ref in p.refs), "")
        mark = replace(
            mark,
            request_digests=request_digests(request),
            grace_s=max(graces, default=None),
            pod=named,
            checkpoint=checkpoint,
            slots=p.slots_used if p.is_gang else None,
            members=named_members(ref.uid for ref in p.refs) if p.is_gang else "",
        )
        name = job_name(request.title, mark.cluster, mark.scheduler, p.key)
        order = JobOrder(
            within_partition(request, snapshot.slurm), name, mark, chosen.mode, chosen.immediate, chosen.excluded
        )
        before = self._partitions.waiting()
        behind = not chosen.immediate and (command.queue or must_queue(request, snapshot.slurm, before))
        answer = await self._ports.jobs.submit(order)
        if chosen.immediate and any(isinstance(event, e.SubmitRefused) and event.queue for event in answer):
            self._partitions.refused_at_once(order.request.partition)
        for event in answer:
            if isinstance(event, e.SubmitAccepted):
                self._coverage.submitted(p, event.job_id)
        return [
            replace(event, behind=behind) if isinstance(event, e.SubmitAccepted) else _explained(event, order.request)
            for event in answer
        ]

    def _plan(
        self, p: Placeholder, command: c.SubmitJob, candidates: frozenset[str]
    ) -> tuple[SubmissionPlan | NoPlan, str]:
        return self._planner.plan(
            self._state.snapshot,
            self._ports.pods_of(p),
            candidates,
            command.request,
            queue=command.queue,
            waiting=self._partitions.waiting(),
            fenced=self._ports.fenced(),
        )

    def _excluded(self, p: Placeholder, candidates: frozenset[str], request: JobRequest) -> tuple[str, ...]:
        pods, fenced = self._ports.pods_of(p), self._ports.fenced()
        return self._planner.excluded(self._state.snapshot, pods, candidates, request, fenced=fenced)

    async def update(self, p: Placeholder, command: c.UpdateJob) -> e.UpdateAnswered:
        """Send settings and exclusions in one request, so that the job never asks for half of either."""
        job_id, request, snapshot = command.job_id, command.request, self._state.snapshot
        if not snapshot.slurm.known:
            return e.UpdateAnswered(job_id, request, None)
        names = changed(command.was, request) & FOLLOWED
        excluded: tuple[str, ...] | None = None
        if command.candidates is not None:
            unwanted = self._excluded(p, command.candidates, request)
            mode = command.mode or self._planner.mode_of(snapshot, command.was, command.excluded_sent)
            chosen = self._planner.queued(snapshot, request, unwanted, mode)
            if isinstance(chosen, NoPlan):
                return e.UpdateAnswered(job_id, request, False, f"{chosen.text[0].upper()}{chosen.text[1:]}.")
            if "members" in names and (few := self._planner.too_few(snapshot, request, chosen)):
                return e.UpdateAnswered(job_id, request, False, few)
            excluded = chosen.excluded
        limited = within_partition(request, snapshot.slurm)
        if within_partition(command.was, snapshot.slurm).time_limit_minutes != limited.time_limit_minutes:
            names |= {"time_limit_minutes"}
        async with self._coverage.editing(job_id):
            try:
                job = await self._ports.jobs.read(job_id)
            except PortError as error:
                return e.UpdateAnswered(job_id, request, None, str(error))
            if job is not None and "time_limit_minutes" in names and (why := raises_limit(job, limited)):
                return e.UpdateAnswered(job_id, request, False, why)
            marks = _marks_with(job, request) if job is not None else {}
            answer = await self._ports.jobs.update(job_id, limited, names, excluded, marks)
        sent = command.excluded_sent if excluded is None else excluded
        return e.UpdateAnswered(job_id, request, answer.done, answer.text, sent)

    async def follow(self, p: Placeholder, command: c.FollowCandidates) -> e.FollowAnswered:
        """Have a waiting job avoid other nodes."""
        snapshot = self._state.snapshot
        excluded = self._excluded(p, command.candidates, command.request)
        mode = command.mode or self._planner.mode_of(snapshot, command.request, command.excluded_sent)
        chosen = self._planner.queued(snapshot, command.request, excluded, mode)
        if isinstance(chosen, NoPlan):
            # No usable node is left. slurmctld sets a pending job aside that excludes all of them (BadConstraints, in
            # 24.11.5 and 26.05.5); it resumes when the job excludes fewer.
            known = snapshot.slurm.known and snapshot.node_map.known
            wanted = self._excluded(p, frozenset(), command.request) if known else command.excluded_sent
        else:
            wanted = chosen.excluded
        sent: tuple[str, ...] | None = wanted
        if wanted is not command.excluded_sent and wanted != command.excluded_sent:
            sent = (await self._ports.jobs.follow(command.job_id, wanted)).excluded
        return e.FollowAnswered(command.job_id, sent)


def _marks_with(job: JobView, request: JobRequest) -> dict[str, str]:
    """Return the marks of a job that a change to `request` has to rewrite, by the field that holds them."""
    texts, digests = {"admin_comment": job.admin_comment, "extra": job.extra}, request_digests(request)
    return {place: new for place, text in texts.items() if (new := with_request_digests(text, digests)) != text}


def _explained(event: e.Event, request: JobRequest) -> e.Event:
    """Explain a refusal by the request.

    An unknown node that the user did not name is an excluded node, deleted since the last read of Slurm's nodes; a time
    limit that breaks a policy may be a default that no setting names.
    """
    if not isinstance(event, e.SubmitRefused):
        return event
    if event.permanent and event.number == UNKNOWN_NODE and not request.required_nodes:
        return replace(event, permanent=False)
    if event.number in TOO_LONG:
        return replace(event, text=f"{event.text} {whence(request, request.time_limit_minutes)}".rstrip())
    return event


class PartitionBackpressure:
    """Keyed by the names that partitions have in `snapshot`."""

    def __init__(self, clock: Clock, workloads: Placeholders, snapshot: Callable[[], SlurmSnapshot]) -> None:
        self._clock = clock
        self._workloads = workloads
        self._snapshot = snapshot
        self._refused_at: dict[str, float] = {}
        """When each refused an immediate allocation last."""

    def waiting(self) -> QueuedPlaceholders:
        """Return the placeholders that queue in Slurm, and where an immediate allocation was refused just now."""
        counts: Counter[str] = Counter()
        for partition, count in self._workloads.queued.items():
            for name in self._snapshot().partition_names(partition):
                counts[name] += count
        since = self._clock.now() - REFUSED_FOR
        return QueuedPlaceholders(counts, {name for name, at in self._refused_at.items() if at > since})

    def refused_at_once(self, partition: str) -> None:
        """Record that Slurm had no room there for an immediate allocation; "" is the default partition."""
        for name in self._snapshot().partition_names(partition):
            self._refused_at[name] = self._clock.now()
        since = self._clock.now() - REFUSED_FOR
        self._refused_at = {name: at for name, at in self._refused_at.items() if at > since}
