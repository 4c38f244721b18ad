"""What a site's nodes do after every job: nothing, something slow, a wait for its Pods, a check that fails."""

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
"""Each node has one of them, each as likely as it is often here."""

SECONDS = (0.2, 3.0, 20.0, 90.0)
WAITS_S = 60.0
"""The longest that a node waits for the Pods of a job."""

FAILS = 0.2
"""How likely a check is to find something; Slurm drains the node then, and a person looks at it."""


@dataclass(slots=True)
class Epilogs:
    """Those of every node of a site. `operators` look at what fails; before there are any, nothing is run."""

    rng: random.Random
    operators: Operators | None = None
    stopped: bool = False
    """No check fails any more."""

    _kinds: dict[str, str] = field(default_factory=dict)

    def beside(self, scripts: Scripts) -> Scripts:
        """Ours first, then what the site had."""
        ours = scripts.epilog

        async def epilog(job: SimJob, node: str) -> int:
            code = await ours(job, node) if ours is not None else 0
            return code or await self._run(job, node)

        return replace(scripts, epilog=epilog)

    async def _run(self, job: SimJob, node: str) -> int:
        """The exit code of the Epilog of one node."""
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
                    operators.take_over(node, EPILOG_ERROR)
                return 1
        return 0


def _is_there(cluster: SimCluster, job: SimJob) -> bool:
    """A Pod of this job is on a node. Names of jobs begin with the names of their Pods."""
    pods = [pod for pod in cluster.pods() if pod["spec"].get("nodeName")]
    names = {f"{pod['metadata']['namespace']}/{pod['metadata']['name']}" for pod in pods}
    return job.name.rpartition("-")[0] in names
