"""Hold in Slurm what foreign Pods use, by a job for each of them (`domain/foreign_pods/foreign_pod`).

One record for each Pod: what is to be held for it, and its live jobs. The next step follows from that alone. A
start needs no stored state: it looks up each foreign Pod's jobs by name, and, in the polled states, jobs without a Pod.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from extender.controllers.foreign_pods.record import ForeignPodRecord, HeldJob, Need, due, foreign_pod_job
from extender.controllers.foreign_pods.requests import ForeignPodRequests
from extender.controllers.foreign_pods.shortages import Shortages
from extender.controllers.nodes.controller import NodeController
from extender.controllers.refresh import NON_PLACEHOLDER_READ_INTERVAL_S
from extender.domain.cluster import SlurmSnapshot
from extender.domain.foreign_pods.foreign_pod import (
    ForeignPod,
    ForeignPodOptions,
    ForeignPodPolicy,
    foreign_pod_of,
    why_none,
)
from extender.domain.foreign_pods.mark import foreign_pod_mark_of
from extender.domain.job_outcomes.slurm_states import ENDED_STATES
from extender.domain.jobs.extender_identity import JobIdentity
from extender.domain.jobs.job import JobView
from extender.domain.ports import Clock, PodCache, PodReads, SlurmForeignPods
from extender.domain.views import PodView
from extender.engine.cluster_snapshot import ClusterSnapshot
from extender.engine.engine import Engine
from extender.engine.job_terminator import JobTerminator
from extender.engine.mass_deletion_guard import MassDeletionGuard
from extender.runtime.controller import Controller, Requeue, Resync
from extender.runtime.event_bus import EventBus
from extender.runtime.topics import JobStatesPolled, MassDeletionConfirmed, NonPlaceholderJobRead

CHECK_EVERY = 1.0
"""Seconds between two checks of what waits for time to pass."""

_ALL = "all"
"""The one key of what compares all foreign Pods."""


@dataclass(frozen=True, slots=True)
class ForeignPodTiming:
    """`in_turn`: seconds between two looks at jobs that nothing is known against.

    slurmctld gives ids out again after it lost its state.
    """

    in_turn: float = NON_PLACEHOLDER_READ_INTERVAL_S


class ForeignPodController:
    """Reserve in Slurm the resources of foreign Pods. Keys are UIDs of Pods.

    `policy` `None`: nothing is to be held, and what is left of another time is ended.

    `workers` bounds the requests under way. `fresh`: return whether the informers are up to date. Otherwise
    no job is ended.
    """

    def __init__(
        self,
        engine: Engine,
        slurm: SlurmForeignPods,
        terminator: JobTerminator,
        identity: JobIdentity,
        nodes: NodeController,
        *,
        cache: PodCache,
        pods: PodReads,
        clock: Clock,
        policy: ForeignPodPolicy | None,
        options: ForeignPodOptions,
        workers: int,
        mass_deletion_guard: MassDeletionGuard,
        all_pods: Callable[[], Iterable[PodView]],
        fresh: Callable[[], bool],
        events: EventBus,
        timing: ForeignPodTiming = ForeignPodTiming(),
    ) -> None:
        self._engine = engine
        self._cache = cache
        self._clock = clock
        self._policy = policy
        self._options = options
        self._mass_deletion_guard = mass_deletion_guard
        self._all_pods = all_pods
        self._fresh = fresh
        self._timing = timing
        self._records: dict[str, ForeignPodRecord] = {}
        self._here: dict[str, dict[str, None]] = {}
        """UIDs of the foreign Pods on each Slurm node."""

        self._controller = Controller(
            "foreign pods", self._reconcile, workers=workers, ranks=len(Need), flow_of=self._namespace
        )
        self._checks = Controller("foreign pods in time", self._check, resync=Resync(lambda: (_ALL,)))
        self._events = events
        self._checked_at: ClusterSnapshot | None = None
        self._seen: Mapping[str, object] = {}
        """By Node: which node of Slurm it is or was, how large and of what kind."""

        self._turn_at = 0.0
        self.settled = policy is None
        """Every foreign Pod of the start was looked for and asked for once: its node is held where that is needed."""

        self.shortages = Shortages(engine, nodes, clock, self._short_of)
        self._missing: int | None = None
        """How many Pods were missing at the last look that counted them."""

        self._none_of: SlurmSnapshot | None = None
        self._why_none = ""

        self._requests = ForeignPodRequests(
            engine,
            slurm,
            terminator,
            identity,
            pods=pods,
            clock=clock,
            shortages=self.shortages,
            options=options,
            doubted=self._doubted,
        )

    # What is known.

    @property
    def jobs(self) -> Set[int]:
        """Return the jobs of foreign Pods, as far as they are known."""
        return {job_id for record in self._records.values() for job_id in record.jobs}

    def nodes(self) -> Sequence[str]:
        """Return Slurm nodes with foreign Pods."""
        return sorted(self._here)

    def unheld(self, node: str) -> tuple[ForeignPod, ...]:
        """Return the foreign Pods on a Slurm node that no running job holds anything for."""
        records = (self._records[uid] for uid in self._here.get(node, ()))
        return tuple(record.foreign_pod for record in records if record.foreign_pod is not None and not record.held)

    def _short_of(self, node: str) -> tuple[ForeignPod, ...]:
        """Return the Pods that more room would help. Slurm rejects the others for another reason than room."""
        return tuple(foreign_pod for foreign_pod in self.unheld(node) if not self._records[foreign_pod.uid].refused)

    def held(self, node: str) -> int:
        """Count the foreign Pods on a Slurm node for which a job runs."""
        return sum(self._records[uid].held for uid in self._here.get(node, ()))

    @property
    def why_none(self) -> str:
        """Return why no job is possible for any foreign Pod, by Slurm's partitions as they are now; "": it is."""
        slurm = self._engine.snapshot.slurm
        if self._none_of is not slurm:
            self._none_of, self._why_none = slurm, why_none(slurm, self._options.partition, self._options.qos)
        return self._why_none

    def why(self, node: str) -> str:
        """Return why Slurm does not hold all foreign Pods there; "": it does, or the request is under way."""
        if (shortage := self.shortages.get(node)) is not None:
            return shortage.why
        refused = (self._records[uid].refused for uid in self._here.get(node, ()))
        return self.why_none or next(filter(None, refused), "")

    # What happens.

    def pod_changed(self, old: PodView | None, new: PodView | None) -> None:
        """Handle a change of a Pod."""
        if self._controller.running and (pod := new or old) is not None:
            self._take(pod, left=new is None or new.finished)

    def absent(self, pods: Sequence[PodView]) -> None:
        """Handle Pods that a list lacks, without a report that they were deleted."""
        if self._controller.running:
            for pod in pods:
                self._take(pod, left=False)

    def found(self, job: JobView) -> None:
        """Check whether a job without a workload belongs to a foreign Pod."""
        mark = foreign_pod_mark_of(job)
        if (
            not self._controller.running
            or mark is None
            or not self._requests.is_own_mark(mark)
            or job.state in ENDED_STATES
        ):
            return
        record = self._records.setdefault(mark.uid, ForeignPodRecord(gone_at=self._clock.now()))
        record.jobs.setdefault(job.job_id, HeldJob(foreign_pod_job(job, mark), self._clock.now()))
        if (pod := self._cache.get(mark.uid)) is not None:
            self._take(pod, left=pod.finished)
        self._queue(mark.uid)

    def polled(self, event: JobStatesPolled) -> None:
        """Compare the jobs that are held with the state words of every job, just now."""
        states = event.states
        now = self._clock.now()
        for uid, record in list(self._records.items()):
            for job_id in list(record.jobs):
                if record.notified(job_id, states.get(job_id, frozenset()), now):
                    self._queue(uid)

    def confirmed(self, _event: MassDeletionConfirmed) -> None:
        """Let the jobs of missing Pods end, since an administrator confirmed it."""
        for record in self._records.values():
            if record.gone_at is not None:
                record.left = True

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._controller.run(), name="foreign pods")
            group.create_task(self._checks.run(), name="foreign pods in time")

    async def _check(self, _all: str) -> Requeue:
        self.check()
        return Requeue(CHECK_EVERY)

    def check(self) -> None:
        """Compare everything, and continue what waited for time to pass."""
        snapshot, now = self._engine.snapshot, self._clock.now()
        self._missing = None
        if not snapshot.node_map.known or not snapshot.slurm.known:
            return
        self._compare()
        for node in self.shortages.nodes():
            if self.shortages.check(node, queued=all(self._records[one.uid].jobs for one in self._short_of(node))):
                for uid in list(self._here.get(node, ())):
                    self._queue(uid)
        if now - self._turn_at >= self._timing.in_turn:
            self._turn_at = now
            if uid := next((uid for uid, record in self._records.items() if record.jobs), ""):
                self._events.publish(NonPlaceholderJobRead())
                self._records[uid].searched = False
                self._records[uid] = self._records.pop(uid)  # behind the others
        for uid, record in list(self._records.items()):
            if not (record.searched and len(record.jobs) == 1 and record.held):
                self._queue(uid)
        if not self.settled and self._fresh():
            self.settled = self._controller.queue.idle

    def _compare(self) -> None:
        """Check every Pod whose Node has another Slurm node now, or another size."""
        snapshot, before = self._engine.snapshot, self._seen
        if self._policy is None or snapshot is self._checked_at:
            return
        self._checked_at, nodes = snapshot, snapshot.slurm.nodes
        now = {
            name: (its, (node.size, node.external) if (node := nodes.get(its)) is not None else None)
            for name, its in snapshot.node_map.last.items()
        }
        self._seen = now
        if now != before:
            same = {name for name, its in now.items() if before.get(name) == its}
            for pod in self._all_pods():
                if pod.node_name and pod.node_name not in same:
                    self._take(pod, left=False)

    def _take(self, pod: PodView, *, left: bool) -> None:
        """Check one Pod, as it is or was last."""
        snapshot, record = self._engine.snapshot, self._records.get(pod.uid)
        there = self._cache.get(pod.uid) is not None and not pod.finished
        node = snapshot.node_map.last.get(pod.node_name, "")
        foreign_pod = None
        if self._policy is not None and there:
            if not node or not snapshot.slurm.known:  # where it is is not known just now: all stays as it is
                if record is not None:
                    record.gone_at, record.left = None, False
                return
            foreign_pod = foreign_pod_of(pod, node, snapshot.slurm.nodes.get(node), self._policy)
        if record is None:
            if foreign_pod is None:
                return
            record = self._records[pod.uid] = ForeignPodRecord()
        if foreign_pod != record.foreign_pod:
            self._move(record.foreign_pod, foreign_pod)
            record.foreign_pod, record.refused, record.not_before = foreign_pod, "", 0.0
        record.left = foreign_pod is None and (left or there)
        self._missing = None
        record.gone_at = None if foreign_pod is not None else record.gone_at or self._clock.now()
        self._queue(pod.uid)

    def _move(self, before: ForeignPod | None, after: ForeignPod | None) -> None:
        if before is not None:
            there = self._here[before.node]
            del there[before.uid]
            if not there:
                del self._here[before.node]
        if after is not None:
            self._here.setdefault(after.node, {})[after.uid] = None

    # What is to be done.

    def _queue(self, uid: str) -> None:
        """Queue what is needed now about this foreign Pod, if anything."""
        need = self._need(uid)
        if need is not None:
            self._controller.add(uid, need)
        elif not self._controller.queue.works_on(uid):
            self._forget_if_finished(uid)

    def _forget_if_finished(self, uid: str) -> None:
        record = self._records.get(uid)
        if record is not None and record.foreign_pod is None and not record.jobs:
            del self._records[uid]

    def _need(self, uid: str) -> Need | None:
        record, now = self._records.get(uid), self._clock.now()
        if record is None:
            return None
        if (
            record.foreign_pod is None and not record.jobs
        ):  # what may have been made nevertheless is found among the states
            return None
        if now < record.not_before:
            return None
        if record.foreign_pod is None:
            return Need.END if due(record.jobs.values(), now) and self._may_end(uid, record) else None
        short, full = self._requests.short(record)
        need = record.need(now, short=short, full=full)
        return None if need is Need.START and self.why_none else need

    def _doubted(self, record: ForeignPodRecord) -> bool:
        """Return whether its Pod is only missing: no watch reported its deletion."""
        return record.foreign_pod is None and not record.left and self._policy is not None

    def _may_end(self, uid: str, record: ForeignPodRecord) -> bool:
        """Return whether the Pod is gone for certain, or has been missing for long enough."""
        if not self._fresh():
            return False
        if not self._doubted(record):
            return True
        if (
            self._cache.may_exist(uid)
            or record.gone_at is None
            or not self._mass_deletion_guard.judge(record.gone_at).lasted
        ):
            return False
        if self._missing is None:  # counted once for all who wait
            self._missing = sum(bool(one.jobs) and self._doubted(one) for one in self._records.values())
        return self._mass_deletion_guard.judge(record.gone_at, self._missing, len(self._records)).lasted

    def _namespace(self, uid: str) -> str:
        record = self._records.get(uid)
        return "" if record is None or record.foreign_pod is None else record.foreign_pod.pod.partition("/")[0]

    async def _reconcile(self, uid: str) -> Requeue | None:
        """Do what is needed about one foreign Pod now; then look whether more is."""
        need, record = self._need(uid), self._records.get(uid)
        if need is not None and record is not None:
            await self._requests.execute(need, uid, record)
            if self._need(uid) is not None:
                return Requeue(0.0)
        self._forget_if_finished(uid)
        return None
