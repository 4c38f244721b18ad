"""Read placeholder jobs in turn, for what the polled states do not contain, at a fixed rate whatever their number.

Jobs that are no placeholder jobs are read in turn as well, rarely (`controllers/orphans`, `controllers/foreign_pods`),
within the same rate: one figure bounds the requests to Slurm while nothing happens.

An announced preemption is only in the job itself (`preempt_time`), and the Pod's own grace period has to fit into the
rest of Slurm's GraceTime when it is found. Jobs whose partition gives such a warning are therefore also read within a
quarter of it, at a rate of their own; soon, if no signal to a script reports it sooner.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from extender.domain.cluster import SlurmSnapshot
from extender.domain.jobs.job import Mode
from extender.domain.placeholder import Placeholder, State
from extender.domain.rules import may_be_preempted
from extender.runtime.controller import Controller, Requeue, Resync

_ALL = "all"
"""The one key: jobs are read in turn."""

QUARTER = 0.25
BUSY = 4
"""So many times longer are the pauses between reads in turn while many commands wait for Slurm."""

NON_PLACEHOLDER_READ_INTERVAL_S = 5.0
"""Seconds at least between two reads of jobs that are no placeholder jobs, of each kind."""

SOON_S = 3.0
"""Seconds within which a job that may be preempted is read again, if no signal to a script reports it sooner."""


@dataclass(frozen=True, slots=True)
class RefreshOptions:
    """Reads per second, and seconds."""

    per_second: float = 10.0
    warned_per_second: float = 40.0
    """The most for jobs that may be warned of their preemption, beside the others."""

    apart: float = 1.0
    """No job is read in turn more often than this."""

    @property
    def non_placeholder_read_interval_s(self) -> float:
        """Return the seconds between two reads of jobs of each other kind: at most a quarter of the rate."""
        return max(NON_PLACEHOLDER_READ_INTERVAL_S, 4 / self.per_second)


@dataclass(frozen=True, slots=True)
class PreemptionWarnings:
    """Jobs of which Slurm announces a preemption, and the time within which each is to be read again, in seconds."""

    jobs: tuple[int, ...] = ()
    within: float = 0.0


def warned(placeholders: Iterable[Placeholder], slurm: SlurmSnapshot) -> PreemptionWarnings:
    """Return the running jobs in partitions with GraceTime that may be preempted."""
    graces: dict[str, int] = {}
    for name, partition in slurm.partitions.items():
        if partition.grace_time_s > 0 and may_be_preempted(slurm, name):
            graces[name] = partition.grace_time_s
    if not graces:
        return PreemptionWarnings()
    jobs, within = [], max(graces.values()) * QUARTER
    for p in placeholders:
        if p.state not in {State.GRANTED, State.BOUND} or p.job_id is None:
            continue
        requested = p.submitted_request.partition if p.submitted_request is not None else ""
        found = [graces[name] for name in slurm.partition_names(requested) if name in graces]
        if found:
            jobs.append(p.job_id)
            signalled = p.mode is Mode.BATCH and slurm.features.send_user_signal
            within = min(within, *(grace_s * QUARTER for grace_s in found), *(() if signalled else (SOON_S,)))
    return PreemptionWarnings(tuple(sorted(jobs)), within)


class Refresh:
    """`live` gives all own jobs, `warned` those that may be warned; `read` asks for one read, `answers` is set while
    Slurm does, `room` while few reads in turn are under way: where Slurm is slow, others need its connections more; and
    while `busy`, what has changed goes before what may have.
    """

    def __init__(
        self,
        live: Callable[[], Collection[int]],
        warned: Callable[[], PreemptionWarnings],
        read: Callable[[int], None],
        answers: asyncio.Event,
        options: RefreshOptions,
        *,
        room: asyncio.Event,
        busy: Callable[[], bool] = lambda: False,
    ) -> None:
        self._live = live
        self._warned = warned
        self._read = read
        self._answers = answers
        self._options = options
        self._room = room
        self._busy = busy
        self._others = 0
        """Other jobs that were read since the last placeholder job."""

        self._turn: deque[int] = deque()
        """What is left of this round."""

        self._warned_turn: deque[int] = deque()
        self._warned_pause = 0.0
        self._rounds = Controller("refresh of all", self._read_next, resync=Resync(lambda: (_ALL,)))
        self._warned_rounds = Controller("refresh of those warned", self._read_warned, resync=Resync(lambda: (_ALL,)))

    def give_way(self) -> None:
        """Delay the next read of a placeholder job by one pause: another job is read in turn now.

        While no placeholder jobs are read at all, other jobs take nothing from them.
        """
        if self._answers.is_set() and self._room.is_set():
            self._others += 1

    async def run(self) -> None:
        """Read in turn until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._rounds.run(), name="refresh of all")
            group.create_task(self._warned_rounds.run(), name="refresh of those warned")

    async def _read_next(self, _all: str) -> Requeue:
        options = self._options
        if not self._turn:
            self._turn.extend(sorted(self._live()))
            if not self._turn:
                self._others = 0
            return Requeue(max(options.apart - len(self._turn) / options.per_second, 0.0))
        await self._answers.wait()
        await self._room.wait()
        self._read(self._turn.popleft())
        pauses, self._others = (BUSY if self._busy() else 1) + self._others, 0
        return Requeue(pauses / options.per_second)

    async def _read_warned(self, _all: str) -> Requeue:
        options = self._options
        await self._answers.wait()
        if not self._warned_turn:
            turn = self._warned()
            round_of_all = max(options.apart, len(self._live()) / options.per_second)
            if not turn.jobs or round_of_all <= turn.within:
                return Requeue(options.apart)
            self._warned_pause = max(turn.within / len(turn.jobs), 1 / options.warned_per_second)
            self._warned_turn.extend(turn.jobs)
        self._read(self._warned_turn.popleft())
        return Requeue(self._warned_pause)
