"""Drain a node as soon as a poll or hook reports that its job ended, before the confirming read.

Slurm may give a node away milliseconds after the end of its job. So the state ENDED in a poll of all jobs, and an
EpilogSlurmctld that shows the site's key, have the node drained in the same turn; the job is read beside that, and the
drain is lifted where it lives after all. Of an end that Slurm announced the instant is known: the node of a Pod that is
still there shortly before it is drained then, not after.
"""

from __future__ import annotations

import asyncio

from extender.controllers.nodes.controller import NodeController
from extender.domain.events import EndKind
from extender.domain.placeholder import State
from extender.domain.ports import Clock
from extender.domain.states import LostState
from extender.engine.engine import Engine
from extender.engine.engine_context import EngineState
from extender.engine.job_read_versions import RequestTime
from extender.runtime.controller import Controller, Requeue, Resync
from extender.runtime.topics import PlaceholderChanged

SOON = 0.25
"""Seconds before a doubted job is read for its hold: the source of the doubt has it read anyway, in its turn."""

AGAIN = 1.0
"""Seconds before a job whose end was not proved is read again."""

BEFORE = {EndKind.TIME_LIMIT: 2.0, EndKind.PREEMPTED: 0.0}
"""Seconds before an announced end from which its node is kept. slurmctld preempts some seconds after GraceTime, and a
node that is drained before may cost another victim."""


class FenceController:
    """Have the node controller hold what Slurm may give away any moment. Keys are those of workloads."""

    def __init__(self, engine: Engine, state: EngineState, nodes: NodeController, clock: Clock) -> None:
        self._engine = engine
        self._state = state
        self._nodes = nodes
        self._clock = clock
        self._doubted: dict[str, tuple[int, RequestTime]] = {}
        """The job by workload, and since when, until a read answers."""

        self._ends = Controller("doubted ends", self._confirm)
        self._announced = Controller("announced ends", self._hold_in_time, resync=Resync(self._lost))

    def job_ended(self, job_id: int) -> None:
        """Hold the nodes of a job that a poll or hook reported as ended, before the confirming read."""
        p = self._engine.placeholders.by_job(job_id)
        if p is None or not p.job_occupied or p.job_id != job_id or p.state is State.UNSURE:
            return
        if p.outlives_job:
            return  # that is known, and its nodes are held
        self._nodes.hold_for(p)
        self._doubted[p.key] = job_id, self._state.job_reads.next_request_time()
        self._ends.add(p.key, after=SOON)

    async def run(self) -> None:
        """Read what is doubted, and watch the clock, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._ends.run(), name="doubted ends")
            group.create_task(self._announced.run(), name="announced ends")

    def _lost(self) -> list[str]:
        return [p.key for p in self._engine.placeholders.in_state(State.LOST)]

    def placeholder_changed(self, event: PlaceholderChanged) -> None:
        """Watch the announced end of a lost allocation."""
        if event.after.state is State.LOST:
            self._announced.add(event.after.key)

    async def _hold_in_time(self, key: str) -> Requeue | None:
        """Keep the nodes of Pods that are still there although their job is about to end."""
        p, now = self._engine.placeholders.get(key), self._clock.now()
        if p is None or not isinstance(p.payload, LostState) or p.payload.end_kind not in BEFORE:
            return None
        if not (p.placed and p.payload.job_alive and p.payload.ends_at):
            return None
        at = p.payload.ends_at - BEFORE[p.payload.end_kind]
        if at > now:
            return Requeue(at - now)
        self._nodes.hold_for(p)
        return None

    async def _confirm(self, key: str) -> Requeue | None:
        """Ask Slurm once whether a job that was reported as ended has ended, unless it has answered since."""
        if (doubt := self._doubted.get(key)) is None:
            return None
        job_id, since = doubt
        readings = self._state.job_reads
        answered = readings.notified_after(job_id, since) or await self._engine.read_job(job_id, "fence")
        if self._doubted[key] is not doubt:
            return Requeue(AGAIN)  # it was called over once more meanwhile
        p = self._engine.placeholders.get(key)
        if p is not None and p.state is State.LOST and p.job_id == job_id:
            del self._doubted[key]  # held until the Pods are gone, as after every end
            return None
        if p is None or not p.job_occupied or p.job_id != job_id or self._lives(key, answered):
            del self._doubted[key]
            self._nodes.job_lives(key)
            return None
        self._doubted[key] = job_id, readings.next_request_time()
        return Requeue(AGAIN)

    def _lives(self, key: str, answered: bool) -> bool:
        """Return whether Slurm answered the read, and the job still lives."""
        return answered and not self._state.missing_jobs.misses(key)
