"""Simulate slurmctld: admission, scheduling, and changes of jobs and nodes by operators or failures."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial

from extender.domain.wellknown import DRAIN_PREFIX
from simulator.slurm.batch_script import PostHook
from simulator.slurm.errors import SlurmRefusal
from simulator.slurm.job_lifecycle import JobLifecycle, JobListener, Scripts, SimConfig
from simulator.slurm.placement import (
    PlacementState,
    all_unavailable,
    can_ever_run,
    free_cores,
    free_devices,
    goes_before,
    nodes_available_now,
    requests_too_many_cpus,
    tasks_by_node,
    victims,
)
from simulator.slurm.records import SimJob, SimNode, SimPartition
from simulator.slurm.release import SimRelease
from simulator.slurm.timers import EPOCH, SimTimers

_SUBMIT = "slurm_submit_batch_job()"
_ALLOCATE = "slurm_allocate_resources_blocking()"


@dataclass(frozen=True, slots=True)
class SlurmctldState:
    """slurmctld's state on disk: jobs, the next id, and by node whether it is drained, whether it is FAIL, and why."""

    jobs: Mapping[int, SimJob]
    next_id: int
    nodes: Mapping[str, tuple[bool, bool, str]]


class Slurmctld:
    """Jobs, nodes and partitions, and what happens to them in time. Belongs to the running event loop."""

    def __init__(
        self,
        release: SimRelease,
        nodes: Iterable[SimNode],
        partitions: Iterable[SimPartition],
        *,
        config: SimConfig | None = None,
        post_hook: PostHook | None = None,
        scripts: Scripts | None = None,
        epoch: float = EPOCH,
    ) -> None:
        self.release = release
        self.config = config or SimConfig()
        self.nodes = {node.name: node for node in nodes}
        self.partitions = {partition.name: partition for partition in partitions}
        self.jobs: dict[int, SimJob] = {}
        self.timers = SimTimers(epoch)
        self.next_id = 1
        self.deleted: set[str] = set()
        """Names of nodes that were deleted."""

        self.listeners: list[JobListener] = []
        """JobListener of what happens to jobs, at once."""

        self.node_listeners: list[Callable[[SimNode], None]] = []
        """JobListener of nodes that are deleted."""

        self.in_client_request = False
        """A request of a client is being carried out, rather than something that the simulation does."""

        self.foreign_redrained_at: dict[str, float] = {}
        """When a client last drained a node that others had drained already, or called failing."""

        self._lives = JobLifecycle(
            self.nodes,
            self.timers,
            self.config,
            self.changed,
            self._notify,
            post_hook=post_hook,
            scripts=scripts or Scripts(),
        )
        self._pass: asyncio.TimerHandle | None = None
        self._pass_at = math.inf
        self._backfill: asyncio.TimerHandle | None = None

    @property
    def cluster(self) -> PlacementState:
        """Return the state that placement reads."""
        return PlacementState(self.nodes, self.partitions, list(self.jobs.values()))

    def reconfigure(self, scripts: Scripts) -> None:
        """Use other scripts from now on; those that run continue."""
        self._lives.scripts = scripts

    async def aclose(self) -> None:
        """Stop everything that still runs."""
        await self.timers.aclose()

    # What clients ask.

    def submit(self, job: SimJob) -> list[tuple[int, str]]:
        """Queue a job; its warnings as (number, source). Raises `SlurmRefusal`; a refused job may leave a record."""
        self._admit(job)
        if job.held_by:
            return []
        if not can_ever_run(self.cluster, job):
            if self.release.too_many_cpus_wait and requests_too_many_cpus(self.cluster, job):
                job.reason = "PartitionConfig"
                return [(2015, _SUBMIT)]
            self._lives.fail(job, "BadConstraints")
            raise SlurmRefusal(2014, _SUBMIT)
        self.changed(self.config.schedule_delay_s)
        return [(2068, _SUBMIT)] if all_unavailable(self.cluster, job) else []

    def allocate(self, job: SimJob) -> None:
        """Start a job at once. Raises `SlurmRefusal`, and leaves a failed record then, perhaps a needless victim too.

        One job is neither started nor refused: whose time limit is above its partition's waits, as if it were queued.
        """
        self._admit(job)
        number = self._why_not_at_once(job)
        if number:
            self._lives.fail(job, "None")
            raise SlurmRefusal(number, _ALLOCATE)
        if self._exceeds_limit(job):
            job.reason = "PartitionTimeLimit"
            return
        place = nodes_available_now(self.cluster, job)
        if place is None:
            # slurmctld preempts before it sees that the preempted nodes are not free yet, and does not take it back.
            for victim in victims(self.cluster, job):
                self.preempt(victim.job_id)
            self._lives.fail(job, "Resources")
            raise SlurmRefusal(2016, _ALLOCATE)
        self._give(job, *place)

    def cancel(self, job_id: int) -> int:
        """End a job as `scancel` does; the error number, 0 for done."""
        job = self.job(job_id)
        if job is None:
            return 2017
        if job.ended:
            return 2021
        self._lives.end(job, "CANCELLED")
        return 0

    def deafen(self, job_id: int) -> None:
        """Let the batch script of a running job receive no signal."""
        self._lives.deafen(job_id)

    def signal_script(self, job_id: int, signal: str) -> None:
        """Send the batch script of a running job a signal."""
        self._lives.signal_script(self.jobs[job_id], signal)

    def job(self, job_id: int) -> SimJob | None:
        """Return a job that slurmctld still knows: ended ones are forgotten after MinJobAge."""
        job = self.jobs.get(job_id)
        if job is None:
            return None
        if job.ended and not job.flags and job.end_time + self.config.min_job_age_s < self.timers.wall():
            del self.jobs[job_id]
            return None
        return job

    def known_jobs(self) -> list[SimJob]:
        """Return every job that slurmctld still knows."""
        return [job for job_id in sorted(self.jobs) if (job := self.job(job_id)) is not None]

    # What an operator, a user or fate does.

    def drain(self, node: str, reason: str) -> None:
        """Drain a node. A reason takes the place of the one before, none leaves it (`update_node` in `node_mgr.c`)."""
        before = self.nodes[node]
        if self.in_client_request and (before.drained or before.failing) and not before.reason.startswith(DRAIN_PREFIX):
            self.foreign_redrained_at[node] = self.timers.wall()
        before.drained, before.reason = True, reason or before.reason

    def fail(self, node: str, reason: str) -> None:
        """Call a node failing. The reason takes the place of the one before."""
        self.nodes[node].failing, self.nodes[node].reason = True, reason

    def maintain(self, node: str, begins: bool = True) -> None:
        """Begin or end a reservation with the flag MAINT."""
        self.nodes[node].maintenance = begins
        self.changed()

    def resume(self, node: str) -> None:
        """Lift a drain and a FAIL, and bring a DOWN node back."""
        self.nodes[node].down = self.nodes[node].failing = False
        self.undrain(node)

    def undrain(self, node: str, reason: str = "") -> None:
        """Lift a drain; a DOWN node stays DOWN, for this reason now, where one is given.

        A node that was drained does not respond for a moment.
        """
        one = self.nodes[node]
        one.drained, one.reason = False, reason or one.reason
        if one.down:
            return
        if not self.release.reason_outlives_drain:
            one.reason = ""
        if not one.external:
            one.silent = True
            self.timers.after(self.config.resume_silence_s, lambda: self._respond(one))
        self.changed()

    def message_nodes(self, job: SimJob) -> None:
        """Send a message to the nodes of a job. One without slurmd does not answer, and never will."""
        self._message_nodes(job.nodes)

    def _message_nodes(self, names: Iterable[str]) -> None:
        for node in (self.nodes[name] for name in names):
            if node.external:
                self.timers.after(self.config.message_timeout_s, partial(setattr, node, "silent", True))

    def set_down(self, node: str, reason: str = "Not responding") -> None:
        """Lose a node: its jobs end at once, without Epilog; its scripts report nothing more."""
        one = self.nodes[node]
        one.down = True
        one.reason = one.reason if one.drained or one.failing else reason
        for job in list(self.jobs.values()):
            self._lives.lose_node(job, node, script_matters=not self.release.outlives_batch_host)

    def preempt(self, job_id: int) -> None:
        """Preempt a running job as its partition says: with GraceTime a warning first."""
        job = self.jobs[job_id]
        partition = self.partitions[job.partition]
        # The warning is SIGCONT and SIGTERM for all steps, unless the job asked for a signal of its own.
        if partition.grace_time_s and not job.preempt_time and not (self.config.send_user_signal and job.warns_script):
            self.message_nodes(job)
        self._lives.preempt(job, partition)

    def shrink(self, job_id: int, kept: Sequence[str]) -> None:
        """Take all nodes of a running job but these. Raises `SlurmRefusal` as slurmctld refuses it."""
        job, source = self.jobs[job_id], "slurm_update_job2()"
        if not self.config.job_shrink:
            raise SlurmRefusal(2036, source)
        if not kept or not set(kept) <= set(job.nodes) or (job.script is not None and job.nodes[0] not in kept):
            raise SlurmRefusal(2018, source)  # a running job gets no more nodes, and its batch host cannot go
        left = set(job.nodes) - set(kept)
        if left:
            self._lives.shrink(job, kept)
            self._message_nodes(left)

    def requeue(self, job_id: int) -> None:
        """Put a running job back into the queue."""
        self._lives.requeue(self.jobs[job_id])

    def suspend(self, job_id: int) -> None:
        """Suspend a running job: its CPUs are free for others."""
        self.jobs[job_id].state = "SUSPENDED"
        self._notify("suspended", self.jobs[job_id])
        self.changed()

    def unsuspend(self, job_id: int) -> None:
        """Let a suspended job go on, if it still is one."""
        job = self.jobs.get(job_id)
        if job is not None and job.state == "SUSPENDED":
            job.state = "RUNNING"
            self._notify("resumed", job)

    def hold(self, job_id: int, reason: str = "JobHeldAdmin") -> None:
        """Hold a waiting job."""
        job = self.jobs[job_id]
        job.held_by = job.reason = reason
        job.priority = 0

    def unhold(self, job_id: int) -> None:
        """Release a held job."""
        job = self.jobs[job_id]
        job.held_by, job.reason, job.priority = "", "None", 1000
        self.changed()

    def end(self, job_id: int, state: str) -> None:
        """End a job in any of Slurm's ways: FAILED, TIMEOUT, OUT_OF_MEMORY ..."""
        self._lives.end(self.jobs[job_id], state)

    def forget(self, *job_ids: int) -> None:
        """Lose records, as a killed slurmctld does with those of its last instant; their ids are given out again."""
        for job_id in job_ids:
            self._notify("forgotten", self.jobs[job_id])
            self._lives.forget(self.jobs.pop(job_id))
        self.next_id = max(self.jobs, default=0) + 1
        self.changed()

    def save(self) -> SlurmctldState:
        """Return the contents of StateSaveLocation now."""
        nodes = {name: (one.drained, one.failing, one.reason) for name, one in self.nodes.items()}
        return SlurmctldState(deepcopy(self.jobs), self.next_id, nodes)

    def restore(self, saved: SlurmctldState) -> None:
        """Start again with an older state: newer jobs are unknown and die on their nodes, older ones are as they were.

        Jobs that ended since run again, without a script; ids are given out again.
        """
        for job_id, job in list(self.jobs.items()):
            old = saved.jobs.get(job_id)
            if old is None or old.submit_time != job.submit_time or not (old.running and job.running):
                self._lives.forget(self.jobs.pop(job_id))
        for job_id, old in saved.jobs.items():
            if job_id not in self.jobs:
                self.jobs[job_id] = deepcopy(old)
                self._lives.bring_back(self.jobs[job_id])
        self.next_id = saved.next_id
        for name, (drained, failing, reason) in saved.nodes.items():
            if (one := self.nodes.get(name)) is not None:
                one.drained, one.failing, one.reason = drained, failing, reason
        self.changed()

    # The queue.

    def changed(self, delay: float = 0.05) -> None:
        """Check the queue after so many seconds: something may start now."""
        at = self.timers.wall() + delay
        if self._pass_at <= at:
            return
        self.timers.drop(self._pass)
        self._pass_at = at
        self._pass = self.timers.after(delay, self._run_pass)

    def _run_pass(self) -> None:
        self._pass, self._pass_at = None, math.inf
        self._check(backfill=False)
        self._plan_backfill()

    def _run_backfill(self) -> None:
        self._backfill = None
        self._check(backfill=True)
        self._plan_backfill()

    def _plan_backfill(self) -> None:
        if self._backfill is None and any(job.pending and not job.held_by for job in self.jobs.values()):
            self._backfill = self.timers.after(self.config.backfill_interval_s, self._run_backfill)

    def _check(self, *, backfill: bool) -> None:
        """Start what can start. The main pass stops in a partition at the first job that cannot (`job_scheduler.c`).

        One that names its nodes keeps those alone from the jobs behind it.
        """
        blocked: set[str] = set()
        closed: set[str] = set()
        for job in sorted((one for one in self.jobs.values() if one.pending), key=self._order):
            if not self._eligible(job):
                continue
            if job.partition in blocked and not backfill:
                job.reason = "Priority"
                continue
            place = nodes_available_now(self.cluster, job, closed)
            if place is not None:
                self._give(job, *place)
                continue
            job.reason = self._why_not(job)
            if len(job.required) >= job.node_count:
                closed |= set(job.required)
            else:
                blocked.add(job.partition)
            self._preempt_for(job)

    def _give(self, job: SimJob, partition: SimPartition, nodes: tuple[str, ...]) -> None:
        job.tasks_on = tasks_by_node(self.cluster, job, nodes)
        job.devices = {name: free_devices(self.cluster, job, self.nodes[name]) for name in nodes}
        job.cores = {name: free_cores(self.cluster, job, self.nodes[name]) for name in nodes}
        self._lives.start(job, partition, nodes)

    def _order(self, job: SimJob) -> tuple[int, int, int]:
        tiers = [partition.priority_tier for partition in self.cluster.partitions_of(job)]
        return -max(tiers, default=0), -job.priority, job.job_id

    def _eligible(self, job: SimJob) -> bool:
        if job.held_by:
            return False
        if job.begin_time > self.timers.wall():
            job.reason = "BeginTime"
            return False
        if self._exceeds_limit(job):
            job.reason = "PartitionTimeLimit"
            return False
        # Still being cleaned up after a requeue.
        return not job.completing_on

    def _why_not(self, job: SimJob) -> str:
        if not any(partition.up for partition in self.cluster.partitions_of(job)):
            return "PartitionDown"
        if not can_ever_run(self.cluster, job):
            waits = self.release.too_many_cpus_wait and requests_too_many_cpus(self.cluster, job)
            return "PartitionConfig" if waits else "BadConstraints"
        if job.excluded and all_unavailable(self.cluster, job):
            return "ReqNodeNotAvail"
        return "Resources"

    def _why_not_at_once(self, job: SimJob) -> int:
        """Return the error that an allocation gets before any node is looked at; 0: none."""
        partitions = self.cluster.partitions_of(job)
        if not any(partition.up for partition in partitions):
            return 2101
        if job.held_by or job.begin_time > self.timers.wall():
            return 2038
        if not can_ever_run(self.cluster, job):
            cpus = self.release.too_many_cpus_wait and requests_too_many_cpus(self.cluster, job)
            return 2015 if cpus else 2014
        if self._exceeds_limit(job):
            return 0
        rivals = [one for one in self.jobs.values() if one.pending and one is not job and not one.held_by]
        if any(goes_before(self.cluster, one, job) for one in rivals):
            return 2013
        return 2068 if all_unavailable(self.cluster, job) else 0

    def _exceeds_limit(self, job: SimJob) -> bool:
        """Return whether the job's time limit is above that of each of its partitions."""
        limits = [partition.max_time_minutes for partition in self.cluster.partitions_of(job)]
        return job.time_limit_s is not None and all(top is not None and job.time_limit_s > top * 60 for top in limits)

    def _preempt_for(self, job: SimJob) -> None:
        now = self.timers.wall()
        if now - job.preempted_at < self.config.preempt_again_s:
            return
        # Victims in their grace will leave: no other job is preempted meanwhile.
        if any(one.running and one.preempt_time for one in self.jobs.values()):
            return
        doomed = victims(self.cluster, job)
        if doomed:
            job.preempted_at = now
            for victim in doomed:
                self.preempt(victim.job_id)

    def _admit(self, job: SimJob) -> None:
        if len(self.known_jobs()) >= self.config.max_job_count:
            raise SlurmRefusal(self.release.queue_full)
        job.job_id = self.next_id
        self.next_id += 1
        self.jobs[job.job_id] = job
        self._notify("submitted", job)

    def _notify(self, what: str, job: SimJob) -> None:
        for listener in self.listeners:
            listener(what, job)

    def _respond(self, node: SimNode) -> None:
        node.silent = False
        self.changed()
