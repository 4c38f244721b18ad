"""Decide whether a Slurm node is clear: no Pod there outlives its job, by Slurm's current answer.

PrologSlurmctld of the next job waits for it. That job may be the first to show that another has ended: a node that an
administrator resumes, or sets DOWN, is given to jobs before a poll sees the end. So the jobs of all Pods on the node
are read before the decision.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import StrEnum

import structlog

from extender.controllers.nodes.controller import NodeController
from extender.domain.nodes.fences import too_short
from extender.domain.placeholder import Placeholder, State
from extender.domain.ports import Clock
from extender.engine.engine import Engine
from extender.engine.missing_jobs import MissingJobTracker

_log = structlog.get_logger(__name__)

CHECK_EVERY = 0.2
"""Seconds between two looks at who is waited for."""

AGAIN = 1.0
"""Seconds before a job is read again of which Slurm did not say that it lives."""

_MAY_HAVE_PODS = {State.UNSURE, State.WAITING, State.GRANTED, State.BOUND, State.LOST}


class NodeVerdict(StrEnum):
    """The state of a node."""

    CLEAR = "clear"
    OUTLIVED = "a Pod outlives its job"
    UNKNOWN = "Slurm has not confirmed the job of a Pod"


@dataclass(frozen=True, slots=True)
class ClearanceAnswer:
    """Hold the verdict on a Slurm node, and one sentence for each Pod that keeps it drained."""

    answer: NodeVerdict
    why: tuple[str, ...] = ()


class Clearance:
    """Answers PrologSlurmctld."""

    def __init__(
        self,
        engine: Engine,
        missing_jobs: MissingJobTracker,
        nodes: NodeController,
        clock: Clock,
        *,
        longest_grace_s: float,
    ) -> None:
        self._engine = engine
        self._missing_jobs = missing_jobs
        self._nodes = nodes
        self._clock = clock
        self._longest_grace_s = longest_grace_s
        self.weak: tuple[str, ...] = ()
        """Settings of slurm.conf that end a wait too early, as PrologSlurmctld reported."""

    async def of(self, slurm_node: str, seconds: float) -> ClearanceAnswer:
        """Wait until the node is clear, for at most so long."""
        until = self._clock.now() + seconds
        again = self._clock.now() + AGAIN
        unknown = await self._unknown(slurm_node)
        while (why := self._nodes.kept_for(slurm_node)) or unknown:
            if self._clock.now() >= until:
                return ClearanceAnswer(NodeVerdict.OUTLIVED if why else NodeVerdict.UNKNOWN, why)
            await asyncio.sleep(CHECK_EVERY)
            if unknown and self._clock.now() >= again:
                again = self._clock.now() + AGAIN
                unknown = await self._unknown(slurm_node)
        return ClearanceAnswer(NodeVerdict.CLEAR)

    def limited(self, limit_s: int) -> None:
        """Record for how long Slurm lets PrologSlurmctld wait; 0: it does not know."""
        if not limit_s:
            return
        was, self.weak = self.weak, too_short(limit_s, self._longest_grace_s)
        for sentence in set(self.weak) - set(was):
            _log.warning("fence_weak", problem=sentence)

    def may_have_pods(self, job_id: int) -> bool:
        """Return whether this job has Pods, or may get some: it waits or runs, or its workload is not known yet."""
        p = self._engine.placeholders.by_job(job_id)
        if p is None:
            return any(
                workload.job_id is None
                for workload in self._engine.placeholders.in_state(State.SUBMITTING, State.UNSURE)
            )
        return p.job_id == job_id and p.state in _MAY_HAVE_PODS

    async def _unknown(self, slurm_node: str) -> bool:
        """Read the jobs of all Pods there. Whether Slurm left open how one of them is."""
        here = [
            p for p in self._engine.placeholders.all.values() if p.job_occupied and slurm_node in self._nodes.where(p)
        ]
        return any(await asyncio.gather(*(self._left_open(p) for p in here)))

    async def _left_open(self, p: Placeholder) -> bool:
        if p.outlives_job:
            return False  # its nodes are kept until the Pod is gone
        if p.job_id is None:
            return True
        answered = await self._engine.read_job(p.job_id, "prolog")
        now = self._engine.placeholders.get(p.key)
        if now is None or not now.job_occupied:
            return False
        return not answered or (now.state is not State.LOST and self._missing_jobs.misses(p.key))
