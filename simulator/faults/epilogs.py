"""Run Epilogs of a site: none, slow ones, ones that wait for Pods, and ones that fail."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field, replace

from simulator.actors.operators import EPILOG_ERROR, Operators
from simulator.cluster import SimCluster
from simulator.event_log import job_subject, node_subject
from simulator.slurm.job_lifecycle import Scripts
from simulator.slurm.records import SimJob

KINDS = ("none", "slow", "slow", "waits", "fails")
"""The kinds of Epilogs, with repetitions as weights; each node draws one."""

SECONDS = (0.2, 3.0, 20.0, 90.0)
WAITS_S = 60.0
"""The longest time that an Epilog waits for the Pods of a job."""

FAILS = 0.2
"""Probability that an Epilog fails; Slurm drains the node then, and an operator resumes it."""


@dataclass(slots=True)
class Epilogs:
    """The Epilogs of all nodes. `operators` resume the node of a failed one; while it is None, no Epilog runs."""

    rng: random.Random
    operators: Operators | None = None
    stopped: bool = False
    """Let no further Epilog fail."""

    _kinds: dict[str, str] = field(default_factory=dict)

    def beside(self, scripts: Scripts) -> Scripts:
        """Return the scripts with the site's Epilog after the fence's."""
        original = scripts.epilog

        async def epilog(job: SimJob, node: str) -> int:
            code = await original(job, node) if original is not None else 0
            return code or await self._run(job, node)

        return replace(scripts, epilog=epilog)

    async def _run(self, job: SimJob, node: str) -> int:
        """Run the Epilog of one node and return its exit code."""
        rng, operators = self.rng, self.operators
        if operators is None:
            return 0
        match self._kinds.setdefault(node, rng.choice(KINDS)):
            case "slow":
                await asyncio.sleep(rng.choice(SECONDS))
            case "waits":
                loop = asyncio.get_running_loop()
                end = loop.time() + WAITS_S
                while _is_there(operators.cluster, job) and loop.time() < end:  # noqa: ASYNC110 - as a script does
                    await asyncio.sleep(1.0)
            case "fails" if not self.stopped and rng.random() < FAILS:
                operators.event_log.add("its Epilog fails", node_subject(node), job_subject(job.job_id))
                if not operators.cluster.slurm.controller.nodes[node].drained:
                    operators.adopt_drain(node, EPILOG_ERROR)
                return 1
        return 0


def _is_there(cluster: SimCluster, job: SimJob) -> bool:
    """Return whether the Pod of a job is bound; the name of a job starts with that of its Pod."""
    pods = [pod for pod in cluster.pods() if pod["spec"].get("nodeName")]
    names = {f"{pod['metadata']['namespace']}/{pod['metadata']['name']}" for pod in pods}
    return job.name.rpartition("-")[0] in names
