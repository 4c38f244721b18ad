"""Nodes held before a question to Slurm has proved the end of a job: on its word that costs no further question.

Slurm may give a node away milliseconds after the end of its job. So the word OVER among the states of all jobs, and an
EpilogSlurmctld that shows the site's key, have the node drained in the same turn; the job is read beside that, and the
drain is lifted where it lives after all. Of an end that Slurm announced the instant is known: whoever is still there
shortly before it is held then, not after.
"""

from __future__ import annotations

import asyncio

from extender.controllers.nodes.controller import NodeController
from extender.domain.events import EndKind
from extender.domain.placeholder import State
from extender.domain.ports import Clock
from extender.engine.engine import Engine
from extender.engine.job_read_versions import Asked

LOOK_EVERY = 0.5
"""Seconds between two looks at the ends that Slurm announced."""

SOON = 0.25
"""Seconds before a doubted job is read for the sake of its hold: whoever doubts it has it read anyway, in its turn."""

AGAIN = 1.0
"""Seconds before a job whose end was not proved is read again."""

BEFORE = {EndKind.TIME_LIMIT: 2.0, EndKind.PREEMPTED: 0.0}
"""Seconds before an announced end from which its node is kept. slurmctld preempts some seconds after GraceTime, and a
node that is drained before may cost another victim."""


class FenceController:
    """Has the node controller hold what may be given away any moment."""

    def __init__(self, engine: Engine, nodes: NodeController, clock: Clock) -> None:
        self._engine = engine
        self._nodes = nodes
        self._clock = clock
        self._doubted: dict[str, tuple[int, Asked]] = {}
        """The job by unit, and since when, until a read has told how it is."""

        self._work = asyncio.Event()

    def over(self, job_id: int) -> None:
        """Somebody who knows says that this job is over: keep its nodes now, and ask Slurm then."""
        p = self._engine.units.by_job(job_id)
        if p is None or not p.charged or p.job_id != job_id or p.state is State.UNSURE:
            return
        if p.state is State.LOST and not p.job_alive:
            return  # that is known, and its nodes are held
        self._nodes.hold_for(p)
        self._doubted[p.key] = job_id, self._engine.job_reads.ask()
        self._work.set()

    async def run(self) -> None:
        """Read what is doubted, and watch the clock, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._settle_for_ever(), name="doubted ends")
            group.create_task(self._look_for_ever(), name="announced ends")

    def look(self) -> None:
        """Keep the nodes of Pods that are there still although their job is about to end."""
        now = self._clock.now()
        for p in self._engine.units.in_state(State.LOST):
            if p.end_kind not in BEFORE or not (p.placed and p.job_alive and p.ends_at):
                continue
            if p.ends_at - BEFORE[p.end_kind] <= now:
                self._nodes.hold_for(p)

    async def settle(self) -> None:
        """Ask Slurm once for each job that somebody called over, unless it has answered since.

        The last one first: those who read all of them in turn began with the first.
        """
        readings = self._engine.job_reads
        for key in list(reversed(self._doubted)):
            job_id, since = doubt = self._doubted[key]
            answered = readings.told_after(job_id, since) or await self._engine.read_job(job_id, "fence")
            if self._doubted[key] is not doubt:
                continue  # it was called over once more meanwhile
            p = self._engine.units.get(key)
            if p is not None and p.state is State.LOST and p.job_id == job_id:
                del self._doubted[key]  # held until the Pods are gone, as after every end
            elif p is None or not p.charged or p.job_id != job_id or self._lives(key, answered):
                del self._doubted[key]
                self._nodes.release_guard(key)
            else:
                self._doubted[key] = job_id, readings.ask()

    def _lives(self, key: str, answered: bool) -> bool:
        """Slurm was asked, and the job is not over."""
        return answered and not self._engine.missing_jobs.misses(key)

    async def _settle_for_ever(self) -> None:
        while True:
            await self._work.wait()
            self._work.clear()
            await asyncio.sleep(SOON)
            while self._doubted:
                await self.settle()
                if self._doubted:
                    await asyncio.sleep(AGAIN)

    async def _look_for_ever(self) -> None:
        while True:
            self.look()
            await asyncio.sleep(LOOK_EVERY)
