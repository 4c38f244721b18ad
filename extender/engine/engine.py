"""The owner of every placeholder. `handle` is the only way to change one; it is synchronous, so each has one writer."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

import structlog

from extender.domain import commands as c
from extender.domain import events as e
from extender.domain.cancelled import Cancelled
from extender.domain.job import JobView, Mark
from extender.domain.lifecycle.start import adopted
from extender.domain.lifecycle.step import step
from extender.domain.ownership import caller_shown_by
from extender.domain.placeholder import Member, Placeholder, State, Timing, validate
from extender.domain.rules import REFUSED_FOR, Brake, Waiting
from extender.domain.verdict import FilterVerdict, filter_verdict
from extender.domain.views import PodView
from extender.domain.wellknown import Reason
from extender.domain.whereabouts import renamed
from extender.engine.candidate_lists import CandidateLists
from extender.engine.carry import Carrier, Outside
from extender.engine.journal import note, told_of
from extender.engine.lanes import Lane
from extender.engine.neighbours import Neighbours
from extender.engine.queue import Queue
from extender.engine.readings import Readings
from extender.engine.registry import Registry
from extender.engine.remarks import Remarks
from extender.engine.story import Chapter, Story
from extender.engine.timers import Timers
from extender.engine.turns import Turns
from extender.engine.underway import Underway
from extender.engine.vanishing import Vanishing
from extender.engine.world import World, check_allocation, same_reach, same_sizes
from extender.ports import Announcement

_log = structlog.get_logger(__name__)

Listener = Callable[[Placeholder, Placeholder], None]
"""Told of every placeholder before and after a step that changed it."""

_FOLLOWS = (State.WAITING, State.SUBMITTING, State.UNSURE, State.GRANTED)
"""Whose job may have to be told other exclusions: now, once it is known, or once it is queued again."""

MANY_AT_ONCE = 16
"""Units: more than are being placed when Pods come one by one, fewer than in any burst."""

SLURM_UNREAD = "Slurm's nodes and partitions have not been read yet; the job is submitted as soon as they are."


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """How the engine runs. `lane_workers` bounds the requests under way to Slurm and, separately, to Kubernetes."""

    cluster: str
    """Tells this Kubernetes cluster's jobs from another's: the UID of its `kube-system` namespace by default."""

    scheduler: str
    epoch: int = 0
    """How often the right to write has changed hands before this process got it."""

    timing: Timing = field(default_factory=Timing)
    lane_workers: int = 8
    validate: bool = False
    """Hold the invariants after every step; for tests."""

    dry_run: bool = False
    """End no Pod because its job is missing."""

    caller: int | None = None
    """The user of Slurm in whose name we ask; `None`: the site did not say who that is, and no job has told it yet."""


class Engine:
    """Records, and what is done about them."""

    def __init__(self, options: EngineOptions, outside: Outside, brake: Brake | None = None) -> None:
        self.options = options
        self.world = World()
        self.listeners: list[Listener] = []
        self._outside = outside
        self._clock = outside.clock
        self._registry = Registry()
        self._stories: dict[str, Story] = {}
        self._inbox: deque[tuple[str, e.Event, str]] = deque()
        self._busy = False
        self._failure: asyncio.Future[None] | None = None
        self._timers = Timers(outside.clock)
        self.vanishing = Vanishing(
            outside.clock, outside.announcer, brake or Brake(), lambda: len(self.live_jobs), dry_run=options.dry_run
        )
        self.remarks = Remarks(outside.announcer)
        self.readings = Readings(outside.clock, lambda: self.live_jobs)
        self.queue = Queue()
        self.sentence: Callable[[Placeholder], str] = lambda _p: ""
        """Why a unit waits, in one sentence, for its Events."""

        self._carrier = Carrier(self, outside)
        self._slurm_lane = Lane("slurm", options.lane_workers, told_of(self.record, self._carrier.to_slurm))
        self._kube_lane = Lane("kubernetes", options.lane_workers, told_of(self.record, self._carrier.to_kubernetes))
        self._lists = CandidateLists()
        self._unsent: list[tuple[str, c.SubmitJob]] = []
        self._untold: dict[str, None] = {}
        """Units that are to be told of other nodes, in their order."""

        self._some_untold = asyncio.Event()
        self._unseen: set[str] = set()
        self.offered: set[str] = set()
        """Units for which kube-scheduler has shown a full list of nodes."""

        self.elsewhere: Callable[[str], bool] = lambda _resource: False
        """Resources that no node has to have: licences, and devices that a DeviceClass stands for."""

        self.kept: Callable[[str, str], str] = lambda _slurm_node, _unit: ""
        """Why nothing of this unit may start on that node; "": nobody who ended may be there."""

        self.neighbours = Neighbours(outside.clock, self.readings, outside.cache.on_node, self.by_pod)
        self._underway = Underway(outside.cache)
        self._left: dict[str, asyncio.Event] = {}
        self._refused_at_once: dict[str, float] = {}
        """When each partition refused an immediate allocation last."""

    def lead(self, epoch: int) -> None:
        """From now on this process makes the jobs, and marks them so."""
        self.options = replace(self.options, epoch=epoch)

    # What is known.

    @property
    def placeholders(self) -> Mapping[str, Placeholder]:
        """Every placeholder by its unit's key."""
        return self._registry.all

    @property
    def brake(self) -> Brake:
        """The brake on mass endings."""
        return self.vanishing.brake

    def record(self, key: str) -> Placeholder | None:
        """A unit's placeholder."""
        return self._registry.get(key)

    def in_state(self, *states: State) -> list[Placeholder]:
        """The placeholders in these states."""
        return self._registry.in_state(*states)

    def many_being_placed(self) -> bool:
        """Whether so many units ask for a job, or have a node and are not bound, that news of them had better wait."""
        return self._registry.count(State.SUBMITTING, State.GRANTED) > MANY_AT_ONCE

    def mark(self, key: str, attempt: int) -> Mark:
        """The mark of one attempt of a unit."""
        return Mark(self.options.cluster, self.options.scheduler, key, attempt, self.options.epoch)

    def owner_of_jobs(self, p: Placeholder) -> int | None:
        """The user for whom this unit's jobs are made; `None`: not known."""
        asked = p.asked or p.request
        if asked is None:
            return None
        return asked.run_as.uid if asked.run_as is not None else self.options.caller

    def learn_caller(self, p: Placeholder, job: JobView) -> None:
        """Where the site names the token's owner and Slurm's API takes numbers: any job made in that name has it."""
        if self.options.caller is None and (uid := caller_shown_by(job, p.asked or p.request)) is not None:
            self.options = replace(self.options, caller=uid)
            _log.info("caller_known", user_id=uid, job_id=job.job_id)

    def by_pod(self, uid: str) -> Placeholder | None:
        """The placeholder of which this Pod is a member."""
        key = self._registry.unit_of_pod(uid)
        return self._registry.get(key) if key is not None else None

    def by_job(self, job_id: int) -> Placeholder | None:
        """The placeholder whose job this is."""
        key = self._registry.unit_of_job(job_id)
        return self._registry.get(key) if key is not None else None

    @property
    def live_jobs(self) -> Set[int]:
        """Jobs whose state matters to some placeholder."""
        return self._registry.jobs

    def commands_waiting(self) -> Mapping[str, int]:
        """How many commands wait for their turn, by whom they are for."""
        return {lane.name: len(lane) for lane in (self._slurm_lane, self._kube_lane)}

    def story(self, key: str) -> Story:
        """What happened to a unit."""
        return self._stories.get(key, Story())

    def waiting(self) -> Waiting:
        """Our own placeholders that queue in Slurm, and where an immediate allocation was refused just now."""
        counts: Counter[str] = Counter()
        for asked, count in self._registry.queued.items():
            for name in self.world.picture.partition_names(asked):
                counts[name] += count
        since = self._clock.now() - REFUSED_FOR
        return Waiting(counts, {name for name, at in self._refused_at_once.items() if at > since})

    def refused_at_once(self, partition: str) -> None:
        """Slurm had no room there for an immediate allocation; "" is the default partition."""
        for name in self.world.picture.partition_names(partition):
            self._refused_at_once[name] = self._clock.now()

    # What happens.

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
        if self._registry.get(key) is None:
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
        known = self._registry.get(key)
        if known is not None:
            if known.state is not State.GONE:
                return
            self._forget(known)
        now, timing = self._clock.now(), self.options.timing
        p = adopted(key, members, title=title, job_id=job_id, now=now, timing=timing, cancelled=cancelled)
        self._put(p)

    def offer(self, pod: PodView, nodes: Collection[str], full: bool) -> FilterVerdict:
        """kube-scheduler asks for a node of these. `full`: all that passed its other filters, not a single try-out."""
        key = self._registry.unit_of_pod(pod.uid) or pod.uid
        if full and nodes:
            self.meet(key, [e.MemberRef(pod.uid, pod.namespace, pod.name)])
            self.offered.add(key)
            candidates, p = self._lists.one(nodes), self.placeholders[key]
            # Each list counts for a granted node: it may be missing again and again, or is offered at last.
            if candidates != p.candidates or p.state is State.GRANTED:
                self.handle(key, e.CandidatesChanged(candidates), "filter")
        return filter_verdict(self._registry.get(key), pod.uid, nodes)

    async def read_job(self, job_id: int, cause: str) -> bool:
        """Read a job of ours now and act on what it says. False: Slurm did not answer.

        Whoever takes it for theirs is told: where its id was given out again, the former unit's job is missing.
        """
        return all([await self._carrier.read(key, job_id, cause) for key in self._registry.claimants(job_id)])

    def end_known(self, job_id: int) -> bool:
        """Every unit whose job this is knows that it is over, and ends its Pods for it."""
        units = [p for key in self._registry.claimants(job_id) if (p := self._registry.get(key)) is not None]
        return all(_has_lost(p, job_id) for p in units)

    def needs_no_reading(self, job_id: int) -> bool:
        """The states of all jobs say all of this one that a unit has yet to know: whether it has ended at last."""
        units = [p for key in self._registry.claimants(job_id) if (p := self._registry.get(key)) is not None]
        return all(_has_lost(p, job_id) or (p.state is State.RELEASING and p.job_id == job_id) for p in units)

    def busy(self) -> bool:
        """More commands wait for Slurm than can be under way."""
        return len(self._slurm_lane) > self.options.lane_workers

    def over_by_states(self, job_id: int) -> bool:
        """The states of all jobs say that this one is over. False: some unit needs to know more; the job is to be read.

        Who is ending its job needs no more: it was read as the unit's own before it was ended, and while it is known
        its id is not given out again. Why it ended, and how, matters to everybody else; who has read that already, and
        ends its Pods for it, needs nothing.
        """
        units = [p for key in self._registry.claimants(job_id) if (p := self._registry.get(key)) is not None]
        ending = [p.key for p in units if p.state is State.RELEASING and p.job_id == job_id]
        if not units or any(not (p.key in ending or _has_lost(p, job_id)) for p in units):
            return False
        for key in ending:
            self.handle(key, e.JobEnded(job_id, e.EndKind.CANCELLED), "states of jobs")
        return True

    def doubt_job(self, job_id: int) -> None:
        """A job of ours is not among the states any more; it is to be read."""
        for key in self._registry.claimants(job_id):
            p = self._registry.get(key)
            if p is not None and p.charged and p.job_id == job_id and p.state is not State.LOST:
                self.vanishing.doubt(key)

    def picture_changed(self, world: World) -> None:
        """Nodes of either side, or their mapping, have been looked at again."""
        old, self.world = self.world, world
        if world.picture.known:
            unsent, self._unsent = self._unsent, []
            for key, command in unsent:
                self._ask_slurm(key, command)
        if world.node_map.known and not old.node_map.known:
            for p in self._registry.in_state(State.WAITING):
                if p.job_id is not None:
                    self._ask_slurm(p.key, c.ReadJob(p.job_id))
        if world.node_map.kubernetes != old.node_map.kubernetes:
            for p in self._registry.in_state(State.GRANTED):
                if p.job_id is not None:  # its node may be another Node now
                    self._ask_slurm(p.key, c.ReadJob(p.job_id))
        self._tell_of_nodes(old, world)

    def _tell_of_nodes(self, old: World, new: World) -> None:
        """Tell whoever waits, and those that fitted nowhere, where something has changed for them."""
        reach = same_reach(old, new)
        told = [] if reach else self._registry.in_state(*_FOLLOWS)
        nowhere = [p for p in self._registry.in_state(State.ABSENT, State.REFUSED) if p.fits_nowhere]
        if nowhere and not (reach and same_sizes(old, new)):
            told += nowhere
        self._untold.update(dict.fromkeys(p.key for p in told))
        self._tell_some()

    def _tell_some(self) -> None:
        """For one slice; the others have their turn before the rest."""
        turns = Turns(self._clock.now)
        while self._untold:
            key = next(iter(self._untold))
            del self._untold[key]
            if self._registry.get(key) is not None:
                self.handle(key, e.PictureChanged(), "nodes")
            if turns.over:
                break
        if self._untold:
            self._some_untold.set()

    async def _tell_for_ever(self) -> None:
        while True:
            await self._some_untold.wait()
            self._some_untold.clear()
            await asyncio.sleep(0)
            self._tell_some()

    def states_told(self, asked_at: float, living: Set[int], *, every: bool) -> None:
        """The states of jobs were asked for then, of `every` one of ours or of some; these live."""
        self.neighbours.told(asked_at, living, every)
        for p in self.neighbours.known_now(self._registry.get):
            if p.state is State.GRANTED and not p.cleared:
                self.handle(p.key, e.TimerFired(), "states of jobs")

    def slurm_is_back(self) -> None:
        """Slurm answers again: whoever is unsure of its job need not wait for its next turn."""
        for p in self._registry.in_state(State.UNSURE):
            self.handle(p.key, e.TimerFired(), "Slurm answers again")

    def clear_now(self, p: Placeholder) -> str:
        """Look once more at a node that is about to be handed out; "" if a member may go there."""
        found = self._check(p)
        if isinstance(found, e.AllocationFits):
            return ""
        self.handle(p.key, found, "look before the binding")
        return found.text

    async def until_over(self, job_id: int, wait: float) -> bool:
        """Wait until no Pod of this job's unit is on a node any more. False: some still is after `wait` seconds."""
        p = self.by_job(job_id)
        if p is None or not p.placed:
            return True
        left = self._left.setdefault(p.key, asyncio.Event())
        try:
            async with asyncio.timeout(wait):
                await left.wait()
        except TimeoutError:
            return False
        return True

    async def run(self) -> None:
        """Carry commands out and wake placeholders until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._slurm_lane.run(), name="slurm lane")
            group.create_task(self._kube_lane.run(), name="kubernetes lane")
            group.create_task(self._timers.run(self._wake), name="timers")
            group.create_task(self._tell_for_ever(), name="news of nodes")
            group.create_task(self._until_broken(), name="faults")

    def drop_unseen(self, known: Callable[[str], bool]) -> None:
        """Drop records of Pods that only kube-scheduler has shown, its copy being older than their end.

        Only on the second call in a row that finds them unknown: the watch may be a moment behind kube-scheduler's.
        """
        unseen = {
            p.key
            for p in self._registry.in_state(State.ABSENT)
            if p.request is None and not p.faults and not p.surplus
            if not any(known(ref.uid) for ref in p.refs)
        }
        for key in unseen & self._unseen:
            self._forget(self.placeholders[key])
        self._unseen = unseen

    def _wake(self, key: str) -> None:
        p = self._registry.get(key)
        if p is None:
            return
        if p.state is State.GONE and not p.surplus and p.reprobe_at is None:
            self._forget(p)
            return
        self.handle(key, e.TimerFired(), "timer")

    def _step(self, key: str, event: e.Event, cause: str) -> None:
        before = self._registry.get(key) or Placeholder(key)
        after, commands = step(before, event, self._clock.now(), self.options.timing)
        if self.options.validate:
            validate(after)
        chapter = Chapter(self._clock.wall(), cause, event, before.state, after.state, tuple(commands))
        self._stories.setdefault(key, Story()).add(chapter)
        if after.state is not before.state or commands:
            _log.debug("step", uid=key, line=chapter)
        note(before, after, event, cause)
        self.neighbours.stepped(before, after)
        self.queue.stepped(before, after)
        self._underway.stepped(before, after)
        self._put(after)
        for command in commands:
            self._dispatch(after, command)
        if after != before:
            for listener in self.listeners:
                listener(before, after)
            if before.placed and not after.placed and (left := self._left.pop(key, None)) is not None:
                left.set()

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
        self._registry.put(p)
        self._timers.set(p.key, p.wake_at)

    def _forget(self, p: Placeholder) -> None:
        self._registry.forget(p)
        self._timers.set(p.key, None)
        self._stories.pop(p.key, None)
        self.offered.discard(p.key)
        self.vanishing.seen(p.key)
        self.remarks.forget(p.key)

    def _dispatch(self, p: Placeholder, command: c.Command) -> None:
        match command:
            case c.CheckAllocation() if self.neighbours.keep_waiting(p):
                pass
            case c.CheckAllocation():
                self._inbox.append((p.key, self._check(p), "look at the node"))
            case c.Announce():
                waits = command.reason is Reason.WAITING and p.state is State.WAITING
                self._announce(replace(command, text=self.sentence(p) or command.text) if waits else command)
            case c.WakePod() | c.NoteCancelled() | c.EndPod():
                self._kube_lane.put(p.key, command)
            case c.SubmitJob() if not self.world.picture.known:
                self._unsent.append((p.key, command))
                self._announce(c.Announce(p.refs, Reason.RETRYING, SLURM_UNREAD, True))
            case _:
                self._ask_slurm(p.key, command)

    def _ask_slurm(self, key: str, command: c.Command) -> None:
        if self._slurm_lane.put(key, command) and isinstance(command, c.ReadJob):
            self.readings.want(key, command.job_id)

    def _check(self, p: Placeholder) -> e.AllocationFits | e.AllocationBusy | e.AllocationMisfits:
        for node in p.slurm_nodes:
            if why := self.kept(node, p.key):
                return e.AllocationBusy(f"Slurm node {node} is kept: {why}.")
        if self.readings.doubted(p.job_id):
            return e.AllocationBusy(f"Slurm job {p.job_id} may be about to end: Slurm is asked how it is.")
        for member in p.members:
            if member.wanting and (why := renamed(p, p.node_of(member.ref.uid), self.world.node_map)):
                return e.AllocationBusy(why)
        pods = {m.ref.uid: pod for m in p.members if (pod := self._outside.cache.get(m.ref.uid)) is not None}
        others = self._registry.in_state(State.LOST, State.UNSURE)
        return check_allocation(p, pods, self.world, self._underway.there, others, elsewhere=self.elsewhere)

    def _announce(self, command: c.Announce) -> None:
        text = " ".join((command.text, *command.details))
        for ref in command.members:
            said = Announcement("Pod", ref.namespace, ref.name, ref.uid, command.reason, text, command.warning)
            self._outside.announcer.announce(said)


def _has_lost(p: Placeholder, job_id: int) -> bool:
    """Whether it is known to this unit that its job is over for good, and its Pods are being ended."""
    return p.state is State.LOST and p.job_id == job_id and not p.job_alive
