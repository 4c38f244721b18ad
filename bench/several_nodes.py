"""How early Slurm gives each node of a job away, for each way to hold the nodes of a job of several nodes.

Slurm frees the nodes of a job one by one, and a batch script runs on the first node alone. Here a job of several whole
nodes ends while another job waits for each of its nodes, and a Pod on each node needs `POD_S` seconds from that end.
A node is given away early if its next job has it before. Four ways to hold the nodes:

* `script`: the batch script stays until the Pods are gone. It holds the first node.
* `steps`: the script starts a step with one process on each node, and each process stays.
* `epilog`: an Epilog on each node stays.
* `drain`: the nodes are drained before the end is asked for, and resumed when the Pods are gone. An end that nobody
  announces, as a preemption without GraceTime, leaves no time for that.

No kubelet and no extender takes part: what is measured is Slurm. `python -m bench.several_nodes` needs the lab (root).
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.figures import write
from lab.clock import now
from lab.instants import slurm_instants
from lab.slurm import Partition, Slurm, SlurmNode
from lab.slurm_conf import HOME
from slurmclient import JobDescription, SlurmClient, StaticToken

Json = dict[str, Any]
NODES = tuple(f"node-{number}" for number in range(1, 5))
CPUS = 4
POD_S = 8.0
"""Less than KillWait, as `hooks.wait`."""

LATE_S = 120.0
HELD = "held"
"""The `extra` of the job whose nodes are held; the Epilog looks for it."""

LOW, HIGH = "low", "high"
CALM = ("PATH=/usr/bin:/bin:/usr/sbin:/sbin",)
LIVE = {"RUNNING", "PENDING", "COMPLETING"}

HOLD = f"trap 'trap \"\" TERM; sleep {POD_S:g}; exit 0' TERM"
WAIT = "while :; do sleep 600 & wait $!; done"
STARTED = f"touch {HOME}/run/started-$SLURM_JOB_ID"
SCRIPT = f"#!/bin/bash\n{HOLD}\n{STARTED}\n{WAIT}\n"
STEPS = f"""#!/bin/bash
export SLURM_CONF={HOME}/etc/slurm.conf
cat > /tmp/hold-$SLURM_JOB_ID <<'END'
{HOLD}
touch {HOME}/run/held-$SLURM_JOB_ID-$SLURMD_NODENAME
{WAIT}
END
srun --overlap --ntasks-per-node=1 --cpus-per-task=1 --mem=0 bash -c "$(cat /tmp/hold-$SLURM_JOB_ID)" &
{HOLD}
{STARTED}
{WAIT}
"""
NEXT = "#!/bin/bash\nexec sleep 600\n"
EPILOG = f"#!/bin/bash\n[[ $SLURM_JOB_EXTRA == {HELD} ]] && sleep {POD_S:g}\nexit 0\n"

WAYS: Mapping[str, str] = {"script": SCRIPT, "steps": STEPS, "epilog": SCRIPT, "drain": SCRIPT}
"""Each way, and the script of the job whose nodes it holds."""

ENDS: Mapping[str, tuple[str, ...]] = {
    "cancel": ("script", "steps", "epilog", "drain"),
    "preempted": ("script", "steps", "epilog"),
    "time limit": ("script", "steps", "epilog"),
}
"""Each kind of end, and the ways that can hold the nodes then."""


def _job(name: str, script: str, partition: str, nodes: Sequence[str], **more: Any) -> JobDescription:
    """A job that needs these nodes as a whole."""
    return JobDescription(
        name=name,
        partition=partition,
        nodes=str(len(nodes)),
        required_nodes=tuple(nodes),
        tasks=len(nodes),
        tasks_per_node=1,
        cpus_per_task=CPUS,
        memory_per_node_mb=1024,
        current_working_directory="/",
        standard_output="/dev/null",
        standard_error="/dev/null",
        environment=CALM,
        script=script,
        **more,
    )


class Round:
    """One job whose end is looked at, and the jobs that wait for its nodes."""

    def __init__(self, slurm: Slurm, client: SlurmClient, way: str) -> None:
        self._slurm = slurm
        self._client = client
        self._way = way
        self._log: Path = slurm.daemon("slurmctld").log

    async def run(self, end: str) -> Json:
        """Let it end in this way. `early_s`: for each node how long before the end of its Pod it was given away."""
        limit = {"time_limit_minutes": 1} if end == "time limit" else {"time_limit_minutes": 60}
        held = (await self._client.submit(_job(HELD, WAYS[self._way], LOW, NODES, extra=HELD, **limit))).job_id
        await self._until(held, "RUNNING")
        start_s = await self._all_held(held)
        partition = HIGH if end == "preempted" else LOW
        following = {node: await self._queued(node, partition) for node in NODES}
        if end == "cancel":
            if self._way == "drain":
                self._state(f"State=DRAIN Reason={HELD}")
            await self._client.cancel([held])
        for node, job in following.items():
            if self._way == "drain" and node == NODES[0]:
                await self._until_ended(held)
                await asyncio.sleep(POD_S)
                self._state("State=RESUME")
            await self._until(job, "RUNNING")
        instants = slurm_instants(self._log)
        gone = instants.ended[held] + POD_S
        early = {node: round(gone - instants.given[job], 3) for node, job in following.items()}
        await self._clear([held, *following.values()])
        return {"early_s": early, "steps_started_s": round(start_s, 3)}

    async def _queued(self, node: str, partition: str) -> int:
        return (await self._client.submit(_job("next", NEXT, partition, [node], time_limit_minutes=60))).job_id

    async def _all_held(self, job: int) -> float:
        """Wait until the script runs, and with `steps` its step on every node; return the seconds since the grant."""
        nodes = NODES if self._way == "steps" else ()
        files = [
            self._slurm.home / "run" / name for name in (f"started-{job}", *(f"held-{job}-{one}" for one in nodes))
        ]
        deadline = now() + LATE_S
        while not all(file.exists() for file in files):
            if now() > deadline:
                raise RuntimeError(f"job {job} wrote only {sum(file.exists() for file in files)} of {len(files)} files")
            await asyncio.sleep(0.05)
        return max(file.stat().st_mtime for file in files) - slurm_instants(self._log).given[job]

    def _state(self, change: str) -> None:
        self._slurm.run("scontrol", "update", f"NodeName={','.join(NODES)}", *change.split())

    async def _until(self, job: int, word: str) -> None:
        deadline = now() + LATE_S
        while word not in (await self._client.job_states([job])).get(job, ()):
            if now() > deadline:
                raise RuntimeError(f"job {job} is not {word}")
            await asyncio.sleep(0.1)

    async def _until_ended(self, job: int) -> None:
        deadline = now() + LATE_S
        while job not in slurm_instants(self._log).ended:
            if now() > deadline:
                raise RuntimeError(f"nothing in the log ends job {job}")
            await asyncio.sleep(0.05)

    async def _clear(self, jobs: list[int]) -> None:
        await self._client.cancel(jobs)
        while any(words & LIVE for words in (await self._client.job_states()).values()):  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.2)


def summary(rounds: Sequence[Json]) -> Json:
    """What is quoted: the first node and the others apart, since a batch script holds the first."""
    first = [one["early_s"][NODES[0]] for one in rounds]
    others = [one["early_s"][node] for one in rounds for node in NODES[1:]]
    return {
        "first_node": {"early": sum(early > 0 for early in first), "of": len(first), "most_s": max(first)},
        "other_nodes": {"early": sum(early > 0 for early in others), "of": len(others), "most_s": max(others)},
        "given_after_pod_s": statistics.median(-early for early in first + others),
        "steps_started_s": statistics.median(one["steps_started_s"] for one in rounds),
    }


async def measure(slurm: Slurm, rounds: int) -> Json:
    """Every way with every end, so many rounds, in turn."""
    found: dict[str, dict[str, list[Json]]] = {end: {way: [] for way in ways} for end, ways in ENDS.items()}
    async with SlurmClient([slurm.rest_url], StaticToken(slurm.token("root"))) as client:
        await client.negotiate()
        for number in range(rounds):
            for way in WAYS:
                slurm.reconfigure({"Epilog": f"{HOME}/etc/epilog.sh" if way == "epilog" else ""})
                slurm.wait_nodes_ready()
                for end in (one for one, ways in ENDS.items() if way in ways):
                    result = await Round(slurm, client, way).run(end)
                    found[end][way].append(result)
                    print(f"Slurm {slurm.version} round {number + 1}, {end}, {way}: {result}", flush=True)
    figures = {end: {way: summary(results) for way, results in ways.items()} for end, ways in found.items()}
    return {"version": slurm.version, "figures": figures, "rounds": found}


def main() -> None:
    """Measure on each release, and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("releases", nargs="*", default=["24.11", "26.05"])
    options = parser.parse_args()
    releases: dict[str, object] = {}
    for release in options.releases:
        nodes = [SlurmNode(name, cpus=CPUS) for name in NODES]
        partitions = (Partition(LOW, default=True, preempt_mode="cancel"), Partition(HIGH, priority_tier=10))
        config = {"DebugFlags": "TraceJobs", "SlurmctldDebug": "debug", "OverTimeLimit": "0"}
        files = {"epilog.sh": EPILOG}
        with Slurm(release=release, nodes=nodes, partitions=partitions, config=config, files=files) as slurm:
            releases[release] = asyncio.run(measure(slurm, options.rounds))
    what = f"seconds for which each of {len(NODES)} nodes of a job was given away before its Pod was gone, {POD_S:g} s"
    write(
        "several-nodes",
        {
            "what": f"{what} after the end of the job began",
            "command": "python -m bench.several_nodes",
            "releases": releases,
        },
    )


if __name__ == "__main__":
    main()
