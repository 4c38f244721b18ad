"""Track native jobs by the Slurm node on which they run: their Nodes are locked (`nodes.nativeJobTaint`).

A Prolog reports a job before it starts, an Epilog when it is over. Jobs without a report are found in the polled
states: each running job that is no placeholder job is read once. A job that is absent from the polled states locks no
Node, whatever was reported: so no lock outlives its job for long, and a restart needs only the jobs named on the Nodes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

import structlog

from extender.domain.foreign_pods.mark import foreign_pod_mark_of
from extender.domain.job_outcomes.slurm_states import ENDED_STATES
from extender.domain.jobs.identity import decode_mark
from extender.domain.jobs.job import JobView
from extender.domain.nodes.marks import native_jobs_in
from extender.domain.ports import Clock, PortError, SlurmJobs
from extender.domain.views import NodeView
from extender.engine.engine import Engine
from extender.runtime.controller import Controller
from extender.runtime.event_bus import EventBus
from extender.runtime.topics import JobStatesPolled, NativeJobsChanged

_log = structlog.get_logger(__name__)

READ_APART = 0.2
"""Seconds between two reads of jobs without a report."""

ABSENT_FOR = 5.0
"""Seconds for which a job must be missing in the states: those of a poll may be older than what a Prolog says."""

RUNNING = "RUNNING"
PENDING = "PENDING"
"""A job that was requeued has no node any more, however long it waits."""

COMPLETING = "COMPLETING"
"""The flag of a job that is over and of which something may still be on the node."""


class JobKind(StrEnum):
    """The kind of a job that begins on a node."""

    NATIVE = "native"
    PLACEHOLDER = "placeholder"
    UNKNOWN = "unknown"
    """Slurm has no such job."""

    UNREAD = "unread"
    """The job could not be read from Slurm."""


@dataclass(slots=True)
class _Native:
    nodes: frozenset[str]
    seen: float
    """When it was last known to be there."""

    queued: bool = False
    """It has waited since its nodes were known."""


class NativeJobs:
    """Know which jobs run where that are no placeholder jobs. Keys are ids of jobs that are to be read."""

    def __init__(
        self, engine: Engine, jobs: SlurmJobs, clock: Clock, events: EventBus, *, enabled: bool, owner: str
    ) -> None:
        self.enabled = enabled
        self._events = events
        self._engine = engine
        self._jobs = jobs
        self._clock = clock
        self._owner = owner
        self._native: dict[int, _Native] = {}
        self._on: dict[str, dict[int, None]] = {}
        """Jobs by Slurm node."""

        self._others: set[int] = set()
        """Running jobs of Pods, which some extender made."""

        self._ended: set[tuple[int, str]] = set()
        """Jobs and nodes of which the Epilog has said that it is over there."""

        self._unread: set[int] = set()
        self._doubted: set[int] = set()
        """Jobs that lock a Node and may be other jobs by now: Slurm reuses ids when it loses its state."""

        self._polled_at = clock.now()
        self._reader = Controller("native jobs", self._reconcile, ranks=2, keep_early=True)

    def on(self, slurm_node: str) -> tuple[int, ...]:
        """Return the native jobs on this Slurm node."""
        return tuple(sorted(self._on.get(slurm_node, ())))

    def shown(self) -> dict[str, list[int]]:
        """Return all of them by Slurm node, for `/debug`."""
        return {node: sorted(jobs) for node, jobs in sorted(self._on.items())}

    def by_lock(self) -> dict[str, int]:
        """Return Slurm nodes whose Nodes they lock, and how many jobs do."""
        return {"nodes": len(self._on) if self.enabled else 0, "jobs": len(self._native)}

    def adopt(self, nodes: Iterable[NodeView], slurm_node: Callable[[str], str]) -> None:
        """Adopt the jobs for which the previous process locked a Node; the polled states show which are over."""
        for node in nodes:
            for job_id in native_jobs_in(node, self._owner) if self.enabled else ():
                if name := slurm_node(node.name):
                    self._add(job_id, frozenset({name}))
                    self._doubt(job_id)

    async def begins(self, job_id: int, slurm_node: str) -> JobKind:
        """Handle the start of a Prolog on a node. A job that Slurm does not show as a placeholder locks the Node."""
        if self._engine.placeholders.by_job(job_id) is not None:
            return JobKind.PLACEHOLDER
        try:
            job = await self._jobs.read(job_id)
        except PortError as error:
            _log.info("job_not_read", job_id=job_id, error=str(error))
            return JobKind.UNREAD
        if job is None:
            return JobKind.UNKNOWN
        if _for_a_pod(job):
            self._others.add(job_id)
            return JobKind.PLACEHOLDER
        self._ended.discard((job_id, slurm_node))
        self._add(job_id, frozenset({slurm_node}))
        return JobKind.NATIVE

    def ends(self, job_id: int, slurm_node: str) -> None:
        """Handle the Epilog of a native job on a node."""
        if job_id in self._native:
            self._ended.add((job_id, slurm_node))
            self._remove(job_id, {slurm_node})

    def polled(self, event: JobStatesPolled) -> None:
        """Compare the jobs that are known with the state words of every job, just now."""
        states = event.states
        if not self.enabled:
            return
        now, placeholder_jobs = self._clock.now(), self._engine.placeholders.jobs
        if now - self._polled_at >= ABSENT_FOR:
            for job_id in self._native:
                self._doubt(job_id)
        self._polled_at = now
        for job_id, native in list(self._native.items()):
            job_states = states.get(job_id, frozenset())
            if job_id in placeholder_jobs:
                self._remove(job_id, native.nodes)
            elif job_states and (COMPLETING in job_states or not job_states & (ENDED_STATES | {PENDING})):
                native.seen = now
                if native.queued and RUNNING in job_states:  # perhaps on other nodes
                    native.queued = False
                    self._doubt(job_id)
            elif job_states & ENDED_STATES or now - native.seen >= ABSENT_FOR:
                self._remove(job_id, native.nodes)
            native.queued = native.queued or PENDING in job_states
        self._others &= states.keys()
        self._ended = {one for one in self._ended if states.get(one[0], frozenset()) & {RUNNING, COMPLETING}}
        for job_id, job_states in states.items():
            if (
                RUNNING in job_states
                and job_id not in placeholder_jobs
                and job_id not in self._others
                and job_id not in self._native
            ):
                self._unread.add(job_id)
                self._reader.add(job_id)
        self._unread = {job_id for job_id in self._unread if RUNNING in states.get(job_id, ())}
        self._doubted &= self._native.keys()

    async def run(self) -> None:
        """Read the jobs without a report, until cancelled."""
        await self._reader.run()

    def _doubt(self, job_id: int) -> None:
        """Have a job read again that may be another by now."""
        self._doubted.add(job_id)
        self._reader.add(job_id, 1)

    async def _reconcile(self, job_id: int) -> None:
        if job_id in self._unread:
            self._unread.discard(job_id)
            await self._read(job_id)
        elif job_id in self._doubted:
            self._doubted.discard(job_id)
            await self._read_again(job_id)
        else:
            return
        await asyncio.sleep(READ_APART)

    async def _read(self, job_id: int) -> None:
        if job_id in self._native or self._engine.placeholders.by_job(job_id) is not None:
            return
        try:
            job = await self._jobs.read(job_id)
        except PortError as error:
            _log.info("job_not_read", job_id=job_id, error=str(error))
            return  # the next poll finds it again
        if job is None or job.state != RUNNING:
            return
        if _for_a_pod(job):
            self._others.add(job_id)
        else:
            self._add(job_id, frozenset(node for node in job.nodes if (job_id, node) not in self._ended))

    async def _read_again(self, job_id: int) -> None:
        """Return whether it still is the job that locked its Nodes. A job that cannot be read keeps its lock."""
        if job_id not in self._native:
            return
        try:
            job = await self._jobs.read(job_id)
        except PortError as error:
            _log.info("job_not_read", job_id=job_id, error=str(error))
            self._doubt(job_id)
            return
        native = self._native.get(job_id)
        if job is None or native is None:
            return
        if _for_a_pod(job):
            self._others.add(job_id)
            self._remove(job_id, native.nodes)
        elif job.state == RUNNING:
            self._add(job_id, frozenset(node for node in job.nodes if (job_id, node) not in self._ended))
            self._remove(job_id, native.nodes - frozenset(job.nodes))

    def _add(self, job_id: int, nodes: frozenset[str]) -> None:
        before = self._native.get(job_id)
        there = nodes if before is None else before.nodes | nodes
        if not there:
            return
        self._native[job_id] = _Native(there, self._clock.now())
        for node in nodes:
            self._on.setdefault(node, {})[job_id] = None
            self._events.publish(NativeJobsChanged(node))

    def _remove(self, job_id: int, nodes: Iterable[str]) -> None:
        native = self._native[job_id]
        gone = frozenset(nodes)
        native.nodes -= gone
        if not native.nodes:
            del self._native[job_id]
        for node in gone:
            there = self._on.get(node, {})
            there.pop(job_id, None)
            if not there:
                self._on.pop(node, None)
            self._events.publish(NativeJobsChanged(node))


def _for_a_pod(job: JobView) -> bool:
    """Return whether the job is a placeholder, or the job of a foreign Pod: neither keeps Pods off its node.

    Only a mark in `admin_comment` proves that: the owner of any job may write one into `extra`.
    """
    return decode_mark(job.admin_comment) is not None or foreign_pod_mark_of(job) is not None
