"""Poll the states of all jobs, and read the placeholder jobs that changed.

States are small (about 80 bytes a job) and do not contain everything: a refresh reads the rest in turn. While no poll
is answered, one read at a time tests whether Slurm answers reads at least: otherwise every read would fail after its
repetitions, and would add load to a Slurm that recovers.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field

import structlog

from extender.controllers.refresh import Refresh, RefreshOptions, warned
from extender.domain.job_outcomes.slurm_states import PolledState, polled_state
from extender.domain.ports import Clock, PortError, SlurmJobs
from extender.engine.engine import Engine
from extender.engine.job_read_versions import JobReadVersions
from extender.engine.missing_jobs import PolledJobStates
from extender.engine.slurm_health import SlurmHealth
from extender.runtime.controller import Controller, Requeue, Resync
from extender.runtime.cooperative_yield import CooperativeYield
from extender.runtime.event_bus import EventBus
from extender.runtime.timers import TICK
from extender.runtime.topics import (
    JobEndSeen,
    JobStatesAnswered,
    JobStatesPolled,
    JobStatesWanted,
    PlaceholderChanged,
    SlurmAnswersAgain,
)

_log = structlog.get_logger(__name__)

TRY_APART = 10.0
"""Seconds between two tries to read a job while polls are not answered: all states may be too much for one answer."""

NEXT_TRY = 0.2
"""Seconds between two such reads while they are answered."""

MOST_IN_TURN = 2
"""So many reads in turn are under way before the next waits."""

_ALL = "all"
"""The one key of controllers that ask about all jobs at once."""

POLL = "poll"
"""Why a job is read whose states changed."""

AT_ONCE, IN_TURN = 0, 1
"""Ranks of reads."""

_ENDED, _ALIVE = {PolledState.ENDED, PolledState.TAKEN}, {PolledState.RUNNING, PolledState.STARTING}


@dataclass(frozen=True, slots=True)
class PollOptions:
    """The rates of requests to Slurm, in seconds and reads per second."""

    least: float = 0.2
    most: float = 1.0
    """The longest interval while a placeholder job lives."""

    idle: float = 5.0
    """The same while none does."""

    share: float = 10.0
    """An interval is at least this many times as long as the poll before took."""

    refresh: RefreshOptions = field(default_factory=RefreshOptions)
    concurrent_reads: int = 4


class JobController:
    """Poll, read what changed, and refresh what the polled states do not contain. Keys of reads are ids of jobs."""

    def __init__(
        self,
        engine: Engine,
        job_states: PolledJobStates,
        job_reads: JobReadVersions,
        jobs: SlurmJobs,
        *,
        clock: Clock,
        events: EventBus,
        health: SlurmHealth,
        options: PollOptions = PollOptions(),
        observe_poll: Callable[[float, bool], None] = lambda _duration, _ok: None,
    ) -> None:
        self._engine = engine
        self._job_states = job_states
        self._job_reads = job_reads
        self._jobs = jobs
        self._clock = clock
        self._options = options
        self._observe_poll = observe_poll
        self._events = events
        self._health = health
        self._seen: dict[int, frozenset[str] | None] = {}
        self._causes: dict[int, str] = {}
        """Why each job that waits to be read is read."""

        self._in_turn: set[int] = set()
        """Jobs whose turn it is, until they are read."""

        self._room = asyncio.Event()
        self._room.set()
        self._next_poll = 0.0
        """When the next poll is due if a placeholder job lives."""

        self._co_located_jobs: dict[int, float] = {}
        """Jobs of which it is to be known at once whether they live, and since when."""

        self._states_read_at = 0.0
        """When states were asked for last, of all jobs or of some."""

        self._polls = Controller("job poll", self._poll_once, resync=Resync(lambda: (_ALL,)))
        self._state_reads = Controller("co-located jobs", self._read_wanted_states)
        self._tries: deque[int] = deque()
        self._without_polls = Controller("job refresh without polls", self._try_to_read, resync=Resync(lambda: (_ALL,)))
        self._reads = Controller(
            "job reads",
            self._reconcile,
            workers=options.concurrent_reads,
            ranks=2,
            flow_of=self._namespace_of,
            keep_early=True,
        )
        self._refresh = Refresh(
            lambda: engine.placeholders.jobs,
            lambda: warned(engine.placeholders.all.values(), engine.snapshot.slurm),
            self._refresh_one,
            health.answers,
            self._options.refresh,
            room=self._room,
            busy=engine.pending_commands.busy,
        )

    @property
    def reads_waiting(self) -> int:
        """Return how many jobs wait to be read."""
        return len(self._reads)

    def request_read(self, job_id: int) -> None:
        """Read this job now: a script or user reported a change. Costs one read at most."""
        self._read_soon(job_id, "hint")

    async def run(self) -> None:
        """Poll, read and refresh until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._polls.run(), name="job poll")
            group.create_task(self._state_reads.run(), name="co-located jobs")
            group.create_task(self._refresh.run(), name="job refresh")
            group.create_task(self._without_polls.run(), name="job refresh without polls")
            group.create_task(self._reads.run(), name="job reads")

    async def poll(self) -> None:
        """Poll the states of all jobs once. Raises `PortError`."""
        requested_at, requested_jobs = self._clock.now(), set(self._engine.placeholders.jobs)
        self._states_read_at = requested_at
        states = await self._jobs.states()
        turns, jobs = CooperativeYield(), self._engine.placeholders.jobs
        for job_id in jobs & requested_jobs:  # of one that was made meanwhile the answer may be silent
            await turns.maybe_yield()
            if job_id not in jobs:
                continue
            states_of_job = states.get(job_id)
            if states_of_job is None and self._seen.get(job_id) is not None:
                self._job_states.doubt(job_id)
            if states_of_job is None or states_of_job != self._seen.get(job_id):
                seen = PolledState.UNKNOWN if states_of_job is None else polled_state(states_of_job)
                if seen in _ENDED:
                    self._events.publish(JobEndSeen(job_id))
                if seen is PolledState.WAITING and self._job_states.read_later(job_id):
                    continue
                self._seen[job_id] = states_of_job
                if seen is PolledState.ENDED and self._job_states.handle_end(job_id):
                    continue
                if states_of_job is None and self._job_states.end_known(job_id):
                    continue  # MinJobAge is over, and its Pods are still ending
                if not self._known(job_id):
                    self._read_soon(job_id, POLL)
        for job_id in self._seen.keys() - jobs:
            del self._seen[job_id]
        await turns.maybe_yield()
        living, wanted = _living(jobs, states), self._co_located_jobs
        self._co_located_jobs = {job: at for job, at in wanted.items() if at > requested_at or job not in living}
        self._events.publish(JobStatesAnswered(requested_at, living, every=True))
        await self._events.publish_in_turns(JobStatesPolled(states), turns.maybe_yield)

    async def _poll_once(self, _all: str) -> Requeue:
        """Poll, and say when the next poll is due: later where Slurm is slow, and where no placeholder job lives."""
        options, began, health = self._options, self._clock.now(), self._health
        try:
            await self.poll()
        except PortError as error:
            if health.failed(str(error)):
                _log.warning("slurm_unreachable", error=str(error))
            self._observe_poll(self._clock.now() - began, False)
            wait = options.most
        else:
            back = health.answered()
            self._observe_poll(self._clock.now() - began, True)
            if back:
                _log.warning("slurm_reachable")
                self._events.publish(SlurmAnswersAgain())
            wait = max(options.least, options.share * (self._clock.now() - began))
        self._next_poll = self._clock.now() + min(wait, options.most)
        return Requeue(min(wait, options.most if self._engine.placeholders.jobs else options.idle))

    def _known(self, job_id: int) -> bool:
        """Return whether the last read of this job said the same as the last poll."""
        states_of_job = self._seen.get(job_id)
        return states_of_job is not None and states_of_job == self._job_reads.states(job_id)

    def placeholder_changed(self, event: PlaceholderChanged) -> None:
        """End a pause between polls that would be too long for the first job."""
        appeared = event.after.job_id is not None and event.after.job_id != event.before.job_id
        if appeared and not self._polls.queue.works_on(_ALL):
            self._polls.add(_ALL, after=max(self._next_poll - self._clock.now(), TICK))

    async def _try_to_read(self, _all: str) -> Requeue:
        """Read placeholder jobs in turn while polls fail, for as long as those reads are answered."""
        if self._health.answers.is_set():
            self._tries.clear()
            return Requeue(TRY_APART)
        if not self._tries:
            self._tries.extend(sorted(self._engine.placeholders.jobs))
        if not self._tries:
            return Requeue(TRY_APART)
        if not await self._engine.read_job(self._tries.popleft(), "refresh without polls"):
            self._tries.clear()
        return Requeue(NEXT_TRY if self._tries else TRY_APART)

    def give_way(self) -> None:
        """Delay the next read of a placeholder job, since another job is read in its turn."""
        self._refresh.give_way()

    def states_wanted(self, event: JobStatesWanted) -> None:
        """Request the states of these jobs before the next poll.

        In a burst the grants of `polling.minInterval` share one request, or the next poll.
        """
        now = self._clock.now()
        self._co_located_jobs |= dict.fromkeys(event.jobs, now)
        due = self._states_read_at + self._options.least if self._engine.placeholders.many_being_placed() else now
        self._state_reads.add(_ALL, after=due - now)

    async def _read_wanted_states(self, _all: str) -> None:
        """Read the states of the wanted jobs before the next poll. While Slurm does not answer, wait."""
        await self._health.answers.wait()
        wanted, self._co_located_jobs = self._co_located_jobs.keys(), {}
        if not wanted:
            return
        requested_at = self._states_read_at = self._clock.now()
        try:
            states = await self._jobs.states(sorted(wanted))
        except PortError as error:
            _log.info("jobs_not_read", jobs=sorted(wanted), error=str(error))
            return  # the next poll has the answer
        living = _living(wanted, states)
        self._events.publish(JobStatesAnswered(requested_at, living, every=False))
        for job_id in wanted - living:
            self._read_soon(job_id, "allocation check")

    def _read_soon(self, job_id: int, cause: str, rank: int = AT_ONCE) -> None:
        if self._reads.add(job_id, rank) or job_id not in self._causes or self._causes[job_id] == POLL:
            self._causes[job_id] = cause

    def _refresh_one(self, job_id: int) -> None:
        if not self._job_states.needs_no_reading(job_id) and job_id not in self._reads.queue:
            self._in_turn.add(job_id)
            self._read_soon(job_id, "refresh", IN_TURN)
            self._make_room()

    def _make_room(self) -> None:
        if len(self._in_turn) < MOST_IN_TURN:
            self._room.set()
        else:
            self._room.clear()

    def _namespace_of(self, job_id: int) -> str:
        workload = self._engine.placeholders.workload_of_job(job_id)
        return "" if workload is None else self._engine.placeholders.namespace_of(workload)

    async def _reconcile(self, job_id: int) -> None:
        await self._health.answers.wait()
        cause = self._causes.pop(job_id, POLL)
        answered = cause == POLL and self._known(job_id)  # by a read that was under way
        if not answered and not await self._engine.read_job(job_id, cause):
            self._seen.pop(job_id, None)  # an unread change: the next poll finds it again
        self._in_turn.discard(job_id)
        self._make_room()


def _living(jobs: Set[int], states: Mapping[int, frozenset[str]]) -> set[int]:
    # Ten thousand jobs have a handful of sets of words among them.
    alive = {states_of_job: polled_state(states_of_job) in _ALIVE for states_of_job in set(states.values())}
    return {one for one in jobs if one in states and alive[states[one]]}
