"""Jobs of ours, from the polls to the engine: one shared poll of all states, and reads of own jobs that changed.

States are small (about 80 bytes a job) and cannot tell everything: what they cannot, a refresh reads in turn. While no
poll is answered, one read at a time tries whether Slurm answers those at least: every read would fail after its
repetitions, and a Slurm that comes back has better things to do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, field

import structlog

from extender.controllers.refresh import Refresh, RefreshOptions, warned
from extender.domain.fates.outcomes import Seen, seen_by_states
from extender.domain.placeholder import Placeholder
from extender.engine.cooperative_yield import CooperativeYield
from extender.engine.engine import Engine
from extender.engine.turn_queue import TurnQueue
from extender.ports import Clock, PortError, SlurmJobs

_log = structlog.get_logger(__name__)

TRY_APART = 10.0
"""Seconds between two tries to read a job while polls are not answered: all states may be too much for one answer."""

NEXT_TRY = 0.2
"""Seconds between two such reads while they are answered."""

TICK = 0.001
"""Seconds: less is no pause."""

MOST_IN_TURN = 2
"""So many reads in turn are under way before the next waits."""

POLL = "poll"
"""Why a job is read whose states changed."""

AT_ONCE, IN_TURN = 0, 1
"""Ranks of reads."""

_OVER, _ALIVE = {Seen.OVER, Seen.TAKEN}, {Seen.RUNNING, Seen.STARTING}


@dataclass(frozen=True, slots=True)
class PollOptions:
    """How often Slurm is asked, in seconds and reads per second."""

    least: float = 0.2
    most: float = 1.0
    """The longest interval while a job of ours lives."""

    idle: float = 5.0
    """The same while none does."""

    share: float = 10.0
    """An interval is at least this many times as long as the poll before took."""

    refresh: RefreshOptions = field(default_factory=RefreshOptions)
    concurrent_reads: int = 4


class JobController:
    """Polls and reads."""

    def __init__(
        self,
        engine: Engine,
        jobs: SlurmJobs,
        clock: Clock,
        options: PollOptions | None = None,
        *,
        observe_poll: Callable[[float, bool], None] = lambda _duration, _ok: None,
        observe_states: Iterable[Callable[[Mapping[int, frozenset[str]]], None]] = (),
        over: Callable[[int], None] = lambda _job_id: None,
    ) -> None:
        self._engine = engine
        self._jobs = jobs
        self._clock = clock
        self._options = options or PollOptions()
        self._observe_poll = observe_poll
        self._observe_states = tuple(observe_states)
        self._over = over
        self._seen: dict[int, frozenset[str] | None] = {}
        self._due: TurnQueue[tuple[int, int, str]] = TurnQueue(ranks=2)
        """Rank, job and cause: what is known to have changed is read before what is read in turn."""

        self._queued: dict[int, int] = {}
        """The best rank with which a job waits to be read."""

        self._in_turn = 0
        self._room = asyncio.Event()
        self._room.set()
        self._appeared = asyncio.Event()
        """Set when a unit has got a job."""

        self._co_located_jobs: set[int] = set()
        self._wanted = asyncio.Event()
        """Set when it is to be known at once how the jobs of `_neighbours` are."""

        engine.allocation_checker.co_located_jobs.ask = self._look_soon
        engine.listeners.append(self._stepped)
        self._answers = asyncio.Event()
        """Set while the last poll was answered."""

        self._refresh = Refresh(
            lambda: engine.units.jobs,
            lambda: warned(engine.units.all.values(), engine.world.picture),
            self._refresh_one,
            self._answers,
            self._options.refresh,
            room=self._room,
            busy=engine.command_dispatcher.busy,
        )
        self.polled_at: float | None = None
        """When Slurm last answered a poll, on the engine's clock."""

        self.poll_error = ""

    @property
    def reads_waiting(self) -> int:
        """How many jobs wait to be read."""
        return len(self._queued)

    def hint(self, job_id: int) -> None:
        """Somebody says that this job changed: read it now. Costs one read at most."""
        self._read_soon(job_id, "hint")

    def give_way(self) -> None:
        """A job of others is read in turn now: one read in turn of ours less."""
        self._refresh.give_way()

    async def run(self) -> None:
        """Poll, read and refresh until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._poll_for_ever(), name="job poll")
            group.create_task(self._look_for_ever(), name="looks at neighbours")
            group.create_task(self._refresh.run(), name="job refresh")
            group.create_task(self._refresh_without_polls(), name="job refresh without polls")
            for number in range(self._options.concurrent_reads):
                group.create_task(self._read_for_ever(), name=f"job reads {number}")

    async def poll(self) -> None:
        """One look at the states of all jobs. Raises `PortError`."""
        asked_at, asked_of = self._clock.now(), set(self._engine.units.jobs)
        states = await self._jobs.states()
        turns, jobs = CooperativeYield(), self._engine.units.jobs
        for job_id in jobs & asked_of:  # of one that was made meanwhile the answer may be silent
            await turns.maybe_yield()
            if job_id not in jobs:
                continue
            words = states.get(job_id)
            if words is None and self._seen.get(job_id) is not None:
                self._engine.job_states.doubt(job_id)
            if words is None or words != self._seen.get(job_id):
                seen = Seen.UNKNOWN if words is None else seen_by_states(words)
                if seen in _OVER:
                    self._over(job_id)
                if seen is Seen.WAITING and self._engine.job_states.read_later(job_id):
                    continue
                self._seen[job_id] = words
                if seen is Seen.OVER and self._engine.job_states.over(job_id):
                    continue
                if words is None and self._engine.job_states.end_known(job_id):
                    continue  # MinJobAge is over, and its Pods are still ending
                if not self._known(job_id):
                    self._read_soon(job_id, POLL)
        for job_id in self._seen.keys() - jobs:
            del self._seen[job_id]
        await turns.maybe_yield()
        self._engine.allocation_checker.states_told(asked_at, _living(jobs, states), every=True)
        for observe in self._observe_states:
            await turns.maybe_yield()
            observe(states)

    async def _poll_for_ever(self) -> None:
        options = self._options
        while True:
            began = self._clock.now()
            try:
                await self.poll()
            except PortError as error:
                self._answers.clear()
                if not self.poll_error:
                    _log.warning("slurm_unreachable", error=str(error))
                self.poll_error = str(error)
                self._observe_poll(self._clock.now() - began, False)
            else:
                self._answers.set()
                away, self.poll_error = self.poll_error, ""
                self.polled_at = self._clock.now()
                self._observe_poll(self.polled_at - began, True)
                if away:
                    _log.warning("slurm_reachable")
                    self._engine.slurm_is_back()
            wait = max(options.least, options.share * (self._clock.now() - began))
            await self._pause(options.most if self.poll_error else wait)

    async def _pause(self, wait: float) -> None:
        """Until the next poll. A first job of ours ends a pause that would be too long for it."""
        options, began = self._options, self._clock.now()
        while True:
            longest = options.most if self._engine.units.jobs else options.idle
            left = began + min(wait, longest) - self._clock.now()
            if left < TICK:
                return
            self._appeared.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._appeared.wait()

    def _known(self, job_id: int) -> bool:
        """The last reading of this job said what the last poll did."""
        words = self._seen.get(job_id)
        return words is not None and words == self._engine.job_reads.words(job_id)

    def _stepped(self, before: Placeholder, after: Placeholder) -> None:
        if after.job_id is not None and after.job_id != before.job_id:
            self._appeared.set()

    async def _refresh_without_polls(self) -> None:
        """While polls fail: read own jobs in turn, for as long as those are answered."""
        while True:
            await asyncio.sleep(TRY_APART)
            for job_id in sorted(self._engine.units.jobs):
                if self._answers.is_set() or not await self._engine.read_job(job_id, "refresh without polls"):
                    break
                await asyncio.sleep(NEXT_TRY)

    def _look_soon(self, jobs: Set[int]) -> None:
        self._co_located_jobs |= jobs
        self._wanted.set()

    async def _look_for_ever(self) -> None:
        """Grants need not wait for the next poll. While Slurm does not answer there is nothing to gain."""
        while True:
            await self._wanted.wait()
            await self._answers.wait()
            self._wanted.clear()
            wanted, self._co_located_jobs = self._co_located_jobs, set()
            asked_at = self._clock.now()
            try:
                states = await self._jobs.states(sorted(wanted))
            except PortError as error:
                _log.info("jobs_not_read", jobs=sorted(wanted), error=str(error))
                continue  # the next poll tells
            living = _living(wanted, states)
            self._engine.allocation_checker.states_told(asked_at, living, every=False)
            for job_id in wanted - living:
                self._read_soon(job_id, "look at neighbours")

    def _read_soon(self, job_id: int, cause: str, rank: int = AT_ONCE) -> None:
        if rank < self._queued.get(job_id, rank + 1):
            self._queued[job_id] = rank
            if rank == IN_TURN:
                self._count_in_turn(+1)
            unit = self._engine.units.unit_of_job(job_id)
            namespace = "" if unit is None else self._engine.units.namespace_of(unit)
            self._due.put(namespace, (rank, job_id, cause), rank)

    def _refresh_one(self, job_id: int) -> None:
        if not self._engine.job_states.needs_no_reading(job_id):
            self._read_soon(job_id, "refresh", IN_TURN)

    def _count_in_turn(self, by: int) -> None:
        self._in_turn += by
        if self._in_turn < MOST_IN_TURN:
            self._room.set()
        else:
            self._room.clear()

    async def _read_for_ever(self) -> None:
        while True:
            rank, job_id, cause = await self._due.get()
            await self._answers.wait()
            if self._queued.get(job_id) == rank:  # else it was read before its turn
                del self._queued[job_id]
                await self._read(job_id, cause)
            if rank == IN_TURN:
                self._count_in_turn(-1)

    async def _read(self, job_id: int, cause: str) -> None:
        if cause == POLL and self._known(job_id):
            return  # a read that was under way has told it meanwhile
        if not await self._engine.read_job(job_id, cause):
            self._seen.pop(job_id, None)  # a change that nobody could read: the next poll finds it again


def _living(jobs: Set[int], states: Mapping[int, frozenset[str]]) -> set[int]:
    # Ten thousand jobs have a handful of sets of words among them.
    alive = {words: seen_by_states(words) in _ALIVE for words in set(states.values())}
    return {one for one in jobs if one in states and alive[states[one]]}
