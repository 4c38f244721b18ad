"""The owner of every placeholder. `handle` is the only way to change one; it is synchronous, so each has one writer."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Mapping, Sequence

import structlog

from extender.domain import commands as c
from extender.domain import events as e
from extender.domain.jobs.cancelled import Cancelled
from extender.domain.lifecycle.start import adopted
from extender.domain.lifecycle.step import step
from extender.domain.placeholder import Member, Placeholder, State, validate
from extender.domain.policy.named import guarded_partitions
from extender.engine.allocation_checker import AllocationChecker
from extender.engine.cluster_snapshot import ClusterSnapshot
from extender.engine.command_dispatcher import CommandDispatcher
from extender.engine.command_executor import CommandExecutor
from extender.engine.drain_waiters import PodDrainWaiters
from extender.engine.engine_ports import EnginePorts
from extender.engine.filter_candidates import FilterCandidates
from extender.engine.job_identity import JobIdentity
from extender.engine.job_read_versions import JobReadVersions
from extender.engine.job_states import JobStates
from extender.engine.journal import note, told_of
from extender.engine.manual_changes import ManualChangeNotifier
from extender.engine.missing_jobs import MissingJobTracker
from extender.engine.node_changes import NodeChangeNotifier
from extender.engine.options import EngineOptions
from extender.engine.partition_backpressure import PartitionBackpressure
from extender.engine.queue import Queue
from extender.engine.story import Chapter, Story
from extender.engine.units import Units
from extender.engine.wait_reasons import WaitReasons
from extender.runtime.timers import Timers
from extender.runtime.topics import PlaceholderChanged, PlaceholderForgotten, PolicyChanged, SnapshotChanged

_log = structlog.get_logger(__name__)
_told = logging.getLogger(__name__)
"""Asked before a line of each step is put together, which nobody reads as a rule."""


class Engine:
    """What is known of units stands in its parts; what happens is told to `handle`; what follows goes to `outbox`."""

    def __init__(self, options: EngineOptions, units: Units, outside: EnginePorts) -> None:
        self.options = options
        self.world = ClusterSnapshot()
        self.guarded: Mapping[str, str] | None = None
        """Partitions that not everybody may use, with the reasons; `None`: Slurm was not read yet."""

        self.elsewhere = outside.on_no_node
        """Resources that no node has to have: licences, and devices that a DeviceClass stands for."""

        clock, announcer = outside.clock, outside.announcer
        self._events = outside.events
        self.units = units
        self.identity = JobIdentity(options.cluster, options.scheduler, options.epoch, options.caller)
        self.missing_jobs = MissingJobTracker(
            clock, announcer, outside.guard, outside.events, lambda: len(self.units.jobs)
        )
        self.manual_changes = ManualChangeNotifier(announcer)
        self.job_reads = JobReadVersions(clock, lambda: self.units.jobs)
        self.queue = Queue()
        self.partitions = PartitionBackpressure(clock, self.units, lambda: self.world.picture)
        self.job_states = JobStates(self.units, self.missing_jobs, self.handle)
        self.drain_waiters = PodDrainWaiters(self.units)
        self.filter_candidates = FilterCandidates(self.units, self.meet, self.handle, self._forget)
        self.allocation_checker = AllocationChecker(
            clock,
            outside.cache,
            self.units,
            self.job_reads,
            self.handle,
            world=lambda: self.world,
            elsewhere=outside.on_no_node,
            kept_from=outside.kept_from,
            events=outside.events,
        )
        self.wait_reasons = WaitReasons(
            clock,
            outside.cache,
            outside.slurm_health,
            slurm_read=lambda: self.world.picture.known,
            place_of=self.queue.place,
            policy_trouble=outside.policy_trouble,
        )
        self._executor = CommandExecutor(self, outside, options.claims)
        self.command_dispatcher = CommandDispatcher(
            told_of(self.units.get, self._executor.to_slurm),
            told_of(self.units.get, self._executor.to_kubernetes),
            self.job_reads,
            announcer,
            nodes_known=lambda: self.world.picture.known,
            namespace_of=self.units.namespace_of,
            explain=lambda p: self.wait_reasons.of(p).text,
            workers=options.lane_workers,
        )
        self._node_changes = NodeChangeNotifier(self.units, self.handle, self.command_dispatcher.ask_slurm)
        self._clock = clock
        self._timers = Timers(clock)
        self._stories: dict[str, Story] = {}
        self._inbox: deque[tuple[str, e.Event, str]] = deque()
        self._busy = False
        self._failure: asyncio.Future[None] | None = None

    def story(self, key: str) -> Story:
        """What happened to a unit."""
        return self._stories.get(key, Story())

    async def run(self) -> None:
        """Carry commands out and wake placeholders until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.command_dispatcher.run(), name="commands")
            group.create_task(self._timers.run(self._wake), name="timers")
            group.create_task(self._node_changes.run(), name="news of nodes")
            group.create_task(self._until_broken(), name="faults")

    def handle(self, key: str, event: e.Event, cause: str) -> None:
        """Tell a unit what happened. Events that follow from it are handled before this returns."""
        self._inbox.append((key, event, cause))
        if self._busy:
            return
        self._busy = True
        try:
            while self._inbox:
                self._step(*self._inbox.popleft())
        except Exception as error:
            self._fail(error)
            raise
        finally:
            self._busy = False

    def meet(self, key: str, members: Sequence[e.MemberRef]) -> None:
        """Open the record of a unit that was just created, so that nothing said of its members is lost."""
        if self.units.get(key) is None:
            self._put(Placeholder(key, members=tuple(Member(ref) for ref in members)))

    def adopt(
        self,
        key: str,
        members: Sequence[Member],
        title: str,
        job_id: int | None,
        cancelled: Cancelled | None = None,
    ) -> None:
        """Take up a unit that was there before this process: whether it has a job is asked of Slurm first.

        So is one that was over and is there again.
        """
        known = self.units.get(key)
        if known is not None:
            if known.state is not State.GONE:
                return
            self._forget(known)
        now, timing = self._clock.now(), self.options.timing
        p = adopted(key, members, title=title, job_id=job_id, now=now, timing=timing, cancelled=cancelled)
        self._put(p)

    async def read_job(self, job_id: int, cause: str) -> bool:
        """Read a job of ours now and act on what it says. False: Slurm did not answer.

        Whoever takes it for theirs is told: where its id was given out again, the former unit's job is missing.
        """
        return all([await self._executor.inquiries.read(key, job_id, cause) for key in self.units.claimants(job_id)])

    def picture_changed(self, world: ClusterSnapshot) -> None:
        """Nodes of either side, or their mapping, have been looked at again."""
        old, self.world = self.world, world
        before, self.guarded = self.guarded, guarded_partitions(world.picture)
        if before != self.guarded:
            self._events.publish(PolicyChanged())
        if world.picture.known:
            self.command_dispatcher.send_held_back()
        self._node_changes.changed(old, world)
        self._events.publish(SnapshotChanged())

    def slurm_is_back(self) -> None:
        """Slurm answers again: whoever is unsure of its job need not wait for its next turn."""
        for p in self.units.in_state(State.UNSURE):
            self.handle(p.key, e.TimerFired(), "Slurm answers again")

    def _wake(self, key: str) -> None:
        p = self.units.get(key)
        if p is None:
            return
        if p.state is State.GONE and not p.surplus and p.reprobe_at is None:
            self._forget(p)
            return
        self.handle(key, e.TimerFired(), "timer")

    def _step(self, key: str, event: e.Event, cause: str) -> None:
        before = self.units.get(key) or Placeholder(key)
        after, commands = step(before, event, self._clock.now(), self.options.timing)
        if self.options.validate:
            validate(after)
        chapter = Chapter(self._clock.wall(), cause, event, before.state, after.state, tuple(commands))
        self._stories.setdefault(key, Story()).add(chapter)
        if _told.isEnabledFor(logging.DEBUG) and (after.state is not before.state or commands):
            _log.debug("step", uid=key, line=chapter)
        note(before, after, event, cause)
        self.allocation_checker.stepped(before, after)
        self.queue.stepped(before, after)
        self._put(after)
        for command in commands:
            if isinstance(command, c.CheckAllocation):
                self.allocation_checker.look(after)
            else:
                self.command_dispatcher.put(after, command)
        if after != before:
            self._events.publish(PlaceholderChanged(before, after))
            self.drain_waiters.stepped(before, after)

    def _fail(self, error: Exception) -> None:
        """A step is a fault of the program: say what led to it, and end the process, whoever called."""
        key = getattr(getattr(error, "placeholder", None), "key", "")
        _log.critical("step_failed", uid=key, error=str(error), story=self.story(key).lines())
        if self._failure is not None and not self._failure.done():
            self._failure.set_exception(error)

    async def _until_broken(self) -> None:
        """Wait for a step that fails, and raise what it raised."""
        self._failure = asyncio.get_running_loop().create_future()
        await self._failure

    def _put(self, p: Placeholder) -> None:
        self.units.put(p)
        self._timers.set(p.key, p.wake_at)

    def _forget(self, p: Placeholder) -> None:
        self.units.forget(p)
        self._timers.set(p.key, None)
        self._stories.pop(p.key, None)
        self.filter_candidates.full.discard(p.key)
        self.missing_jobs.seen(p.key)
        self.manual_changes.forget(p.key)
        self._events.publish(PlaceholderForgotten(p.key))
