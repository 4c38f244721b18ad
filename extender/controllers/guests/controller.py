"""Pods that Slurm did not place, as jobs that hold their part of a node (`domain/guests/guest`).

One record for each Pod: what is to be held for it, and its live jobs. What is to be done follows from that alone, so a
start needs nothing but to look: each guest's jobs by name, and, in the polled states, those whose Pod is not there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import count

from extender.controllers.guests.record import OVER, GuestRecord, HeldJob, Need, due, guest_job
from extender.controllers.guests.requests import GuestRequests
from extender.controllers.guests.shortages import Shortages
from extender.controllers.nodes.controller import NodeController
from extender.controllers.refresh import OTHERS_EVERY
from extender.domain.cluster import SlurmSnapshot
from extender.domain.guests.guest import Guest, GuestOptions, GuestPolicy, guest_of, why_none
from extender.domain.guests.mark import guest_mark_of
from extender.domain.jobs.job import JobView
from extender.domain.ports import Clock, PodCache, PodReads, SlurmGuests
from extender.domain.rules import MassDeletionGuard
from extender.domain.views import PodView
from extender.engine.cluster_snapshot import ClusterSnapshot
from extender.engine.engine import Engine

SERVED_SPARE = 64
"""Namespaces whose turns are remembered at least; besides, two for each foreign Pod."""

LOOK_EVERY = 1.0
"""Seconds between two looks at what waits for time to pass."""


@dataclass(frozen=True, slots=True)
class GuestTiming:
    """Seconds for which a Pod must be missing before its job ends; `many`: where many are (`config/orphans`).

    `in_turn`: between two looks at jobs that nothing is known against: slurmctld gives ids out again after it lost its
    state.
    """

    grace: float = 5.0
    many: float = 600.0
    in_turn: float = OTHERS_EVERY


class GuestController:
    """Holds what they hold. `policy` `None`: nothing is to be held, and what is left of another time is ended.

    `workers` bounds the requests under way. `fresh` says whether the mirror of Pods is up to date; blind, nothing is
    ended.
    """

    def __init__(
        self,
        engine: Engine,
        slurm: SlurmGuests,
        nodes: NodeController,
        *,
        cache: PodCache,
        pods: PodReads,
        clock: Clock,
        policy: GuestPolicy | None,
        options: GuestOptions,
        workers: int,
        brake: MassDeletionGuard,
        all_pods: Callable[[], Iterable[PodView]],
        fresh: Callable[[], bool],
        timing: GuestTiming = GuestTiming(),
    ) -> None:
        self._engine = engine
        self._cache = cache
        self._clock = clock
        self._policy = policy
        self._options = options
        self._workers = workers
        self._brake = brake
        self._all_pods = all_pods
        self._fresh = fresh
        self._timing = timing
        self._records: dict[str, GuestRecord] = {}
        self._here: dict[str, dict[str, None]] = {}
        """UIDs of the guests on each Slurm node."""

        self._queues: dict[Need, dict[str, None]] = {need: {} for need in Need}
        self._served: dict[str, int] = {}
        """When each namespace had its last turn, as a number that grows; forgotten when nothing is queued."""

        self._serves = count(1)
        self._under_way: set[str] = set()
        self._news = asyncio.Event()
        self._works = False
        self._looked_at: ClusterSnapshot | None = None
        self._seen: Mapping[str, object] = {}
        """By Node: which node of Slurm it is or was, how large and of what kind."""

        self._turn_at = 0.0
        self.settled = policy is None
        """Every guest of the start was looked for and asked for once: its node is held where that is needed."""

        self.reads_in_turn: Callable[[], None] = lambda: None
        """Called before jobs are looked at again though nothing is known to have happened."""

        self.shortages = Shortages(engine, nodes, clock, self._short_of)
        self._missing: int | None = None
        """How many Pods were missing at the last look that counted them."""

        self._none_of: SlurmSnapshot | None = None
        self._why_none = ""

        self._requests = GuestRequests(
            engine, slurm, pods=pods, clock=clock, shortages=self.shortages, options=options, doubted=self._doubted
        )

    # What is known.

    @property
    def jobs(self) -> Set[int]:
        """The jobs of guests, as far as they are known."""
        return {job_id for record in self._records.values() for job_id in record.jobs}

    def nodes(self) -> Sequence[str]:
        """Slurm nodes with guests."""
        return sorted(self._here)

    def unheld(self, node: str) -> tuple[Guest, ...]:
        """The guests on a Slurm node that no running job holds anything for."""
        records = (self._records[uid] for uid in self._here.get(node, ()))
        return tuple(record.guest for record in records if record.guest is not None and not record.held)

    def _short_of(self, node: str) -> tuple[Guest, ...]:
        """Those of them that room would help. Slurm refuses the others as such, and no drain changes that."""
        return tuple(guest for guest in self.unheld(node) if not self._records[guest.uid].refused)

    def held(self, node: str) -> int:
        """For how many guests on a Slurm node a job runs."""
        return sum(self._records[uid].held for uid in self._here.get(node, ()))

    @property
    def why_none(self) -> str:
        """Why no job can be had for any guest; "": it can. By what Slurm's partitions are now."""
        picture = self._engine.world.picture
        if self._none_of is not picture:
            self._none_of, self._why_none = picture, why_none(picture, self._options.partition, self._options.qos)
        return self._why_none

    def why(self, node: str) -> str:
        """Why Slurm does not hold all guests there; "": it does, or is being asked."""
        if (shortage := self.shortages.get(node)) is not None:
            return shortage.why
        refused = (self._records[uid].refused for uid in self._here.get(node, ()))
        return self.why_none or next(filter(None, refused), "")

    # What happens.

    def pod_changed(self, old: PodView | None, new: PodView | None) -> None:
        """The watch brought a change of a Pod."""
        if self._works and (pod := new or old) is not None:
            self._take(pod, left=new is None or new.finished)

    def absent(self, pods: Sequence[PodView]) -> None:
        """These are gone only by not being in a list."""
        if self._works:
            for pod in pods:
                self._take(pod, left=False)

    def found(self, job: JobView) -> None:
        """A job that is nobody's: is it one of ours for a guest?"""
        mark = guest_mark_of(job)
        if not self._works or mark is None or not self._requests.is_ours(mark) or job.state in OVER:
            return
        record = self._records.setdefault(mark.uid, GuestRecord(gone_at=self._clock.now()))
        record.jobs.setdefault(job.job_id, HeldJob(guest_job(job, mark), self._clock.now()))
        if (pod := self._cache.get(mark.uid)) is not None:
            self._take(pod, left=pod.finished)
        self._queue(mark.uid)

    def polled(self, states: Mapping[int, frozenset[str]]) -> None:
        """The state words of every job, just now."""
        now = self._clock.now()
        for uid, record in list(self._records.items()):
            for job_id in list(record.jobs):
                if record.told(job_id, states.get(job_id, frozenset()), now):
                    self._queue(uid)

    def release(self) -> None:
        """A person has looked: the jobs of Pods that are missing may end now."""
        for record in self._records.values():
            if record.gone_at is not None:
                record.left = True

    async def run(self) -> None:
        """Ask, until cancelled."""
        self._works = True
        async with asyncio.TaskGroup() as group:
            for number in range(self._workers):
                group.create_task(self._carry(), name=f"guests {number}")
            while True:
                self.look()
                await asyncio.sleep(LOOK_EVERY)

    def look(self) -> None:
        """Compare everything, and go on with what waited for time to pass."""
        world, now = self._engine.world, self._clock.now()
        self._missing = None
        if not world.node_map.known or not world.picture.known:
            return
        self._compare()
        for node in self.shortages.nodes():
            if self.shortages.look(node, queued=all(self._records[one.uid].jobs for one in self._short_of(node))):
                for uid in list(self._here.get(node, ())):
                    self._queue(uid)
        if now - self._turn_at >= self._timing.in_turn:
            self._turn_at = now
            if uid := next((uid for uid, record in self._records.items() if record.jobs), ""):
                self.reads_in_turn()
                self._records[uid].looked = False
                self._records[uid] = self._records.pop(uid)  # behind the others
        for uid, record in list(self._records.items()):
            if not (record.looked and len(record.jobs) == 1 and record.held):
                self._queue(uid)
        if not self.settled and self._fresh():
            self.settled = not any(self._queues.values()) and not self._under_way

    def _compare(self) -> None:
        """Look at every Pod of whose Node it is not known any more which node it is, or how large."""
        world, before = self._engine.world, self._seen
        if self._policy is None or world is self._looked_at:
            return
        self._looked_at, nodes = world, world.picture.nodes
        now = {
            name: (its, (node.size, node.external) if (node := nodes.get(its)) is not None else None)
            for name, its in world.node_map.last.items()
        }
        self._seen = now
        if now != before:
            same = {name for name, its in now.items() if before.get(name) == its}
            for pod in self._all_pods():
                if pod.node_name and pod.node_name not in same:
                    self._take(pod, left=False)

    def _take(self, pod: PodView, *, left: bool) -> None:
        """Look at one Pod, as it is or was last."""
        world, record = self._engine.world, self._records.get(pod.uid)
        there = self._cache.get(pod.uid) is not None and not pod.finished
        node = world.node_map.last.get(pod.node_name, "")
        guest = None
        if self._policy is not None and there:
            if not node or not world.picture.known:  # where it is is not known just now: all stays as it is
                if record is not None:
                    record.gone_at, record.left = None, False
                return
            guest = guest_of(pod, node, world.picture.nodes.get(node), self._policy)
        if record is None:
            if guest is None:
                return
            record = self._records[pod.uid] = GuestRecord()
        if guest != record.guest:
            self._move(record.guest, guest)
            record.guest, record.refused, record.not_before = guest, "", 0.0
        record.left = guest is None and (left or there)
        self._missing = None
        record.gone_at = None if guest is not None else record.gone_at or self._clock.now()
        self._queue(pod.uid)

    def _move(self, before: Guest | None, after: Guest | None) -> None:
        if before is not None:
            there = self._here[before.node]
            del there[before.uid]
            if not there:
                del self._here[before.node]
        if after is not None:
            self._here.setdefault(after.node, {})[after.uid] = None

    # What is to be done.

    def _queue(self, uid: str) -> None:
        """Queue what is needed now about this guest, if anything."""
        for queue in self._queues.values():
            queue.pop(uid, None)
        need = self._need(uid)
        if need is not None:
            self._queues[need][uid] = None
            self._news.set()

    def _need(self, uid: str) -> Need | None:
        record, now = self._records.get(uid), self._clock.now()
        if record is None or uid in self._under_way:
            return None
        if record.guest is None and not record.jobs:  # what may have been made nevertheless is found among the states
            del self._records[uid]
            return None
        if now < record.not_before:
            return None
        if record.guest is None:
            return Need.END if due(record.jobs.values(), now) and self._may_end(uid, record, now) else None
        short, full = self._requests.short(record)
        need = record.need(now, short=short, full=full)
        return None if need is Need.START and self.why_none else need

    def _doubted(self, record: GuestRecord) -> bool:
        """Nobody saw its Pod leave: it is only missing."""
        return record.guest is None and not record.left and self._policy is not None

    def _may_end(self, uid: str, record: GuestRecord, now: float) -> bool:
        """Whether the Pod is gone for certain, or has been missing for long enough."""
        if not self._fresh():
            return False
        if not self._doubted(record):
            return True
        if self._cache.may_exist(uid) or record.gone_at is None or now - record.gone_at < self._timing.grace:
            return False
        if self._missing is None:  # counted once for all who wait
            self._missing = sum(bool(one.jobs) and self._doubted(one) for one in self._records.values())
        wait = self._timing.many if self._brake.many(self._missing, len(self._records)) else self._timing.grace
        return now - record.gone_at >= wait

    def _next_of(self, queue: Iterable[str]) -> str:
        """The first one of the namespace that was served least recently."""
        chosen = min(queue, key=lambda uid: self._served.get(self._namespace(uid), 0))
        self._served[self._namespace(chosen)] = next(self._serves)
        if len(self._served) > SERVED_SPARE + 2 * len(self._records):
            waiting = {self._namespace(uid) for uids in self._queues.values() for uid in uids}
            self._served = {one: turn for one, turn in self._served.items() if one in waiting}
        return chosen

    def _namespace(self, uid: str) -> str:
        record = self._records.get(uid)
        return "" if record is None or record.guest is None else record.guest.pod.partition("/")[0]

    async def _carry(self) -> None:
        while True:
            found = next(((need, self._next_of(queue)) for need, queue in self._queues.items() if queue), None)
            if found is None:
                self._served.clear()
                self._news.clear()
                await self._news.wait()
                continue
            need, uid = found
            del self._queues[need][uid]
            self._under_way.add(uid)
            try:
                await self._requests.carry(need, uid, self._records[uid])
            finally:
                self._under_way.discard(uid)
            self._queue(uid)
