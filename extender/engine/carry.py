"""Commands carried out: each becomes calls of a port, and its outcome an event. Nothing here raises into the lanes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

import structlog

from extender.domain import commands as c
from extender.domain import events as e
from extender.domain.fates import outcomes as o
from extender.domain.fates.ends import ENDS
from extender.domain.jobs.cancelled import encode_cancelled
from extender.domain.jobs.changes import FOLLOWED, changed, raises_limit
from extender.domain.jobs.events import job_events
from extender.domain.jobs.identity import job_name, mark_of, with_wishes
from extender.domain.jobs.job import JobOrder, JobRequest, JobView
from extender.domain.jobs.ownership import proof
from extender.domain.jobs.time_limit import due_in, whence, within_partition
from extender.domain.jobs.wishes import wishes_of
from extender.domain.nodes.whereabouts import slurm_nodes_of
from extender.domain.placeholder import Placeholder, State
from extender.domain.pods.claim import woken_at
from extender.domain.rules import NoPlan, Plan, must_queue
from extender.domain.views import PodView
from extender.domain.wellknown import CANCELLED
from extender.engine.author import Author
from extender.engine.job_end import end_job
from extender.engine.outside import Outside
from extender.engine.partitions import Partitions
from extender.engine.planning import Planner
from extender.engine.queue import Queue
from extender.engine.readings import Asked, Readings
from extender.engine.remarks import Remarks
from extender.engine.units import Units
from extender.engine.vanishing import Vanishing
from extender.engine.world import World
from extender.ports import PortError

_log = structlog.get_logger(__name__)

UNKNOWN_NODE = 2018
"""ESLURM_INVALID_NODE_NAME: of our own exclusions, it says that a node was deleted since the last look."""

TOO_LONG = frozenset({2050, 2051})
"""ESLURM_ACCOUNTING_POLICY, which a QOS with DenyOnLimit answers, and ESLURM_INVALID_TIME_LIMIT (`slurm_errno.h`)."""

NOT_WANTED = "The Pod left or changed before its job was asked for."


class Records(Protocol):
    """What a carrier asks of the engine."""

    world: World
    units: Units
    author: Author
    partitions: Partitions
    vanishing: Vanishing
    readings: Readings
    remarks: Remarks
    queue: Queue
    elsewhere: Callable[[str], bool]

    def handle(self, key: str, event: e.Event, cause: str) -> None:
        """Tell a unit what happened."""


class Carrier:
    """Turns commands into calls."""

    def __init__(self, records: Records, outside: Outside) -> None:
        self._records = records
        self._outside = outside
        self._planner = Planner(self._elsewhere_now)

    async def to_slurm(self, key: str, command: c.Command) -> None:
        """Carry out a command for Slurm."""
        p = self._records.units.get(key)
        if p is None:
            return
        match command:
            case c.SubmitJob():
                for event in await self._submit(p, command):
                    self._records.handle(key, event, f"submit attempt {command.attempt}")
            case c.CancelJob():
                self._records.handle(key, await self._end(p, command), f"cancel {command.job_id}")
            case c.ReadJob():
                # The poll may have been faster, where many commands wait for their turn.
                if self._records.readings.still_wanted(key, command.job_id):
                    await self.read(key, command.job_id, "read")
            case c.ProbeJob():
                await self._probe(p, command)
            case c.FollowCandidates():
                await self._follow(p, command)
            case c.UpdateJob():
                self._records.handle(key, await self._update(p, command), "update")
            case _:
                raise AssertionError(f"{command!r} is not for Slurm")

    async def to_kubernetes(self, key: str, command: c.Command) -> None:
        """Carry out a command for the API server."""
        match command:
            case c.WakePod():
                more = woken_at(self._outside.clock.wall()) if command.again else {}
                woken = await self._outside.pods.wake(command.member, command.node, command.job_id, more)
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

    async def read(self, key: str, job_id: int, cause: str) -> bool:
        """Read one job and tell its unit; a job with another mark is not its job (ids are given out again).

        False: Slurm did not answer.
        """
        asked = self._records.readings.ask()
        try:
            job = await self._outside.jobs.read(job_id)
        except PortError as error:
            _log.info("job_not_read", job_id=job_id, error=str(error))
            return False
        self._tell(key, job_id, job, asked, cause)
        return True

    def _tell(self, key: str, job_id: int, job: JobView | None, asked: Asked, cause: str) -> None:
        """Tell the unit what a read of its job says; `None`: slurmctld does not know it."""
        p = self._records.units.get(key)
        if p is None or not self._records.readings.is_news(job_id, asked):
            return
        self._records.readings.told(key, job_id, asked)
        its = job is not None and self._is_its(p, job)
        self._records.readings.note(job_id, job.flags | {job.state} if job is not None and its else None)
        if job is None or not its:
            self._missed(p, job_id, job, asked, cause)
            return
        self._records.vanishing.seen(p.key)
        self._records.author.learn_caller(p, job)
        self._records.queue.look(p, job)
        self._records.remarks.look(p, job, self._name(p.key), p.asked)
        due = due_in(job, [pod.grace_s for pod in self._pods(p)])
        for event in job_events(p, job, self._records.world.node_map, due):
            self._records.handle(key, event, cause)

    def _is_its(self, p: Placeholder, job: JobView) -> bool:
        """Whether this is a job of this unit, not another that was given the same id."""
        return proof(job, p.key, self._name(p.key), recorded=True, owner=None) is not None

    def _name(self, key: str, title: str = "") -> str:
        """What the unit's jobs are called; without a title, what they all end in."""
        own = self._records.author.mark(key, 0)
        return job_name(title, own.cluster, own.scheduler, key)

    def _missed(self, p: Placeholder, job_id: int, job: JobView | None, asked: Asked, cause: str) -> None:
        vanishing = self._records.vanishing
        runs = p.charged and p.job_id == job_id and p.state is not State.LOST
        if runs:
            vanishing.doubt(p.key)
        if not vanishing.missed(p.key, job_id, asked.at):
            return
        if runs and not vanishing.may_end(p.key, job_id, p.refs, elsewhere=self._elsewhere(p)):
            return
        text = f"Slurm does not know job {job_id} any more."
        if job is not None:
            text = f"Slurm job {job_id} is not this Pod's: neither its mark nor its name ({job.name}) says so."
            if p.state is not State.LOST:  # said once, not with each reading until the Pod is gone
                _log.warning("job_is_another's", job_id=job_id, name=job.name, pod=p.pod_names, uid=p.key)
        self._records.handle(p.key, e.JobEnded(job_id, e.EndKind.VANISHED, text), cause)

    def _elsewhere(self, p: Placeholder) -> bool:
        """Slurm has none of the nodes on which this unit's Pods are: it may be another Slurm that answers."""
        world = self._records.world
        theirs = slurm_nodes_of(p, world.node_map) or {member.node for member in p.members if member.placed}
        known = world.picture.nodes.keys() & {*theirs, *p.slurm_nodes}
        return not (world.picture.known and known)

    @staticmethod
    def _would_vanish(p: Placeholder, asked_at: float) -> bool:
        """An empty answer to a question of then would end running Pods on missing information alone."""
        sure = asked_at >= p.sure_at
        return sure and p.state is State.UNSURE and p.charged and p.empties > 0

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
        if not self._is_its(p, job):
            _log.warning("foreign_job_spared", job_id=job_id, name=job.name, pod=p.pod_names, uid=p.key)
            return e.CancelAnswered(job_id, over=True, text=f"job {job_id} is another's by now")
        return await end_job(self._outside.jobs, job, command.note, command.exit_code)

    async def _submit(self, p: Placeholder, command: c.SubmitJob) -> list[e.Event]:
        attempt, request, world = command.attempt, command.request, self._records.world
        if not p.wants or p.request != request:
            return [e.SubmitRefused(attempt, permanent=False, text=NOT_WANTED)]
        chosen, nowhere = self._plan(p, command, command.candidates)
        if nowhere and p.candidates is not None and p.candidates != command.candidates:
            # One that was refused before may be the only one that is large enough.
            chosen, nowhere = self._plan(p, command, p.candidates)
        if nowhere:
            return [e.SubmitRefused(attempt, permanent=False, text=nowhere, nowhere=True)]
        if isinstance(chosen, NoPlan):
            return [e.SubmitRefused(attempt, chosen.permanent, f"{chosen.text[0].upper()}{chosen.text[1:]}.")]
        graces = [pod.grace_s for pod in self._pods(p)]
        mark = self._records.author.mark(p.key, attempt)
        named = next((ref.full_name for ref in p.refs), "")
        mark = replace(mark, wishes=wishes_of(request), grace_s=max(graces, default=None), pod=named)
        name = job_name(request.title, mark.cluster, mark.scheduler, p.key)
        order = JobOrder(
            within_partition(request, world.picture), name, mark, chosen.mode, chosen.immediate, chosen.excluded
        )
        before = self._records.partitions.waiting()
        behind = not chosen.immediate and (command.queue or must_queue(request, world.picture, before))
        answer = await self._outside.jobs.submit(order)
        if chosen.immediate and any(isinstance(event, e.SubmitRefused) and event.queue for event in answer):
            self._records.partitions.refused_at_once(order.request.partition)
        return [
            replace(event, behind=behind) if isinstance(event, e.SubmitAccepted) else _explained(event, order.request)
            for event in answer
        ]

    def _plan(self, p: Placeholder, command: c.SubmitJob, candidates: frozenset[str]) -> tuple[Plan | NoPlan, str]:
        return self._planner.plan(
            self._records.world,
            self._pods(p),
            candidates,
            command.request,
            queue=command.queue,
            waiting=self._records.partitions.waiting(),
        )

    def _excluded(self, p: Placeholder, candidates: frozenset[str], request: JobRequest) -> tuple[str, ...]:
        return self._planner.excluded(self._records.world, self._pods(p), candidates, request)

    def _elsewhere_now(self, resource: str) -> bool:
        return self._records.elsewhere(resource)

    def _pods(self, p: Placeholder) -> list[PodView]:
        return [pod for ref in p.refs if (pod := self._outside.cache.get(ref.uid)) is not None]

    async def _probe(self, p: Placeholder, command: c.ProbeJob) -> None:
        owner, epoch = self._records.author.owner_of_jobs(p), self._records.author.mark(p.key, 0).epoch
        asked_at = self._outside.clock.now()
        try:
            jobs = await self._outside.jobs.probe(self._name(p.key, command.title), p.key, command.job_id, owner)
        except PortError as error:
            self._records.handle(p.key, e.ProbeFailed(str(error)), "probe")
            return
        live: list[e.JobFound] = []
        ended: list[e.JobEnded] = []
        for job in jobs:
            seen = o.observe(job)
            if isinstance(seen, o.Ended) and not seen.alive:
                ended.append(e.JobEnded(job.job_id, seen.kind, seen.text))
                continue
            running = isinstance(seen, o.Running | o.Ending | o.Starting)
            found = mark_of(job)
            attempt, older, wishes = (found.attempt, found.epoch != epoch, found.wishes) if found else (0, False, ())
            live.append(e.JobFound(job.job_id, attempt, running, job.excluded, older, wishes))
        now = self._records.units.get(p.key)
        if now is None:
            return
        if not live and not ended and self._would_vanish(now, asked_at):
            known = now.job_id or next((m.job_id for m in now.members if m.job_id is not None), None)
            if not self._records.vanishing.may_end(now.key, known, now.refs, elsewhere=self._elsewhere(now)):
                text = "its job is missing; whether many others are too is being looked at"
                self._records.handle(p.key, e.ProbeFailed(text), "probe")
                return
        if live and self._unrecordable(now):
            text = "which node is which is not known yet, nor whether a Pod runs on the job"
            self._records.handle(p.key, e.ProbeFailed(text), "probe")
            return
        if live:
            self._records.vanishing.seen(now.key)
        facts: list[e.Event] = [*self._unrecorded(now, jobs), *(ended if not live else [])]
        for event in facts:
            self._records.handle(p.key, event, "probe")
        self._records.handle(p.key, e.ProbeAnswered(tuple(live), asked_at), "probe")

    def _unrecordable(self, p: Placeholder) -> bool:
        """Some member is on a node without saying for which job, and nobody can compare it with the job's."""
        return not self._records.world.node_map.known and any(m.placed and m.job_id is None for m in p.members)

    def _unrecorded(self, p: Placeholder, jobs: Sequence[JobView]) -> list[e.PodBound]:
        """Members on the node of a running job of theirs that do not say so: somebody took the annotation away."""
        running = {
            self._records.world.node_map.kubernetes.get(node): job.job_id
            for job in jobs
            if isinstance(o.observe(job), o.Running | o.Ending)
            for node in job.nodes
        }
        return [
            e.PodBound(member.ref.uid, member.node, running[member.node])
            for member in p.members
            if member.placed and member.job_id is None and member.node in running
        ]

    async def _update(self, p: Placeholder, command: c.UpdateJob) -> e.UpdateAnswered:
        """Wishes and exclusions in one request, so that the job never asks for half of either."""
        job_id, request, world = command.job_id, command.request, self._records.world
        if not world.picture.known:
            return e.UpdateAnswered(job_id, request, None)
        excluded: tuple[str, ...] | None = None
        if command.candidates is not None:
            unwanted = self._excluded(p, command.candidates, request)
            mode = command.mode or self._planner.mode_of(world, command.was, command.told)
            chosen = self._planner.queued(world, request, unwanted, mode)
            if isinstance(chosen, NoPlan):
                return e.UpdateAnswered(job_id, request, False, f"{chosen.text[0].upper()}{chosen.text[1:]}.")
            excluded = chosen.excluded
        limited = within_partition(request, world.picture)
        names = changed(command.was, request) & FOLLOWED
        if within_partition(command.was, world.picture).time_limit_minutes != limited.time_limit_minutes:
            names |= {"time_limit_minutes"}
        try:
            job = await self._outside.jobs.read(job_id)
        except PortError as error:
            return e.UpdateAnswered(job_id, request, None, str(error))
        if job is not None and "time_limit_minutes" in names and (why := raises_limit(job, limited)):
            return e.UpdateAnswered(job_id, request, False, why)
        marks = _marks_with(job, request) if job is not None else {}
        answer = await self._outside.jobs.update(job_id, limited, names, excluded, marks)
        told = command.told if excluded is None else excluded
        return e.UpdateAnswered(job_id, request, answer.done, answer.text, told)

    async def _follow(self, p: Placeholder, command: c.FollowCandidates) -> None:
        world = self._records.world
        excluded = self._excluded(p, command.candidates, command.request)
        mode = command.mode or self._planner.mode_of(world, command.request, command.told)
        chosen = self._planner.queued(world, command.request, excluded, mode)
        if isinstance(chosen, NoPlan):
            # No node is left that it may use. A pending job that excludes all of them is set aside (BadConstraints, in
            # 24.11.5 and 26.05.5), and goes on when it is told less.
            known = world.picture.known and world.node_map.known
            wanted = self._excluded(p, frozenset(), command.request) if known else command.told
        else:
            wanted = chosen.excluded
        told: tuple[str, ...] | None = wanted
        if wanted is not command.told and wanted != command.told:
            told = (await self._outside.jobs.follow(command.job_id, wanted)).excluded
        self._records.handle(p.key, e.FollowAnswered(command.job_id, told), "follow")


def _marks_with(job: JobView, request: JobRequest) -> dict[str, str]:
    """The marks of a job that have to be written anew with a change to `request`, by the place where they stand."""
    texts, wishes = {"admin_comment": job.admin_comment, "extra": job.extra}, wishes_of(request)
    return {place: new for place, text in texts.items() if (new := with_wishes(text, wishes)) != text}


def _explained(event: e.Event, request: JobRequest) -> e.Event:
    """A refusal as what was asked explains it.

    An unknown node that the user did not name is one of our exclusions, deleted since the last look at Slurm; a time
    limit that breaks a policy may be one that nobody has set.
    """
    if not isinstance(event, e.SubmitRefused):
        return event
    if event.permanent and event.number == UNKNOWN_NODE and not request.required_nodes:
        return replace(event, permanent=False)
    if event.number in TOO_LONG:
        return replace(event, text=f"{event.text} {whence(request, request.time_limit_minutes)}".rstrip())
    return event
