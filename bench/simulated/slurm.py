"""A simulated Slurm with tens of thousands of jobs: real wire formats, and a queue that costs next to nothing.

What waits is never looked at: jobs of `FULL` wait, those of `FREE` are given a node at once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from itertools import count, islice

from simulator.slurm.endpoints import RestCall, RestReply, Route
from simulator.slurm.errors import SlurmRefusal
from simulator.slurm.records import SimJob, SimNode, SimPartition
from simulator.slurm.release import NEWEST, SimRelease
from simulator.slurm.serialization import Json, number, show_node
from simulator.slurm.slurmctld import Slurmctld
from simulator.slurm.slurmrestd import Slurmrestd

FULL, FREE = "full", "free"
IN_FREE = 0.1
"""Share of the nodes that are free."""


class CrowdedController(Slurmctld):
    """Jobs by the ten thousand; nothing is scheduled but what comes to `FREE`."""

    def __init__(self, nodes: Iterable[SimNode], epoch: float) -> None:
        every = list(nodes)
        few = max(1, int(len(every) * IN_FREE))
        free, full = every[:few], every[few:]
        partitions = [
            SimPartition(FULL, tuple(node.name for node in full), default=True),
            SimPartition(FREE, tuple(node.name for node in free)),
        ]
        super().__init__(SimRelease(NEWEST), every, partitions, epoch=epoch)
        self.by_name: defaultdict[str, list[int]] = defaultdict(list)
        self._free, self._turn = free, count()
        self.full = full
        self.where = {node.name: FREE for node in free} | {node.name: FULL for node in full}

    def foreign(self, jobs: int) -> None:
        """Somebody else's: as many run as there are nodes, one on each; the others wait."""
        for job, node in zip((self._another() for _ in range(min(jobs, len(self.full)))), self.full, strict=False):
            job.state, job.nodes, job.start_time = "RUNNING", (node.name,), self.timers.wall()
        for _ in range(jobs - len(self.full)):
            self._another()

    def _another(self) -> SimJob:
        now = self.timers.wall()
        job = SimJob(0, "foreign", 2001, 2001, "alice", FULL, now, 64, 1, 1024, {})
        self._admit(job)
        return job

    def known_jobs(self) -> list[SimJob]:
        """As the simulated Slurm's, in the order in which they came, which is that of their ids."""
        return [job for job_id in tuple(self.jobs) if (job := self.job(job_id)) is not None]

    def changed(self, delay: float = 0.05) -> None:
        """Nobody looks at the queue."""
        del delay

    def submit(self, job: SimJob) -> list[tuple[int, str]]:
        """Queue a job, or start it."""
        self._admit(job)
        if job.partition == FREE:
            self._start(job)
        else:
            job.reason = "Resources"
        return []

    def allocate(self, job: SimJob) -> None:
        """Start a job. Raises `SlurmRefusal` where everything is full."""
        self._admit(job)
        if job.partition != FREE:
            self._lives.fail(job, "Resources")
            raise SlurmRefusal(2016, "slurm_allocate_resources_blocking()")
        self._start(job)

    def _start(self, job: SimJob) -> None:
        node = self._free[next(self._turn) % len(self._free)]
        self._lives.start(job, self.partitions[FREE], [node.name])

    def _admit(self, job: SimJob) -> None:
        job.job_id, self.next_id = self.next_id, self.next_id + 1
        self.jobs[job.job_id] = job
        self.by_name[job.name].append(job.job_id)


class CrowdedSlurmrestd(Slurmrestd):
    """Finds jobs by name without looking at all of them, and shows the same nodes each time."""

    controller: CrowdedController

    def __init__(self, controller: CrowdedController) -> None:
        super().__init__(controller)
        self._shown: dict[int, list[Json]] = {}

    def _handled(self, route: Route, call: RestCall) -> RestReply:
        if route.path == "/nodes" and route.method == "GET":
            return RestReply({"nodes": self._nodes(call.version), "last_update": number(self.controller.timers.wall())})
        name = call.content.get("job_name") if route.method == "DELETE" else None
        if name is None:
            return super()._handled(route, call)
        jobs = (self.controller.job(job_id) for job_id in self.controller.by_name.get(name, ()))
        live = [str(job.job_id) for job in jobs if job is not None and not job.ended]
        if not live:
            return RestReply({"status": []})
        body = {key: value for key, value in call.content.items() if key != "job_name"} | {"jobs": live}
        return super()._handled(route, replace(call, body=body))

    def _nodes(self, version: int) -> list[Json]:
        if version not in self._shown:
            nodes = list(self.controller.nodes.values())
            empty = Slurmctld(self.controller.release, nodes[:1], ())
            (first,) = (show_node(node, empty, version) for node in islice(nodes, 1))
            self._shown[version] = [
                first | {"name": node.name, "hostname": node.name, "partitions": [self.controller.where[node.name]]}
                for node in nodes
            ]
        return self._shown[version]
