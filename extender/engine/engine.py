"""Own every placeholder. `meet` and `adopt` create one, `handle` changes it; all are synchronous: each has one writer.

Other packages send events to `Engine` and read `EngineState`; `pyproject.toml` lists the few other modules of this
package that they may import. What follows from a step is published on the event bus.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Mapping, Sequence

import structlog

from extender.domain import commands as c
from extender.domain import events as e
from extender.domain.gangs.unknown_members import unknown_members
from extender.domain.jobs.cancelled import Cancelled
from extender.domain.lifecycle.granted import needs_check
from extender.domain.lifecycle.machine import adopted, step
from extender.domain.placeholder import Member, Placeholder, State, validate
from extender.domain.placeholders import Placeholders
from extender.domain.pods.why import Why
from extender.domain.policy.named import restricted_partitions
from extender.domain.views import PodView
from extender.domain.wellknown import GATE
from extender.engine.allocation_checker import AllocationChecker
from extender.engine.cluster_snapshot import ClusterSnapshot, NodeChangeNotifier
from extender.engine.command_dispatcher import CommandDispatcher, PendingCommands
from extender.engine.command_executor import CommandExecutor
from extender.engine.engine_context import EngineOptions, EnginePorts, EngineState
from extender.engine.history import Histories, HistoryEntry, note, with_log_context
from extender.engine.job_reader import JobReader
from extender.engine.placeholder_index import PlaceholderIndex
from extender.engine.pod_coverage import PodCoverage
from extender.engine.wait_context import QueuePositions, WaitContextReader
from extender.runtime.timers import Timers
from extender.runtime.topics import (
    JobStatesAnswered,
    MembersCovered,
    MembersUnknown,
    PlaceholderChanged,
    PlaceholderForgotten,
    PodFiltered,
    PodRemoved,
    PolicyChanged,
    SlurmAnswersAgain,
    SnapshotChanged,
)

_log = structlog.get_logger(__name__)
_steps = logging.getLogger(__name__)
"""Logger of the steps: the line of a step is put together only if DEBUG is enabled."""


class Engine:
    """Take steps, execute the commands that follow, and publish each change.

    `index` keeps the placeholders that `state` shows to others.
    """

    def __init__(self, options: EngineOptions, state: EngineState, index: PlaceholderIndex, ports: EnginePorts) -> None:
        self._options = options
        self._state = state
        self._index = index
        self.placeholders: Placeholders = index
        """Every placeholder, to be read."""

        self.histories = Histories()
        """What happened to each workload, to be read."""

        self._clock = ports.clock
        self._cache = ports.cache
        self._events = ports.events
        self._queue = QueuePositions()
        self._coverage = PodCoverage(state, ports)
        self._allocations = AllocationChecker(state, ports, self._coverage)
        self._wait_context = WaitContextReader(
            ports.clock,
            ports.cache,
            ports.slurm_health,
            slurm_read=lambda: state.snapshot.slurm.known,
            place_of=self._queue.place,
            policy_trouble=ports.policy_trouble,
            gang_waits_for=ports.gang_waits_for,
            missing_resource_claim=ports.devices.missing_resource_claim,
        )
        self._reader = JobReader(state, ports, self._queue, self.handle)
        executor = CommandExecutor(
            state, ports, self._reader, options.allocation_records, coverage=self._coverage, notify=self.handle
        )
        self._dispatcher = CommandDispatcher(
            with_log_context(state.placeholders.get, executor.to_slurm),
            with_log_context(state.placeholders.get, executor.to_kubernetes),
            state.job_reads,
            ports.announcer,
            clock=ports.clock,
            may_wake=self._may_wake,
            is_gated=lambda uid: _is_gated(ports.cache.get(uid)),
            nodes_known=lambda: state.snapshot.slurm.known,
            namespace_of=state.placeholders.namespace_of,
            explain=lambda p: self.explain(p).text,
            workers=options.workers,
        )
        self.pending_commands: PendingCommands = self._dispatcher
        """The commands that wait for their turn, to be read."""

        self._node_changes = NodeChangeNotifier(
            ports.clock, state.placeholders, self.handle, self._dispatcher.put_for_slurm
        )
        self._timers = Timers(ports.clock)
        self._inbox: deque[tuple[str, e.Event, str]] = deque()
        self._busy = False
        self._failure: asyncio.Future[None] | None = None
        self.restricted: Mapping[str, str] | None = None
        """Partitions that are not open to all users, with the reasons; `None`: Slurm was not read yet."""

        ports.events.subscribe(JobStatesAnswered, self._job_states_answered)
        ports.events.subscribe(PodFiltered, self._dispatcher.tried)
        ports.events.subscribe(PodRemoved, self._dispatcher.removed)
        ports.events.subscribe(MembersCovered, self._members_covered)
        ports.events.subscribe(SlurmAnswersAgain, self._slurm_answers_again)

    @property
    def snapshot(self) -> ClusterSnapshot:
        """Return the nodes of both sides as they were last read."""
        return self._state.snapshot

    async def run(self) -> None:
        """Execute commands and wake placeholders until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._dispatcher.run(), name="commands")
            group.create_task(self._coverage.run(), name="checkpoints of members")
            group.create_task(self._timers.run(self._timer_fired), name="timers")
            group.create_task(self._node_changes.run(), name="news of nodes")
            group.create_task(self._until_broken(), name="faults")

    def handle(self, key: str, event: e.Event, source: str) -> None:
        """Send an event to a workload. Events that follow from it are handled before this returns."""
        self._inbox.append((key, event, source))
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
        """Create the placeholder of a new workload, so that no event of its members is lost."""
        if self.placeholders.get(key) is None:
            self._put(Placeholder(key, members=tuple(Member(ref) for ref in members)))

    def adopt(
        self, key: str, members: Sequence[Member], title: str, job_id: int | None, cancelled: Cancelled | None = None
    ) -> None:
        """Adopt a workload that existed before this process: Slurm is asked first whether it has a job.

        The same applies to a workload that had ended and exists again. A gang gets a member for each slot of its job
        whose Pod is not known.
        """
        known = self.placeholders.get(key)
        if known is not None:
            if known.state is not State.GONE:
                return
            self.forget(known)
        now, timing = self._clock.now(), self._options.timing
        unknown = unknown_members(key, members, job_id, self._cache, self._options.allocation_records)
        members = [*members, *unknown]
        self._put(adopted(key, members, title=title, job_id=job_id, now=now, timing=timing, cancelled=cancelled))
        if unknown:
            self._events.publish(MembersUnknown(key))

    def forget(self, p: Placeholder) -> None:
        """Drop everything about a workload that is over, or that never was."""
        self._index.forget(p)
        self._timers.set(p.key, None)
        self.histories.forget(p.key)
        self._state.missing_jobs.seen(p.key)
        self._reader.forget(p.key)
        self._events.publish(PlaceholderForgotten(p.key))

    async def read_job(self, job_id: int, source: str) -> bool:
        """Read a placeholder job now and act on the answer. False: Slurm did not answer.

        Every workload that names the job receives the answer: if its id was reused, the earlier workload's job is
        missing.
        """
        return all([await self._reader.read(key, job_id, source) for key in self.placeholders.workloads_of_job(job_id)])

    def update_snapshot(self, snapshot: ClusterSnapshot) -> None:
        """Take over the nodes of both sides, which have been read or mapped to each other again."""
        old, self._state.snapshot = self._state.snapshot, snapshot
        before, self.restricted = self.restricted, restricted_partitions(snapshot.slurm)
        if before != self.restricted:
            self._events.publish(PolicyChanged())
        if snapshot.slurm.known:
            self._dispatcher.send_held_back()
        self._node_changes.changed(old, snapshot)
        self._events.publish(SnapshotChanged())

    def recheck(self, p: Placeholder, member: str = "") -> str:
        """Check once more the allocation that a member is about to be bound to; "" if it may be.

        `member`: the UID of a member of a gang that votes; only its node is checked.
        """
        found = self._allocations.recheck(p, member)
        if isinstance(found, e.AllocationFits):
            return ""
        self.handle(p.key, found, "check before the binding")
        return found.text

    def _may_wake(self, key: str, command: c.WakePod) -> bool:
        """Return whether a Pod that was not woken at once may still have its node, and wants it.

        If not, a timer or a read of the job leads to another check, and that to another wake-up. Where the check leads
        to none, as for a member beside others that run, the Pod is woken: `/bind` checks its node again.
        """
        p, uid = self.placeholders.get(key), command.member.uid
        member = None if p is None else p.member(uid)
        if p is None or member is None or not self._is_granted(key, command):
            return False
        if not member.wanting or p.node_of(uid) != command.node:
            return False
        return not self.recheck(p, uid if p.is_gang else "") or self._is_granted(key, command)

    def _is_granted(self, key: str, command: c.WakePod) -> bool:
        p = self.placeholders.get(key)
        return p is not None and p.cleared and p.job_id == command.job_id

    def explain(self, p: Placeholder) -> Why:
        """Return why the Pods of a workload wait now."""
        return self._wait_context.of(p)

    def _job_states_answered(self, event: JobStatesAnswered) -> None:
        """Check the allocations that waited until it was known whether the jobs beside them live."""
        for p in self._allocations.states_answered(event):
            if (found := self._allocations.check(p)) is not None:
                self.handle(p.key, found, "states of jobs")

    def _members_covered(self, event: MembersCovered) -> None:
        """Check the allocation that waited until the mark of its job covers every member."""
        p = self.placeholders.get(event.key)
        waits = p is not None and p.state is State.GRANTED and not p.cleared
        if p is not None and waits and (found := self._allocations.check(p)) is not None:
            self.handle(p.key, found, "checkpoint of its members")

    def _slurm_answers_again(self, _event: SlurmAnswersAgain) -> None:
        """Search again at once for the jobs of workloads that are unsure of them."""
        for p in self.placeholders.in_state(State.UNSURE):
            self.handle(p.key, e.TimerFired(), "Slurm answers again")

    def _timer_fired(self, key: str) -> None:
        p = self.placeholders.get(key)
        if p is None:
            return
        if p.state is State.GONE and not p.duplicate_jobs and p.reprobe_at is None:
            self.forget(p)
            return
        self.handle(key, e.TimerFired(), "timer")

    def _step(self, key: str, event: e.Event, source: str) -> None:
        before = self.placeholders.get(key) or Placeholder(key)
        after, commands = step(before, event, self._clock.now(), self._options.timing)
        if self._options.validate:
            validate(after)
        entry = HistoryEntry.of(
            self._clock.wall(), source, event, before=before.state, after=after.state, commands=commands
        )
        self.histories.add(key, entry)
        if _steps.isEnabledFor(logging.DEBUG) and (after.state is not before.state or commands):
            _log.debug("step", workload=key, line=entry)
        note(before, after, event, source)
        self._allocations.stepped(before, after)
        self._queue.stepped(before, after)
        self._put(after)
        if needs_check(before, event, after) and (found := self._allocations.check(after)) is not None:
            self._inbox.append((key, found, "check of the allocation"))
        for command in commands:
            self._dispatcher.put(after, command)
        if after != before:
            self._events.publish(PlaceholderChanged(before, after))

    def _fail(self, error: Exception) -> None:
        """Log the steps that led to a fault of the program, and end the process."""
        key = getattr(getattr(error, "placeholder", None), "key", "")
        _log.critical("step_failed", workload=key, error=str(error), history=self.histories.of(key).lines())
        if self._failure is not None and not self._failure.done():
            self._failure.set_exception(error)

    async def _until_broken(self) -> None:
        """Wait for a step that fails, and raise what it raised."""
        self._failure = asyncio.get_running_loop().create_future()
        await self._failure

    def _put(self, p: Placeholder) -> None:
        self._index.put(p)
        self._timers.set(p.key, p.timer_at)


def _is_gated(pod: PodView | None) -> bool:
    return pod is not None and GATE in pod.gates
