"""Submit native jobs of other users, which the extender must not end."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from simulator.actors.pacing import repeat_at_random
from simulator.cluster import SimCluster
from simulator.event_log import EventLog, job_subject, node_subject
from simulator.site import FEATURE
from simulator.slurm.errors import SlurmRefusal
from simulator.slurm.records import SimJob

NAME = "somebody-elses"


@dataclass(slots=True)
class NativeJobUsers:
    """Submit native jobs, one per `every_s` on average, and end them after their run time."""

    cluster: SimCluster
    rng: random.Random
    event_log: EventLog
    every_s: float
    stopped: bool = False
    ids: set[int] = field(default_factory=set)

    async def run(self) -> None:
        """Submit native jobs until cancelled."""
        self.cluster.slurm.controller.listeners.append(self._on_event)
        await repeat_at_random(self.rng, self.every_s, self._submit, lambda: self.stopped)

    def stop(self) -> None:
        """Submit no more jobs, and end the existing ones."""
        self.stopped = True
        controller = self.cluster.slurm.controller
        for job_id in sorted(self.ids):
            job = controller.job(job_id)
            if job is not None and job.name == NAME and not job.ended:
                controller.end(job_id, "CANCELLED" if job.pending else "COMPLETED")

    def _submit(self) -> None:
        rng, controller = self.rng, self.cluster.slurm.controller
        partition = rng.choice(["batch", "graced", "urgent"])
        gpus = rng.choice([0, 0, 1, 2])
        job = SimJob(
            job_id=0,
            name=NAME,
            user_id=1001,
            group_id=1001,
            user_name="alice",
            partition=partition,
            submit_time=controller.timers.wall(),
            cpus_per_node=rng.choice([1, 4, 8, 16]),
            node_count=1,
            memory_mb=1000,
            gres={"gpu": gpus} if gpus else {},
            features=rng.choice(["", "", FEATURE]),
            priority=rng.choice([500, 1000, 5000]),
            time_limit_s=3600.0,
        )
        try:
            controller.submit(job)
        except SlurmRefusal:
            return
        self.ids.add(job.job_id)
        self.event_log.add(
            f"another user's, {job.cpus_per_node} CPUs, {gpus} GPUs, {partition}", job_subject(job.job_id)
        )

    def _on_event(self, what: str, job: SimJob) -> None:
        if what != "started" or job.name != NAME:
            return
        began = job.start_time
        self.event_log.add("another user's job starts", job_subject(job.job_id), *map(node_subject, job.nodes))

        def finish() -> None:
            if self.cluster.slurm.controller.job(job.job_id) is job and job.running and job.start_time == began:
                self.cluster.slurm.controller.end(job.job_id, "COMPLETED")

        self.cluster.slurm.controller.timers.after(self.rng.expovariate(1 / 120.0) + 1.0, finish)
