"""Read jobs for calls of hooks that wait for the answer: each job at most once a second, for all such calls together.

The owner of a job can read its token, and call with it as often as the listener permits. A read for each call would
delay polls, submissions and cancellations.
"""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict

from extender.domain.placeholder import State
from extender.domain.ports import Clock
from extender.engine.engine import Engine
from extender.runtime.controller import Controller

EVERY_S = 1.0
"""Seconds from the beginning of one read of a job to that of the next; less than a call of a hook waits."""

AT_ONCE = 4
"""Reads under way: half of the connections to slurmrestd. Further jobs wait; namespaces take turns."""


class HookReads:
    """Read the jobs that hooks name. A call gets the answer to a later request, or to one that proved the end."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock
        self._awaited: dict[int, asyncio.Future[bool]] = {}
        """By job, the answer of the read that is to begin next."""

        self._began: OrderedDict[int, float] = OrderedDict()
        """When the last read of each job began; of the last `EVERY_S` alone."""

        self._reads = Controller(
            "job reads for hooks", self._reconcile, workers=AT_ONCE, flow_of=self._namespace_of, keep_early=True
        )

    async def run(self) -> None:
        """Read until cancelled."""
        await self._reads.run()

    async def read(self, job_id: int) -> bool:
        """Wait for the next read of this job. False: Slurm did not answer it."""
        if (answer := self._awaited.get(job_id)) is None:
            answer = self._awaited[job_id] = asyncio.get_running_loop().create_future()
            since = self._clock.now() - self._began.get(job_id, -math.inf)
            self._reads.add(job_id, after=EVERY_S - since)
        return await asyncio.shield(answer)  # others may wait for it as well

    async def _reconcile(self, job_id: int) -> None:
        if (answer := self._awaited.pop(job_id, None)) is None:
            return
        now = self._clock.now()
        while self._began and now - next(iter(self._began.values())) >= EVERY_S:
            self._began.popitem(last=False)
        self._began[job_id] = now
        self._began.move_to_end(job_id)
        answer.set_result(await self._engine.read_job(job_id, "hook"))
        if self._has_ended(job_id) and (later := self._awaited.pop(job_id, None)) is not None:
            later.set_result(True)  # an end is final

    def _has_ended(self, job_id: int) -> bool:
        return all(p.state is State.LOST for p in self._engine.placeholders.all_by_job(job_id))

    def _namespace_of(self, job_id: int) -> str:
        workload = self._engine.placeholders.workload_of_job(job_id)
        return "" if workload is None else self._engine.placeholders.namespace_of(workload)
